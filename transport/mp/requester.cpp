#include "transport/mp/requester.hpp"

#include <algorithm>

#include "transport/mp/mp_opcode.hpp"
#include "transport/stream/stream_sender_steady.hpp"

namespace mprdma::transport {

namespace {

// A host that never runs this side in time gives up on a silent peer after this all the same.
constexpr Duration kStarvedMax = Duration::s(60);

}  // namespace

Requester::Requester(QpCore& core)
    : core_(core),
      config_(core.config),
      device_(core.device),
      attributes_(core.attributes),
      sender_(config_.params, device_.counters, core.trace(TraceStream::kRequests)),
      response_receiver_(config_.params, wire::kMpAckResponseStream, device_),
      sends_(core) {
  half_ = open_half(device_, config_.params);
  sender_.attach(half_.get());
}

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
  sends_.renew_rnr_retries();
}

void Requester::follow_attributes() {
  const uint8_t timeout = attributes_.timeout;
  sender_.set_path_mtu(attributes_.path_mtu);
  response_receiver_.set_ack_run(attributes_.ack_run);
  // What has not begun takes the segment of the time when it begins.
  if (send_segment_of(attributes_) > attributes_.path_mtu && sends_.has_unsent()) note_long();
  sender_.limit_timeouts(timeout == 0 ? Duration::infinite() : ack_timeout(timeout));
}

void Requester::reset(RxActions& actions) {
  response_receiver_.release_held(actions);
  response_receiver_.reset(Psn(), Qpn());
  sender_.reset(Psn());
  sends_.clear();
  next_keepalive_ = Time::never();
  keepalive_due_ = false;
}

bool Requester::post_send(Time now, const SendRequest& request) {
  Work* work = sends_.post(request);
  if (work == nullptr) return false;
  now_ = now;
  size_work(*work);
  const bool ordinary = work->plain && sends_.steady() && sender_.steady();
  if (ordinary) core_.changes = sends_.size() > 1 ? kSendingChanged : kAllChanged;
  // Behind packets that are ready it changes nothing.
  if (!ordinary || !had_new_) begin_backlog();
  return true;
}

void Requester::size_work(Work& work) {
  if (is_local_work(work.opcode)) {
    // Local work sends no packet, so no packet can be too early.
    work.flags &= static_cast<uint16_t>(~kSynchronise);
    work.length = 0;
    return;
  }
  choose_segment(work);
  const uint32_t packets = is_atomic(work.opcode) ? 1 : packets_of(work.length, work.segment);
  const bool answered = is_answered(work.opcode);
  work.packets = answered ? 1 : packets;
  work.response_packets = answered ? packets : 0;
  work.plain = !answered && (work.flags & (kFence | kSynchronise)) == 0;
}

// ---- Sending -----------------------------------------------------------------------------------

bool Requester::may_begin(const Work& work) const {
  if (!sends_.may_begin(work) || now_ < sync_release(work)) return false;
  return !is_answered(work.opcode) || !sends_.has_reads() ||
         open_response_packets_ + work.response_packets <= kStreamSpanMax;
}

// The time at which a synchronise operation may begin; never: after some other event. This wait
// only saves a round trip: the receiver refuses an operation that is too early in any case.
Time Requester::sync_release(const Work& work) const {
  if ((work.flags & kSynchronise) == 0 || peer_in_order_) return Time();
  if (config_.params.sync_policy == SyncPolicy::kStopAndWait) {
    return sender_.idle() && !sends_.has_reads() ? Time() : Time::never();
  }
  return sender_.sync_release();
}

// True if the next work request is a synchronise operation that waits only for packets already
// sent.
bool Requester::waits_to_follow() const {
  if (!sends_.has_next() || sends_.draining() || sends_.next_packet() > 0) return false;
  return now_ < sync_release(sends_.next());
}

// The time until which the next work request waits_to_follow(), if that is known.
Time Requester::next_release() const {
  return waits_to_follow() ? sync_release(sends_.next()) : Time::never();
}

