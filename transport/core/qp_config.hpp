// The configuration of a queue pair: Device is shared by the pairs of a device, QpConfig is fixed
// at creation, modify_qp sets QpAttributes.
#pragma once

#include <cstdint>

#include "base/psn.hpp"
#include "base/qpn.hpp"
#include "transport/core/counters.hpp"
#include "transport/core/held_pool.hpp"
#include "transport/core/memory_table.hpp"
#include "transport/core/params.hpp"
#include "wire/constants.hpp"

namespace mprdma::transport {

class Hardware;
struct SharedReceives;
class TraceSink;

// Largest max_rd_atomic: READs and atomics outstanding in either direction.
inline constexpr uint32_t kMaxRdAtomic = 128;

enum class QpService : uint8_t { kRc, kUc, kUd, kXrcSend, kXrcReceive };

// State that the queue pairs of a device share. Outlives them.
struct Device {
  MemoryTable* memory = nullptr;  // BIND_MW and invalidation change it
  HeldPool* held = nullptr;
  TransportCounters* counters = nullptr;
  // The host takes acknowledgements that are owed (Qp::take_ack); otherwise each leaves in the
  // actions of the packet that it answers.
  bool owes_acks = false;
  // Keeps the sending halves of streams that fit it (stream/hardware.hpp); nullptr: software does.
  Hardware* hardware = nullptr;
  TraceSink* trace = nullptr;  // takes the events of trace.hpp; nullptr: nobody does
  // XRC: looks up a shared receive queue by its number and domain; nullptr if there is none.
  void* host = nullptr;
  const SharedReceives* (*find_xrc_srq)(void* host, uint32_t xrcd, uint32_t srqn) = nullptr;
};

struct QpConfig {
  Qpn qpn{};
  uint32_t pd = 0;
  uint32_t send_depth = 0;  // work requests
  uint32_t recv_depth = 0;
  uint32_t max_send_sge = 1;
  uint32_t max_recv_sge = 1;
  // READs and atomics in either direction for which memory is reserved. Range 1..kMaxRdAtomic.
  uint32_t max_rd_atomic = kMaxRdAtomic;
  bool signal_all = false;
  QpService service = QpService::kRc;
  uint32_t xrcd = 0;                       // XRC receive
  const SharedReceives* shared = nullptr;  // replaces the queue pair's own receive queue
  // RC: the mode (params) is unknown until set_mode(), see NoConnection. XRC is always `roce`.
  bool mode_undecided = false;
  Params params;

  [[nodiscard]] bool shares_receives() const {
    return shared != nullptr || service == QpService::kXrcReceive;
  }
};

// Attributes as modify_qp sets them. The attributes that a transition needs are set before it; the
// host has checked the standard's masks.
struct QpAttributes {
  uint32_t access = 0;  // kRemote*
  uint32_t qkey = 0;    // UD
  uint32_t path_mtu = 1024;
  // Mode mp: the longest payload of a packet that is sent to the peer, and that is taken from it,
  // bytes; 0: path_mtu. Multiples of path_mtu, for a wire between engines (Segment below).
  uint32_t send_segment = 0;
  uint32_t take_segment = 0;
  // Mode mp: most packets that an acknowledgement of this side answers: above 1 only if the peer
  // understands runs (wire/mp_ack_ext.hpp). At most 256.
  uint32_t ack_run = 1;
  Qpn dest_qpn{};
  Psn rq_psn;
  Psn sq_psn;
  uint16_t vp = wire::kVirtualPathMin;  // the fixed path of PathPolicy::kSingle
  uint64_t path_seed = 0;               // seeds the random paths of PathPolicy::kAckClocked
  uint8_t timeout = 14;                 // 4.096 us * 2^timeout; 0: no limit
  uint8_t retry_cnt = 7;
  uint8_t rnr_retry = 7;  // 7: no limit
  uint8_t min_rnr_timer = 0;
  uint8_t max_rd_atomic = 1;
  uint8_t max_dest_rd_atomic = 1;
  bool sqd_notify = true;  // raise QpEvent::kSqDrained (en_sqd_async_notify)
};

// Segments. In the mode mp each packet names its place in the message, so that the sender chooses
// the length of its packets: path_mtu, or a longer segment that the peer has said it takes. READ
// data comes in segments of the length that the request names. A queue pair may choose anew at any
// time, for the requests that begin from then on.
constexpr uint32_t send_segment_of(const QpAttributes& attributes) {
  return attributes.send_segment > attributes.path_mtu ? attributes.send_segment
                                                       : attributes.path_mtu;
}
constexpr uint32_t longest_segment(const QpAttributes& attributes) {
  return attributes.take_segment > attributes.path_mtu ? attributes.take_segment
                                                       : attributes.path_mtu;
}
// Whether a packet that is not its message's last may have this payload.
constexpr bool takes_segment(const QpAttributes& attributes, uint32_t bytes) {
  return bytes == attributes.path_mtu ||
         (bytes <= attributes.take_segment && bytes > 0 && bytes % attributes.path_mtu == 0);
}

// The timeout of a code: 4.096 us * 2^code (IBTA 9.9.2.1). Callers handle code 0, "for ever".
constexpr Duration ack_timeout(uint8_t code) {
  return Duration::ns(4096) * (int64_t{1} << code);
}

// The time without a sign of the peer after which a request ends in "transport retry counter
// exceeded". The verbs ask for (retry_cnt + 1) timeouts; the standard lets each take up to four
// times its value (IBTA 9.9.2.1), and rdma_rxe takes one. Here each takes less than two, so that
// the application learns of it in time, and more than one, because a peer in software may be
// stopped for a while. Callers handle timeout code 0.
constexpr Duration retry_patience(uint8_t timeout_code, uint8_t retry_cnt) {
  return ack_timeout(timeout_code) * (int64_t{retry_cnt} + 1) * 7 / 4;
}

}  // namespace mprdma::transport
