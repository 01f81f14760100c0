// What the requester makes of acknowledgements and responses (IBTA volume 1, 9.7.5 and 9.7.6).
#include <algorithm>

#include "transport/roce_opcode.hpp"
#include "transport/roce_requester.hpp"
#include "transport/sge_list.hpp"
#include "wire/rnr_timer.hpp"

namespace mprdma::transport {

namespace {

using wire::AethKind;
using wire::NakCode;
using wire::Operation;

constexpr uint8_t kRnrRetryForever = 7;

constexpr WcStatus status_of(NakCode code) {
  switch (code) {
    case NakCode::kInvalidRequest:
      return WcStatus::kRemoteInvalidRequestError;
    case NakCode::kRemoteAccessError:
      return WcStatus::kRemoteAccessError;
    case NakCode::kRemoteOperationalError:
      return WcStatus::kRemoteOperationError;
    default:
      return WcStatus::kBadResponseError;  // reserved for this service
  }
}

}  // namespace

void RoceRequester::on_packet(Time now, const wire::Packet& packet, FrameHandle frame,
                              RxActions& actions) {
  now_ = now;
  if (stopped_ || flushing_) return;
  // What is not outstanding was answered before, or never sent (9.7.5.1.1: duplicate and ghost
  // acknowledgements are dropped).
  const int32_t ahead = una_.distance_to(packet.psn);
  if (ahead >= una_.distance_to(snd_max_)) {
    ++core_.device.counters->drop_ghost_ack;
    return;
  }
  if (ahead < 0) {
    ++core_.device.counters->drop_stale_ack;
    return;
  }
  if (packet.info().operation == Operation::kAck) {
    on_ack(packet);
  } else {
    on_data(packet, frame, actions);
  }
  do_local_work();
}

// ---- Acknowledgements --------------------------------------------------------------------------

void RoceRequester::on_ack(const wire::Packet& packet) {
  TransportCounters& counters = *core_.device.counters;
  switch (packet.aeth.kind()) {
    case AethKind::kAck:
      ++counters.acks_received;
      acknowledge(packet.psn + 1);
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

// 9.7.5.2.8 and 9.9.2.1.1: nothing is sent before the receiver's time is over.
void RoceRequester::on_rnr_nak(const wire::Packet& packet) {
  ++core_.device.counters->nacks_received;
  if (!acknowledge(packet.psn)) return;
  if (!rnr_until_.is_never()) return;  // a duplicate: the wait is on already
  ++core_.device.counters->rnr_received;
  if (core_.attributes.rnr_retry != kRnrRetryForever) {
    if (rnr_left_ == 0) {
      ++core_.device.counters->rnr_retry_exceeded;
      end_work(index_of(una_), WcStatus::kRnrRetryExceeded, roce_vendor_err(packet.aeth.syndrome));
      return;
    }
    --rnr_left_;
  }
  go_back(Cause::kRnr);
  rnr_until_ = now_ + wire::rnr_timer(packet.aeth.value());
  deadline_ = Time::never();
}

void RoceRequester::on_nak(const wire::Packet& packet) {
  ++core_.device.counters->nacks_received;
  if (!acknowledge(packet.psn)) return;
  const auto code = static_cast<NakCode>(packet.aeth.value());
  if (code != NakCode::kPsnSequenceError) {
    end_work(index_of(una_), status_of(code), roce_vendor_err(packet.aeth.syndrome));
    return;
  }
  if (snd_nxt_ == una_ || !rnr_until_.is_never()) return;  // is about to be sent again
  if (!take_retry()) return;
  go_back(Cause::kNak);
  restart_timer();
}

// PSN of the response packet that comes next. Requires an open READ or atomic.
Psn RoceRequester::awaited_response() const {
  const Work& work = queue_.at_index(reads_.front());
  return work.first + work.responses;
}

void RoceRequester::set_una(Psn una) {
  if (una == una_) return;
  una_ = una;
  if (snd_nxt_.before(una)) snd_nxt_ = una;
  // Progress: all attempts are there again.
  retries_left_ = core_.attributes.retry_cnt;
  rnr_left_ = core_.attributes.rnr_retry;
  timeouts_ = 0;
  asked_again_ = false;
  rnr_until_ = Time::never();
  restart_timer();
}

// Everything before `end` has arrived. False: that cannot be, because the response of a READ or an
// atomic before it has not come; it was lost (9.7.5.1.1, implied NAK).
bool RoceRequester::acknowledge(Psn end) {
  if (reads_.empty() || end.at_or_before(awaited_response())) {
    set_una(end);
    return true;
  }
  set_una(awaited_response());
  miss_response();
  return false;
}

// Asks again for the response at una_. Once: more of what was on its way says the same; if the
// answer is lost as well, the timer finds out.
void RoceRequester::miss_response() {
  if (asked_again_ || snd_nxt_ == una_ || !rnr_until_.is_never()) return;
  ++core_.device.counters->naks_implied;
  asked_again_ = true;
  if (!take_retry()) return;
  go_back(Cause::kNak);
  restart_timer();
}

// ---- Responses ---------------------------------------------------------------------------------

void RoceRequester::on_data(const wire::Packet& packet, FrameHandle frame, RxActions& actions) {
  if (reads_.empty() || packet.psn.before(awaited_response())) {
    // A response to what has none, where its acknowledgement is due (9.9.2.4.2: bad response).
    set_una(packet.psn);
    end_work(index_of(packet.psn), WcStatus::kBadResponseError, 0);
    return;
  }
  // A response acknowledges everything before its request.
  const uint32_t index = reads_.front();
  const Psn awaited = awaited_response();
  set_una(awaited);
  if (packet.psn != awaited) {
    ++core_.device.counters->drop_out_of_sequence;
    miss_response();
    return;
  }
  Work& work = queue_.at_index(index);
  if (!response_fits(work, packet)) {
    end_work(index, WcStatus::kBadResponseError, 0);
    return;
  }
  if (!place(index, packet, frame, actions)) {
    end_work(index, WcStatus::kLocalProtectionError, 0);
    return;
  }
  ++core_.device.counters->packets_received;
  ++work.responses;
  --awaited_psns_;
  if (work.responses == work.packets) reads_.pop();
  set_una(awaited + 1);
}

// Is it the awaited packet? A response begins where the request asked it to (9.7.5.2.5; a READ that
// was repeated in the middle: 9.7.5.2.4).
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

// False: a local key does not open the memory.
bool RoceRequester::place(uint32_t index, const wire::Packet& packet, FrameHandle frame,
                          RxActions& actions) {
  const Work& work = queue_.at_index(index);
  const std::span<const Sge> sges = sges_of(index).first(work.num_sge);
  const MemoryTable& memory = *core_.device.memory;
  if (!is_atomic(work.opcode)) {
    return scatter_payload(sges, work.responses * core_.attributes.path_mtu, packet.payload_len,
                           frame, memory, core_.config.pd, actions);
  }
  return scatter_value(sges, packet.atomic_original, memory, core_.config.pd, actions);
}

void RoceRequester::pop_read() {
  const Work& work = queue_.at_index(reads_.pop());
  awaited_psns_ -= work.packets - work.responses;
}

}  // namespace mprdma::transport