bool Requester::find_new() const {
  if (!sends_.has_next()) return false;
  // Serial numbers must not wrap while a READ stays open and the request stream runs on.
  const Work& oldest = sends_.oldest();
  const auto span_max = static_cast<int32_t>(kStreamSpanMax);
  if (oldest.begun && oldest.first.distance_to(sender_.nxt()) >= span_max) return false;
  if (sends_.next_packet() > 0) return true;
  const Work& next = sends_.next();
  return !is_local_work(next.opcode) && may_begin(next);
}

void Requester::begin() {
  Work& work = sends_.next();
  if (work.segment != send_segment_of(attributes_)) size_work(work);
  sends_.begin(sender_.nxt());
  work.message_number = receive_number_ & kPsnMask;
  if (consumes_receive(work.opcode)) ++receive_number_;
  if (is_answered(work.opcode)) {
    work.message_number = read_number_++ & kPsnMask;
    work.response_first = response_end_;
    open_response_packets_ += work.response_packets;
    response_end_ += work.response_packets;
  }
}

// Tells the sender that new packets have become ready where there were none: a pause of the
// application, a fence or a wait for READ data has ended.
void Requester::note_backlog() {
  sends_.run_local_work(sender_.nxt());
  const bool has = has_new();
  if (has && !had_new_) sender_.on_backlog(now_);
  had_new_ = has;
}

// The same at a post, which makes the burst timer run.
void Requester::begin_backlog() {
  note_backlog();
  if (sender_.awaits_burst()) core_.changes |= kDeadlineChanged;
}

// poll_packet() in the common case: the next packet of a plain request. Requires steady(),
// had_new_ and sends_.next_is_plain().
bool Requester::poll_steady(Time now, TxPacket& out) {
  core_.changes = sender_.idle() ? kDeadlineChanged : 0;
  if (!sender_.may_send_steady()) return false;
  const uint32_t packet_index = sends_.next_packet();
  if (packet_index == 0) begin();
  if (!fill_plain(sends_.next(), packet_index, out)) [[unlikely]] {
    core_.changes = kAllChanged;
    return false;
  }
  out.header.psn = sender_.nxt();
  out.header.vp = sender_.send_steady(now);
  sends_.advance(1);
  if (sends_.next_is_plain()) {
    out.more = sender_.may_send_steady();
    return true;
  }
  out.more = sends_.has_unsent();
  if (out.more) {
    core_.changes = kAllChanged;
    sends_.run_local_work(sender_.nxt());
  }
  had_new_ = has_new();
  return true;
}

bool Requester::poll_packet(Time now, TxPacket& out) {
  now_ = now;
  if (steady()) [[likely]] {
    if (!sends_.has_unsent()) {
      had_new_ = false;
      core_.changes = 0;
      return false;
    }
    if (had_new_ && sends_.next_is_plain()) return poll_steady(now, out);
  }
  note_backlog();
  if (keepalive_due_) {
    make_keepalive(out);
    return true;
  }
  if (sends_.stopped()) return false;
  const StreamSender::Choice choice = sender_.choose(has_new());
  if (!choice.any()) return false;
  uint32_t index = sends_.next_index();
  uint32_t packet_index = sends_.next_packet();
  if (choice.retransmits()) {
    index = sends_.index_of(choice.psn);
    packet_index = static_cast<uint32_t>(sends_.at(index).first.distance_to(choice.psn));
  } else if (packet_index == 0) {
    begin();
  }
  if (!fill_request(index, packet_index, out)) {
    // A packet that was sent before counts as lost once more: earlier packets can still be
    // recovered, and then this work request is the oldest and its error is reported.
    if (choice.retransmits()) sender_.on_sent(now, choice);
    return false;
  }
  out.header.psn = choice.psn;
  out.retransmission = choice.retransmits();
  if (choice.retransmits()) out.header.mp_data.flags |= wire::kMpDataReTx;
  if (choice.kind == StreamSender::Choice::Kind::kProbe) {
    out.header.mp_data.flags |= wire::kMpDataTailProbe;
  }
  if (!choice.retransmits()) sends_.advance(1);
  out.header.vp = sender_.on_sent(now, choice);
  sends_.run_local_work(sender_.nxt());
  had_new_ = has_new();
  return true;
}

