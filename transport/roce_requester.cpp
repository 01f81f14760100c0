#include "transport/roce_requester.hpp"

#include <algorithm>

#include "transport/local_work.hpp"
#include "transport/requester.hpp"
#include "transport/roce_opcode.hpp"
#include "transport/sge_list.hpp"
#include "transport/work_search.hpp"

namespace mprdma::transport {

namespace {

// Within a long message every so many packets ask for an acknowledgement.
constexpr uint32_t kAckReqInterval = 16;

}  // namespace

RoceRequester::RoceRequester(QpCore& core)
    : core_(core),
      queue_(std::max(core.config.send_depth, 1u)),
      sges_(std::make_unique<Sge[]>(size_t{queue_.capacity()} * core.config.max_send_sge)),
      reads_(core.config.max_rd_atomic) {}

void RoceRequester::enter_rts() {
  una_ = snd_nxt_ = snd_max_ = core_.attributes.sq_psn;
  retries_left_ = core_.attributes.retry_cnt;
  rnr_left_ = core_.attributes.rnr_retry;
  timeouts_ = since_ack_req_ = 0;
  asked_again_ = false;
  stats_ = {};
}

void RoceRequester::reset() {
  queue_.clear();
  reads_.clear();
  awaited_psns_ = 0;
  next_ = queue_.tail_index();
  next_packet_ = 0;
  una_ = snd_nxt_ = snd_max_ = Psn();
  stuck_ = asked_again_ = draining_ = stopped_ = blocked_ = flushing_ = failed_ = false;
  deadline_ = rnr_until_ = Time::never();
}

bool RoceRequester::post_send(Time now, const SendRequest& request) {
  if (queue_.size() >= core_.config.send_depth) return false;
  now_ = now;
  std::copy(request.sges.begin(), request.sges.end(), sges_of(queue_.tail_index()).begin());
  Work work;
  work.wr_id = request.wr_id;
  work.opcode = request.opcode;
  work.flags = request.flags;
  work.num_sge = static_cast<uint16_t>(request.sges.size());
  work.imm_or_rkey = request.imm_or_rkey;
  work.bind_access = request.remote_qkey;
  work.remote_addr = request.remote_addr;
  work.rkey = request.rkey;
  work.compare_add = request.compare_add;
  work.swap = request.swap;
  work.xrc_srqn = request.xrc_srqn;
  work.length = static_cast<uint32_t>(total_bytes(request.sges));
  work.packets = work.length == 0 ? 1 : (work.length - 1) / core_.attributes.path_mtu + 1;
  if (is_local_work(work.opcode)) work.packets = 0;
  if (is_atomic(work.opcode)) work.packets = 1;
  queue_.push(work);
  do_local_work();
  return true;
}

// ---- Sending -----------------------------------------------------------------------------------

// Packets of requests that are not acknowledged; a READ is one.
uint32_t RoceRequester::in_flight() const {
  return static_cast<uint32_t>(una_.distance_to(snd_max_)) - awaited_psns_ + reads_.size();
}

bool RoceRequester::may_begin(const Work& work) const {
  if (draining_ || flushing_) return false;
  if ((work.flags & kFence) != 0 && !reads_.empty()) return false;
  if (!is_answered(work.opcode) || reads_.empty()) return true;
  // Serial numbers must not come round under the oldest.
  const auto span = static_cast<uint32_t>(una_.distance_to(snd_max_)) + work.packets;
  return reads_.size() <
             std::min<uint32_t>(core_.attributes.max_rd_atomic, core_.config.max_rd_atomic) &&
         span <= kStreamSpanMax;
}

bool RoceRequester::has_new() const {
  if (blocked_ || flushing_ || next_ == queue_.tail_index()) return false;
  if (next_packet_ == 0 && !may_begin(queue_.at_index(next_))) return false;
  return in_flight() < core_.config.params.window_max ||
         is_local_work(queue_.at_index(next_).opcode);
}

void RoceRequester::begin(Work& work) {
  work.begun = true;
  work.first = snd_max_;
  if (!is_answered(work.opcode)) return;
  reads_.push(next_);
  awaited_psns_ += work.packets;
}

// Work that never leaves the host is done as soon as it is its turn.
void RoceRequester::do_local_work() {
  while (next_packet_ == 0 && next_ != queue_.tail_index() && !blocked_ &&
         sends_requests(core_.state)) {
    Work& work = queue_.at_index(next_);
    if (!is_local_work(work.opcode) || !may_begin(work)) return;
    begin(work);
    execute_local(work);
    ++next_;
  }
}

void RoceRequester::execute_local(const Work& work) {
  const LocalOutcome outcome = perform_local_work(core_, work, work.imm_or_rkey, work.bind_access);
  if (outcome.status != WcStatus::kSuccess) fail_work(next_, outcome.status, outcome.vendor_err);
}

uint32_t RoceRequester::local_work_done() const {
  return count_local_work_done(queue_);
}

// The work request of an outstanding PSN; they lie in the ring in PSN order, those without a PSN
// before the one that has their `first`.
uint32_t RoceRequester::index_of(Psn psn) const {
  return index_of_psn(queue_, next_ - queue_.head_index() + (next_packet_ > 0 ? 1 : 0), psn);
}

bool RoceRequester::poll_packet(Time now, TxPacket& out) {
  now_ = now;
  if (!wants_to_send()) return false;
  return has_again() ? poll_again(out) : poll_new(out);
}

bool RoceRequester::poll_again(TxPacket& out) {
  const uint32_t index = index_of(snd_nxt_);
  Work& work = queue_.at_index(index);
  const auto packet_index = static_cast<uint32_t>(work.first.distance_to(snd_nxt_));
  if (!fill(index, packet_index, out)) {
    // What was sent before this can still be acknowledged; then the error is reported.
    stuck_ = true;
    stuck_at_ = snd_nxt_;
    return false;
  }
  out.header.psn = snd_nxt_;
  out.again = true;
  if (is_answered(work.opcode)) {
    work.resumed_at = packet_index;
    snd_nxt_ = work.first + work.packets;
  } else {
    ++snd_nxt_;
  }
  count_sent(true);
  return true;
}

bool RoceRequester::poll_new(TxPacket& out) {
  do_local_work();
  if (!has_new()) return false;
  Work& work = queue_.at_index(next_);
  if (next_packet_ == 0) begin(work);
  if (!fill(next_, next_packet_, out)) return false;
  out.header.psn = snd_max_;
  const uint32_t psns = is_answered(work.opcode) ? work.packets : 1;
  snd_max_ += psns;
  snd_nxt_ = snd_max_;
  next_packet_ += psns;
  if (next_packet_ == work.packets) {
    ++next_;
    next_packet_ = 0;
    do_local_work();
  }
  if (deadline_.is_never()) {
    spend_waiting();
    restart_timer();
  }
  count_sent(false);
  return true;
}

void RoceRequester::count_sent(bool again) {
  TransportCounters& counters = *core_.device.counters;
  ++counters.packets_sent;
  ++stats_.packets_sent;
  if (!again) return;
  ++counters.packets_retransmitted;
  ++stats_.retransmitted;
  if (cause_ == Cause::kNak) ++counters.retransmitted_nack, ++stats_.retransmitted_nack;
  if (cause_ == Cause::kTimeout) ++counters.retransmitted_rto, ++stats_.retransmitted_rto;
  if (cause_ == Cause::kRnr) ++stats_.retransmitted_probe;
}

// Of a READ `packet_index` is the response packet that is asked for first. False: a local key does
// not open the memory; the work request has its error.
bool RoceRequester::fill(uint32_t index, uint32_t packet_index, TxPacket& out) {
  const Work& work = queue_.at_index(index);
  wire::Packet& header = out.header;
  header = wire::Packet{};
  out.ah = 0;
  out.num_segments = 0;
  header.dest_qpn = core_.attributes.dest_qpn;
  header.vp = core_.attributes.vp;
  header.xrc_srqn = work.xrc_srqn;
  const bool xrc = core_.config.service == QpService::kXrcSend;
  const uint32_t offset = packet_index * core_.attributes.path_mtu;
  if (is_answered(work.opcode)) {
    const bool atomic = is_atomic(work.opcode);
    if (atomic && !result_fits(work, index)) return false;
    header.opcode = roce_opcode(roce_last_opcode(work.opcode, true), xrc);
    header.reth = {.va = work.remote_addr + offset,
                   .rkey = work.rkey,
                   .dma_len = atomic ? wire::kAtomicBytes : work.length - offset};
    const bool swaps = work.opcode == WorkOpcode::kCompareSwap;
    header.atomic_swap_add = swaps ? work.swap : work.compare_add;
    header.atomic_compare = swaps ? work.compare_add : 0;
    header.ack_req = asks_for_ack(true);
    return true;
  }
  const bool last = packet_index + 1 == work.packets;
  header.opcode = roce_opcode(roce_request_opcode(work.opcode, packet_index == 0, last), xrc);
  header.reth = {.va = work.remote_addr, .rkey = work.rkey, .dma_len = work.length};
  header.payload_len = std::min(work.length - offset, core_.attributes.path_mtu);
  header.solicited_event = last && (work.flags & kSolicited) != 0;
  header.immdt = header.ieth_rkey = work.imm_or_rkey;
  if (!gather_payload(sges_of(index).first(work.num_sge), offset, header.payload_len,
                      (work.flags & kInline) != 0, *core_.device.memory, core_.config.pd, out)) {
    fail_work(index, WcStatus::kLocalProtectionError, 0);
    return false;
  }
  header.ack_req = asks_for_ack(last);
  return true;
}

// What an atomic has done cannot be taken back: its result needs a place before it leaves.
bool RoceRequester::result_fits(const Work& work, uint32_t index) {
  const std::span<const Sge> sges = sges_of(index).first(work.num_sge);
  if (work.length != wire::kAtomicBytes) {
    fail_work(index, WcStatus::kLocalLengthError, 0);
  } else if (!all_open(sges, 0, wire::kAtomicBytes, *core_.device.memory, core_.config.pd,
                       kLocalWrite)) {
    fail_work(index, WcStatus::kLocalProtectionError, 0);
  }
  return work.status == WcStatus::kSuccess;
}

// 9.7.3.1 (C9-84): at least the last packet of a message, and none may wait for ever.
bool RoceRequester::asks_for_ack(bool last) {
  const bool asks = last || ++since_ack_req_ >= kAckReqInterval ||
                    in_flight() + 1 >= core_.config.params.window_max;
  if (asks) since_ack_req_ = 0;
  return asks;
}

// ---- Time --------------------------------------------------------------------------------------

// The transport timer: between one and four of the verbs' timeouts (9.9.2.1.1; C9-141). The first
// expiry comes early, so that recovery is quick; the others later, because a host in software may
// be stopped for a while. All of them together: (1 + 1.75 x retry_cnt) timeouts.
Duration RoceRequester::timeout() const {
  if (core_.attributes.timeout == 0) return Duration::infinite();
  const Duration configured = ack_timeout(core_.attributes.timeout);
  const Duration base = std::max(configured, core_.config.params.rto_floor);
  return timeouts_ == 0 ? base : base * 7 / 4;
}

// What the first request has waited before it could be sent counts as retries, to the nearest one;
// one expiry is left.
void RoceRequester::spend_waiting() {
  if (core_.attributes.timeout == 0) return;
  timeouts_ = 1;
  const Duration each = timeout();
  timeouts_ = 0;
  for (; retries_left_ > 0 && each <= core_.waited * 2; core_.waited -= each) --retries_left_;
  core_.waited = Duration::zero();
}

void RoceRequester::restart_timer() {
  const bool idle = una_ == snd_max_;
  deadline_ = idle || core_.attributes.timeout == 0 ? Time::never() : now_ + timeout();
}

void RoceRequester::on_deadline(Time now) {
  now_ = now;
  if (flushing_ || stopped_) return;
  if (rnr_until_ <= now) {
    rnr_until_ = Time::never();
    restart_timer();
  }
  if (deadline_ > now) return;
  ++core_.device.counters->rto_expired;
  ++stats_.rto_expired;
  ++timeouts_;
  asked_again_ = false;
  // Nothing of what the last expiry asked for has left: the wire did not take it.
  const bool waiting_for_wire = has_again() && snd_nxt_ == una_;
  if (waiting_for_wire || take_retry()) {
    go_back(Cause::kTimeout);
    restart_timer();
  }
}

Time RoceRequester::next_deadline() const {
  if (flushing_ || stopped_) return Time::never();
  return std::min(deadline_, rnr_until_);
}

// One more attempt without progress (9.9.2.1.1: timeouts, sequence errors and implied NAKs). False:
// it was the last one.
bool RoceRequester::take_retry() {
  if (retries_left_ > 0) {
    --retries_left_;
    return true;
  }
  ++core_.device.counters->retry_exceeded;
  end_work(index_of(una_), WcStatus::kRetryExceeded, 0);
  return false;
}

void RoceRequester::go_back(Cause cause) {
  cause_ = cause;
  snd_nxt_ = una_;
  since_ack_req_ = kAckReqInterval;  // what is sent again is worth an answer at once
}

// ---- Errors and completions --------------------------------------------------------------------

// The connection ends with this work request.
void RoceRequester::end_work(uint32_t index, WcStatus status, uint32_t vendor_err) {
  stopped_ = true;
  deadline_ = rnr_until_ = Time::never();
  fail_work(index, status, vendor_err);
}

void RoceRequester::fail_work(uint32_t index, WcStatus status, uint32_t vendor_err) {
  Work& work = queue_.at_index(index);
  blocked_ = true;
  if (work.status != WcStatus::kSuccess) return;
  work.status = status;
  work.vendor_err = vendor_err;
  ++core_.device.counters->errors_local;
}

bool RoceRequester::complete(const Work& work) const {
  return work.begun && work.status == WcStatus::kSuccess &&
         (work.first + work.packets).at_or_before(una_);
}

bool RoceRequester::completion_ready() const {
  if (queue_.empty()) return false;
  const Work& work = queue_.front();
  return complete(work) || work.status != WcStatus::kSuccess || flushing_;
}

bool RoceRequester::poll_completion(Completion& out) {
  if (!completion_ready()) return false;
  const Work& work = queue_.front();
  const bool success = !failed_ && complete(work);  // after an error even what arrived is flushed
  out = Completion{};
  out.wr_id = work.wr_id;
  out.opcode = completion_opcode(work.opcode);
  out.byte_len = is_atomic(work.opcode) ? wire::kAtomicBytes : work.length;
  if (!success) {
    // One cause; whatever follows it is flushed.
    const bool cause = !failed_ && work.status != WcStatus::kSuccess;
    out.status = cause ? work.status : WcStatus::kFlushError;
    out.vendor_err = cause ? work.vendor_err : 0;
    failed_ = true;
    blocked_ = true;
  }
  out.emit = !success || core_.config.signal_all || (work.flags & kSignaled) != 0;
  if (!reads_.empty() && reads_.front() == queue_.head_index()) pop_read();
  if (next_ == queue_.head_index()) {
    ++next_;
    next_packet_ = 0;
  }
  queue_.pop();
  return true;
}

StreamStats RoceRequester::stats() const {
  StreamStats stats = stats_;
  stats.window_raw = core_.config.params.window_max << 16;
  stats.in_flight = in_flight();
  stats.paths_in_use = stats.packets_sent > 0 ? 1 : 0;
  return stats;
}

}  // namespace mprdma::transport
