// The send requests of a reliable connection (mp, roce), in posting order: posted, begun, sent,
// complete, and handed out as completions (IBTA volume 1, 10.7 and 10.8). The requester decides
// what is sent when, and what an acknowledgement or a response means.
//
// A request is named by its ring index, which holds while it is in the queue. A request's packets
// have consecutive PSNs, given when it begins. Requests before next() have begun and were sent at
// least once; of next() the first next_packet() packets were sent; requests behind next() have not
// begun. LOCAL_INV and BIND_MW have no packet and never leave the host: they are done when they
// begin, in order.
//
// An error belongs to one request, and nothing new is sent from then on. It is reported when
// everything before that request is complete; with it failed() is true, the queue pair enters ERR,
// and what follows is flushed in order (IBTA 10.3.1.7).
//
// Nothing allocates after construction. Used by one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "base/ring.hpp"
#include "transport/work/local_work.hpp"
#include "transport/work/qp_core.hpp"
#include "transport/work/sge_list.hpp"
#include "transport/work/work_opcode.hpp"
#include "transport/work/work_search.hpp"

namespace mprdma::transport {

// The state of a send request in both requesters. Fields named as in SendRequest have its meaning.
struct SendWork {
  uint64_t wr_id = 0;
  uint64_t remote_addr = 0;
  uint64_t compare_add = 0;
  uint64_t swap = 0;
  uint32_t length = 0;  // bytes
  Key rkey{};
  uint32_t imm_or_rkey = 0;
  uint32_t remote_qkey = 0;
  uint32_t xrc_srqn = 0;
  uint32_t packets = 0;  // PSNs that it takes; 0: it never leaves the host
  uint32_t segment = 0;  // mp: payload of its packets, or of its answer's, but for the last one
  uint32_t vendor_err = 0;
  Psn first;                             // valid once begun
  WcStatus status = WcStatus::kSuccess;  // an error is reported when this is the oldest
  WorkOpcode opcode = WorkOpcode::kSend;
  uint16_t flags = 0;
  uint16_t num_sge = 0;
  bool begun = false;
  // Sends packets as soon as its turn comes: no local work, READ, atomic, fence or synchronise. Set
  // by the requester.
  bool plain = false;
};

// The status of a request that the peer refused with `code` (IBTA 9.9.2.4.2, 11.6.2), `otherwise`
// for a code that is reserved. `Code` is wire::NackCode or wire::NakCode.
template <class Code>
constexpr WcStatus status_of_refusal(Code code, WcStatus otherwise) {
  switch (code) {
    case Code::kInvalidRequest:
      return WcStatus::kRemoteInvalidRequestError;
    case Code::kRemoteAccessError:
      return WcStatus::kRemoteAccessError;
    case Code::kRemoteOperationalError:
      return WcStatus::kRemoteOperationError;
    default:
      return otherwise;
  }
}

// `Work` is a SendWork and what its requester adds, with reset_own() for that.
template <class Work>
class SendQueue {
 public:
  explicit SendQueue(QpCore& core)
      : core_(core),
        queue_(std::max(core.config.send_depth, 1u)),
        sges_(std::make_unique<Sge[]>(size_t{queue_.capacity()} * core.config.max_send_sge)),
        reads_(core.config.max_rd_atomic) {}

  // ---- Commands
  // Takes over a request that the caller has checked, and now gives its number of packets. nullptr:
  // the queue is full.
  Work* post(const SendRequest& request);
  // post() of a request that needs no look at its operation.
  [[gnu::always_inline]] Work* post_plain(const PlainRequest& request);
  // Back to RESET.
  void clear();
  // Entering ERR: posted requests come out as flushed.
  void flush() { halts_ |= kFlushing; }
  // SQD: requests that have not begun wait.
  void set_draining(bool draining) {
    halts_ = static_cast<uint8_t>(draining ? halts_ | kDraining : halts_ & ~kDraining);
  }

  // ---- The requests
  [[nodiscard]] bool empty() const { return queue_.empty(); }
  [[nodiscard]] uint32_t size() const { return queue_.size(); }
  [[nodiscard]] const Work& oldest() const { return queue_.front(); }
  [[nodiscard]] Work& at(uint32_t index) { return queue_.at_index(index); }
  [[nodiscard]] const Work& at(uint32_t index) const { return queue_.at_index(index); }
  // Of the request that was posted last.
  [[nodiscard]] uint32_t newest_index() const { return queue_.tail_index() - 1; }
  // True if the request of this index, which has been posted, is in the queue.
  [[nodiscard]] bool holds(uint32_t index) const {
    return index - queue_.head_index() < queue_.size();
  }
  // The request of an outstanding PSN.
  [[nodiscard]] uint32_t index_of(Psn psn) const {
    return index_of_psn(queue_, next_ - queue_.head_index() + (next_packet_ > 0 ? 1 : 0), psn);
  }
  // True if every request that has begun is complete.
  [[nodiscard]] bool drained() const { return queue_.empty() || !queue_.front().begun; }
  [[nodiscard]] bool draining() const { return (halts_ & kDraining) != 0; }
  [[nodiscard]] bool flushing() const { return (halts_ & kFlushing) != 0; }
  // True once the peer refused a request or is silent: nothing more is sent.
  [[nodiscard]] bool stopped() const { return (halts_ & kStopped) != 0; }
  // True once a completion with an error was handed out.
  [[nodiscard]] bool failed() const { return (halts_ & kFailed) != 0; }
  // Number of local requests in the queue that have run.
  [[nodiscard]] uint32_t local_work_done() const { return count_local_work_done(queue_); }

