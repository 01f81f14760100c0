// The packets of a network: numbered slots, handed out last freed first, never more than at
// construction. Memory of slots that were never out at the same time is never touched.
#pragma once

#include <cstdint>
#include <memory>

#include "base/check.hpp"
#include "switchsim/model/topology.hpp"

namespace mprdma::switchsim {

using PacketId = uint32_t;
inline constexpr PacketId kNoPacket = UINT32_MAX;

// 32 bytes: two to a cache line.
struct NetPacket {
  uint64_t flow = 0;        // premixed five-tuple: flow_hash() of ecmp.hpp
  uint32_t next = 0;        // intrusive queue; on the wire: the port. The network's own
  uint32_t wire_bytes = 0;  // with preamble, FCS and gap
  uint32_t contents = 0;    // the host's own
  NodeId destination = 0;   // a host
  uint32_t ingress = 0;     // port that it came by; the network's own
  bool ect = true;          // ECN-capable
  bool ce = false;          // congestion experienced
  uint8_t priority = 0;     // with PFC: 0 is lossless, others are not; unused without PFC
  bool flooded = false;     // a copy for nobody (Topology::flood); the network's own
};
static_assert(sizeof(NetPacket) == 32);

class PacketPool {
 public:
  explicit PacketPool(uint32_t packets_max)
      : packets_max_(packets_max), slots_(std::make_unique_for_overwrite<Slot[]>(packets_max)) {}

  // Allocates a packet, as if new; kNoPacket when all are out. `fresh` tells that the slot is out
  // for the first time.
  PacketId allocate(bool& fresh) {
    PacketId id = free_;
    fresh = id == kNoPacket;
    if (!fresh) {
      free_ = slots_[id].packet.next;
    } else if (touched_ < packets_max_) {
      id = touched_++;
    } else {
      return kNoPacket;
    }
    ++in_use_;
    slots_[id].packet = NetPacket{};
    return id;
  }

  void release(PacketId id) {
    DCHECK(id < touched_ && in_use_ > 0);
    --in_use_;
    slots_[id].packet.next = free_;
    free_ = id;
  }

  NetPacket& operator[](PacketId id) {
    DCHECK(id < touched_);
    return slots_[id].packet;
  }
  const NetPacket& operator[](PacketId id) const {
    DCHECK(id < touched_);
    return slots_[id].packet;
  }

  // Prefetches a packet that will be read soon.
  void prefetch(PacketId id) const { __builtin_prefetch(&slots_[id], 1); }

  [[nodiscard]] uint32_t in_use() const { return in_use_; }
  // Slots [0, touched) have been out at some time.
  [[nodiscard]] uint32_t touched() const { return touched_; }

 private:
  // The slots are not initialised, so that their memory is touched only when used.
  union Slot {
    Slot() {}
    NetPacket packet;
  };

  uint32_t packets_max_;
  uint32_t in_use_ = 0;
  uint32_t touched_ = 0;
  PacketId free_ = kNoPacket;
  std::unique_ptr<Slot[]> slots_;
};

}  // namespace mprdma::switchsim
