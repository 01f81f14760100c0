// The memory of one switch, shared by all its ports: admits a packet that has to wait if the switch
// has room, and counts waiting bytes by ingress port and in total. The queues (OutputPort) count
// them by egress port; Network::check() asserts that the three sums are equal.
//
// A packet that is forwarded at once takes nothing: only what waits is counted, so a limit of B
// bytes stands for a buffer of B plus one packet for each port.
//
// A managed buffer (managed() of buffer_layout.hpp) also charges every packet that waits to one
// account: a lossless one to the ingress that it came by, any other to its queue. An account has a
// reserve of its own. Beyond it, it takes of what all share, and may hold at most alpha x what is
// free of that (Choudhury and Hahne 1998): n accounts that want more end at alpha B / (1 + n alpha)
// each. An ingress has headroom on top, for what comes in before a pause takes effect.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.hpp"

namespace mprdma::switchsim {

// What one queue, or one ingress, holds of a switch's memory.
struct BufferAccount {
  uint64_t bytes = 0;     // of its reserve, then of what is shared
  uint64_t headroom = 0;  // beyond its limit; an ingress only
  [[nodiscard]] uint64_t total() const { return bytes + headroom; }
};

struct BufferRules {
  uint64_t bytes_max = UINT64_MAX;  // of everything that waits in the switch
  // This field and the next two count in a managed buffer only. shared_max: bytes_max less all
  // reserves and headroom of the switch (dedicated_bytes() of buffer_layout.hpp), in use or not.
  uint64_t shared_max = 0;
  uint32_t alpha_q16 = 0;      // 0: no threshold, an account may take all that is free
  uint32_t reserve_bytes = 0;  // of each account
};

class SharedBuffer {
 public:
  explicit SharedBuffer(const BufferRules& rules) : rules_(rules) {}

  [[nodiscard]] bool has_room(uint32_t bytes) const { return bytes_ + bytes <= rules_.bytes_max; }

  // `of_ingress` counts the bytes that wait in this switch and came by the packet's ingress port.
  void take(uint64_t& of_ingress, uint32_t bytes) {
    bytes_ += bytes;
    of_ingress += bytes;
    if (bytes_ > bytes_peak_) bytes_peak_ = bytes_;
  }
  void give_back(uint64_t& of_ingress, uint32_t bytes) {
    DCHECK(bytes_ >= bytes && of_ingress >= bytes);
    bytes_ -= bytes;
    of_ingress -= bytes;
  }

  // ---- Accounts of a managed buffer
  // The most that an account may hold at the moment, without headroom.
  [[nodiscard]] uint64_t limit() const { return limit_at(shared_); }
  // limit() when all accounts together hold `shared` bytes above their reserves.
  [[nodiscard]] uint64_t limit_at(uint64_t shared) const {
    if (rules_.alpha_q16 == 0) return UINT64_MAX;
    return rules_.reserve_bytes + (((rules_.shared_max - shared) * rules_.alpha_q16) >> 16);
  }
  // True if the account may take the packet without using headroom.
  [[nodiscard]] bool fits(const BufferAccount& account, uint32_t bytes, uint64_t limit) const {
    const uint64_t after = account.bytes + bytes;
    return after <= limit &&
           above_reserve(after) - above_reserve(account.bytes) <= rules_.shared_max - shared_;
  }
  // Requires that it fits.
  void charge(BufferAccount& account, uint32_t bytes) {
    shared_ -= above_reserve(account.bytes);
    account.bytes += bytes;
    shared_ += above_reserve(account.bytes);
    DCHECK(shared_ <= rules_.shared_max);
  }
  // A packet of the account left. Packets are not told apart: headroom is freed first.
  void refund(BufferAccount& account, uint32_t bytes) {
    DCHECK(account.total() >= bytes);
    const uint64_t of_headroom = std::min<uint64_t>(account.headroom, bytes);
    account.headroom -= of_headroom;
    shared_ -= above_reserve(account.bytes);
    account.bytes -= bytes - of_headroom;
    shared_ += above_reserve(account.bytes);
  }

  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] uint64_t bytes_peak() const { return bytes_peak_; }
  [[nodiscard]] uint64_t shared_bytes() const { return shared_; }
  [[nodiscard]] uint64_t above_reserve(uint64_t bytes) const {
    return bytes > rules_.reserve_bytes ? bytes - rules_.reserve_bytes : 0;
  }

 private:
  BufferRules rules_;
  uint64_t bytes_ = 0;
  uint64_t bytes_peak_ = 0;
  uint64_t shared_ = 0;  // what accounts hold above their reserves
};

}  // namespace mprdma::switchsim
