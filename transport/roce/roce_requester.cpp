#include "transport/roce/roce_requester.hpp"

#include <algorithm>

#include "transport/roce/roce_opcode.hpp"

namespace mprdma::transport {

namespace {

// Packets of a long message between two requests for an acknowledgement.
constexpr uint32_t kAckReqInterval = 16;

}  // namespace

RoceRequester::RoceRequester(QpCore& core) : core_(core), sends_(core) {}

void RoceRequester::enter_rts() {
  una_ = snd_nxt_ = snd_max_ = furthest_ = core_.attributes.sq_psn;
  retries_left_ = core_.attributes.retry_cnt;
  sends_.renew_rnr_retries();
  timeouts_ = since_ack_req_ = 0;
  asked_again_ = false;
  begin_window();
  times_ = control_.has_value() || cc::hears_acks(core_.config.params.congestion);
  round_trips_.forget();
  stats_ = {};
}

void RoceRequester::begin_window() {
  const Params& params = core_.config.params;
  control_.reset();
  window_ = params.window_max;
  if (controls_roce_window(params)) {
    control_.emplace(params.window_control,
                     cc::Setup{.initial_packets = params.initial_window,
                               .max_packets = params.window_max,
                               .link_bps = uint64_t{params.link_mbps} * 1'000'000,
                               .base_rtt = params.base_rtt,
                               .target_delay = params.target_delay});
    window_ = control_->packets();
  }
  repetition_waits_ = params.go_back_0 || control_.has_value();
  filled_at_ = una_ - 1;
}

void RoceRequester::reset() {
  sends_.clear();
  awaited_psns_ = 0;
  una_ = snd_nxt_ = snd_max_ = furthest_ = Psn();
  stuck_ = asked_again_ = false;
  deadline_ = rnr_until_ = Time::never();
}

bool RoceRequester::post_send(Time now, const SendRequest& request) {
  Work* work = sends_.post(request);
  if (work == nullptr) return false;
  now_ = now;
  work->packets = packets_of(work->length, core_.attributes.path_mtu);
  if (is_local_work(work->opcode)) work->packets = 0;
  if (is_atomic(work->opcode)) work->packets = 1;
  sends_.run_local_work(snd_max_);
  return true;
}

// ---- Sending -----------------------------------------------------------------------------------

// Packets of unacknowledged requests; a READ request is one packet.
uint32_t RoceRequester::in_flight() const {
  return static_cast<uint32_t>(una_.distance_to(snd_max_)) - awaited_psns_ + sends_.num_reads();
}

bool RoceRequester::may_begin(const Work& work) const {
  if (!sends_.may_begin(work)) return false;
  if (!is_answered(work.opcode) || !sends_.has_reads()) return true;
  // Serial numbers must not wrap while the oldest request is open.
  const auto span = static_cast<uint32_t>(una_.distance_to(snd_max_)) + work.packets;
  return span <= kStreamSpanMax;
}

bool RoceRequester::has_new() const {
  if (!sends_.has_next() || (snd_nxt_ != snd_max_ && !repetition_fits())) return false;
  if (sends_.next_packet() == 0 && !may_begin(sends_.next())) return false;
  return in_flight() < window_ || is_local_work(sends_.next().opcode);
}

void RoceRequester::begin() {
  sends_.begin(snd_max_);
  if (is_answered(sends_.next().opcode)) awaited_psns_ += sends_.next().packets;
}

bool RoceRequester::poll_packet(Time now, TxPacket& out) {
  now_ = now;
  if (!wants_to_send()) return false;
  const bool fills = control_.has_value() && fills_window();
  const bool left = has_retransmission() ? poll_retransmission(out) : poll_new(out);
  if (left && fills) filled_at_ = out.header.psn;
  return left;
}

bool RoceRequester::poll_retransmission(TxPacket& out) {
  const uint32_t index = sends_.index_of(snd_nxt_);
  Work& work = sends_.at(index);
  // Responses that came meanwhile do not shorten a READ, so that each answer begins alike.
  const bool whole = core_.config.params.go_back_0 && is_answered(work.opcode);
  if (whole && goes_back_0(work.first, snd_nxt_)) snd_nxt_ = work.first;
  const auto packet_index = static_cast<uint32_t>(work.first.distance_to(snd_nxt_));
  if (!fill(index, packet_index, out)) {
    // Earlier packets can still be acknowledged; only then is the error reported.
    stuck_ = true;
    stuck_at_ = snd_nxt_;
    return false;
  }
  out.header.psn = snd_nxt_;
  out.retransmission = true;
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
  sends_.run_local_work(snd_max_);
  if (!has_new()) return false;
  const Work& work = sends_.next();
  if (sends_.next_packet() == 0) begin();
  if (!fill(sends_.next_index(), sends_.next_packet(), out)) return false;
  out.header.psn = snd_max_;
  if (times_) [[unlikely]]
    time_new(work, out.header);
  const uint32_t psns = is_answered(work.opcode) ? work.packets : 1;
  snd_max_ += psns;
  snd_nxt_ = snd_max_;
  sends_.advance(psns);
  sends_.run_local_work(snd_max_);
  if (deadline_.is_never()) {
    spend_waiting();
    restart_timer();
  }
  count_sent(false);
  return true;
}

// An acknowledgement behind a READ waits for the response, and says nothing of the network.
void RoceRequester::time_new(const Work& work, const wire::Packet& header) {
  if (header.ack_req && !is_answered(work.opcode) && !sends_.has_reads()) {
    round_trips_.note(now_, header.psn);
  }
}

void RoceRequester::count_sent(bool retransmission) {
  TransportCounters& counters = *core_.device.counters;
  ++counters.packets_sent;
  ++stats_.packets_sent;
  if (!retransmission) return;
  ++counters.packets_retransmitted;
  ++stats_.retransmitted;
  if (cause_ == Cause::kNak) ++counters.retransmitted_nack, ++stats_.retransmitted_nack;
  if (cause_ == Cause::kTimeout) ++counters.retransmitted_rto, ++stats_.retransmitted_rto;
  if (cause_ == Cause::kRnr) ++stats_.retransmitted_probe;
}

// Fills in the packet of a request. For a READ `packet_index` is the first response packet that it
// asks for. False: a local key does not open the memory, and the work request has its error.
bool RoceRequester::fill(uint32_t index, uint32_t packet_index, TxPacket& out) {
  const Work& work = sends_.at(index);
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
    if (atomic && !sends_.check_result_place(index)) return false;
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
  header.immdt = work.imm_or_rkey;
  header.ieth_rkey = Key(work.imm_or_rkey);
  if (!sends_.gather(index, offset, header.payload_len, out)) return false;
  header.ack_req = asks_for_ack(last);
  return true;
}

// Tells whether a packet asks for an acknowledgement (9.7.3.1, C9-84): the last packet of a message
// does, and no earlier packet may wait for ever.
bool RoceRequester::asks_for_ack(bool last) {
  const bool asks =
      last || ++since_ack_req_ >= kAckReqInterval || control_.has_value() || fills_window();
  if (asks) since_ack_req_ = 0;
  return asks;
}

// Tells whether the packet that leaves takes the last room.
bool RoceRequester::fills_window() const {
  const bool again = repetition_waits_ && snd_nxt_ != snd_max_;
  return (again ? repeated() : in_flight()) + 1 >= window_;
}

// ---- Time --------------------------------------------------------------------------------------

// The transport timer: between one and four of the verbs' timeouts (9.9.2.1.1; C9-141). The first
// expiry comes early, so that recovery is quick; the others later, because a host in software may
// be stopped for a while. The sum of all expiries is (1 + 1.75 x retry_cnt) timeouts.
Duration RoceRequester::timeout() const {
  if (core_.attributes.timeout == 0) return Duration::infinite();
  const Duration configured = ack_timeout(core_.attributes.timeout);
  const Duration base = std::max(configured, core_.config.params.rto_floor);
  return timeouts_ == 0 ? base : base * 7 / 4;
}

// Counts the time that the first request has waited before it could be sent as retries, rounded to
// the nearest one; at least one expiry is left.
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
  if (sends_.flushing() || sends_.stopped()) return;
  if (rnr_until_ <= now) {
    rnr_until_ = Time::never();
    restart_timer();
  }
  if (deadline_ > now) return;
  ++core_.device.counters->rto_expired;
  ++stats_.rto_expired;
  ++timeouts_;
  asked_again_ = false;
  // If no packet of the last expiry's repetition has left, the wire did not take it.
  const bool waiting_for_wire = has_retransmission() && snd_nxt_ == una_;
  if (waiting_for_wire || consume_retry()) {
    go_back(Cause::kTimeout);
    restart_timer();
  }
}

