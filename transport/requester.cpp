#include "transport/requester.hpp"

#include <algorithm>

#include "transport/local_work.hpp"
#include "transport/mp_opcode.hpp"
#include "transport/work_search.hpp"

namespace mprdma::transport {

Requester::Requester(QpCore& core)
    : core_(core),
      config_(core.config),
      device_(core.device),
      attributes_(core.attributes),
      sender_(config_.params, device_.counters),
      response_receiver_(config_.params, wire::kMpAckResponseStream, device_),
      queue_(std::max(config_.send_depth, 1u)),
      sges_(std::make_unique<Sge[]>(size_t{queue_.capacity()} * config_.max_send_sge)),
      reads_(config_.max_rd_atomic) {}

void Requester::connect() {
  sender_.reset(attributes_.sq_psn, attributes_.vp, Prng(attributes_.path_seed).split("requests"));
  follow_attributes();
  had_new_ = false;
  response_receiver_.reset(attributes_.sq_psn, attributes_.dest_qpn);
  receive_number_ = read_number_ = 0;
  response_end_ = attributes_.sq_psn;
  open_response_packets_ = 0;
  peer_in_order_ = false;
  read_timed_ = false;
  rnr_psn_ = attributes_.sq_psn;
  rnr_left_ = attributes_.rnr_retry;
}

void Requester::follow_attributes() {
  const uint8_t timeout = attributes_.timeout;
  sender_.limit_timeouts(timeout == 0 ? Duration::infinite() : ack_timeout(timeout));
}

void Requester::reset(RxActions& actions) {
  response_receiver_.release_held(actions);
  response_receiver_.reset(Psn(), 0);
  sender_.reset(Psn());
  queue_.clear();
  reads_.clear();
  next_ = queue_.tail_index();
  next_packet_ = 0;
  next_nudge_ = Time::never();
  nudge_due_ = draining_ = stopped_ = blocked_ = flushing_ = failed_ = false;
}

bool Requester::post_send(Time now, const SendRequest& request) {
  if (queue_.size() >= config_.send_depth) return false;
  now_ = now;
  std::copy(request.sges.begin(), request.sges.end(), sges_of(queue_.tail_index()).begin());
  Work work;
  work.wr_id = request.wr_id;
  work.opcode = request.opcode;
  work.flags = request.flags;
  work.num_sge = static_cast<uint16_t>(request.sges.size());
  work.imm = request.imm_or_rkey;
  work.remote_addr = request.remote_addr;
  work.rkey = request.rkey;
  work.compare_add = request.compare_add;
  work.swap = request.swap;
  work.bind_access = request.remote_qkey;
  size_work(work, static_cast<uint32_t>(total_bytes(request.sges)));
  queue_.push(work);
  note_backlog();
  return true;
}

void Requester::size_work(Work& work, uint32_t bytes) const {
  if (is_local_work(work.opcode)) {
    // Nothing is sent, so there is nothing that it could be too early for.
    work.flags &= static_cast<uint16_t>(~kSynchronise);
    return;
  }
  work.length = bytes;
  const uint32_t packets =
      bytes == 0 || is_atomic(work.opcode) ? 1 : (bytes - 1) / attributes_.path_mtu + 1;
  const bool answered = is_answered(work.opcode);
  work.packets = answered ? 1 : packets;
  work.response_packets = answered ? packets : 0;
}

// ---- Sending -----------------------------------------------------------------------------------

bool Requester::may_begin(const Work& work) const {
  if (draining_) return false;
  if ((work.flags & kFence) != 0 && !reads_.empty()) return false;
  if (now_ < sync_release(work)) return false;
  if (!is_answered(work.opcode) || reads_.empty()) return true;
  return reads_.size() < std::min<uint32_t>(attributes_.max_rd_atomic, config_.max_rd_atomic) &&
         open_response_packets_ + work.response_packets <= kStreamSpanMax;
}

// When a synchronise operation may begin: at once, at a time, or not before something else happens
// (never). The receiver refuses what comes too early all the same, so this saves a round trip and
// decides nothing.
Time Requester::sync_release(const Work& work) const {
  if ((work.flags & kSynchronise) == 0 || peer_in_order_) return Time();
  if (config_.params.sync_policy == SyncPolicy::kStopAndWait) {
    return sender_.idle() && reads_.empty() ? Time() : Time::never();
  }
  return sender_.sync_release();
}

// Only what was sent keeps the work request that is next, a synchronise operation.
bool Requester::waits_to_follow() const {
  if (blocked_ || stopped_ || draining_ || next_packet_ > 0 || next_ == queue_.tail_index()) {
    return false;
  }
  return now_ < sync_release(queue_.at_index(next_));
}

// .. and the time until which, if that is known.
Time Requester::next_release() const {
  return waits_to_follow() ? sync_release(queue_.at_index(next_)) : Time::never();
}

bool Requester::has_new() const {
  if (blocked_ || flushing_ || next_ == queue_.tail_index()) return false;
  // A READ may stay open while the request stream runs on: serial numbers must not come round.
  const Work& oldest = queue_.front();
  const auto span_max = static_cast<int32_t>(kStreamSpanMax);
  if (oldest.begun && oldest.first.distance_to(sender_.nxt()) >= span_max) return false;
  if (next_packet_ > 0) return true;
  const Work& next = queue_.at_index(next_);
  return !is_local_work(next.opcode) && may_begin(next);
}

void Requester::begin(Work& work) {
  work.begun = true;
  work.first = sender_.nxt();
  work.message_number = receive_number_ & kPsnMask;
  if (consumes_receive(work.opcode)) ++receive_number_;
  if (is_answered(work.opcode)) {
    work.message_number = read_number_++ & kPsnMask;
    work.response_first = response_end_;
    reads_.push(next_);
    open_response_packets_ += work.response_packets;
    response_end_ += work.response_packets;
  }
}

// The work request of an outstanding PSN; they lie in the ring in PSN order.
uint32_t Requester::index_of(Psn psn) const {
  return index_of_psn(queue_, next_ - queue_.head_index() + (next_packet_ > 0 ? 1 : 0), psn);
}

// Tells the sender when there is something new to send and was nothing before: the end of a pause
// of the application, of a fence, of a wait for READ data.
void Requester::note_backlog() {
  run_local_work();
  const bool has = has_new();
  if (has && !had_new_) sender_.on_backlog(now_);
  had_new_ = has;
}

bool Requester::poll_packet(Time now, TxPacket& out) {
  now_ = now;
  note_backlog();
  if (nudge_due_) {
    make_nudge(out);
    return true;
  }
  if (stopped_) return false;
  const StreamSender::Choice choice = sender_.choose(has_new());
  if (!choice.any()) return false;
  uint32_t index = next_;
  uint32_t packet_index = next_packet_;
  if (choice.again()) {
    index = index_of(choice.psn);
    packet_index = static_cast<uint32_t>(queue_.at_index(index).first.distance_to(choice.psn));
  } else if (next_packet_ == 0) {
    begin(queue_.at_index(next_));
  }
  if (!fill_request(index, packet_index, out)) {
    // For what was sent before this is one more loss: what lies before it can still be recovered,
    // and then this work request is the oldest and its error is reported.
    if (choice.again()) sender_.on_sent(now, choice);
    return false;
  }
  out.header.psn = choice.psn;
  out.again = choice.again();
  if (choice.again()) out.header.mp_data.flags |= wire::kMpDataReTx;
  if (choice.kind == StreamSender::Choice::Kind::kProbe) {
    out.header.mp_data.flags |= wire::kMpDataTailProbe;
  }
  if (!choice.again() && ++next_packet_ == queue_.at_index(next_).packets) {
    ++next_;
    next_packet_ = 0;
  }
  const bool synchronise = (out.header.mp_data.flags & wire::kMpDataSync) != 0;
  out.header.vp = sender_.on_sent(now, choice, synchronise && packet_index == 0);
  run_local_work();
  had_new_ = has_new();
  return true;
}

// False: a local key does not open the memory; the work request has its error.
bool Requester::fill_request(uint32_t index, uint32_t packet_index, TxPacket& out) {
  const Work& work = queue_.at_index(index);
  wire::Packet& header = out.header;
  header = wire::Packet{};
  out.num_segments = 0;
  header.dest_qpn = attributes_.dest_qpn;
  header.mp_data.timestamp = static_cast<uint32_t>(now_.ns());
  header.mp_data.message_number = work.message_number;
  if ((work.flags & kSynchronise) != 0) header.mp_data.flags |= wire::kMpDataSync;
  header.reth = {.va = work.remote_addr, .rkey = work.rkey, .dma_len = work.length};
  if (is_answered(work.opcode)) {
    header.opcode = mp_opcode(work.opcode, true, true);
    return !is_atomic(work.opcode) || fill_atomic(index, header);
  }
  const bool first = packet_index == 0;
  const bool last = packet_index + 1 == work.packets;
  const uint32_t offset = packet_index * attributes_.path_mtu;
  header.mp_data.offset = offset;
  header.payload_len = std::min(work.length - offset, attributes_.path_mtu);
  header.solicited_event = last && (work.flags & kSolicited) != 0;
  header.immdt = header.ieth_rkey = work.imm;
  header.opcode = mp_opcode(work.opcode, first, last);
  if (gather_payload(sges_of(index).first(work.num_sge), offset, header.payload_len,
                     (work.flags & kInline) != 0, *device_.memory, config_.pd, out)) {
    return true;
  }
  fail_work(index, WcStatus::kLocalProtectionError, 0);
  return false;
}

// The place for the result is checked before the request leaves: what was executed cannot be taken
// back.
bool Requester::fill_atomic(uint32_t index, wire::Packet& header) {
  const Work& work = queue_.at_index(index);
  const bool swaps = work.opcode == WorkOpcode::kCompareSwap;
  header.reth.dma_len = wire::kAtomicBytes;
  header.atomic_compare = swaps ? work.compare_add : 0;
  header.atomic_swap_add = swaps ? work.swap : work.compare_add;
  if (work.length != wire::kAtomicBytes) {
    fail_work(index, WcStatus::kLocalLengthError, 0);
    return false;
  }
  if (all_open(sges_of(index).first(work.num_sge), 0, wire::kAtomicBytes, *device_.memory,
               config_.pd, kLocalWrite)) {
    return true;
  }
  fail_work(index, WcStatus::kLocalProtectionError, 0);
  return false;
}

// An acknowledgement of the response stream that answers no packet: "I am still waiting".
void Requester::make_nudge(TxPacket& out) {
  nudge_due_ = false;
  out.num_segments = 0;
  response_receiver_.make_plain_ack(sender_.draw_path(), out.header);
  ++device_.counters->acks_sent;
}

// ---- Time --------------------------------------------------------------------------------------

// The oldest open READ is timed from when its request is known to have arrived.
void Requester::time_oldest_read() {
  if (read_timed_ || reads_.empty()) return;
  if (!queue_.at_index(reads_.front()).first.before(sender_.una())) return;
  read_timed_ = true;
  last_response_ = now_;
  next_nudge_ = now_ + retry_interval();
}

void Requester::pop_read() {
  open_response_packets_ -= queue_.at_index(reads_.pop()).response_packets;
  read_timed_ = false;
}

// How long a peer is silent before it is asked again. At least two retransmission timeouts, so that
// recovery has its chance (IBTA 9.9.2.1 lets us round up).
Duration Requester::retry_interval() const {
  const Duration recovery = sender_.base_rto() * 2;
  if (attributes_.timeout == 0) return std::max(recovery, config_.params.rto_ceiling);
  return std::max(recovery, ack_timeout(attributes_.timeout));
}

// The verbs' retries measure the absence of any progress (design 3.1). Recovery has two of its own
// timeouts for each retry, whatever the verbs ask for.
Time Requester::give_up_after(Time last_progress) const {
  if (attributes_.timeout == 0) return Time::never();
  const Duration recovery = sender_.base_rto() * 2 * (int64_t{attributes_.retry_cnt} + 1);
  return last_progress +
         std::max(recovery, retry_patience(attributes_.timeout, attributes_.retry_cnt));
}

Time Requester::requests_give_up_at() const {
  if (!sending() || sender_.paused()) return Time::never();
  return give_up_after(sender_.last_progress() - core_.waited);
}

Time Requester::reads_give_up_at() const {
  return read_timed_ ? give_up_after(last_response_) : Time::never();
}

void Requester::give_up(uint32_t index) {
  ++device_.counters->retry_exceeded;
  stopped_ = true;
  fail_work(index, WcStatus::kRetryExceeded, 0);
}

void Requester::on_deadline(Time now) {
  now_ = now;
  if (flushing_) return;
  if (requests_give_up_at() <= now) give_up(index_of(sender_.una()));
  if (reads_give_up_at() <= now) {
    give_up(reads_.front());
    read_timed_ = false;
  }
  note_backlog();
  if (sending() && sender_.next_deadline(has_new()) <= now) sender_.on_deadline(now);
  if (read_timed_ && next_nudge_ <= now) {
    // Only a responder that fell silent needs it.
    nudge_due_ = last_response_ + retry_interval() <= now;
    next_nudge_ = now + retry_interval();
  }
}

Time Requester::next_deadline() const {
  if (flushing_) return Time::never();
  Time next = sending() ? sender_.next_deadline(has_new()) : Time::never();
  next = std::min({next, requests_give_up_at(), reads_give_up_at(), next_release()});
  return read_timed_ ? std::min(next, next_nudge_) : next;
}

// ---- Completions -------------------------------------------------------------------------------

bool Requester::complete(const Work& work) const {
  if (!work.begun || work.status != WcStatus::kSuccess) return false;
  if ((work.first + work.packets).after(sender_.una())) return false;
  return !is_answered(work.opcode) || work.response_done;
}

bool Requester::completion_ready() const {
  if (queue_.empty()) return false;
  const Work& work = queue_.front();
  return complete(work) || work.status != WcStatus::kSuccess || flushing_;
}

uint32_t Requester::local_work_done() const {
  return count_local_work_done(queue_);
}

bool Requester::drained() const {
  return queue_.empty() || !queue_.front().begun;
}

bool Requester::poll_completion(Completion& out) {
  if (!completion_ready()) return false;
  const Work& work = queue_.front();
  const bool success = !failed_ && complete(work);  // after an error even what arrived is flushed
  out = Completion{};
  out.wr_id = work.wr_id;
  out.opcode = completion_opcode(work.opcode);
  out.byte_len = work.length;
  if (!success) {
    // One cause; whatever follows it is flushed.
    const bool cause = !failed_ && work.status != WcStatus::kSuccess;
    out.status = cause ? work.status : WcStatus::kFlushError;
    out.vendor_err = cause ? work.vendor_err : 0;
    failed_ = true;
  }
  out.emit = !success || config_.signal_all || (work.flags & kSignaled) != 0;
  if (!reads_.empty() && reads_.front() == queue_.head_index()) pop_read();
  if (next_ == queue_.head_index()) {
    ++next_;
    next_packet_ = 0;
  }
  queue_.pop();
  return true;
}

}  // namespace mprdma::transport
