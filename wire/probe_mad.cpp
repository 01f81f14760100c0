#include "wire/probe_mad.hpp"

#include <cstring>

#include "base/check.hpp"

namespace mprdma::wire {

namespace {

constexpr size_t kOuiOffset = 37;
constexpr size_t kOffset = 40;
constexpr size_t kSeenOffset = 52;
constexpr uint8_t kEcnMask = 3;

ProbeSeen load_seen(const unsigned char* in) {
  return {.bytes = load_be16(in),
          .source_port = load_be16(in + 2),
          .hop_limit = in[4],
          .ecn = static_cast<Ecn>(in[5] & kEcnMask)};
}

void store_seen(const ProbeSeen& seen, unsigned char* out) {
  store_be16(out, seen.bytes);
  store_be16(out + 2, seen.source_port);
  out[4] = seen.hop_limit;
  out[5] = static_cast<uint8_t>(seen.ecn);
}

bool good_bytes(size_t bytes) {
  return bytes >= kProbeBytesMin && bytes <= kProbeBytesMax;
}

}  // namespace

bool is_probe_mad(std::span<const unsigned char, kMadBytes> head) {
  const MadHeader header = MadHeader::load(head.data());
  return header.management_class == kPairClass && header.attribute == kProbeAttribute;
}

void encode_probe_mad(const ProbeMad& mad, unsigned char* out) {
  DCHECK(good_bytes(mad.bytes));
  std::memset(out, 0, mad.bytes);
  MadHeader{.management_class = kPairClass,
            .class_version = kPairClassVersion,
            .method = mad.response ? kMadMethodGetResp : kMadMethodGet,
            .transaction = mad.transaction,
            .attribute = kProbeAttribute}
      .store(out);
  store_be24(out + kOuiOffset, kPairOui);
  out[kOffset] = kProbeVersion;
  out[kOffset + 1] = mad.hop_limit;
  store_be16(out + kOffset + 2, mad.bytes);
  store_be32(out + kOffset + 4, mad.sequence);
  store_be16(out + kOffset + 8, mad.answer_bytes);
  if (mad.response) store_seen(mad.seen, out + kSeenOffset);
}

MadDrop decode_probe_mad(std::span<const unsigned char, kMadBytes> head, size_t bytes,
                         ProbeMad& out) {
  if (!good_bytes(bytes)) return MadDrop::kBadLength;
  const MadHeader header = MadHeader::load(head.data());
  if (header.base_version != kMadBaseVersion) return MadDrop::kBadVersion;
  if (header.management_class != kPairClass || header.class_version != kPairClassVersion ||
      load_be24(head.data() + kOuiOffset) != kPairOui) {
    return MadDrop::kForeignClass;
  }
  const bool method = header.method == kMadMethodGet || header.method == kMadMethodGetResp;
  if (!method || header.attribute != kProbeAttribute) return MadDrop::kBadMethod;
  const unsigned char* const in = head.data() + kOffset;
  out = ProbeMad{.response = header.is_response(),
                 .transaction = header.transaction,
                 .sequence = load_be32(in + 4),
                 .bytes = load_be16(in + 2),
                 .answer_bytes = load_be16(in + 8),
                 .hop_limit = in[1],
                 .seen = {}};
  if (out.bytes != bytes) return MadDrop::kBadLength;
  if (in[0] != kProbeVersion || header.status != 0 || out.answer_bytes < kProbeBytesMin) {
    return MadDrop::kBadField;
  }
  if (!out.response) return out.answer_bytes <= bytes ? MadDrop::kNone : MadDrop::kBadField;
  out.seen = load_seen(head.data() + kSeenOffset);
  // The answer is as long as it was asked to be, and the question was no shorter.
  const bool fits =
      out.answer_bytes == bytes && good_bytes(out.seen.bytes) && out.seen.bytes >= out.answer_bytes;
  return fits ? MadDrop::kNone : MadDrop::kBadField;
}

}  // namespace mprdma::wire
