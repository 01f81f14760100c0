// The receive work requests of a queue pair, in posting order: posted, taken by the message that
// fills them, done, and handed out as completions. With a shared receive queue (IBTA 10.2.9) a
// receive moves in here when a message takes it; from then on it is this queue pair's.
//
// All connections of a queue pair (mp, roce, uc, ud) fill receives through this and nothing else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "base/qpn.hpp"
#include "base/ring.hpp"
#include "transport/core/types.hpp"
#include "transport/work/sge_list.hpp"

namespace mprdma::transport {

// One message fills one receive at a time, but a window's worth of them may become deliverable in
// one call of the transport, before the host polls.
inline constexpr uint32_t kSharedReceivesInFlight = kWindowSlotsMax;

// A receive queue of the host that several queue pairs share. Plain functions, called once a
// message; outlives the queue pairs that use it.
struct SharedReceives {
  void* host = nullptr;
  uint32_t pd = 0;  // IBTA 10.2.9.3: local keys are judged in the SRQ's protection domain
  // Takes the oldest receive: fills `out` and up to kMaxSge entries at `sges`. False: there is
  // none.
  bool (*take)(void* host, RecvRequest* out, Sge* sges) = nullptr;
  // The bytes that the oldest receive has room for, saturated; it stays. False: there is none.
  bool (*room)(void* host, uint32_t* bytes) = nullptr;
};

struct Receive {
  uint64_t wr_id = 0;
  uint32_t num_sge = 0;
  uint32_t capacity_bytes = 0;  // saturated
  WcStatus status = WcStatus::kSuccess;
  bool done = false;
  // Further fields of the completion.
  bool has_imm = false;
  bool invalidated = false;  // imm is the rkey that a SEND with invalidate named
  bool solicited = false;
  bool has_grh = false;
  bool grh_ipv4 = false;  // the GRH holds an IPv4 header
  WcOpcode opcode = WcOpcode::kRecv;
  uint32_t byte_len = 0;
  uint32_t imm = 0;
  Qpn src_qpn{};  // UD; 0: the connection's peer
  uint32_t vendor_err = 0;
  const SharedReceives* shared = nullptr;  // the shared queue that the receive came from
};

class ReceiveQueue {
 public:
  // `depth` receives of the queue pair's own, each with up to `max_sge` entries; with a shared
  // queue depth is 0.
  ReceiveQueue(uint32_t depth, uint32_t max_sge, bool shares)
      : depth_(depth),
        max_sge_(shares ? kMaxSge : max_sge),
        receives_(std::max(shares ? kSharedReceivesInFlight : depth, 1u)),
        sge_slots_(shares ? 1 : receives_.capacity()),
        sges_(std::make_unique<Sge[]>(size_t{sge_slots_} * max_sge_)) {}

  // Takes over a receive that the caller has checked; false when the queue is full.
  bool post(const RecvRequest& request) {
    if (receives_.size() >= depth_) return false;
    push(request, nullptr);
    return true;
  }

  // Tells whether there is a receive for the next message. Takes one from `shared` if that is not
  // null.
  bool ready(const SharedReceives* shared) {
    if (next_ != receives_.tail_index()) return true;
    if (shared == nullptr || receives_.size() >= receives_.capacity()) return false;
    RecvRequest request;
    std::array<Sge, kMaxSge> sges;
    if (!shared->take(shared->host, &request, sges.data())) return false;
    push(request, shared);
    return true;
  }

  // Finds the room of the receive that ready() would make current, without taking it. False: there
  // is no receive.
  [[nodiscard]] bool room(const SharedReceives* shared, uint32_t* bytes) const {
    if (next_ != receives_.tail_index()) {
      *bytes = receives_.at_index(next_).capacity_bytes;
      return true;
    }
    if (shared == nullptr || receives_.size() >= receives_.capacity()) return false;
    return shared->room(shared->host, bytes);
  }

