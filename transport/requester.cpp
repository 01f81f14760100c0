#include "transport/requester.hpp"

#include <algorithm>

#include "wire/rnr_timer.hpp"

namespace mprdma::transport {

namespace {

using wire::NackCode;
using wire::Opcode;

constexpr uint8_t kRnrRetryForever = 7;

// One retry takes between one and four of the verbs' timeouts (IBTA 9.9.2.1). Adapters use up what
// they are allowed, and a host in software needs it: its peer may be stopped meanwhile.
constexpr int64_t kTimeoutsPerRetry = 4;

// 4.096 us * 2^code (IBTA 9.9.2.1).
constexpr Duration timeout_of(uint8_t code) {
  return Duration::ns(4096) * (int64_t{1} << code);
}

constexpr bool consumes_receive(WorkOpcode opcode) {
  return opcode == WorkOpcode::kSend || opcode == WorkOpcode::kSendImm ||
         opcode == WorkOpcode::kWriteImm;
}

constexpr WcOpcode wc_opcode(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::kWrite:
    case WorkOpcode::kWriteImm:
      return WcOpcode::kWrite;
    case WorkOpcode::kRead:
      return WcOpcode::kRead;
    default:
      return WcOpcode::kSend;
  }
}

constexpr Opcode send_opcode(bool imm, bool first, bool last) {
  if (first && last) return imm ? Opcode::kMpSendOnlyImm : Opcode::kMpSendOnly;
  if (first) return Opcode::kMpSendFirst;
  if (last) return imm ? Opcode::kMpSendLastImm : Opcode::kMpSendLast;
  return Opcode::kMpSendMiddle;
}

constexpr Opcode write_opcode(bool imm, bool first, bool last) {
  if (first && last) return imm ? Opcode::kMpWriteOnlyImm : Opcode::kMpWriteOnly;
  if (first) return Opcode::kMpWriteFirst;
  if (last) return imm ? Opcode::kMpWriteLastImm : Opcode::kMpWriteLast;
  return Opcode::kMpWriteMiddle;
}

constexpr WcStatus status_of(NackCode code) {
  switch (code) {
    case NackCode::kRemoteAccessError:
      return WcStatus::kRemoteAccessError;
    case NackCode::kRemoteOperationalError:
      return WcStatus::kRemoteOperationError;
    default:
      return WcStatus::kRemoteInvalidRequestError;
  }
}

constexpr WcStatus status_of_syndrome(uint8_t syndrome) {
  switch (static_cast<wire::NakCode>(wire::aeth_value(syndrome))) {
    case wire::NakCode::kRemoteAccessError:
      return WcStatus::kRemoteAccessError;
    case wire::NakCode::kRemoteOperationalError:
      return WcStatus::kRemoteOperationError;
    default:
      return WcStatus::kRemoteInvalidRequestError;
  }
}

}  // namespace

Requester::Requester(const QpConfig& config, const Device& device, const QpAttributes& attributes)
    : config_(config),
      device_(device),
      attributes_(attributes),
      sender_(config.params, device.counters),
      response_receiver_(config.params, wire::kMpAckResponseStream, device),
      queue_(std::max(config.send_depth, 1u)),
      sges_(std::make_unique<Sge[]>(size_t{queue_.capacity()} * config.max_send_sge)),
      reads_(kMaxRdAtomic) {}

void Requester::connect() {
  sender_.reset(attributes_.sq_psn, attributes_.vp, Prng(attributes_.path_seed).split("requests"));
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
  work.length = static_cast<uint32_t>(total_bytes(request.sges));
  const uint32_t packets = work.length == 0 ? 1 : (work.length - 1) / attributes_.path_mtu + 1;
  const bool is_read = request.opcode == WorkOpcode::kRead;
  work.packets = is_read ? 1 : packets;
  work.response_packets = is_read ? packets : 0;
  queue_.push(work);
  note_backlog();
  return true;
}

// ---- Sending -----------------------------------------------------------------------------------

bool Requester::may_begin(const Work& work) const {
  if (draining_) return false;
  if ((work.flags & kFence) != 0 && !reads_.empty()) return false;
  if (now_ < sync_release(work)) return false;
  if (work.opcode != WorkOpcode::kRead) return true;
  if (reads_.empty()) return true;
  return reads_.size() < std::min<uint32_t>(attributes_.max_rd_atomic, kMaxRdAtomic) &&
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
  return sender_.idle() ? Time() : last_begun_ + sender_.sync_delay();
}

