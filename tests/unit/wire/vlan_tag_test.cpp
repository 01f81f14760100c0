#include "wire/vlan_tag.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

namespace mprdma::wire {
namespace {

TEST(VlanTag, StandsBetweenTheAddressesAndTheType) {
  std::array<unsigned char, 64> room{};
  unsigned char* const frame = room.data() + 4;
  std::iota(frame, frame + 60, static_cast<unsigned char>(1));
  const auto before = room;
  VlanTag{.vid = 0x123, .pcp = 5}.push(frame);
  const std::array<unsigned char, 18> tagged = {1,  2,  3,  4,    5,    6,    7,    8,  9,
                                                10, 11, 12, 0x81, 0x00, 0xa1, 0x23, 13, 14};
  EXPECT_TRUE(std::equal(tagged.begin(), tagged.end(), room.begin()));
  EXPECT_TRUE(VlanTag::is_on(room.data(), 64));
  EXPECT_FALSE(VlanTag::is_on(room.data(), 17)) << "no room for a tag and a type";
  EXPECT_EQ(VlanTag::vid_of(room.data()), 0x123);
  room[14] |= 0x10;  // DEI
  EXPECT_EQ(VlanTag::vid_of(room.data()), 0x123);
  VlanTag::pop(room.data());
  EXPECT_TRUE(std::equal(frame, frame + 60, before.begin() + 4));
  EXPECT_FALSE(VlanTag::is_on(frame, 60));
}

TEST(VlanTag, APortTakesItsVlanAndWhatSpeaksOfTheLink) {
  std::array<unsigned char, 64> room{};
  unsigned char* const frame = room.data() + 4;
  EXPECT_TRUE(VlanTag::admits(0, frame, 60));
  EXPECT_FALSE(VlanTag::admits(100, frame, 60));
  PauseFrame::pfc(1, 1).store({}, frame);
  EXPECT_TRUE(VlanTag::admits(100, frame, 60));
  for (const uint16_t vid : {0, 100}) {
    VlanTag{.vid = vid, .pcp = 5}.push(frame);
    EXPECT_EQ(VlanTag::admits(0, room.data(), 64), vid == 0);
    EXPECT_EQ(VlanTag::admits(100, room.data(), 64), vid == 100);
  }
}

}  // namespace
}  // namespace mprdma::wire
