#include "tests/integration/verbs_check/plan.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace mprdma::verbs_check {

namespace {

uint64_t word_of(uint64_t key, uint64_t index) {
  uint64_t z = key + index * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  return z ^ (z >> 31);
}

// Draws a length: empty, small, around the boundaries of packets, anything; large ones are rarer.
uint32_t random_length(Prng& prng, uint32_t size_max) {
  const uint64_t what = prng.below(16);
  if (what == 0) return 0;
  if (what <= 4) return static_cast<uint32_t>(prng.range(1, std::min(64U, size_max)));
  if (what <= 7) {
    const auto packets = static_cast<uint32_t>(prng.range(1, 5));
    const auto mtu = static_cast<uint32_t>(1024U << prng.below(3));
    const auto length = static_cast<uint32_t>(packets * mtu - 1 + prng.below(3));
    return std::min(length, size_max);
  }
  const auto bits = static_cast<uint32_t>(prng.range(1, std::bit_width(size_max)));
  return std::min(static_cast<uint32_t>(prng.below(1ULL << bits)), size_max);
}

Kind random_kind(Prng& prng) {
  constexpr Kind kKinds[] = {Kind::kSend,  Kind::kSend,     Kind::kSendImm, Kind::kWrite,
                             Kind::kWrite, Kind::kWriteImm, Kind::kRead,    Kind::kRead};
  return kKinds[prng.below(std::size(kKinds))];
}

Op random_op(Prng& prng, const Args& args, uint32_t inline_max) {
  Op op;
  op.kind = random_kind(prng);
  op.length = random_length(prng, args.size_max);
  op.use_inline = prng.chance(1, 2) && op.length <= inline_max && op.kind != Kind::kRead;
  op.signaled = prng.chance(1, 3);
  op.fence = prng.chance(1, 16);
  op.solicited = prng.chance(1, 4);
  op.imm = static_cast<uint32_t>(prng.next_u64());
  op.remote_offset = static_cast<uint32_t>(prng.below(kGapMax));
  op.key = prng.next_u64();
  op.local = random_layout(prng, op.length);
  return op;
}

}  // namespace

const char* to_string(Kind kind) {
  constexpr const char* kNames[] = {"SEND", "SEND imm", "WRITE", "WRITE imm", "READ"};
  return kNames[static_cast<size_t>(kind)];
}

size_t slot_bytes(uint32_t size_max) {
  return (size_max + (kMaxSge + 1) * kGapMax + 63) / 64 * 64;
}

Layout random_layout(Prng& prng, uint32_t length) {
  Layout layout;
  if (length == 0) return layout;  // an SGE of length 0 means 2^31 to some hardware
  layout.count = static_cast<uint32_t>(prng.range(1, std::min(kMaxSge, length)));
  uint32_t left = length;
  uint32_t at = static_cast<uint32_t>(prng.below(kGapMax));
  for (uint32_t i = 0; i < layout.count; ++i) {
    const uint32_t after = layout.count - 1 - i;  // at least a byte for each piece to come
    const auto piece = after == 0 ? left : static_cast<uint32_t>(prng.range(1, left - after));
    layout.pieces[i] = {at, piece};
    at += piece + static_cast<uint32_t>(prng.range(1, kGapMax - 1));
    left -= piece;
  }
  return layout;
}

Plan make_plan(const Args& args, uint32_t qp, bool from_server, uint32_t inline_max) {
  Prng prng = Prng(args.seed).split((uint64_t{qp} << 1) | (from_server ? 1 : 0));
  const uint64_t read_key = prng.split("read area").next_u64();
  Plan plan;
  uint32_t since_receive = 0;
  uint32_t since_signal = 0;
  for (uint32_t i = 0; i < args.ops; ++i) {
    Op op = random_op(prng, args, inline_max);
    const bool last = i + 1 == args.ops;
    // A slot is free again after a message that took a receive, an entry of the queue after a
    // completion.
    if (last || (since_receive + 1 >= kSlots / 2 && !op.takes_receive())) op.kind = Kind::kSend;
    if (last || since_signal + 1 >= kSlots / 2) op.signaled = true;
    if (op.kind == Kind::kRead) {
      op.use_inline = false;
      const Op* before = plan.ops.empty() ? nullptr : &plan.ops.back();
      op.read_back = before != nullptr && before->kind == Kind::kWrite;
      op.key = read_key;
      if (op.read_back) {
        op.key = before->key;
        op.length = before->length;
        op.remote_offset = before->remote_offset;
        op.local = random_layout(prng, op.length);
      }
    }
    // A READ's data may be fetched after what follows it was carried out (IBTA, table of ordering
    // rules), and the receiver clears the slot then.
    if (!plan.ops.empty() && plan.ops.back().read_back) op.fence = true;
    since_receive = op.takes_receive() ? 0 : since_receive + 1;
    since_signal = op.signaled ? 0 : since_signal + 1;
    if (op.takes_receive()) plan.receives.push_back(i);
    plan.bytes += op.length;
    plan.ops.push_back(op);
  }
  return plan;
}

void fill(uint64_t key, uint64_t first, unsigned char* data, size_t bytes) {
  for (size_t i = 0; i < bytes;) {
    const uint64_t at = first + i;
    const uint64_t word = word_of(key, at / 8);
    const size_t skip = at % 8;
    const size_t n = std::min<size_t>(8 - skip, bytes - i);
    std::memcpy(data + i, reinterpret_cast<const unsigned char*>(&word) + skip, n);
    i += n;
  }
}

size_t mismatch(uint64_t key, uint64_t first, const unsigned char* data, size_t bytes) {
  for (size_t i = 0; i < bytes;) {
    const uint64_t at = first + i;
    const uint64_t word = word_of(key, at / 8);
    const auto* expected = reinterpret_cast<const unsigned char*>(&word) + at % 8;
    const size_t n = std::min<size_t>(8 - at % 8, bytes - i);
    if (std::memcmp(data + i, expected, n) != 0) {
      while (*expected == data[i]) ++i, ++expected;
      return i;
    }
    i += n;
  }
  return bytes;
}

size_t guard_broken(const unsigned char* data, size_t bytes) {
  const unsigned char* end = data + bytes;
  return static_cast<size_t>(std::find_if(data, end, [](unsigned char c) { return c != kGuard; }) -
                             data);
}

}  // namespace mprdma::verbs_check