// When the work request that is next may begin, if only time keeps it.
Time Requester::next_release() const {
  if (blocked_ || stopped_ || draining_ || next_packet_ > 0 || next_ == queue_.tail_index()) {
    return Time::never();
  }
  const Time release = sync_release(queue_.at_index(next_));
  return now_ < release ? release : Time::never();
}

bool Requester::has_new() const {
  if (blocked_ || flushing_ || next_ == queue_.tail_index()) return false;
  // A READ may stay open while the request stream runs on: serial numbers must not come round.
  const Work& oldest = queue_.front();
  const auto span_max = static_cast<int32_t>(kStreamSpanMax);
  if (oldest.begun && oldest.first.distance_to(sender_.nxt()) >= span_max) return false;
  return next_packet_ > 0 || may_begin(queue_.at_index(next_));
}

void Requester::begin(Work& work) {
  work.begun = true;
  work.first = sender_.nxt();
  work.message_number = receive_number_ & kPsnMask;
  if (consumes_receive(work.opcode)) ++receive_number_;
  if (work.opcode == WorkOpcode::kRead) {
    work.message_number = read_number_++ & kPsnMask;
    work.response_first = response_end_;
    reads_.push(next_);
    open_response_packets_ += work.response_packets;
    response_end_ += work.response_packets;
  }
}

// The work request of an outstanding PSN; they lie in the ring in PSN order.
uint32_t Requester::index_of(Psn psn) const {
  uint32_t low = queue_.head_index();
  uint32_t count = next_ - low + (next_packet_ > 0 ? 1 : 0);
  while (count > 1) {
    const uint32_t half = count / 2;
    if (queue_.at_index(low + half).first.at_or_before(psn)) {
      low += half;
      count -= half;
    } else {
      count = half;
    }
  }
  return low;
}

// Tells the sender when there is something new to send and was nothing before: the end of a pause
// of the application, of a fence, of a wait for READ data.
void Requester::note_backlog() {
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
  if (choice.again()) out.header.mp_data.flags |= wire::kMpDataReTx;
  if (choice.kind == StreamSender::Choice::Kind::kProbe) {
    out.header.mp_data.flags |= wire::kMpDataTailProbe;
  }
  if (!choice.again()) last_begun_ = now;
  if (!choice.again() && ++next_packet_ == queue_.at_index(next_).packets) {
    ++next_;
    next_packet_ = 0;
  }
  out.header.vp = sender_.on_sent(now, choice);
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
  if (work.opcode == WorkOpcode::kRead) {
    header.opcode = Opcode::kMpReadRequest;
    return true;
  }
  const bool first = packet_index == 0;
  const bool last = packet_index + 1 == work.packets;
  const uint32_t offset = packet_index * attributes_.path_mtu;
  header.mp_data.offset = offset;
  header.payload_len = std::min(work.length - offset, attributes_.path_mtu);
  header.solicited_event = last && (work.flags & kSolicited) != 0;
  header.immdt = work.imm;
  const bool imm = work.opcode == WorkOpcode::kSendImm || work.opcode == WorkOpcode::kWriteImm;
  const bool is_write = work.opcode == WorkOpcode::kWrite || work.opcode == WorkOpcode::kWriteImm;
  header.opcode = is_write ? write_opcode(imm, first, last) : send_opcode(imm, first, last);
  if (gather(work, index, offset, header.payload_len, out)) return true;
  fail_work(index, WcStatus::kLocalProtectionError, 0);
  return false;
}

bool Requester::gather(const Work& work, uint32_t index, uint32_t offset, uint32_t length,
                       TxPacket& out) const {
  return walk_sges(sges_of(index).first(work.num_sge), offset, length, [&](const Sge& piece) {
    uint64_t addr = piece.addr;
    if ((work.flags & kInline) == 0 &&
        !device_.memory->translate(piece.lkey, config_.pd, piece.addr, piece.length, 0, &addr)) {
      return false;
    }
    out.segments[out.num_segments++] = {.addr = addr, .length = piece.length};
    return true;
  });
}

