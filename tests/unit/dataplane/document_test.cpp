// docs/operations.md is held against the lists of counters. A failure prints the rows that the page
// should hold.
#include <gtest/gtest.h>

#include "dataplane/cm/agent.hpp"
#include "dataplane/engine_counters.hpp"
#include "dataplane/nic/nic_counters.hpp"
#include "dataplane/port.hpp"
#include "tests/support/operations_page.hpp"
#include "transport/counters.hpp"

namespace mprdma::dataplane {
namespace {

TEST(OperationsPage, ListsEveryCounter) {
  EXPECT_EQ(missing_rows<transport::TransportCounters>(), "");
  EXPECT_EQ(missing_rows<EngineCounters>(), "");
  EXPECT_EQ(missing_rows<CmCounters>(), "");
  EXPECT_EQ(missing_rows<PortCounters>(), "");
  EXPECT_EQ(missing_rows<nic::NicCounters>(), "");
  EXPECT_EQ(missing_rows<nic::NicServerCounters>(), "");
}

}  // namespace
}  // namespace mprdma::dataplane