  // The receive that the current message fills; ready() has said so.
  [[nodiscard]] Receive& current() { return receives_.at_index(next_); }
  [[nodiscard]] std::span<const Sge> current_sges() {
    return sges_of(next_).first(current().num_sge);
  }
  // The message in the current receive ends with `packet`: the completion is due. The status and
  // the fields of datagrams are in current() already.
  void complete(const wire::Packet& packet, WcOpcode opcode, uint32_t byte_len) {
    Receive& receive = current();
    receive.opcode = opcode;
    receive.byte_len = byte_len;
    receive.solicited = packet.solicited_event;
    receive.has_imm = packet.info().has_immdt;
    receive.invalidated = packet.info().has_ieth;
    receive.imm = receive.invalidated ? packet.ieth_rkey.value() : packet.immdt;
    finish_current();
  }
  // complete() of a SEND of one packet, without immediate and key.
  void complete_plain(uint32_t byte_len, bool solicited) {
    Receive& receive = current();
    receive.opcode = WcOpcode::kRecv;
    receive.byte_len = byte_len;
    receive.solicited = solicited;
    receive.has_imm = receive.invalidated = false;
    receive.imm = 0;
    finish_current();
  }
  // The message in the current receive is refused or given up: a completion in error is due.
  // `vendor_err` as in Completion.
  void fail(WcStatus status, uint32_t vendor_err = 0) {
    current().status = status;
    current().vendor_err = vendor_err;
    finish_current();
  }

  // Hands out the oldest completion. `flushing`: what is not done is flushed.
  bool poll(bool flushing, Completion& out) {
    if (receives_.empty()) return false;
    const Receive& receive = receives_.front();
    if (!receive.done && !flushing) return false;
    out = Completion{};
    out.is_recv = true;
    out.wr_id = receive.wr_id;
    out.opcode = receive.opcode;
    out.status = receive.done ? receive.status : WcStatus::kFlushError;
    out.byte_len = receive.byte_len;
    out.has_imm = receive.has_imm;
    out.invalidated = receive.invalidated;
    out.imm = receive.imm;
    out.solicited = receive.solicited;
    out.has_grh = receive.has_grh;
    out.grh_ipv4 = receive.grh_ipv4;
    out.src_qpn = receive.src_qpn;
    out.vendor_err = receive.vendor_err;
    out.shared = receive.shared;
    if (next_ == receives_.head_index()) ++next_;
    receives_.pop();
    return true;
  }

  // The oldest receive has been filled, or refused.
  [[nodiscard]] bool has_done() const { return !receives_.empty() && receives_.front().done; }
  // poll() of what PlainReceive can say; false: the completion is another one. Requires has_done().
  bool pop_plain(PlainReceive& out) {
    const Receive& receive = receives_.front();
    if (receive.opcode != WcOpcode::kRecv || receive.status != WcStatus::kSuccess ||
        receive.has_imm || receive.invalidated || receive.has_grh || receive.shared != nullptr) {
      return false;
    }
    out = {.wr_id = receive.wr_id, .byte_len = receive.byte_len, .solicited = receive.solicited};
    receives_.drop();
    return true;
  }

  void clear() {
    receives_.clear();
    next_ = receives_.tail_index();
  }

  [[nodiscard]] bool empty() const { return receives_.empty(); }
  // Receives that are posted and taken by no message.
  [[nodiscard]] uint32_t waiting() const { return receives_.tail_index() - next_; }

 private:
  void finish_current() {
    current().done = true;
    ++next_;
  }
  void push(const RecvRequest& request, const SharedReceives* shared) {
    std::copy(request.sges.begin(), request.sges.end(), sges_of(receives_.tail_index()).begin());
    Receive receive;
    receive.wr_id = request.wr_id;
    receive.num_sge = static_cast<uint32_t>(request.sges.size());
    receive.capacity_bytes = room_of(request.sges);
    receive.shared = shared;
    receives_.push(receive);
  }
  [[nodiscard]] std::span<Sge> sges_of(uint32_t index) const {
    const uint32_t slot = index & (sge_slots_ - 1);
    return {&sges_[size_t{slot} * max_sge_], max_sge_};
  }

  uint32_t depth_;
  uint32_t max_sge_;
  Ring<Receive> receives_;
  // A shared queue's receive is taken when the one before it is filled: one has its entries here.
  uint32_t sge_slots_;
  std::unique_ptr<Sge[]> sges_;  // sge_slots_ x max_sge_, by ring slot
  uint32_t next_ = 0;            // index of the first receive that no message has finished
};

}  // namespace mprdma::transport
