// What random traffic consists of. A plan is a function of (seed, QP, direction), so both processes
// know it without talking: the sender carries it out, the receiver checks what arrives against it.
//
// Every operation has a slot of its own at either end, number % kSlots; a slot is used again only
// when the receiver has said that it verified what was in it.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/prng.hpp"
#include "tests/integration/verbs_check/verbs.hpp"

namespace mprdma::verbs_check {

constexpr uint32_t kSlots = 8;
constexpr uint32_t kGapMax = 64;        // bytes between two pieces of a scattered message
constexpr unsigned char kGuard = 0xee;  // in every byte that nothing may be written to

enum class Kind : uint8_t { kSend, kSendImm, kWrite, kWriteImm, kRead };

const char* to_string(Kind kind);

// Where the bytes of one message lie in a slot: in order, with gaps.
struct Layout {
  struct Piece {
    uint32_t offset = 0;
    uint32_t length = 0;
  };
  Piece pieces[kMaxSge];
  uint32_t count = 0;

  [[nodiscard]] uint32_t end() const {
    return count == 0 ? 0 : pieces[count - 1].offset + pieces[count - 1].length;
  }
};

struct Op {
  Kind kind = Kind::kSend;
  bool use_inline = false;
  bool signaled = false;
  bool fence = false;
  bool solicited = false;
  bool read_back = false;  // READ of what the WRITE just before it wrote
  uint32_t length = 0;
  uint32_t imm = 0;
  uint32_t remote_offset = 0;  // within the slot (WRITE) or the peer's read area (READ)
  uint64_t key = 0;            // of the pattern
  Layout local;

  [[nodiscard]] bool takes_receive() const {
    return kind == Kind::kSend || kind == Kind::kSendImm || kind == Kind::kWriteImm;
  }
  [[nodiscard]] bool is_write() const { return kind == Kind::kWrite || kind == Kind::kWriteImm; }
};

struct Plan {
  std::vector<Op> ops;
  std::vector<uint32_t> receives;  // numbers of the operations that take a receive, in order
  uint64_t bytes = 0;
};

// Bytes of a slot that holds any layout of a message of size_max bytes.
size_t slot_bytes(uint32_t size_max);

Plan make_plan(const Args& args, uint32_t qp, bool from_server, uint32_t inline_max);

// The pieces of a message of `length` bytes, 1 to kMaxSge of them; none for an empty one.
Layout random_layout(Prng& prng, uint32_t length);

// The pattern: byte i of a message depends on the key and on i.
void fill(uint64_t key, uint64_t first, unsigned char* data, size_t bytes);
// Index of the first byte that differs, or `bytes`.
size_t mismatch(uint64_t key, uint64_t first, const unsigned char* data, size_t bytes);
// Index of the first byte that is no guard, or `bytes`.
size_t guard_broken(const unsigned char* data, size_t bytes);

}  // namespace mprdma::verbs_check
