// Functions that the responders of all connections share, for the message that is arriving and the
// memory that a request names.
//
// Each function that opens memory judges key, bounds and right for the whole range, in the
// protection domain `pd` (IBTA volume 1, 9.7.4.1.5). Where the range is open, *addr is its start in
// the host's memory. Memory that is open may still be absent: MemoryTable::present().
#pragma once

#include "transport/work/qp_core.hpp"
#include "wire/packet.hpp"

namespace mprdma::transport {

struct IncomingMessage {
  wire::Operation operation = wire::Operation::kNone;  // kNone: between messages
  uint32_t offset = 0;                                 // bytes placed
  wire::Reth reth;                                     // range of a WRITE
};

// WRITE packets that are to be taken soon, in order: the state that they lead to.
struct PlannedWrites {
  Psn next;
  IncomingMessage message;
};

// Tells whether the peer's key opens the whole `range` for `access` (kRemote*).
inline bool open_remote(const QpCore& core, uint32_t pd, const wire::Reth& range, uint32_t access,
                        uint64_t* addr) {
  return core.device.memory->translate_remote(range.rkey, pd, core.config.qpn, range.va,
                                              range.dma_len, access, addr);
}

// Opens READ data: true if bytes [offset, offset + length) of the range of `request` are open and
// present. *addr is unchanged if `length` is 0.
inline bool open_read_data(const QpCore& core, uint32_t pd, const wire::Reth& request,
                           uint32_t offset, uint32_t length, uint64_t* addr) {
  if (length == 0) return true;
  wire::Reth part = request;
  part.va += offset;
  part.dma_len = length;
  return open_remote(core, pd, part, kRemoteRead, addr) &&
         core.device.memory->present(*addr, length, false);
}

enum class AtomicTarget : uint8_t { kOpen, kMisaligned, kClosed };

// Opens the 8 bytes of an atomic.
inline AtomicTarget open_atomic_target(const QpCore& core, uint32_t pd, const wire::Reth& reth,
                                       uint64_t* addr) {
  // The peer's address must be aligned, which is checked before its key (IBTA 9.4.5; 9.7.4.1.5).
  if (reth.va % wire::kAtomicBytes != 0) return AtomicTarget::kMisaligned;
  if (!open_remote(core, pd, reth, kRemoteAtomic, addr)) return AtomicTarget::kClosed;
  // Where it happens, too: a region may lie across the words of the host's memory.
  if (*addr % wire::kAtomicBytes != 0) return AtomicTarget::kMisaligned;
  return core.device.memory->present(*addr, wire::kAtomicBytes, true) ? AtomicTarget::kOpen
                                                                      : AtomicTarget::kClosed;
}

}  // namespace mprdma::transport