  // ---- Sending
  // True if there is a request that was not sent to its end, and no error before it.
  [[nodiscard]] bool has_next() const {
    return (halts_ & (kBlocked | kFlushing)) == 0 && next_ != queue_.tail_index();
  }
  // True if nothing stands between the requests and the wire but their own flags: no error, no
  // drain, no open READ.
  [[nodiscard]] bool steady() const { return halts_ == 0 && reads_.empty(); }
  // has_next() of a steady() queue.
  [[nodiscard]] bool has_unsent() const { return next_ != queue_.tail_index(); }
  // A new packet of a steady() queue may leave as far as its request is concerned, and certainly.
  [[nodiscard]] bool next_is_plain() const { return has_unsent() && next().plain; }
  [[nodiscard]] uint32_t next_index() const { return next_; }
  [[nodiscard]] uint32_t next_packet() const { return next_packet_; }
  [[nodiscard]] Work& next() { return queue_.at_index(next_); }
  [[nodiscard]] const Work& next() const { return queue_.at_index(next_); }
  // True if draining, fences (IBTA 10.8.3.3) and max_rd_atomic let `work` begin.
  [[nodiscard]] bool may_begin(const Work& work) const;
  // next() begins with the PSN `first`.
  void begin(Psn first);
  // advance() of the only packet of next().
  void advance_over() { skip_next(); }
  // `packets` more PSNs of next() were sent.
  void advance(uint32_t packets);
  // Executes the local work that is next: after all earlier requests were sent for the first time,
  // before any later one is sent, so that a key that a later SEND announces opens its window by
  // then. Completions stay in order. `nxt`: the PSN of the packet that is sent next.
  void run_local_work(Psn nxt);

  // ---- The requests' memory. False: a local key does not open it.
  // Gathers bytes [offset, offset + length) of a request as segments of `out`; otherwise the
  // request fails.
  bool gather(uint32_t index, uint32_t offset, uint32_t length, TxPacket& out);
  // gather() of bytes of next() that lie in one piece. False: they do not, or the key is wrong;
  // nothing has failed yet.
  bool find_piece(uint32_t offset, uint32_t length, uint64_t* addr) const {
    const Work& work = next();
    if (work.num_sge != 1) return work.num_sge == 0;
    const Sge& sge = slot_sges(next_)[0];
    *addr = sge.addr + offset;
    return (work.flags & kInline) != 0 || length == 0 ||
           core_.device.memory->translate(sge.lkey, core_.config.pd, *addr, length, 0, addr);
  }
  // Checks the memory for the result of an atomic. If it is closed, the request fails before it
  // leaves, because an executed atomic cannot be undone.
  bool check_result_place(uint32_t index);
  [[nodiscard]] bool opens(uint32_t index, uint32_t offset, uint32_t length,
                           uint32_t access) const {
    return all_open(sges(index), offset, length, *core_.device.memory, core_.config.pd, access);
  }
  bool scatter(uint32_t index, uint32_t offset, uint32_t length, FrameHandle frame,
               RxActions& actions) const {
    return scatter_payload(sges(index), offset, length, frame, *core_.device.memory,
                           core_.config.pd, actions);
  }
  bool scatter_result(uint32_t index, uint64_t value, RxActions& actions) const {
    return scatter_value(sges(index), value, *core_.device.memory, core_.config.pd, actions);
  }

  // ---- READs and atomics that have begun and have not all of their answer, oldest first
  [[nodiscard]] uint32_t num_reads() const { return reads_.size(); }
  [[nodiscard]] bool has_reads() const { return !reads_.empty(); }
  [[nodiscard]] uint32_t read_index(uint32_t which = 0) const { return reads_[which]; }
  // Removes the oldest, which has its answer or expects none any more.
  const Work& pop_read() { return queue_.at_index(reads_.pop()); }

