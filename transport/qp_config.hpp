// What a queue pair is made of: what the pairs of a device share, what is fixed at creation, and
// what modify_qp sets.
#pragma once

#include <cstdint>

#include "base/psn.hpp"
#include "transport/counters.hpp"
#include "transport/held_pool.hpp"
#include "transport/memory_table.hpp"
#include "transport/params.hpp"
#include "wire/constants.hpp"

namespace mprdma::transport {

struct SharedReceives;

// READs and atomics that may be outstanding at most, in either direction, whatever is configured.
inline constexpr uint32_t kMaxRdAtomic = 128;

enum class QpService : uint8_t { kRc, kUc, kUd, kXrcSend, kXrcReceive };

// What the queue pairs of a device share. Outlives them.
struct Device {
  MemoryTable* memory = nullptr;  // BIND_MW and invalidation change it
  HeldPool* held = nullptr;
  TransportCounters* counters = nullptr;
  // XRC: the shared receive queue of a number in a domain, nullptr if there is none.
  void* host = nullptr;
  const SharedReceives* (*find_xrc_srq)(void* host, uint32_t xrcd, uint32_t srqn) = nullptr;
};

struct QpConfig {
  uint32_t qpn = 0;
  uint32_t pd = 0;
  uint32_t send_depth = 0;  // work requests
  uint32_t recv_depth = 0;
  uint32_t max_send_sge = 1;
  uint32_t max_recv_sge = 1;
  // READs and atomics that there is memory for in either direction. Range 1..kMaxRdAtomic.
  uint32_t max_rd_atomic = kMaxRdAtomic;
  bool signal_all = false;
  QpService service = QpService::kRc;
  uint32_t xrcd = 0;                       // XRC receive
  const SharedReceives* shared = nullptr;  // instead of an own receive queue
  // RC: the mode (params) is not known before set_mode(), see NoConnection. XRC is always `roce`.
  bool mode_undecided = false;
  Params params;

  [[nodiscard]] bool shares_receives() const {
    return shared != nullptr || service == QpService::kXrcReceive;
  }
};

// Attributes as modify_qp sets them; what a transition needs must have been set by then. The host
// has checked the standard's masks.
struct QpAttributes {
  uint32_t access = 0;  // kRemote*
  uint32_t qkey = 0;    // UD
  uint32_t path_mtu = 1024;
  uint32_t dest_qpn = 0;
  Psn rq_psn;
  Psn sq_psn;
  uint16_t vp = wire::kVirtualPathMin;  // the fixed path of PathPolicy::kSingle
  uint64_t path_seed = 0;               // what PathPolicy::kAckClocked draws its paths from
  uint8_t timeout = 14;                 // 4.096 us * 2^timeout; 0: for ever
  uint8_t retry_cnt = 7;
  uint8_t rnr_retry = 7;  // 7: for ever
  uint8_t min_rnr_timer = 0;
  uint8_t max_rd_atomic = 1;
  uint8_t max_dest_rd_atomic = 1;
  bool sqd_notify = true;  // raise QpEvent::kSqDrained (en_sqd_async_notify)
};

// 4.096 us * 2^code (IBTA 9.9.2.1). Code 0 is "for ever" and for the caller to see.
constexpr Duration ack_timeout(uint8_t code) {
  return Duration::ns(4096) * (int64_t{1} << code);
}

// After so long without a sign of the peer a request ends in "transport retry counter exceeded".
// The verbs ask for (retry_cnt + 1) timeouts, of which the standard lets each take up to four (IBTA
// 9.9.2.1), and rdma_rxe takes one. Less than two: whoever waits learns it in time; and more than
// one, for a peer in software may be stopped for a while. Timeout code 0 is for the caller to see.
constexpr Duration retry_patience(uint8_t timeout_code, uint8_t retry_cnt) {
  return ack_timeout(timeout_code) * (int64_t{retry_cnt} + 1) * 7 / 4;
}

}  // namespace mprdma::transport