// Fills in the packet of a request. False: a local key does not open the memory, and the work
// request has its error.
bool Requester::fill_request(uint32_t index, uint32_t packet_index, TxPacket& out) {
  const Work& work = sends_.at(index);
  wire::Packet& header = out.header;
  header = wire::Packet{};
  out.num_segments = 0;
  header.dest_qpn = attributes_.dest_qpn;
  header.mp_data.timestamp = static_cast<uint32_t>(now_.ns());
  header.mp_data.message_number = work.message_number;
  header.mp_data.flags = asks_for_map(config_.params);
  if ((work.flags & kSynchronise) != 0) header.mp_data.flags |= wire::kMpDataSync;
  header.reth = {.va = work.remote_addr, .rkey = work.rkey, .dma_len = work.length};
  if (is_answered(work.opcode)) {
    header.opcode = mp_opcode(work.opcode, true, true);
    if (work.segment != attributes_.path_mtu) header.mp_data.offset = work.segment;
    return !is_atomic(work.opcode) || fill_atomic(index, header);
  }
  const bool first = packet_index == 0;
  const bool last = packet_index + 1 == work.packets;
  const uint32_t offset = packet_index * work.segment;
  header.mp_data.offset = offset;
  header.payload_len = std::min(work.length - offset, work.segment);
  header.solicited_event = last && (work.flags & kSolicited) != 0;
  header.immdt = work.imm_or_rkey;
  header.ieth_rkey = Key(work.imm_or_rkey);
  header.opcode = mp_opcode(work.opcode, first, last);
  return sends_.gather(index, offset, header.payload_len, out);
}

// fill_request() for a request with one piece of payload in each packet.
bool Requester::fill_plain(const Work& work, uint32_t packet_index, TxPacket& out) {
  const bool first = packet_index == 0;
  const bool last = packet_index + 1 == work.packets;
  const uint32_t offset = packet_index * work.segment;
  wire::Packet& header = out.header;
  header = wire::kBlankPacket;
  header.opcode = mp_opcode(work.opcode, first, last);
  header.dest_qpn = attributes_.dest_qpn;
  header.mp_data.flags = asks_for_map(config_.params);
  header.mp_data.timestamp = static_cast<uint32_t>(now_.ns());
  header.mp_data.message_number = work.message_number;
  header.mp_data.offset = offset;
  header.payload_len = std::min(work.length - offset, work.segment);
  header.solicited_event = last && (work.flags & kSolicited) != 0;
  header.reth = {.va = work.remote_addr, .rkey = work.rkey, .dma_len = work.length};
  header.immdt = work.imm_or_rkey;
  header.ieth_rkey = Key(work.imm_or_rkey);
  out.retransmission = false;
  return sends_.gather(sends_.next_index(), offset, header.payload_len, out);
}

bool Requester::fill_atomic(uint32_t index, wire::Packet& header) {
  const Work& work = sends_.at(index);
  const bool swaps = work.opcode == WorkOpcode::kCompareSwap;
  header.reth.dma_len = wire::kAtomicBytes;
  header.atomic_compare = swaps ? work.compare_add : 0;
  header.atomic_swap_add = swaps ? work.swap : work.compare_add;
  return sends_.check_result_place(index);
}

// The keep-alive: an acknowledgement of the response stream that answers no packet. It tells the
// responder that this side still waits.
void Requester::make_keepalive(TxPacket& out) {
  keepalive_due_ = false;
  out.num_segments = 0;
  response_receiver_.make_plain_ack(sender_.draw_path(now_), out.header);
  ++device_.counters->acks_sent;
}

// ---- Time --------------------------------------------------------------------------------------

