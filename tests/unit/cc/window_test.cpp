// Every enumerator of WindowControl makes a window of its own control.
#include "cc/window.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace mprdma::cc {
namespace {

// Members that would never be called are refused: another signature, one without the other.
struct Misheard : PlainWindow {
  [[maybe_unused]] static constexpr std::string_view kName = "misheard";
  using PlainWindow::PlainWindow;
  void on_unused_ack(Time) {}
};
struct KeepsWhatItOwes : PlainWindow {
  [[maybe_unused]] static constexpr std::string_view kName = "keeps-what-it-owes";
  using PlainWindow::PlainWindow;
  void give_back() {}
};
static_assert(Algorithm<AimdWindow> && !Algorithm<Misheard> && !Algorithm<KeepsWhatItOwes>);

constexpr Duration kRtt = Duration::us(20);
constexpr Time kLate = Time::from_ns(1'000'000'000);
constexpr Setup kSetup = {.initial_packets = 16, .max_packets = 32, .link_bps = 40'000'000'000};

// Each control answers a hole with another window.
uint32_t after_a_hole(WindowControl which) {
  Window window(which, kSetup);
  EXPECT_EQ(window.packets(), 16U);
  window.on_loss({.kind = LossKind::kHole});
  return window.exact().raw();
}

TEST(Window, IsTheControlThatWasAskedFor) {
  EXPECT_EQ(after_a_hole(WindowControl::kMp), 16 * Fixed16::kOneRaw - Fixed16::kOneRaw / 2);
  EXPECT_EQ(after_a_hole(WindowControl::kDctcp), 8 * Fixed16::kOneRaw);
}

TEST(Window, EveryControlHasANameOfItsOwn) {
  const std::set<std::string_view> names = WindowControls::kNames;
  EXPECT_EQ(names.size(), WindowControls::kNames.size());
  const std::set<std::string_view> rates = RateControls::kNames;
  EXPECT_EQ(rates.size(), RateControls::kNames.size());
}

TEST(Window, SaysWhatItsControlSaysAfterEveryEvent) {
  Window window(WindowControl::kMp, kSetup);
  MpWindow control(kSetup);
  const auto same = [&] { return window.exact() == control.window(); };
  EXPECT_TRUE(same());
  window.on_ack({}), control.on_ack({});
  EXPECT_TRUE(same());
  const LossSample drop{.kind = LossKind::kWindowDrop};
  window.on_loss(drop), control.on_loss(drop);
  EXPECT_TRUE(same());
  window.on_slow_path({}), control.on_slow_path({});
  EXPECT_TRUE(same());
  window.on_unused_ack(), control.on_unused_ack();
  EXPECT_TRUE(same());
  EXPECT_EQ(window.owed(), control.owed());
  window.give_back(), control.give_back();
  EXPECT_TRUE(same());
  window.on_timeout(Time()), control.on_timeout(Time());
  EXPECT_TRUE(same());
  window.reset(), control.reset();
  EXPECT_TRUE(same());
}

TEST(Window, ALossThatWasNoneGivesBackWhatItTook) {
  constexpr uint32_t kHalf = Fixed16::kOneRaw / 2;
  Window window(WindowControl::kMp, {.initial_packets = 2, .max_packets = 2, .link_bps = 1});
  EXPECT_TRUE(window.on_loss({.kind = LossKind::kHole}));
  EXPECT_EQ(window.exact().raw(), 3 * kHalf);
  window.on_loss_undone();
  EXPECT_EQ(window.exact().raw(), 4 * kHalf);
  window.on_loss_undone();
  EXPECT_EQ(window.exact().raw(), 4 * kHalf) << "the largest";
  EXPECT_FALSE(window.on_loss({.kind = LossKind::kWindowDrop})) << "that one is sure";
  EXPECT_TRUE(window.on_loss({.kind = LossKind::kHole}));
  EXPECT_FALSE(window.on_loss({.kind = LossKind::kHole})) << "a quarter, down to one packet";
  EXPECT_FALSE(window.on_loss({.kind = LossKind::kHole})) << "nothing";
  EXPECT_FALSE(Window(WindowControl::kDctcp, kSetup).on_loss({.kind = LossKind::kHole}));
}

// Only MP-RDMA has rules for unused windows; every algorithm answers a slow path.
TEST(Window, AnAlgorithmWithoutTheRulesOfMpRdmaIgnoresThem) {
  for (const WindowControl which :
       {WindowControl::kDctcp, WindowControl::kAimd, WindowControl::kSwift, WindowControl::kNscc}) {
    Window window(which, kSetup);
    window.on_unused_ack();
    EXPECT_EQ(window.packets(), 16U);
    EXPECT_EQ(window.owed(), Fixed16());
    window.give_back();
    EXPECT_EQ(window.packets(), 16U);
    window.on_slow_path({});
    EXPECT_EQ(window.packets(), 15U);
  }
}

// RFC 7661: a window that was not in use is no measure of the network.
TEST(Window, TheFirstMarkTakesAGuessedWindowNearToWhatIsInUse) {
  constexpr uint32_t kOne = Fixed16::kOneRaw;
  MpWindow window(kSetup);
  window.on_ack({.in_use = 6, .ece = true});
  EXPECT_EQ(window.window().raw(), 9 * kOne - kOne / 2);
  window.on_ack({.in_use = 2, .ece = true});
  EXPECT_EQ(window.window().raw(), 8 * kOne) << "what is left is no guess";
  window.recover();
  EXPECT_EQ(window.window().raw(), 16 * kOne);
  window.on_ack({.in_use = 4, .ece = true});
  EXPECT_EQ(window.window().raw(), 6 * kOne - kOne / 2) << "nobody has tried the initial one again";
  window.reset();
  window.on_ack({.in_use = 12, .ece = true});
  EXPECT_EQ(window.window().raw(), 16 * kOne - kOne / 2) << "most of it was in use";
  window.reset();
  window.load(Fixed16::from_int(12), Fixed16());
  window.on_ack({.in_use = 1, .ece = true});
  EXPECT_EQ(window.window().raw(), 12 * kOne - kOne / 2) << "hardware has used it";
}

TEST(Window, MarksBeyondOnePacketAskForSpacing) {
  Window window(WindowControl::kMp, {.initial_packets = 2, .max_packets = 8, .spaces = true});
  window.on_ack({.in_use = 2, .ece = true});
  window.on_ack({.in_use = 2, .ece = true});
  EXPECT_FALSE(window.has_deficit()) << "the marks that it paid for";
  for (int i = 0; i < 20; ++i) window.on_ack({.ece = true});
  EXPECT_EQ(window.spacing().raw(), Fixed16::kOneRaw / 2);
  window.on_loss({.kind = LossKind::kHole});
  window.on_timeout(Time());
  window.on_slow_path({});
  EXPECT_EQ(window.spacing().raw(), Fixed16::kOneRaw / 2) << "a path may be dead or slow";
  window.on_ack({.limited_by = LimitedBy::kApplication});
  EXPECT_EQ(window.spacing().raw(), Fixed16::kOneRaw / 2 - (Fixed16::kOneRaw * 5 / 2) / 16);
  for (int i = 0; i < 10'000; ++i) window.on_ack({.ece = true});
  EXPECT_EQ(window.spacing().floor(), 32U) << "the most";
  EXPECT_EQ(window.effective().raw(), Fixed16::kOneRaw / 33);
  window.recover();
  EXPECT_TRUE(window.has_deficit());
  window.forget_deficit();
  EXPECT_FALSE(window.has_deficit());
  EXPECT_EQ(window.effective(), window.exact());
}

TEST(Window, GrowsOnlyWhereItWasTheLimit) {
  for (const WindowControl which : {WindowControl::kMp, WindowControl::kDctcp, WindowControl::kAimd,
                                    WindowControl::kSwift, WindowControl::kNscc}) {
    Window window(which, kSetup);
    window.on_ack({.now = kLate, .rtt = kRtt, .limited_by = LimitedBy::kApplication});
    window.on_ack({.now = kLate, .rtt = kRtt, .limited_by = LimitedBy::kWire});
    EXPECT_EQ(window.exact(), Fixed16::from_int(16));
    window.on_ack({.now = kLate + kRtt, .rtt = kRtt, .limited_by = LimitedBy::kWindow});
    EXPECT_GT(window.exact(), Fixed16::from_int(16));
  }
}

}  // namespace
}  // namespace mprdma::cc
