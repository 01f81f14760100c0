#include "transport/requester.hpp"

#include <algorithm>

#include "wire/rnr_timer.hpp"

namespace mprdma::transport {

namespace {

using wire::NackCode;
using wire::Opcode;

constexpr uint8_t kRnrRetryForever = 7;

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
      paths_(config.params.path_policy),
      response_receiver_(config.params.window_slots, wire::kMpAckResponseStream, device.held,
                         device.counters),
      queue_(std::max(config.send_depth, 1u)),
      sges_(std::make_unique<Sge[]>(size_t{queue_.capacity()} * config.max_send_sge)),
      reads_(kMaxRdAtomic) {}

void Requester::connect() {
  sender_.reset(attributes_.sq_psn);
  paths_.connect(attributes_.vp);
  response_receiver_.reset(attributes_.sq_psn, attributes_.dest_qpn);
  receive_number_ = read_number_ = 0;
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
  const bool one_packet = work.length == 0 || request.opcode == WorkOpcode::kRead;
  work.packets = one_packet ? 1 : (work.length - 1) / attributes_.path_mtu + 1;
  queue_.push(work);
  return true;
}

// ---- Sending -----------------------------------------------------------------------------------

bool Requester::may_begin(const Work& work) const {
  if (draining_) return false;
  if ((work.flags & kFence) != 0 && !reads_.empty()) return false;
  if (work.opcode != WorkOpcode::kRead) return true;
  return reads_.size() < std::min<uint32_t>(attributes_.max_rd_atomic, kMaxRdAtomic);
}

bool Requester::has_new() const {
  if (blocked_ || flushing_ || next_ == queue_.tail_index()) return false;
  return next_packet_ > 0 || may_begin(queue_.at_index(next_));
}

void Requester::begin(Work& work) {
  work.begun = true;
  work.first = sender_.nxt();
  work.message_number = receive_number_ & kPsnMask;
  if (consumes_receive(work.opcode)) ++receive_number_;
  if (work.opcode == WorkOpcode::kRead) {
    work.message_number = read_number_++ & kPsnMask;
    if (reads_.empty()) last_response_ = now_;
    reads_.push(next_);
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

bool Requester::poll_packet(Time now, TxPacket& out) {
  now_ = now;
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
    // What was sent before and can't be sent again can't be waited for, either.
    if (choice.again()) stopped_ = flushing_ = true;
    return false;
  }
  out.header.psn = choice.psn;
  out.header.vp = paths_.next(choice.kind);
  if (choice.again()) out.header.mp_data.flags |= wire::kMpDataReTx;
  if (choice.kind == StreamSender::Choice::Kind::kProbe) {
    out.header.mp_data.flags |= wire::kMpDataTailProbe;
  }
  if (!choice.again() && ++next_packet_ == queue_.at_index(next_).packets) {
    ++next_;
    next_packet_ = 0;
  }
  sender_.on_sent(now, choice);
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
  response_receiver_.make_plain_ack(attributes_.vp, out.header);
  ++device_.counters->acks_sent;
}

// ---- Acknowledgements --------------------------------------------------------------------------

void Requester::on_ack(Time now, const wire::Packet& ack) {
  now_ = now;
  const NackCode code = ack.mp_ack.nack;
  const StreamSender::AckResult result = sender_.on_ack(now, ack);
  TransportCounters& counters = *device_.counters;
  if (result == StreamSender::AckResult::kGhost) {
    ++counters.drop_ghost_ack;
    return;
  }
  paths_.on_ack(ack.vp);
  ++(code == NackCode::kNone ? counters.acks_received : counters.nacks_received);
  if (result == StreamSender::AckResult::kStale && code == NackCode::kNone) {
    ++counters.drop_stale_ack;
  }
  // What follows speaks of the oldest packet that is outstanding, or is stale.
  if (ack.psn != sender_.una() || sender_.idle()) return;
  if (code == NackCode::kRnr) {
    on_rnr(now, ack);
  } else if (code >= NackCode::kSequenceError) {
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
  const Psn before = response_receiver_.rcv_nxt();
  if (reads_.empty() && packet.psn.at_or_after(before)) {
    ++device_.counters->drop_bad_packet;  // nobody asked for it
    return RxVerdict::kDone;
  }
  const RxVerdict verdict = response_receiver_.receive(
      packet, frame, actions, [&](const wire::Packet& next, FrameHandle next_frame) {
        return execute_response(next, next_frame, actions);
      });
  // A held packet is progress, too: the responder lives and sends.
  if (verdict == RxVerdict::kHeld || before != response_receiver_.rcv_nxt()) last_response_ = now;
  return verdict;
}

Outcome Requester::execute_response(const wire::Packet& packet, FrameHandle frame,
                                    RxActions& actions) {
  // Held ahead of what the last READ asked for: the peer is broken, its stream is refused.
  if (reads_.empty()) return {.nack = NackCode::kInvalidRequest};
  const uint32_t index = reads_.front();
  Work& work = queue_.at_index(index);
  // A response shows that its request, and everything before it, has arrived.
  sender_.on_implied_ack(now_, work.first + 1);
  const wire::OpcodeInfo& info = packet.info();
  if (info.operation == wire::Operation::kResponseError) {
    return end_response(index, status_of_syndrome(packet.aeth.syndrome), packet.aeth.syndrome);
  }
  const uint32_t left = work.length - work.response_offset;
  const uint32_t expected = std::min(left, attributes_.path_mtu);
  if (info.operation != wire::Operation::kReadResponse ||
      packet.mp_data.message_number != work.message_number ||
      packet.mp_data.offset != work.response_offset || packet.payload_len != expected ||
      info.starts_message() != (work.response_offset == 0) ||
      info.ends_message() != (left == expected)) {
    return end_response(index, WcStatus::kBadResponseError, 0);
  }
  if (!scatter_payload(sges_of(index).first(work.num_sge), work.response_offset, expected, frame,
                       *device_.memory, config_.pd, actions)) {
    return end_response(index, WcStatus::kLocalProtectionError, 0);
  }
  work.response_offset += expected;
  if (info.ends_message()) {
    work.response_done = true;
    reads_.pop();
  }
  return {};
}

// The READ fails; its stream is taken as it comes until the queue pair is in error.
Outcome Requester::end_response(uint32_t index, WcStatus status, uint32_t vendor_err) {
  fail_work(index, status, vendor_err);
  return {};
}

// ---- Time --------------------------------------------------------------------------------------

// The verbs' timeout and retry_cnt measure the absence of any progress (design 3.1).
Time Requester::give_up_at() const {
  if (attributes_.timeout == 0 || !waiting()) return Time::never();
  Time since = sending() ? sender_.last_progress() : last_response_;
  if (!reads_.empty()) since = std::max(since, last_response_);
  return since + timeout_of(attributes_.timeout) * (attributes_.retry_cnt + 1);
}

Duration Requester::nudge_interval() const {
  const Duration ceiling = config_.params.rto_ceiling;
  return attributes_.timeout == 0 ? ceiling : std::min(timeout_of(attributes_.timeout), ceiling);
}

Time Requester::nudge_at() const {
  const Time nudge = last_response_ + nudge_interval();
  return next_nudge_.is_never() ? nudge : std::max(nudge, next_nudge_);
}

void Requester::on_deadline(Time now) {
  now_ = now;
  if (flushing_) return;
  if (give_up_at() <= now && !sender_.paused()) {
    ++device_.counters->retry_exceeded;
    stopped_ = true;
    fail_work(queue_.head_index(), WcStatus::kRetryExceeded, 0);
    return;
  }
  if (sending() && sender_.next_deadline() <= now) sender_.on_deadline(now);
  if (!reads_.empty() && !sending() && nudge_at() <= now) {
    nudge_due_ = true;
    next_nudge_ = now + nudge_interval();
  }
}

Time Requester::next_deadline() const {
  if (flushing_) return Time::never();
  Time next = sending() ? sender_.next_deadline() : Time::never();
  if (!sender_.paused()) next = std::min(next, give_up_at());
  if (!reads_.empty() && !sending()) next = std::min(next, nudge_at());
  return next;
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
    out.status = work.status != WcStatus::kSuccess ? work.status : WcStatus::kFlushError;
    out.vendor_err = work.vendor_err;
    failed_ = true;
  }
  out.emit = !success || config_.signal_all || (work.flags & kSignaled) != 0;
  if (!reads_.empty() && reads_.front() == queue_.head_index()) reads_.pop();
  if (next_ == queue_.head_index()) {
    ++next_;
    next_packet_ = 0;
  }
  queue_.pop();
  return true;
}

}  // namespace mprdma::transport
