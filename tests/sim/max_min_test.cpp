// Max-min fair rates, which figures compare with draws of ECMP.
#include "evaluation/max_min.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace mprdma::figures {
namespace {

using Links = std::vector<std::vector<uint32_t>>;

TEST(MaxMin, FlowsOfOneLinkShareIt) {
  const Links links = {{0}, {0}, {0}, {0}};
  EXPECT_EQ(max_min_rates(links, {2}), (std::vector<double>{0.5, 0.5, 0.5, 0.5}));
}

// The flow over the second link gets what the flow over both cannot use.
TEST(MaxMin, WhatAFlowCannotTakeIsLeftToTheOthers) {
  const Links links = {{0}, {0, 1}, {1}};
  EXPECT_EQ(max_min_rates(links, {1, 2}), (std::vector<double>{0.5, 0.5, 1.5}));
}

// The second link is full first, although it comes later.
TEST(MaxMin, TheTightestLinkStopsItsFlowsFirst) {
  const Links links = {{0}, {0, 1}, {1}, {1}};
  EXPECT_EQ(max_min_rates(links, {2, 0.75}), (std::vector<double>{1.75, 0.25, 0.25, 0.25}));
}

TEST(MaxMin, AFlowWithoutALinkHasNothing) {
  EXPECT_EQ(max_min_rates(Links{{}, {0}}, {1}), (std::vector<double>{0, 1}));
}

}  // namespace
}  // namespace mprdma::figures
