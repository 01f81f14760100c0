// How connections and ids end: REJ, DREQ and DREP, TIME WAIT, and what a client leaves behind
// (IBTA 12.9.7, 12.9.8).
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dataplane/cm/state.hpp"

namespace mprdma::dataplane {

namespace {

constexpr uint32_t kReasonMax = UINT16_MAX;
constexpr uint8_t kSidrRejected = 2;  // 12.11.2
constexpr size_t kRejRoom = 148;

// A DREQ tells the peer what it may already know, if it is alive at all: a process that owned its
// port and died says nothing more. So it is not repeated for as long as a REQ, 16 times 4.3 s:
// after 0.27, 0.8, 1.9 and 4 s, and 8.3 s after the first the connection has ended.
constexpr uint8_t kDreqTimeout = 16;  // 4.096 us * 2^n, doubled with each repetition
constexpr uint8_t kDreqRetries = 4;

constexpr auto kTimeout = static_cast<uint32_t>(wire::CmRejectReason::kTimeout);
constexpr auto kConsumer = static_cast<uint32_t>(wire::CmRejectReason::kConsumer);

// The rejected message, as REJ names it (12.6.7.1).
constexpr uint8_t kReq = 0;
constexpr uint8_t kRep = 1;
constexpr uint8_t kOther = 2;

uint8_t rejected_message(const CmId& id) {
  if (id.state == CmState::kRequested) return kReq;
  const bool has_rep = id.state == CmState::kConnecting && id.remote_comm_id != 0;
  return has_rep || id.state == CmState::kResponded ? kRep : kOther;
}

}  // namespace

// ---- REJ

void CmAgent::State::send_rej(CmId& id, uint32_t reason, const mprdma_abi_cm_params* params) {
  wire::CmRej rej;
  rej.local_comm_id = id.comm_id;
  rej.remote_comm_id = id.remote_comm_id;
  rej.message = rejected_message(id);
  rej.reason = static_cast<uint16_t>(reason);
  if (reason == kTimeout) {
    // The peer finds the connection by who we are and how we call it.
    rej.info_bytes = sizeof(config.node_guid);
    std::memcpy(rej.info.data(), &config.node_guid, sizeof(config.node_guid));
  }
  if (params != nullptr) copy_private(*params, &rej.private_data);
  if (id.passive) ++counters.cm_rejected;
  send(id, {.transaction = id.transaction, .modifier = 0, .body = rej});
}

int CmAgent::State::reject(CmId& id, const mprdma_abi_cm_command& in) {
  if (id.state == CmState::kSidrRequested) {
    ++counters.cm_rejected;
    return answer_service(id, kSidrRejected, in.params);
  }
  const bool waits = id.state == CmState::kRequested || id.state == CmState::kAccepted ||
                     id.state == CmState::kResponded;
  if (!waits || in.reason == 0 || in.reason > kReasonMax || !private_fits(in.params, kRejRoom)) {
    return EINVAL;
  }
  send_rej(id, in.reason, &in.params);
  to_idle(id);
  return 0;
}

void CmAgent::State::on_message(const wire::CmRej& rej, const Origin& origin) {
  CmId* id = ids.find_comm(rej.remote_comm_id);
  if (id == nullptr && rej.reason == kTimeout) {
    // A peer that gives up its REQ has not learnt our communication id.
    id = ids.find_remote(Remote::kCommId, origin.from, rej.local_comm_id);
  }
  if (id == nullptr || id->remote != origin.from) return drop_unexpected();
  const bool answers_req = id->state == CmState::kConnecting && rej.message == kReq;
  if (!answers_req && (id->remote_comm_id == 0 || id->remote_comm_id != rej.local_comm_id)) {
    return drop_unexpected();
  }
  switch (id->state) {
    case CmState::kRequested:
      // The client has not seen the request yet, so it is simply removed.
      if (!id->delivered) return end_of(*id);
      [[fallthrough]];
    case CmState::kConnecting:
    case CmState::kResponded:
    case CmState::kAccepted: {
      mprdma_abi_cm_params params{};
      copy_private(rej.private_data, &params);
      to_idle(*id);
      return emit(*id, MPRDMA_ABI_CM_EVENT_REJECTED, rej.reason, &params);
    }
    case CmState::kConnected:
    case CmState::kDisconnecting:
      emit(*id, MPRDMA_ABI_CM_EVENT_DISCONNECTED, rej.reason);
      return to_time_wait(*id);
    default:
      ++counters.cm_duplicates;
  }
}

// ---- DREQ and DREP

int CmAgent::State::disconnect(CmId& id) {
  switch (id.state) {
    case CmState::kConnected:
      send_dreq(id);
      return 0;
    case CmState::kHungUp:
      send_drep(id, id.transaction);
      to_time_wait(id);
      return 0;
    case CmState::kDisconnecting:
    case CmState::kTimeWait:
      return 0;
    case CmState::kIdle:
      return id.ended ? 0 : EINVAL;
    default:
      return EINVAL;
  }
}

void CmAgent::State::send_dreq(CmId& id) {
  id.state = CmState::kDisconnecting;
  id.retries = std::min(config.retries, kDreqRetries);
  id.timeout = std::min(cm_timeout(config.response_timeout), cm_timeout(kDreqTimeout));
  id.transaction = prng.next_u64();
  send_repeatedly(id, {.transaction = id.transaction,
                       .modifier = 0,
                       .body = wire::CmDreq{.local_comm_id = id.comm_id,
                                            .remote_comm_id = id.remote_comm_id,
                                            .remote_qpn = id.remote_qpn,
                                            .private_data = {}}});
}

void CmAgent::State::send_drep(const CmId& id, uint64_t transaction, Room room) {
  const wire::CmDrep drep{
      .local_comm_id = id.comm_id, .remote_comm_id = id.remote_comm_id, .private_data = {}};
  send(id, {.transaction = transaction, .modifier = 0, .body = drep}, room);
}

void CmAgent::State::on_message(const wire::CmDreq& dreq, const Origin& origin) {
  CmId* id = find_connection(dreq.remote_comm_id, dreq.local_comm_id, origin);
  if (id == nullptr) {
    drop_unexpected();
    if (ids.find_comm(dreq.remote_comm_id) != nullptr) return;  // somebody else's
    // After TIME WAIT, or before we were started: the peer is to have its end, too.
    return answer(origin, wire::CmDrep{.local_comm_id = dreq.remote_comm_id,
                                       .remote_comm_id = dreq.local_comm_id,
                                       .private_data = {}});
  }
  if (dreq.remote_qpn != id->local_qpn) return drop_unexpected();
  switch (id->state) {
    case CmState::kAccepted:
      established(*id, nullptr);  // the RTU was lost
      [[fallthrough]];
    case CmState::kConnected:
      id->transaction = origin.transaction;
      id->state = CmState::kHungUp;
      set_timer(*id, id->patience);
      return emit(*id, MPRDMA_ABI_CM_EVENT_DISCONNECTED);
    case CmState::kDisconnecting:
      // Both sides sent a DREQ at once (12.9.8.3): each answers, and both are done.
      send_drep(*id, origin.transaction);
      emit(*id, MPRDMA_ABI_CM_EVENT_DISCONNECTED);
      return to_time_wait(*id);
    case CmState::kTimeWait:
      ++counters.cm_duplicates;
      return send_drep(*id, origin.transaction, Room::kAnswer);
    case CmState::kHungUp:
      ++counters.cm_duplicates;
      return;
    default:
      drop_unexpected();
  }
}

void CmAgent::State::on_message(const wire::CmDrep& drep, const Origin& origin) {
  CmId* id = find_connection(drep.remote_comm_id, drep.local_comm_id, origin);
  if (id == nullptr) return drop_unexpected();
  if (id->state != CmState::kDisconnecting) {
    ++counters.cm_duplicates;
    return;
  }
  emit(*id, MPRDMA_ABI_CM_EVENT_DISCONNECTED);
  to_time_wait(*id);
}

// ---- Stale connections (12.9.8.3.1)

// Whether a connection of ours, other than `besides`, has the peer's queue pair. The peer would not
// give it away: it has been restarted. What is left of the old one is ended. 0 is no queue pair:
// many connections may have it.
bool CmAgent::State::stale(const wire::IpAddress& from, Qpn qpn, const CmId* besides) {
  if (qpn == Qpn(0)) return false;
  CmId* old = ids.find_remote(Remote::kQpn, from, qpn.value());
  if (old == nullptr || old == besides) return false;
  ++counters.cm_stale;
  if (old->state == CmState::kConnected) send_dreq(*old);
  return true;
}

// ---- States that end

void CmAgent::State::to_idle(CmId& id) {
  stop_timer(id);
  end_request(id);
  ids.forget(id, Remote::kCommId);
  ids.forget(id, Remote::kQpn);
  ids.forget(id, Remote::kSidrRequest);
  ids.drop_comm_id(id);
  id.remote_comm_id = 0;
  id.remote_qpn = Qpn(0);
  id.state = CmState::kIdle;
}

void CmAgent::State::to_time_wait(CmId& id) {
  // The peer may use its queue pair again; what it called the connection stays known.
  ids.forget(id, Remote::kQpn);
  id.state = CmState::kTimeWait;
  set_timer(id, config.time_wait);
}

void CmAgent::State::end_of(CmId& id) {
  stop_timer(id);
  end_request(id);
  if (id.state == CmState::kResolving) stop_resolving(id);
  release_port(id);
  ids.remove(id);
}

// ---- The client's side goes

void CmAgent::State::destroy(CmId& id) {
  switch (id.state) {
    case CmState::kListening:
      end_listener(id);
      break;
    case CmState::kConnecting:
      send_rej(id, kTimeout);
      break;
    case CmState::kRequested:
    case CmState::kAccepted:
    case CmState::kResponded:
      send_rej(id, kConsumer);
      break;
    case CmState::kSidrRequested:
      ++counters.cm_rejected;
      answer_service(id, kSidrRejected, mprdma_abi_cm_params{});
      break;
    case CmState::kConnected:
      // An XRC target lives on with its domain.
      if (id.passive && id.service == wire::CmService::kXrc) break;
      send_dreq(id);
      break;
    case CmState::kHungUp:
      send_drep(id, id.transaction);
      to_time_wait(id);
      break;
    default:
      break;
  }
  if (id.state != CmState::kDisconnecting && id.state != CmState::kTimeWait) return end_of(id);
  release_port(id);
  ids.make_orphan(id);
}

// Requests that the client has not been told of are rejected; it may still answer the others.
void CmAgent::State::end_listener(CmId& id) {
  const std::unordered_set<uint32_t> waiting = id.listener->waiting;
  for (const uint32_t number : waiting) {
    CmId& request = *ids.find(number);
    if (request.delivered) {
      end_request(request);
    } else {
      destroy(request);
    }
  }
}

void CmAgent::State::forget_client(uint32_t client) {
  std::vector<uint32_t> its;
  ids.for_each([&](const CmId& id) {
    if (id.client == client && !id.orphan) its.push_back(id.id);
  });
  for (const uint32_t number : its) {
    // The requests of a listener end with it.
    if (CmId* id = ids.find(number)) destroy(*id);
  }
}

}  // namespace mprdma::dataplane