Time RoceRequester::next_deadline() const {
  if (sends_.flushing() || sends_.stopped()) return Time::never();
  return std::min(deadline_, rnr_until_);
}

// Counts an attempt without progress (9.9.2.1.1: timeouts, sequence errors and implied NAKs).
// False: no attempt is left.
bool RoceRequester::consume_retry() {
  if (retries_left_ > 0) {
    --retries_left_;
    return true;
  }
  sends_.give_up(sends_.index_of(una_));
  return false;
}

// Of a loss that the peer has told of. Go-back-0 would need more retries than there are for a
// single long message, where each loss in it costs one.
bool RoceRequester::consume_retry_of_loss() {
  return core_.config.params.go_back_0 || consume_retry();
}

void RoceRequester::go_back(Cause cause) {
  cause_ = cause;
  round_trips_.forget();
  if (control_) [[unlikely]]
    tell_lost(cause);
  // A receiver that is not ready has lost nothing.
  if (core_.config.params.go_back_0 && cause != Cause::kRnr) begin_message_again();
  snd_nxt_ = una_;
  since_ack_req_ = kAckReqInterval;  // a repeated packet should be answered at once
  if (const Trace trace = core_.trace(); trace.on()) [[unlikely]] {
    trace.raise(now_, TraceKind::go_back, una_, {.reason = to_string(cause)});
  }
}

// Go-back-0: una_ moves to the first packet of its message.
void RoceRequester::begin_message_again() {
  Work& work = sends_.at(sends_.index_of(una_));
  if (!goes_back_0(work.first, una_)) return;
  awaited_psns_ += work.responses;
  work.responses = 0;
  una_ = work.first;
}

// ---- Completions -------------------------------------------------------------------------------

bool RoceRequester::complete(const Work& work) const {
  return work.begun && work.status == WcStatus::kSuccess &&
         (work.first + work.packets).at_or_before(una_);
}

bool RoceRequester::poll_completion(Completion& out) {
  if (sends_.empty()) return false;
  const bool done = complete(sends_.oldest());
  if (!sends_.completion_due(done)) return false;
  if (sends_.oldest_is_read()) pop_read();
  sends_.pop(done, out);
  return true;
}

StreamStats RoceRequester::stats() const {
  StreamStats stats = stats_;
  stats.window_raw = control_ ? control_->exact().raw() : window_ << 16;
  stats.in_flight = in_flight();
  stats.paths_in_use = stats.packets_sent > 0 ? 1 : 0;
  return stats;
}

}  // namespace mprdma::transport
