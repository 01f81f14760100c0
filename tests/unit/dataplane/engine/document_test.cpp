// docs/operations.md is held against the lists of counters. A failure prints the rows that the page
// should hold.
#include <gtest/gtest.h>

#include "dataplane/cm/agent.hpp"
#include "dataplane/daemon/counters.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/worker/engine_counters.hpp"
#include "tests/support/operations_page.hpp"
#include "transport/core/counters.hpp"

namespace mprdma::dataplane {
namespace {

TEST(OperationsPage, ListsEveryCounter) {
  EXPECT_EQ(missing_rows<transport::TransportCounters>(), "");
  EXPECT_EQ(missing_rows<EngineCounters>(), "");
  EXPECT_EQ(missing_rows<CmCounters>(), "");
  EXPECT_EQ(missing_rows<PortCounters>(), "");
  EXPECT_EQ(missing_rows<mprdmad::StationCounters>(), "");
  EXPECT_EQ(missing_rows<mprdmad::DaemonServerCounters>(), "");
}

}  // namespace
}  // namespace mprdma::dataplane
