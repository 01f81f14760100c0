#include "wire/pause_frame.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "wire/print.hpp"

namespace mprdma::wire {
namespace {

using Bytes = std::vector<unsigned char>;

constexpr MacAddress kSource = {0x02, 0x4d, 0x52, 0x49, 0x00, 0x01};

// PFC of the priorities 3 and 6: 3 pauses for 0x1234 quanta, 6 goes on.
Bytes pfc_bytes() {
  Bytes bytes = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01, 0x02, 0x4d, 0x52, 0x49, 0x00, 0x01,
                 0x88, 0x08, 0x01, 0x01, 0x00, 0x48, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                 0x12, 0x34, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
  bytes.resize(60);
  return bytes;
}

// The link pauses for 0xffff quanta.
Bytes pause_bytes() {
  Bytes bytes = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01, 0x02, 0x4d, 0x52,
                 0x49, 0x00, 0x01, 0x88, 0x08, 0x00, 0x01, 0xff, 0xff};
  bytes.resize(60);
  return bytes;
}

PauseDrop parse(const Bytes& bytes) {
  PauseFrame out;
  return PauseFrame::parse(bytes, out);
}

TEST(PauseFrame, ReadsWhatPfcSaysOfEachPriority) {
  PauseFrame out;
  ASSERT_EQ(PauseFrame::parse(pfc_bytes(), out), PauseDrop::kNone);
  EXPECT_FALSE(out.whole_link);
  EXPECT_EQ(out.priorities, 0x48);
  EXPECT_TRUE(out.concerns(1 << 3));
  EXPECT_TRUE(out.concerns(1 << 6));
  EXPECT_FALSE(out.concerns(0xb7));
  EXPECT_EQ(out.quanta_of(1 << 3), 0x1234);
  EXPECT_EQ(out.quanta_of(1 << 6), 0);
  EXPECT_EQ(out.quanta_of(0xff), 0x1234) << "the longest";
}

TEST(PauseFrame, WritesTheBytesOfTheStandardOverJunk) {
  PauseFrame pfc{.priorities = 0x48};
  pfc.quanta[3] = 0x1234;
  std::array<unsigned char, 64> room;
  room.fill(0xa5);
  ASSERT_EQ(pfc.store(kSource, room.data()), 60u);
  EXPECT_EQ(Bytes(room.begin(), room.begin() + 60), pfc_bytes());
  EXPECT_EQ(room[60], 0xa5);
  room.fill(0xa5);
  ASSERT_EQ(PauseFrame::of_link(0xffff).store(kSource, room.data()), 60u);
  EXPECT_EQ(Bytes(room.begin(), room.begin() + 60), pause_bytes());
}

TEST(PauseFrame, APauseOfTheLinkIsOneOfEveryPriority) {
  PauseFrame out;
  ASSERT_EQ(PauseFrame::parse(pause_bytes(), out), PauseDrop::kNone);
  EXPECT_EQ(out, PauseFrame::of_link(0xffff));
  for (unsigned p = 0; p < 8; ++p) EXPECT_EQ(out.quanta_of(static_cast<uint8_t>(1 << p)), 0xffff);
}

TEST(PauseFrame, TheTimeOfAPriorityThatIsNotNamedMeansNothing) {
  Bytes bytes = pfc_bytes();
  bytes[18] = 0x77;  // of priority 0
  bytes[16] = 0xff;  // reserved
  PauseFrame out;
  ASSERT_EQ(PauseFrame::parse(bytes, out), PauseDrop::kNone);
  EXPECT_EQ(out.quanta[0], 0);
  EXPECT_EQ(out.priorities, 0x48);
}

TEST(PauseFrame, SaysTheSameOfAllThatItNames) {
  const PauseFrame pause = PauseFrame::pfc(0x81, 500);
  EXPECT_EQ(pause.quanta, (std::array<uint16_t, 8>{500, 0, 0, 0, 0, 0, 0, 500}));
  EXPECT_EQ(PauseFrame::pfc(0x81, 0).priorities, 0x81) << "an end names its priorities";
}

TEST(PauseFrame, WhatIsMalformedHasAReason) {
  Bytes bytes = pfc_bytes();
  for (const size_t length : {0, 13, 17, 18, 33}) {
    bytes = pfc_bytes();
    bytes.resize(length);
    EXPECT_EQ(parse(bytes), PauseDrop::kTruncated) << length;
  }
  bytes = pfc_bytes();
  bytes.resize(34);
  EXPECT_EQ(parse(bytes), PauseDrop::kNone) << "a wire may have taken the padding off";
  bytes = pause_bytes();
  bytes.resize(18);
  EXPECT_EQ(parse(bytes), PauseDrop::kNone);
  bytes = pfc_bytes();
  bytes[13] = 0x09;
  EXPECT_EQ(parse(bytes), PauseDrop::kNotControl);
  EXPECT_FALSE(PauseFrame::is_on(bytes.data(), bytes.size()));
  bytes = pfc_bytes();
  bytes[14] = 0x00;
  bytes[15] = 0x02;
  EXPECT_EQ(parse(bytes), PauseDrop::kUnknownOperation);
  for (const Bytes& good : {pfc_bytes(), pause_bytes()}) {
    bytes = good;
    bytes[5] = 0x02;
    EXPECT_EQ(parse(bytes), PauseDrop::kWrongDestination);
    std::copy(kSource.begin(), kSource.end(), bytes.begin());
    EXPECT_EQ(parse(bytes), PauseDrop::kWrongDestination);
  }
}

TEST(PauseFrame, AQuantumIs512BitTimes) {
  EXPECT_EQ(pause_time(1, 512'000'000'000), Duration::ns(1));
  EXPECT_EQ(pause_time(0xffff, 10'000'000'000), Duration::ns(3'355'392));
  EXPECT_EQ(pause_time(0xffff, 100'000), Duration::ns(335'539'200'000));
  EXPECT_EQ(pause_time(1, 1'000'000'000'000), Duration::ns(1)) << "never too short";
  EXPECT_EQ(pause_time(0, 1), Duration::zero());
}

TEST(PauseFrame, IsShownWithItsPriorities) {
  std::array<char, kTextBytes> room;
  PauseFrame pause = PauseFrame::pfc(0x09, 7);
  pause.quanta[0] = 0;
  EXPECT_EQ(to_string(pause, room), "pfc p0=0 p3=7");
  EXPECT_EQ(to_string(PauseFrame::of_link(9), room), "pause 9");
}

}  // namespace
}  // namespace mprdma::wire
