// docs/operations.md is held against the lists of counters. A failure prints the rows that the page
// should hold.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "dataplane/cm/agent.hpp"
#include "dataplane/engine_counters.hpp"
#include "dataplane/nic/nic_counters.hpp"
#include "dataplane/port.hpp"
#include "transport/counters.hpp"

namespace mprdma::dataplane {
namespace {

template <class Counters>
std::string missing_rows() {
  std::ifstream file(MPRDMA_SOURCE_ROOT "/docs/operations.md");
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::string missing;
  for (size_t i = 0; i < Counters::kCount; ++i) {
    const std::string row = "| `" + std::string(Counters::kNames[i]) + "` | " +
                            std::string(Counters::kDescriptions[i]) + " |\n";
    if (page.find(row) == std::string::npos) missing += row;
  }
  return missing;
}

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
