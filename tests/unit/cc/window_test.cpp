// Which control a window is: every enumerator makes its own, and the window is that one's.
#include "cc/window.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace mprdma::cc {
namespace {

// A hole costs each control something else.
uint32_t after_a_hole(WindowControl which) {
  Window window(which, 16, 32);
  EXPECT_EQ(window.packets(), 16U);
  window.on_hole();
  return window.exact().raw();
}

TEST(Window, IsTheControlThatWasAskedFor) {
  EXPECT_EQ(after_a_hole(WindowControl::kMp), 16 * Fixed16::kOneRaw - Fixed16::kOneRaw / 2);
  EXPECT_EQ(after_a_hole(WindowControl::kDctcp), 8 * Fixed16::kOneRaw);
}

TEST(Window, EveryControlHasANameOfItsOwn) {
  const std::set<std::string_view> names = WindowControls::kNames;
  EXPECT_EQ(names.size(), WindowControls::kNames.size());
}

TEST(Window, SaysWhatItsControlSaysAfterEveryEvent) {
  Window window(WindowControl::kMp, 16, 32);
  MpWindow control(16, 32);
  const auto same = [&] { return window.exact() == control.exact(); };
  EXPECT_TRUE(same());
  window.on_ack(false, true), control.on_ack(false, true);
  EXPECT_TRUE(same());
  window.on_window_drop(), control.on_window_drop();
  EXPECT_TRUE(same());
  window.on_slow_path(), control.on_slow_path();
  EXPECT_TRUE(same());
  window.on_unused_ack(), control.on_unused_ack();
  EXPECT_TRUE(same());
  EXPECT_EQ(window.owed(), control.owed());
  window.give_back(), control.give_back();
  EXPECT_TRUE(same());
  window.on_timeout(), control.on_timeout();
  EXPECT_TRUE(same());
  window.reset(), control.reset();
  EXPECT_TRUE(same());
}

}  // namespace
}  // namespace mprdma::cc
