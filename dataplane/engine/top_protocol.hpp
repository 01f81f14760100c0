// The protocol between an engine and `mprdma top`: a Unix stream socket in the runtime directory,
// named top-PID-RANDOM.sock. A client that connects is sent one TopHead, then a TopRecord for each
// queue pair, then the end of the stream; nothing is read from it. The engine answers its own user
// only.
//
// Both ends run on one machine (host byte order), but may come from two installations: heads and
// records grow at their end, and the head gives their sizes. A reader skips unknown bytes and takes
// missing ones as 0.
#pragma once

#include <array>
#include <cstdint>

#include "abi/mprdma_abi.h"
#include "base/ipv4.hpp"

namespace mprdma::dataplane {

inline constexpr std::array<char, 8> kTopMagic = {'m', 'p', 'r', 'd', 't', 'o', 'p', '1'};
inline constexpr const char* kTopPrefix = "top-";
inline constexpr const char* kTopSuffix = ".sock";

struct TopHead {
  std::array<char, 8> magic = kTopMagic;
  uint32_t head_bytes = 0;
  uint32_t record_bytes = 0;
  uint32_t pid = 0;
  uint32_t qps = 0;      // when the stream began; the records may be more or fewer
  uint64_t time_ns = 0;  // the engine's monotonic clock
  Ipv4 ipv4{};           // the device's address
  uint32_t link_up = 0;
  uint64_t port_tx_frames = 0;
  uint64_t port_rx_frames = 0;
  uint64_t port_lost = 0;          // frames that the port dropped in either direction
  std::array<char, 32> program{};  // terminated
  std::array<char, 64> device{};   // terminated
};
static_assert(sizeof(TopHead) == 160);

using TopRecord = mprdma_abi_qp_stats;

}  // namespace mprdma::dataplane