// Times the oldest open READ from the arrival of its request, which an acknowledgement tells.
void Requester::time_oldest_read() {
  if (read_timed_ || !sends_.has_reads()) return;
  if (!sends_.at(sends_.read_index()).first.before(sender_.una())) return;
  read_timed_ = true;
  last_response_ = now_;
  next_keepalive_ = now_ + retry_interval();
}

void Requester::pop_read() {
  open_response_packets_ -= sends_.pop_read().response_packets;
  read_timed_ = false;
}

// The silence of a peer after which it is asked again: at least two retransmission timeouts, so
// that recovery comes first (IBTA 9.9.2.1 allows rounding up).
Duration Requester::retry_interval() const {
  const Duration recovery = sender_.base_rto() * 2;
  if (attributes_.timeout == 0) return std::max(recovery, config_.params.rto_ceiling);
  return std::max(recovery, ack_timeout(attributes_.timeout));
}

// The time at which the requester gives up. The verbs' retries measure the absence of any progress
// (design 3.1); each retry leaves recovery at least two of its own timeouts, whatever the verbs ask
// for.
Time Requester::give_up_after(Time last_progress) const {
  if (attributes_.timeout == 0) return Time::never();
  const Duration recovery = sender_.base_rto() * 2 * (int64_t{attributes_.retry_cnt} + 1);
  const Time end = last_progress +
                   std::max(recovery, retry_patience(attributes_.timeout, attributes_.retry_cnt));
  if (core_.listening_since <= last_progress) [[likely]]
    return end;
  // A peer that could not be heard is asked once more; but nobody goes on so for ever.
  if (core_.listening_since - last_progress > kStarvedMax) return end;
  return std::max(end, core_.listening_since + retry_interval());
}

Time Requester::requests_give_up_at() const {
  const bool waits = sender_.idle() || sender_.paused() || sender_.spaced();
  if (sends_.stopped() || waits) return Time::never();
  return give_up_after(sender_.last_progress() - core_.waited);
}

Time Requester::reads_give_up_at() const {
  return read_timed_ ? give_up_after(last_response_) : Time::never();
}

void Requester::on_deadline(Time now) {
  now_ = now;
  if (sends_.flushing()) return;
  if (requests_give_up_at() <= now) sends_.give_up(sends_.index_of(sender_.una()));
  if (reads_give_up_at() <= now) {
    sends_.give_up(sends_.read_index());
    read_timed_ = false;
  }
  note_backlog();
  if (sending() && sender_.next_deadline(has_new()) <= now) sender_.on_deadline(now);
  if (read_timed_ && next_keepalive_ <= now) {
    // Only a responder that fell silent needs the keep-alive.
    keepalive_due_ = last_response_ + retry_interval() <= now;
    next_keepalive_ = now + retry_interval();
  }
}

Time Requester::next_deadline() const {
  if (sends_.flushing()) return Time::never();
  Time next = sending() ? sender_.next_deadline(has_new()) : Time::never();
  next = std::min({next, requests_give_up_at(), reads_give_up_at(), next_release()});
  return read_timed_ ? std::min(next, next_keepalive_) : next;
}

// ---- Completions -------------------------------------------------------------------------------

bool Requester::complete(const Work& work) const {
  if (!work.begun || work.status != WcStatus::kSuccess) return false;
  if ((work.first + work.packets).after(sender_.una())) return false;
  return !is_answered(work.opcode) || work.response_done;
}

bool Requester::completion_ready() const {
  return !sends_.empty() && sends_.completion_due(complete(sends_.oldest()));
}

bool Requester::poll_completion(Completion& out) {
  if (!completion_ready()) {
    core_.changes = 0;
    return false;
  }
  const bool done = complete(sends_.oldest());
  if (done && sends_.steady()) [[likely]] {
    core_.changes = 0;
  } else if (sends_.oldest_is_read()) {
    pop_read();
  }
  sends_.pop(done, out);
  return true;
}

}  // namespace mprdma::transport
