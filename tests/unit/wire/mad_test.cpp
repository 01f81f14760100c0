// Management datagrams: bytes in their places, and what is refused.
#include "wire/mad.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "wire/print.hpp"

namespace mprdma::wire {
namespace {

using Bytes = std::array<unsigned char, kMadBytes>;

PairMad question() {
  PairMad mad;
  mad.transaction = 0x0102030405060708;
  mad.info = {.phase = PairPhase::kTentative,
              .ordered = true,
              .pinned = PairMode::kMpSingle,
              .mode = PairMode::kMpSingle,
              .abilities = 0x2e,
              .window_slots = 128,
              .segment = 16384,
              .takes_runs = true,
              .sender_qpn = Qpn(0x0a0b0c),
              .receiver_qpn = Qpn(0x0d0e0f)};
  return mad;
}

Bytes encoded(const PairMad& mad) {
  Bytes bytes;
  bytes.fill(0xcc);  // so that a byte that nobody wrote shows
  encode_pair_mad(mad, bytes);
  return bytes;
}

TEST(PairMad, HasTheBytesOfThePage) {
  const Bytes bytes = encoded(question());
  const std::vector<unsigned char> expected = {
      0x01, 0x4d, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07,
      0x08, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x4d, 0x52, 0x01, 0x41, 0x03, 0x03, 0x00,
      0x00, 0x00, 0x2e, 0x00, 0x80, 0x00, 0x40, 0x01, 0x0a, 0x0b, 0x0c, 0x00, 0x0d, 0x0e, 0x0f};
  EXPECT_EQ(std::vector<unsigned char>(bytes.begin(), bytes.begin() + 60), expected);
  for (size_t i = 60; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], 0) << i;
}

TEST(PairMad, ComesBackAsItWas) {
  PairMad mad = question();
  PairMad back;
  ASSERT_EQ(decode_pair_mad(encoded(mad), back), MadDrop::kNone);
  EXPECT_EQ(back, mad);
  mad.response = true;
  mad.info.phase = PairPhase::kUndecided;
  mad.info.mode = mad.info.pinned = PairMode::kNone;
  ASSERT_EQ(decode_pair_mad(encoded(mad), back), MadDrop::kNone);
  EXPECT_EQ(back, mad);
}

TEST(PairMad, ReservedBitsBesideTheOffersAreIgnored) {
  PairMad mad = question();
  mad.info.takes_runs = false;
  Bytes bytes = encoded(mad);
  EXPECT_EQ(bytes[52], 0);
  bytes[52] = 0xfe;
  PairMad back;
  ASSERT_EQ(decode_pair_mad(bytes, back), MadDrop::kNone);
  EXPECT_EQ(back, mad);
}

TEST(PairMad, TheSegmentCountsIn256Bytes) {
  PairMad mad = question();
  Bytes bytes = encoded(mad);
  const auto segment_of = [&bytes](unsigned char high, unsigned char low) {
    bytes[50] = high;
    bytes[51] = low;
    PairMad back;
    EXPECT_EQ(decode_pair_mad(bytes, back), MadDrop::kNone);
    return back.info.segment;
  };
  EXPECT_EQ(segment_of(0x00, 0x01), 256U);
  EXPECT_EQ(segment_of(0x01, 0x00), 65'536U);
  EXPECT_EQ(segment_of(0xff, 0xff), 65'535U * 256);
  mad.info.segment = 65'535U * 256;
  EXPECT_EQ(encoded(mad), bytes);
  // No promise of a byte more than the sender takes.
  mad.info.segment = 3 * 256 - 1;
  EXPECT_EQ(encoded(mad)[51], 2);
}

TEST(PairMad, TheWindowIsAPowerOfTwoWithinItsBounds) {
  PairMad mad = question();
  PairMad back;
  for (const uint16_t slots : {8, 16, 128, 1024, 2048}) {
    mad.info.window_slots = slots;
    EXPECT_EQ(decode_pair_mad(encoded(mad), back), MadDrop::kNone) << slots;
  }
  for (const uint16_t slots : {0, 1, 4, 9, 96, 129, 2047, 4096, 0x8000, 0xffff}) {
    mad.info.window_slots = slots;
    EXPECT_EQ(decode_pair_mad(encoded(mad), back), MadDrop::kBadField) << slots;
  }
}

TEST(PairMad, ASenderThatKnowsNoOffersMakesNone) {
  Bytes bytes = encoded(question());
  for (const size_t byte : {50U, 51U, 52U}) bytes[byte] = 0;
  PairMad back;
  ASSERT_EQ(decode_pair_mad(bytes, back), MadDrop::kNone);
  EXPECT_EQ(back.info.segment, 0U);
  EXPECT_FALSE(back.info.takes_runs);
}

TEST(PairMad, AnErrorOfWhoDoesNotKnowTheClassIsAnAnswerWithoutFacts) {
  // A kernel sends the question back with response bit and status.
  Bytes bytes = encoded(question());
  bytes[3] |= kMadResponse;
  bytes[5] = kMadStatusUnsupportedAttribute;
  PairMad back;
  ASSERT_EQ(decode_pair_mad(bytes, back), MadDrop::kNone);
  EXPECT_TRUE(back.response);
  EXPECT_EQ(back.status, kMadStatusUnsupportedAttribute);
  EXPECT_EQ(back.transaction, question().transaction);
  EXPECT_EQ(back.info, PairInfo{});
}

TEST(PairMad, WhatIsWrongHasAName) {
  PairMad back;
  const auto with = [&](size_t at, unsigned char value) {
    Bytes bytes = encoded(question());
    bytes[at] = value;
    return decode_pair_mad(bytes, back);
  };
  const Bytes good = encoded(question());
  EXPECT_EQ(decode_pair_mad({good.data(), 255}, back), MadDrop::kBadLength);
  EXPECT_EQ(with(0, 2), MadDrop::kBadVersion);
  EXPECT_EQ(with(1, 0x07), MadDrop::kForeignClass);
  EXPECT_EQ(with(2, 2), MadDrop::kForeignClass);
  EXPECT_EQ(with(38, 0), MadDrop::kForeignClass);
  EXPECT_EQ(with(3, 0x02), MadDrop::kBadMethod);
  EXPECT_EQ(with(17, 0x11), MadDrop::kBadMethod);
  EXPECT_EQ(with(41, 0xc0), MadDrop::kBadField) << "no such phase";
  EXPECT_EQ(with(41, 0x00), MadDrop::kBadField) << "undecided, but with a mode";
  EXPECT_EQ(with(42, 9), MadDrop::kBadField);
  EXPECT_EQ(with(43, 9), MadDrop::kBadField);
  EXPECT_EQ(with(49, 3), MadDrop::kBadField);
  EXPECT_EQ(with(5, kMadStatusUnsupportedAttribute), MadDrop::kBadField)
      << "a status of a question";
  EXPECT_EQ(with(40, 2), MadDrop::kNone) << "another wire version: its fields are its own";
}

TEST(PairMad, PrintsOneLine) {
  std::array<char, kTextBytes> text;
  EXPECT_EQ(to_string(question(), text),
            "PAIR_QUESTION tid=0x0102030405060708 from=0x0a0b0c to=0x0d0e0f version=1 tentative "
            "mode=mp-single pinned=mp-single abilities=0x2e L=128 segment=16384 runs "
            "ordered");
}

}  // namespace
}  // namespace mprdma::wire
