// Timers, repetitions and the way out. An id has one timer: for the answer that it waits for, or
// for the end of the state that it is in.
#include <cerrno>

#include "dataplane/cm/state.hpp"

namespace mprdma::dataplane {

void CmAgent::State::set_timer(CmId& id, Duration after) {
  wheel->schedule(id.timer, now + after);
}

void CmAgent::State::stop_timer(CmId& id) {
  wheel->cancel(id.timer);
}

void CmAgent::State::on_timer(CmId& id) {
  switch (id.state) {
    case CmState::kResolving:
      stop_resolving(id);
      return emit(id, MPRDMA_ABI_CM_EVENT_ADDRESS_ERROR, -ETIMEDOUT);
    case CmState::kConnecting:
    case CmState::kSidrAsking:
    case CmState::kAccepted:
    case CmState::kDisconnecting:
      if (id.retries_left == 0) return on_last_repetition(id);
      --id.retries_left;
      ++counters.cm_repeated;
      id.mra_heard = false;
      if (id.state == CmState::kDisconnecting) id.timeout = id.timeout * 2;
      send_kept(id, Room::kOwn);
      return set_timer(id, id.timeout);
    case CmState::kRequested:
    case CmState::kResponded:
      return ask_for_time(id, Room::kOwn);
    case CmState::kHungUp:
      // The client is slow: the DREP leaves without it, so that the peer need not wait.
      send_drep(id, id.transaction);
      return to_time_wait(id);
    case CmState::kTimeWait:
      to_idle(id);
      if (id.orphan) return end_of(id);
      return emit(id, MPRDMA_ABI_CM_EVENT_TIMEWAIT_EXIT);
    default:
      return;
  }
}

// Called when the last repetition had no answer (12.9.7).
void CmAgent::State::on_last_repetition(CmId& id) {
  if (id.state == CmState::kDisconnecting) {
    emit(id, MPRDMA_ABI_CM_EVENT_DISCONNECTED);
    return to_time_wait(id);
  }
  // The peer may have received our messages all the same: the REJ ends its wait.
  if (id.state != CmState::kSidrAsking) {
    send_rej(id, static_cast<uint32_t>(wire::CmRejectReason::kTimeout));
  }
  to_idle(id);
  emit(id, MPRDMA_ABI_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

void CmAgent::State::send_repeatedly(CmId& id, const wire::CmMad& mad) {
  id.retries_left = id.retries;
  id.mra_heard = false;
  send_and_keep(id, mad);
  set_timer(id, id.timeout);
}

void CmAgent::State::send_and_keep(CmId& id, const wire::CmMad& mad) {
  wire::encode_cm_mad(mad, id.message);
  send_kept(id, Room::kOwn);
}

void CmAgent::State::send_kept(const CmId& id, Room room) {
  const wire::MadHeader header = wire::MadHeader::load(id.message.data());
  const auto attribute = static_cast<wire::CmAttribute>(header.attribute);
  if (attribute == wire::CmAttribute::kReq || attribute == wire::CmAttribute::kSidrReq) {
    ++counters.cm_requests_sent;
  }
  put_out({.to = id.remote, .traffic_class = id.traffic_class, .bytes = id.message}, room);
}

void CmAgent::State::send(const CmId& id, const wire::CmMad& mad, Room room) {
  OutgoingMad outgoing{.to = id.remote, .traffic_class = id.traffic_class, .bytes = {}};
  wire::encode_cm_mad(mad, outgoing.bytes);
  put_out(outgoing, room);
}

void CmAgent::State::answer(const Origin& origin, const wire::CmBody& body) {
  OutgoingMad outgoing{.to = origin.from, .traffic_class = 0, .bytes = {}};
  wire::encode_cm_mad({.transaction = origin.transaction, .modifier = 0, .body = body},
                      outgoing.bytes);
  put_out(outgoing, Room::kAnswer);
}

void CmAgent::State::put_out(const OutgoingMad& mad, Room room) {
  const size_t own = room == Room::kOwn ? size_t{2} * config.ids_max : 0;
  if (out.size() < kAnswersMax + own) out.push_back(mad);
}

}  // namespace mprdma::dataplane
