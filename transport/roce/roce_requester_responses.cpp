// The requester's handling of acknowledgements and responses (IBTA volume 1, 9.7.5 and 9.7.6).
#include <algorithm>

#include "transport/roce/roce_opcode.hpp"
#include "transport/roce/roce_requester.hpp"
#include "wire/rnr_timer.hpp"

namespace mprdma::transport {

namespace {

using wire::AethKind;
using wire::NakCode;
using wire::Operation;

}  // namespace

void RoceRequester::on_packet(Time now, const wire::Packet& packet, FrameHandle frame,
                              RxActions& actions) {
  now_ = now;
  if (sends_.stopped() || sends_.flushing()) return;
  // A PSN that is not outstanding was answered before, or never sent (9.7.5.1.1: duplicate and
  // ghost acknowledgements are dropped).
  const int32_t ahead = una_.distance_to(packet.psn);
  if (ahead >= una_.distance_to(snd_max_)) {
    ++core_.device.counters->drop_ghost_ack;
    return;
  }
  if (ahead < 0 && !forgets_message(packet)) {
    ++core_.device.counters->drop_stale_ack;
    return;
  }
  core_.heard_peer = true;
  if (packet.info().operation == Operation::kAck) {
    on_ack(packet);
  } else {
    on_data(packet, frame, actions);
  }
  sends_.run_local_work(snd_max_);
}

// ---- Acknowledgements --------------------------------------------------------------------------

void RoceRequester::on_ack(const wire::Packet& packet) {
  TransportCounters& counters = *core_.device.counters;
  switch (packet.aeth.kind()) {
    case AethKind::kAck:
      ++counters.acks_received;
      if (times_) [[unlikely]] {
        acknowledge_and_tell(packet.psn);
      } else {
        acknowledge(packet.psn + 1);
      }
      break;
    case AethKind::kRnrNak:
      on_rnr_nak(packet);
      break;
    case AethKind::kNak:
      on_nak(packet);
      break;
    default:
      ++counters.drop_bad_packet;
      break;
  }
}

// Somebody wants to know what an acknowledgement says of the network.
void RoceRequester::acknowledge_and_tell(Psn acked) {
  const Psn una_before = una_;
  round_trip_ = round_trips_.take(now_, acked);
  acknowledge(acked + 1);
  if (!control_) return;
  const bool in_use = acked.at_or_before(filled_at_);
  // It stays near una_, so that serial numbers compare.
  if (filled_at_.before(una_)) filled_at_ = una_ - 1;
  const int32_t packets = una_before.distance_to(una_);
  // Beside an open READ no round trip is measured, and without any a delay has no say.
  const bool untimed = round_trip_ == Duration::zero() && sends_.has_reads();
  if (packets <= 0 || untimed) return;
  control_->on_ack({.now = now_,
                    .rtt = round_trip_,
                    .packets = static_cast<uint32_t>(packets),
                    .in_flight = in_flight(),
                    .limited_by = in_use ? cc::LimitedBy::kWindow : cc::LimitedBy::kApplication});
  window_ = control_->packets();
}

// A receiver that is not ready has lost nothing, and what a READ lacks is mostly its response,
// which no window of this side governs. Of a silence only the first timeout counts: the others
// repeat it.
void RoceRequester::tell_lost(Cause cause) {
  if (is_answered(sends_.at(sends_.index_of(una_)).opcode)) return;
  const Params& params = core_.config.params;
  if (cause == Cause::kNak && params.loss_shrinks_window) control_->on_loss({.now = now_});
  if (cause == Cause::kTimeout && timeouts_ == 1 && params.timeout_shrinks_window) {
    control_->on_timeout(now_);
  }
  window_ = control_->packets();
}

// Waits for the receiver's RNR time, before which nothing is sent (9.7.5.2.8, 9.9.2.1.1).
void RoceRequester::on_rnr_nak(const wire::Packet& packet) {
  ++core_.device.counters->nacks_received;
  if (!acknowledge(packet.psn)) return;
  if (!rnr_until_.is_never()) return;  // a duplicate: the wait has begun already
  ++core_.device.counters->rnr_received;
  if (!sends_.consume_rnr_retry(sends_.index_of(una_))) return;
  go_back(Cause::kRnr);
  rnr_until_ = now_ + wire::rnr_timer(packet.aeth.value());
  deadline_ = Time::never();
}

// Tells whether the packet is a go-back-0 peer's NAK of the message that una_ lies in: it names the
// first packet, although later ones were acknowledged.
bool RoceRequester::forgets_message(const wire::Packet& packet) const {
  if (!core_.config.params.go_back_0 || packet.info().operation != Operation::kAck ||
      packet.aeth.syndrome != wire::nak_syndrome(NakCode::kPsnSequenceError) || una_ == snd_max_) {
    return false;
  }
  const Work& work = sends_.at(sends_.index_of(una_));
  return packet.psn == work.first && !is_answered(work.opcode) && goes_back_0(work.first, una_);
}

void RoceRequester::on_nak(const wire::Packet& packet) {
  ++core_.device.counters->nacks_received;
  if (una_.at_or_before(packet.psn) && !acknowledge(packet.psn)) return;
  const auto code = static_cast<NakCode>(packet.aeth.value());
  if (code != NakCode::kPsnSequenceError) {
    sends_.end(sends_.index_of(una_), status_of_refusal(code, WcStatus::kBadResponseError),
               roce_vendor_err(packet.aeth.syndrome));
    return;
  }
  if (snd_nxt_ == packet.psn || !rnr_until_.is_never()) return;  // its repetition is due already
  if (!consume_retry_of_loss()) return;
  go_back(Cause::kNak);
  restart_timer();
}

// The PSN of the next response packet. Requires an open READ or atomic.
Psn RoceRequester::awaited_response() const {
  const Work& work = sends_.at(sends_.read_index());
  return work.first + work.responses;
}

void RoceRequester::set_una(Psn una) {
  if (una == una_) return;
  una_ = una;
  if (snd_nxt_.before(una)) snd_nxt_ = una;
  if (furthest_.before(una)) {
    // Progress renews all attempts.
    furthest_ = una;
    retries_left_ = core_.attributes.retry_cnt;
    sends_.renew_rnr_retries();
    timeouts_ = 0;
  }
  asked_again_ = false;
  rnr_until_ = Time::never();
  restart_timer();
}

// Acknowledges everything before `end`. False: a READ or an atomic before `end` still lacks its
// response, which therefore was lost (9.7.5.1.1, implied NAK).
bool RoceRequester::acknowledge(Psn end) {
  if (!sends_.has_reads() || end.at_or_before(awaited_response())) {
    set_una(end);
    return true;
  }
  set_una(awaited_response());
  miss_response();
  return false;
}

// Asks once more for the response at una_. Only once, because further packets in flight report the
// loss again; if the repeated answer is lost as well, the timer expires.
void RoceRequester::miss_response() {
  if (asked_again_ || snd_nxt_ == una_ || !rnr_until_.is_never()) return;
  ++core_.device.counters->naks_implied;
  asked_again_ = true;
  if (!consume_retry_of_loss()) return;
  go_back(Cause::kNak);
  restart_timer();
}

// ---- Responses ---------------------------------------------------------------------------------

void RoceRequester::on_data(const wire::Packet& packet, FrameHandle frame, RxActions& actions) {
  if (!sends_.has_reads() || packet.psn.before(awaited_response())) {
    // Bad response (9.9.2.4.2): the request that is due to be acknowledged has no response.
    set_una(packet.psn);
    sends_.end(sends_.index_of(packet.psn), WcStatus::kBadResponseError);
    return;
  }
  // A response acknowledges everything before its request.
  const uint32_t index = sends_.read_index();
  const Psn awaited = awaited_response();
  set_una(awaited);
  if (packet.psn != awaited) {
    ++core_.device.counters->drop_out_of_sequence;
    miss_response();
    return;
  }
  Work& work = sends_.at(index);
  if (!response_fits(work, packet)) {
    sends_.end(index, WcStatus::kBadResponseError);
    return;
  }
  if (!place(index, packet, frame, actions)) {
    sends_.end(index, WcStatus::kLocalProtectionError);
    return;
  }
  ++core_.device.counters->packets_received;
  ++work.responses;
  --awaited_psns_;
  if (work.responses == work.packets) sends_.pop_read();
  set_una(awaited + 1);
}

// Tells whether `packet` is the awaited one. A response begins where the request asked it to
// (9.7.5.2.5; a READ that was repeated in the middle: 9.7.5.2.4).
bool RoceRequester::response_fits(const Work& work, const wire::Packet& packet) const {
  const wire::OpcodeInfo& info = packet.info();
  if (info.has_aeth && packet.aeth.kind() != AethKind::kAck) return false;
  if (is_atomic(work.opcode)) return info.operation == Operation::kAtomicAck;
  if (info.operation != Operation::kReadResponse) return false;
  const uint32_t offset = work.responses * core_.attributes.path_mtu;
  const bool may_start = work.responses == 0 || work.responses == work.resumed_at;
  const bool may_continue = work.responses > 0;
  return packet.payload_len == std::min(work.length - offset, core_.attributes.path_mtu) &&
         (info.starts_message() ? may_start : may_continue) &&
         info.ends_message() == (work.responses + 1 == work.packets);
}

// Places response data. False: a local key does not open the memory.
bool RoceRequester::place(uint32_t index, const wire::Packet& packet, FrameHandle frame,
                          RxActions& actions) {
  const Work& work = sends_.at(index);
  if (is_atomic(work.opcode)) return sends_.scatter_result(index, packet.atomic_original, actions);
  return sends_.scatter(index, work.responses * core_.attributes.path_mtu, packet.payload_len,
                        frame, actions);
}

void RoceRequester::pop_read() {
  const Work& work = sends_.pop_read();
  awaited_psns_ -= work.packets - work.responses;
}

}  // namespace mprdma::transport
