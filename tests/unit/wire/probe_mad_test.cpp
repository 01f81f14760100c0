// Path probes: bytes in their places, and what is refused.
#include "wire/probe_mad.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace mprdma::wire {
namespace {

using Bytes = std::vector<unsigned char>;

ProbeMad question() {
  return {.transaction = 0x0102030405060708,
          .sequence = 0x0a0b0c0d,
          .bytes = 1024,
          .answer_bytes = 512,
          .hop_limit = 63,
          .seen = {}};
}

ProbeMad answer() {
  ProbeMad mad = question();
  mad.response = true;
  mad.bytes = mad.answer_bytes = 512;
  mad.seen = {.bytes = 1024, .source_port = 50'000, .hop_limit = 61, .ecn = Ecn::kCe};
  return mad;
}

Bytes encoded(const ProbeMad& mad) {
  Bytes bytes(mad.bytes, 0xcc);  // so that a byte that nobody wrote shows
  encode_probe_mad(mad, bytes.data());
  return bytes;
}

MadDrop decode(const Bytes& bytes, ProbeMad& out, size_t length = 0) {
  return decode_probe_mad(std::span<const unsigned char, kMadBytes>(bytes.data(), kMadBytes),
                          length != 0 ? length : bytes.size(), out);
}

TEST(ProbeMad, HasTheBytesOfThePage) {
  const Bytes bytes = encoded(answer());
  const Bytes expected = {0x01, 0x4d, 0x01, 0x81, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04,
                          0x05, 0x06, 0x07, 0x08, 0x00, 0x11, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                          0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                          0x00, 0x02, 0x4d, 0x52, 0x01, 0x3f, 0x02, 0x00, 0x0a, 0x0b, 0x0c, 0x0d,
                          0x02, 0x00, 0x00, 0x00, 0x04, 0x00, 0xc3, 0x50, 0x3d, 0x03};
  EXPECT_EQ(Bytes(bytes.begin(), bytes.begin() + 58), expected);
  for (size_t i = 58; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], 0) << i;
}

TEST(ProbeMad, ComesBackAsItWas) {
  ProbeMad back;
  ASSERT_EQ(decode(encoded(question()), back), MadDrop::kNone);
  EXPECT_EQ(back, question());
  ASSERT_EQ(decode(encoded(answer()), back), MadDrop::kNone);
  EXPECT_EQ(back, answer());
  for (const size_t bytes : {kProbeBytesMin, size_t{257}, kProbeBytesMax}) {
    ProbeMad mad = question();
    mad.bytes = mad.answer_bytes = static_cast<uint16_t>(bytes);
    ASSERT_EQ(decode(encoded(mad), back), MadDrop::kNone) << bytes;
    EXPECT_EQ(back, mad);
  }
}

TEST(ProbeMad, AnAnswerIsNeverLongerThanItsQuestion) {
  ProbeMad back;
  ProbeMad mad = question();
  mad.answer_bytes = static_cast<uint16_t>(mad.bytes + 1);
  EXPECT_EQ(decode(encoded(mad), back), MadDrop::kBadField);
  mad.answer_bytes = kProbeBytesMin - 1;
  EXPECT_EQ(decode(encoded(mad), back), MadDrop::kBadField);
  mad = answer();
  mad.seen.bytes = static_cast<uint16_t>(mad.bytes - 1);
  EXPECT_EQ(decode(encoded(mad), back), MadDrop::kBadField);
}

TEST(ProbeMad, WhatIsNoneHasAReason) {
  ProbeMad back;
  const auto changed = [&](size_t at, unsigned char value) {
    Bytes bytes = encoded(question());
    bytes[at] = value;
    return decode(bytes, back);
  };
  EXPECT_EQ(changed(0, 2), MadDrop::kBadVersion);
  EXPECT_EQ(changed(1, 7), MadDrop::kForeignClass);
  EXPECT_EQ(changed(2, 2), MadDrop::kForeignClass);
  EXPECT_EQ(changed(38, 0), MadDrop::kForeignClass);
  EXPECT_EQ(changed(3, 2), MadDrop::kBadMethod);
  EXPECT_EQ(changed(17, 0x10), MadDrop::kBadMethod);
  EXPECT_EQ(changed(5, 4), MadDrop::kBadField) << "a status";
  EXPECT_EQ(changed(40, 2), MadDrop::kBadField) << "another version";
  EXPECT_EQ(changed(43, 1), MadDrop::kBadLength) << "not the length that it has";
  EXPECT_EQ(decode(encoded(question()), back, 255), MadDrop::kBadLength);
  EXPECT_EQ(decode(encoded(question()), back, 4097), MadDrop::kBadLength);
}

}  // namespace
}  // namespace mprdma::wire