// An acknowledgement of the response stream that answers no packet: "I am still waiting".
void Requester::make_nudge(TxPacket& out) {
  nudge_due_ = false;
  out.num_segments = 0;
  response_receiver_.make_plain_ack(sender_.draw_path(), out.header);
  ++device_.counters->acks_sent;
}

// ---- Acknowledgements --------------------------------------------------------------------------

void Requester::on_ack(Time now, const wire::Packet& ack) {
  now_ = now;
  const NackCode code = ack.mp_ack.nack;
  const StreamSender::AckResult result = sender_.on_ack(now, ack, has_new());
  TransportCounters& counters = *device_.counters;
  if (result == StreamSender::AckResult::kGhost) {
    ++counters.drop_ghost_ack;
    return;
  }
  // What says nothing new may be old, or not from the peer.
  if (result == StreamSender::AckResult::kNews) {
    peer_in_order_ = (ack.mp_ack.flags & wire::kMpAckOrderedPlacement) != 0;
  }
  ++(code == NackCode::kNone ? counters.acks_received : counters.nacks_received);
  if (result == StreamSender::AckResult::kStale && code == NackCode::kNone) {
    ++counters.drop_stale_ack;
  }
  time_oldest_read();
  // What follows speaks of the oldest packet that is outstanding, or is stale.
  if (ack.psn != sender_.una() || sender_.idle()) return;
  if (code == NackCode::kRnr) {
    on_rnr(now, ack);
  } else if (code >= NackCode::kInvalidRequest) {
    on_terminal_nak(ack);
  }
}

void Requester::on_rnr(Time now, const wire::Packet& ack) {
  if (sender_.paused()) return;  // a duplicate: the wait is on already
  ++device_.counters->rnr_received;
  // Each message has its own retries; only getting past it says that the receiver was ready.
  if (ack.psn != rnr_psn_) rnr_left_ = attributes_.rnr_retry;
  rnr_psn_ = ack.psn;
  if (attributes_.rnr_retry != kRnrRetryForever) {
    if (rnr_left_ == 0) {
      ++device_.counters->rnr_retry_exceeded;
      stopped_ = true;
      fail_work(index_of(ack.psn), WcStatus::kRnrRetryExceeded,
                static_cast<uint32_t>(NackCode::kRnr));
      return;
    }
    --rnr_left_;
  }
  sender_.pause(now + wire::rnr_timer(ack.mp_ack.detail));
}

void Requester::on_terminal_nak(const wire::Packet& ack) {
  if (stopped_) return;
  stopped_ = true;
  fail_work(index_of(ack.psn), status_of(ack.mp_ack.nack), static_cast<uint32_t>(ack.mp_ack.nack));
}

void Requester::fail_work(uint32_t index, WcStatus status, uint32_t vendor_err) {
  Work& work = queue_.at_index(index);
  blocked_ = true;
  if (work.status != WcStatus::kSuccess) return;
  work.status = status;
  work.vendor_err = vendor_err;
  ++device_.counters->errors_local;
}

// ---- Responses ---------------------------------------------------------------------------------

RxVerdict Requester::on_response(Time now, const wire::Packet& packet, FrameHandle frame,
                                 RxActions& actions) {
  now_ = now;
  if (packet.psn.at_or_after(response_end_)) {
    ++device_.counters->drop_bad_packet;  // nobody asked for it
    return RxVerdict::kDone;
  }
  const RxVerdict verdict =
      response_receiver_.receive(packet, frame, actions, ResponseStream{*this, actions});
  // A packet ahead of its turn is progress, too: the responder lives and sends.
  if (response_receiver_.took_packet()) last_response_ = now;
  time_oldest_read();
  note_backlog();
  return verdict;
}

