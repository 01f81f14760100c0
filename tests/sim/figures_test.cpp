// Each figure stops when it is told to, and at its small size every asserted claim holds. Claims
// that are only reported (comparisons with the paper's letter, targets out of reach) are not
// checked.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "evaluation/figure.hpp"
#include "evaluation/report.hpp"

namespace mprdma::figures {
namespace {

class FigureClaims : public testing::TestWithParam<std::string> {};

TEST_P(FigureClaims, HoldAtTheSmallSize) {
  const Figure* figure = find_figure(GetParam());
  ASSERT_NE(figure, nullptr);
  RunOptions options;
  options.size = Size::kCi;
  const FigureResult result = figure->run(*figure, options);
  size_t asserted = 0;
  for (const Claim& claim : result.claims) {
    if (claim.standing != Standing::kAsserted) continue;
    ++asserted;
    EXPECT_TRUE(claim.ok()) << claim.id << ": " << claim.what << " " << value_text(claim)
                            << ", wanted " << claim.target << " " << claim.note;
  }
  EXPECT_GT(asserted, 1U);
  EXPECT_FALSE(result.panels.empty());
  EXPECT_FALSE(result.deviations.empty());
  for (const Panel& panel : result.panels) {
    for (const Curve& curve : panel.curves) EXPECT_EQ(curve.x.size(), curve.y.size());
  }
}

// Before they ask they have read all their scenarios, so that those of the full size are good, too.
// Figures without a simulation never ask.
TEST_P(FigureClaims, StopWhenToldAtEitherSize) {
  const Figure* figure = find_figure(GetParam());
  ASSERT_NE(figure, nullptr);
  for (const Size size : {Size::kCi, Size::kFull}) {
    std::atomic<bool> stop = false;
    bool asked = false;
    RunOptions options;
    options.size = size;
    options.stop = &stop;
    options.on_progress = [&](const switchsim::Progress&) { asked = stop = true; };
    if (figure->scenario.empty()) {
      figure->run(*figure, options);
      EXPECT_FALSE(asked);
      continue;
    }
    EXPECT_THROW(figure->run(*figure, options), Interrupted);
    EXPECT_TRUE(asked);
  }
}

TEST(NoFigure, WhoAsksForTheOneThatIsNotSimulatedLearnsWhatDrawsIt) {
  EXPECT_EQ(find_figure("9"), nullptr);
  for (const char* id : {"9", "mp/9"}) {
    EXPECT_NE(no_figure(id).find("bench/figure9"), std::string::npos) << id;
  }
  EXPECT_EQ(no_figure("2"), "there is no figure 2; see mprdma sim list");
}

std::vector<std::string> ids() {
  std::vector<std::string> out;
  for (const Figure& figure : all_figures()) out.push_back(figure.id);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, FigureClaims, testing::ValuesIn(ids()), [](const auto& one) {
  const bool paper = one.param.starts_with("mp/");
  std::string name = "f" + (paper ? one.param.substr(3) : one.param);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '/'; }, '_');
  return name;
});

}  // namespace
}  // namespace mprdma::figures