  // ---- Errors
  // The first error of a request counts; `vendor_err` as in Completion.
  void fail(uint32_t index, WcStatus status, uint32_t vendor_err = 0);
  // A request fails, and the connection ends with it.
  void end(uint32_t index, WcStatus status, uint32_t vendor_err = 0) {
    halts_ |= kStopped;
    fail(index, status, vendor_err);
  }
  // The peer does not answer.
  void give_up(uint32_t index) {
    ++core_.device.counters->retry_exceeded;
    end(index, WcStatus::kRetryExceeded);
  }
  // Progress renews all rnr_retry attempts.
  void renew_rnr_retries() { rnr_left_ = core_.attributes.rnr_retry; }
  // The receiver was not ready for the request (IBTA 9.7.5.2.8). False: no attempt is left, and the
  // request ends the connection.
  bool consume_rnr_retry(uint32_t index);

  // ---- Completions
  // Tells whether the oldest request's completion is due. `complete`: all its work is done.
  [[nodiscard]] bool completion_due(bool complete) const {
    return complete || queue_.front().status != WcStatus::kSuccess || flushing();
  }
  [[nodiscard]] bool oldest_is_read() const {
    return !reads_.empty() && reads_.front() == queue_.head_index();
  }
  // Hands out a completion that is due, of a request that is no open READ any more.
  void pop(bool complete, Completion& out);
  // True if the completion of the oldest request, once complete, is a success that is not emitted.
  [[nodiscard]] bool oldest_is_silent() const {
    return !failed() && !core_.config.signal_all && (queue_.front().flags & kSignaled) == 0;
  }
  // pop() of such a request.
  void pop_silently() {
    if (next_ == queue_.head_index()) [[unlikely]]
      skip_next();
    queue_.drop();
  }

 private:
  static constexpr uint8_t kRnrRetryForever = 7;
  static constexpr uint8_t kDraining = 1 << 0;
  static constexpr uint8_t kStopped = 1 << 1;  // nothing more is sent
  static constexpr uint8_t kBlocked = 1 << 2;  // an error in the queue: nothing new is sent
  static constexpr uint8_t kFlushing = 1 << 3;
  static constexpr uint8_t kFailed = 1 << 4;  // a completion with an error was handed out

  void skip_next() {
    ++next_;
    next_packet_ = 0;
  }
  [[nodiscard]] std::span<Sge> slot_sges(uint32_t index) const {
    const uint32_t slot = index & (queue_.capacity() - 1);
    return {&sges_[size_t{slot} * core_.config.max_send_sge], core_.config.max_send_sge};
  }
  [[nodiscard]] std::span<const Sge> sges(uint32_t index) const {
    return slot_sges(index).first(queue_.at_index(index).num_sge);
  }