// READ data may be placed as it arrives where all the memory that it goes to, or the device, allows
// that. What does not fit the READ that it names waits, so that it is judged in its turn.
Early Requester::place_response(const wire::Packet& packet, FrameHandle frame,
                                RxActions& actions) const {
  if (packet.info().operation != wire::Operation::kReadResponse || packet.payload_len == 0 ||
      reads_.empty()) {
    return Early::kWait;
  }
  // Open READs have consecutive numbers.
  const uint32_t oldest = queue_.at_index(reads_.front()).message_number;
  const uint32_t which = (packet.mp_data.message_number - oldest) & kPsnMask;
  if (which >= reads_.size()) return Early::kWait;
  const uint32_t index = reads_[which];
  const Work& work = queue_.at_index(index);
  const uint32_t offset = packet.mp_data.offset;
  if (work.status != WcStatus::kSuccess || offset % attributes_.path_mtu != 0 ||
      !response_fits(work, offset, packet) ||
      work.response_first + offset / attributes_.path_mtu != packet.psn) {
    return Early::kWait;
  }
  // Memory here is updated after everything before it: it waits for its turn.
  if ((work.flags & kSynchronise) != 0 &&
      response_receiver_.rcv_nxt().before(work.response_first)) {
    return Early::kWait;
  }
  const bool forced = config_.params.placement == PlacementPolicy::kRelaxed;
  const std::span<const Sge> sges = sges_of(index).first(work.num_sge);
  const uint32_t access = forced ? kLocalWrite : kLocalWrite | kRelaxedOrdering;
  if (!all_open(sges, offset, packet.payload_len, *device_.memory, config_.pd, access)) {
    return Early::kWait;
  }
  scatter_payload(sges, offset, packet.payload_len, frame, *device_.memory, config_.pd, actions);
  return Early::kPlaced;
}

// Is it the packet of the READ's data that belongs at `offset`?
bool Requester::response_fits(const Work& work, uint32_t offset, const wire::Packet& packet) const {
  if (packet.mp_data.offset != offset || offset > work.length) return false;
  const uint32_t left = work.length - offset;
  const uint32_t expected = std::min(left, attributes_.path_mtu);
  return packet.payload_len == expected && packet.info().starts_message() == (offset == 0) &&
         packet.info().ends_message() == (left == expected);
}

Outcome Requester::execute_response(const wire::Packet& packet, FrameHandle frame, bool placed,
                                    RxActions& actions) {
  // A READ that failed takes no more than it asked for; nothing comes after it.
  if (reads_.empty()) return {};
  const uint32_t index = reads_.front();
  Work& work = queue_.at_index(index);
  // A response shows that its request, and everything before it, has arrived.
  sender_.on_implied_ack(now_, work.first + 1);
  const wire::OpcodeInfo& info = packet.info();
  if (info.operation == wire::Operation::kResponseError) {
    return end_response(index, status_of_syndrome(packet.aeth.syndrome), packet.aeth.syndrome);
  }
  if (info.operation != wire::Operation::kReadResponse ||
      packet.mp_data.message_number != work.message_number ||
      !response_fits(work, work.response_offset, packet)) {
    return end_response(index, WcStatus::kBadResponseError, 0);
  }
  const std::span<const Sge> sges = sges_of(index).first(work.num_sge);
  const bool open = placed ? all_open(sges, work.response_offset, packet.payload_len,
                                      *device_.memory, config_.pd, kLocalWrite)
                           : scatter_payload(sges, work.response_offset, packet.payload_len, frame,
                                             *device_.memory, config_.pd, actions);
  if (!open) return end_response(index, WcStatus::kLocalProtectionError, 0);
  work.response_offset += packet.payload_len;
  if (info.ends_message()) {
    work.response_done = true;
    pop_read();
  }
  return {};
}

// The READ fails; its stream is taken as it comes until the queue pair is in error.
Outcome Requester::end_response(uint32_t index, WcStatus status, uint32_t vendor_err) {
  fail_work(index, status, vendor_err);
  return {};
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
  return std::max(recovery, timeout_of(attributes_.timeout));
}

// The verbs' retries measure the absence of any progress (design 3.1).
Time Requester::give_up_after(Time last_progress) const {
  if (attributes_.timeout == 0) return Time::never();
  const Duration interval =
      std::max(sender_.base_rto() * 2, timeout_of(attributes_.timeout) * kTimeoutsPerRetry);
  return last_progress + interval * (attributes_.retry_cnt + 1);
}

Time Requester::requests_give_up_at() const {
  return sending() && !sender_.paused() ? give_up_after(sender_.last_progress()) : Time::never();
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
  return work.opcode != WorkOpcode::kRead || work.response_done;
}

bool Requester::completion_ready() const {
  if (queue_.empty()) return false;
  const Work& work = queue_.front();
  return complete(work) || work.status != WcStatus::kSuccess || flushing_;
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
  out.opcode = wc_opcode(work.opcode);
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
