#include "wire/mad.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "wire/print.hpp"

namespace mprdma::wire {

namespace {

constexpr size_t kOuiOffset = 37;
constexpr uint16_t kWindowSlotsMin = 8;
constexpr uint16_t kWindowSlotsMax = 2048;
constexpr uint32_t kSegmentUnit = 256;
constexpr uint8_t kTakesRuns = 1 << 0;

void store_info(const PairInfo& info, unsigned char* out) {
  out[0] = info.wire_version;
  out[1] = static_cast<uint8_t>(static_cast<unsigned>(info.phase) << 6 | (info.ordered ? 1 : 0));
  out[2] = static_cast<uint8_t>(info.pinned);
  out[3] = static_cast<uint8_t>(info.mode);
  store_be32(out + 4, info.abilities);
  store_be16(out + 8, info.window_slots);
  store_be16(out + 10, static_cast<uint16_t>(info.segment / kSegmentUnit));
  out[12] = info.takes_runs ? kTakesRuns : 0;
  store_be24(out + 13, info.sender_qpn.value());
  store_be24(out + 17, info.receiver_qpn.value());
}

PairInfo load_info(const unsigned char* in) {
  return {.wire_version = in[0],
          .phase = static_cast<PairPhase>(in[1] >> 6),
          .ordered = (in[1] & 1) != 0,
          .pinned = static_cast<PairMode>(in[2]),
          .mode = static_cast<PairMode>(in[3]),
          .abilities = load_be32(in + 4),
          .window_slots = load_be16(in + 8),
          .segment = load_be16(in + 10) * kSegmentUnit,
          .takes_runs = (in[12] & kTakesRuns) != 0,
          .sender_qpn = Qpn(load_be24(in + 13)),
          .receiver_qpn = Qpn(load_be24(in + 17))};
}

// What another version of the extensions means by its fields is not ours to judge.
bool good_info(const PairInfo& info) {
  if (info.wire_version != kMpVersion) return true;
  const bool decided = info.phase != PairPhase::kUndecided;
  return info.phase < PairPhase::kCount && info.pinned < PairMode::kCount &&
         info.mode < PairMode::kCount && decided == (info.mode != PairMode::kNone) &&
         std::has_single_bit(info.window_slots) && info.window_slots >= kWindowSlotsMin &&
         info.window_slots <= kWindowSlotsMax;
}

}  // namespace

void encode_pair_mad(const PairMad& mad, std::span<unsigned char, kMadBytes> out) {
  std::memset(out.data(), 0, out.size());
  MadHeader{.management_class = kPairClass,
            .class_version = kPairClassVersion,
            .method = mad.response ? kMadMethodGetResp : kMadMethodGet,
            .status = mad.status,
            .transaction = mad.transaction,
            .attribute = kPairAttribute}
      .store(out.data());
  store_be24(out.data() + kOuiOffset, kPairOui);
  store_info(mad.info, out.data() + PairInfo::kOffset);
}

MadDrop decode_pair_mad(std::span<const unsigned char> in, PairMad& out) {
  if (in.size() != kMadBytes) return MadDrop::kBadLength;
  const MadHeader header = MadHeader::load(in.data());
  if (header.base_version != kMadBaseVersion) return MadDrop::kBadVersion;
  if (header.management_class != kPairClass) return MadDrop::kForeignClass;
  out = PairMad{};
  out.response = header.is_response();
  out.status = header.status;
  out.transaction = header.transaction;
  // Who does not know the class sends the question back with a status, whatever else it fills in.
  if (out.response && out.status != 0) return MadDrop::kNone;
  if (out.status != 0) return MadDrop::kBadField;  // 13.4.7: a request has none
  if (header.class_version != kPairClassVersion || load_be24(in.data() + kOuiOffset) != kPairOui) {
    return MadDrop::kForeignClass;
  }
  const bool method = header.method == kMadMethodGet || header.method == kMadMethodGetResp;
  if (!method || header.attribute != kPairAttribute) return MadDrop::kBadMethod;
  out.info = load_info(in.data() + PairInfo::kOffset);
  return good_info(out.info) ? MadDrop::kNone : MadDrop::kBadField;
}

std::string_view to_string(PairMode mode) {
  constexpr std::array<std::string_view, static_cast<size_t>(PairMode::kCount)> kNames = {
      "none", "mp", "mp-paper", "mp-single", "irn", "roce"};
  const auto index = static_cast<size_t>(mode);
  return index < kNames.size() ? kNames[index] : "?";
}

std::string_view to_string(const MadHeader& header, std::span<char> out) {
  return TextWriter(out)
      .text("class=")
      .hex(header.management_class, 2)
      .text(" method=")
      .hex(header.method, 2)
      .text(" status=")
      .hex(header.status, 4)
      .text(" tid=")
      .hex(header.transaction, 16)
      .text(" attr=")
      .hex(header.attribute, 4)
      .view();
}

std::string_view to_string(const PairMad& mad, std::span<char> out) {
  constexpr std::array<std::string_view, 4> kPhases = {"undecided", "tentative", "fixed", "?"};
  const PairInfo& info = mad.info;
  TextWriter writer(out);
  writer.text(mad.response ? "PAIR_ANSWER tid=" : "PAIR_QUESTION tid=").hex(mad.transaction, 16);
  if (mad.status != 0) return writer.text(" status=").hex(mad.status, 4).view();
  return writer.text(" from=")
      .hex(info.sender_qpn.value(), 6)
      .text(" to=")
      .hex(info.receiver_qpn.value(), 6)
      .text(" version=")
      .dec(info.wire_version)
      .text(" ")
      .text(kPhases[static_cast<size_t>(info.phase) & 3])
      .text(" mode=")
      .text(to_string(info.mode))
      .text(" pinned=")
      .text(to_string(info.pinned))
      .text(" abilities=")
      .hex(info.abilities, 2)
      .text(" L=")
      .dec(info.window_slots)
      .text(" segment=")
      .dec(info.segment)
      .flag(info.takes_runs, "runs")
      .flag(info.ordered, "ordered")
      .view();
}

}  // namespace mprdma::wire
