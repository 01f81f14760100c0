// Walking a scatter/gather list: the one place where bytes of a message are mapped to memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "transport/core/memory_table.hpp"
#include "transport/core/types.hpp"

namespace mprdma::transport {

// Bytes that the list describes; up to kMaxSge times 4 GiB.
inline uint64_t total_bytes(std::span<const Sge> sges) {
  uint64_t bytes = 0;
  for (const Sge& sge : sges) bytes += sge.length;
  return bytes;
}

// Calls visit(piece) -> bool for each piece of bytes [offset, offset + length) of the list, in
// order; stops and returns false when visit does.
template <class Visit>
bool walk_sges(std::span<const Sge> sges, uint32_t offset, uint32_t length, Visit&& visit) {
  for (const Sge& sge : sges) {
    if (length == 0) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const uint32_t piece = std::min(sge.length - offset, length);
    if (!visit(Sge{.addr = sge.addr + offset, .length = piece, .lkey = sge.lkey})) return false;
    length -= piece;
    offset = 0;
  }
  return true;
}

// Tells whether the local keys open bytes [offset, offset + length) for every right in `access`.
inline bool all_open(std::span<const Sge> sges, uint32_t offset, uint32_t length,
                     const MemoryTable& memory, uint32_t pd, uint32_t access) {
  return walk_sges(sges, offset, length, [&](const Sge& piece) {
    uint64_t addr = 0;
    return memory.translate(piece.lkey, pd, piece.addr, piece.length, access, &addr);
  });
}

// Gathers bytes [offset, offset + length) of the list as segments of `out`, which has none yet;
// false: a local key does not open the memory. Inline data has addresses of the host's memory.
inline bool gather_payload(std::span<const Sge> sges, uint32_t offset, uint32_t length,
                           bool is_inline, const MemoryTable& memory, uint32_t pd, TxPacket& out) {
  out.num_segments = 0;
  return walk_sges(sges, offset, length, [&](const Sge& piece) {
    uint64_t addr = piece.addr;
    if (!is_inline && !memory.translate(piece.lkey, pd, piece.addr, piece.length, 0, &addr)) {
      return false;
    }
    out.segments[out.num_segments++] = {.addr = addr, .length = piece.length};
    return true;
  });
}

// Scatters a packet's payload to where bytes from `offset` on of the list lie; false: a local key
// does not open the memory (placements may have been added before that showed).
inline bool scatter_payload(std::span<const Sge> sges, uint32_t offset, uint32_t payload_len,
                            FrameHandle frame, const MemoryTable& memory, uint32_t pd,
                            RxActions& actions) {
  uint32_t done = 0;
  return walk_sges(sges, offset, payload_len, [&](const Sge& piece) {
    uint64_t addr = 0;
    if (!memory.translate(piece.lkey, pd, piece.addr, piece.length, kLocalWrite, &addr)) {
      return false;
    }
    place_payload(actions.placements.append(), frame, done, piece.length, addr);
    done += piece.length;
    return true;
  });
}

// Scatters the result of an atomic, 8 bytes in the host's byte order, over the start of the list;
// false: a local key does not open the memory.
inline bool scatter_value(std::span<const Sge> sges, uint64_t value, const MemoryTable& memory,
                          uint32_t pd, RxActions& actions) {
  uint32_t done = 0;
  return walk_sges(sges, 0, wire::kAtomicBytes, [&](const Sge& piece) {
    uint64_t addr = 0;
    if (!memory.translate(piece.lkey, pd, piece.addr, piece.length, kLocalWrite, &addr)) {
      return false;
    }
    actions.placements.push({.payload_offset = done,
                             .length = piece.length,
                             .addr = addr,
                             .kind = PlacementKind::kValue,
                             .compare = value});
    done += piece.length;
    return true;
  });
}

// The room of a receive in bytes, saturated.
inline uint32_t room_of(std::span<const Sge> sges) {
  return static_cast<uint32_t>(std::min<uint64_t>(total_bytes(sges), UINT32_MAX));
}

}  // namespace mprdma::transport