  QpCore& core_;
  Ring<Work> queue_;
  std::unique_ptr<Sge[]> sges_;  // queue_.capacity() x max_send_sge, by ring slot
  Ring<uint32_t> reads_;         // indices of the open READs and atomics
  uint32_t next_ = 0;            // index of the request whose new packets are being sent
  uint32_t next_packet_ = 0;     // packets of it that were sent
  uint32_t rnr_left_ = 0;        // RNR NAKs that the receiver may still send
  uint8_t halts_ = 0;            // kDraining ...
};

// Every field of a request; the requester sets those that it adds itself.
inline void fill_work(SendWork& work, const SendRequest& request) {
  work.wr_id = request.wr_id;
  work.remote_addr = request.remote_addr;
  work.compare_add = request.compare_add;
  work.swap = request.swap;
  work.length = static_cast<uint32_t>(total_bytes(request.sges));
  work.rkey = request.rkey;
  work.imm_or_rkey = request.imm_or_rkey;
  work.remote_qkey = request.remote_qkey;
  work.xrc_srqn = request.xrc_srqn;
  work.packets = 0;
  work.vendor_err = 0;
  work.first = Psn();
  work.status = WcStatus::kSuccess;
  work.opcode = request.opcode;
  work.flags = request.flags;
  work.num_sge = static_cast<uint16_t>(request.sges.size());
  work.begun = work.plain = false;
}

template <class Work>
Work* SendQueue<Work>::post(const SendRequest& request) {
  if (queue_.size() >= core_.config.send_depth) return nullptr;
  Sge* const sges = slot_sges(queue_.tail_index()).data();
  for (size_t i = 0; i < request.sges.size(); ++i) sges[i] = request.sges[i];
  Work& work = queue_.append();
  fill_work(work, request);
  work.reset_own();
  return &work;
}

template <class Work>
inline Work* SendQueue<Work>::post_plain(const PlainRequest& request) {
  if (queue_.size() >= core_.config.send_depth) return nullptr;
  slot_sges(queue_.tail_index())[0] = request.sge;
  Work& work = queue_.append();
  work.wr_id = request.wr_id;
  work.remote_addr = request.remote_addr;
  work.length = request.sge.length;
  work.rkey = request.rkey;
  work.imm_or_rkey = 0;
  work.status = WcStatus::kSuccess;
  work.opcode = request.opcode;
  work.flags = request.flags;
  work.num_sge = 1;
  work.begun = false;
  work.plain = true;
  work.reset_own();
  return &work;
}

template <class Work>
void SendQueue<Work>::clear() {
  queue_.clear();
  reads_.clear();
  next_ = queue_.tail_index();
  next_packet_ = 0;
  halts_ = 0;
}

template <class Work>
bool SendQueue<Work>::may_begin(const Work& work) const {
  if ((halts_ & (kDraining | kFlushing)) != 0) return false;
  if ((work.flags & kFence) != 0 && !reads_.empty()) return false;
  if (!is_answered(work.opcode) || reads_.empty()) return true;
  return reads_.size() <
         std::min<uint32_t>(core_.attributes.max_rd_atomic, core_.config.max_rd_atomic);
}

template <class Work>
void SendQueue<Work>::begin(Psn first) {
  Work& work = next();
  work.begun = true;
  work.first = first;
  if (is_answered(work.opcode)) reads_.push(next_);
}

template <class Work>
void SendQueue<Work>::advance(uint32_t packets) {
  next_packet_ += packets;
  if (next_packet_ < next().packets) return;
  ++next_;
  next_packet_ = 0;
}

template <class Work>
void SendQueue<Work>::run_local_work(Psn nxt) {
  while (next_packet_ == 0 && has_next()) {
    const Work& work = next();
    if (!is_local_work(work.opcode) || !may_begin(work)) return;
    begin(nxt);
    const LocalOutcome outcome = perform_local_work(core_, work);
    if (outcome.status != WcStatus::kSuccess) fail(next_, outcome.status, outcome.vendor_err);
    ++next_;
  }
}

template <class Work>
bool SendQueue<Work>::gather(uint32_t index, uint32_t offset, uint32_t length, TxPacket& out) {
  const Work& work = at(index);
  const bool is_inline = (work.flags & kInline) != 0;
  if (work.num_sge == 1 && !is_inline) [[likely]] {
    const Sge& sge = slot_sges(index)[0];
    out.num_segments = length > 0 ? 1 : 0;
    out.segments[0].length = length;
    if (length == 0 || core_.device.memory->translate(sge.lkey, core_.config.pd, sge.addr + offset,
                                                      length, 0, &out.segments[0].addr)) {
      return true;
    }
  } else if (gather_payload(sges(index), offset, length, is_inline, *core_.device.memory,
                            core_.config.pd, out)) {
    return true;
  }
  fail(index, WcStatus::kLocalProtectionError);
  return false;
}

template <class Work>
bool SendQueue<Work>::check_result_place(uint32_t index) {
  if (at(index).length != wire::kAtomicBytes) {
    fail(index, WcStatus::kLocalLengthError);
    return false;
  }
  const bool open = opens(index, 0, wire::kAtomicBytes, kLocalWrite);
  if (!open) fail(index, WcStatus::kLocalProtectionError);
  return open;
}

template <class Work>
void SendQueue<Work>::fail(uint32_t index, WcStatus status, uint32_t vendor_err) {
  Work& work = queue_.at_index(index);
  halts_ |= kBlocked;
  if (work.status != WcStatus::kSuccess) return;
  work.status = status;
  work.vendor_err = vendor_err;
  ++core_.device.counters->errors_local;
}

template <class Work>
bool SendQueue<Work>::consume_rnr_retry(uint32_t index) {
  if (core_.attributes.rnr_retry == kRnrRetryForever) return true;
  if (rnr_left_ > 0) {
    --rnr_left_;
    return true;
  }
  ++core_.device.counters->rnr_retry_exceeded;
  end(index, WcStatus::kRnrRetryExceeded, static_cast<uint32_t>(wire::NackCode::kRnr));
  return false;
}

template <class Work>
void SendQueue<Work>::pop(bool complete, Completion& out) {
  const Work& work = queue_.front();
  const bool success = !failed() && complete;  // after an error even what arrived is flushed
  out = Completion{};
  out.wr_id = work.wr_id;
  out.opcode = completion_opcode(work.opcode);
  out.byte_len = work.length;
  if (!success) {
    // Only one request has the error as its cause; all later ones are flushed.
    const bool cause = !failed() && work.status != WcStatus::kSuccess;
    out.status = cause ? work.status : WcStatus::kFlushError;
    out.vendor_err = cause ? work.vendor_err : 0;
    halts_ |= kFailed;
  }
  out.emit = !success || core_.config.signal_all || (work.flags & kSignaled) != 0;
  if (next_ == queue_.head_index()) skip_next();
  queue_.drop();
}

}  // namespace mprdma::transport
