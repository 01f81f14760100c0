// The passive side (IBTA 12.9.6): REQ, then REP, then RTU.
#include <algorithm>
#include <cerrno>

#include "base/psn.hpp"
#include "dataplane/cm/state.hpp"
#include "wire/constants.hpp"

namespace mprdma::dataplane {

namespace {

// enum ibv_qp_type.
constexpr uint8_t kRc = 2;
constexpr uint8_t kUc = 3;
constexpr uint8_t kXrcRecv = 10;

constexpr uint8_t kMraServiceTimeout = 24;  // 69 s, as Linux asks for

uint8_t qp_type_of(wire::CmService service) {
  if (service == wire::CmService::kXrc) return kXrcRecv;
  return service == wire::CmService::kUc ? kUc : kRc;
}

mprdma_abi_cm_params params_of(const wire::CmReq& req, uint32_t ece_options) {
  mprdma_abi_cm_params params{};
  params.qpn = req.qpn.value();
  params.psn = req.starting_psn;
  params.ece_vendor = req.ece_vendor;
  params.ece_options = ece_options;
  params.qp_type = qp_type_of(req.service);
  params.srq = req.srq ? 1 : 0;
  params.responder_resources = req.responder_resources;
  params.initiator_depth = req.initiator_depth;
  params.flow_control = req.flow_control ? 1 : 0;
  params.retry_count = req.retry_count;
  params.rnr_retry_count = req.rnr_retry_count;
  params.path_mtu = req.path_mtu;
  params.ack_timeout = req.ack_timeout;
  params.traffic_class = req.traffic_class;
  copy_private(req.private_data, &params, wire::CmIpHeader::kBytes);
  return params;
}

}  // namespace

void CmAgent::State::refuse(const wire::CmReq& req, const Origin& origin,
                            wire::CmRejectReason reason, std::span<const unsigned char> info) {
  ++counters.cm_rejected;
  wire::CmRej rej;
  rej.remote_comm_id = req.local_comm_id;
  rej.reason = static_cast<uint16_t>(reason);
  rej.info_bytes = static_cast<uint8_t>(info.size());
  std::copy(info.begin(), info.end(), rej.info.begin());
  answer(origin, rej);
}

CmId* CmAgent::State::check_request(const wire::CmReq& req, const Origin& origin,
                                    wire::CmIpHeader* header) {
  using enum wire::CmRejectReason;
  if (req.remote_gid != config.address || req.local_gid != origin.from) {
    refuse(req, origin, kInvalidGid, config.address);
    return nullptr;
  }
  if (req.service == wire::CmService::kCount) {
    refuse(req, origin, kInvalidTransport);
    return nullptr;
  }
  if (req.path_mtu == 0 || req.path_mtu > config.path_mtu) {
    refuse(req, origin, kInvalidMtu, std::span(&config.path_mtu, 1));
    return nullptr;
  }
  const std::span data(req.private_data.data);
  if (!wire::decode_cm_ip_header(data.first<wire::CmIpHeader::kBytes>(), *header)) {
    refuse(req, origin, kConsumer);  // as Linux answers what is not rdma_cm's
    return nullptr;
  }
  const uint64_t space = req.service_id >> 16;
  const bool connects = space == MPRDMA_ABI_CM_PS_TCP || space == MPRDMA_ABI_CM_PS_IB;
  CmId* listener =
      connects ? ids.find(ports.find_listener(req.service_id, header->destination)) : nullptr;
  if (listener == nullptr) {
    refuse(req, origin, kInvalidServiceId);
    return nullptr;
  }
  // The check comes last because it ends a connection: a request for an unknown service must end
  // none.
  if (stale(origin.from, req.qpn, nullptr)) {
    refuse(req, origin, kStale);
    return nullptr;
  }
  return listener;
}

void CmAgent::State::on_message(const wire::CmReq& req, const Origin& origin) {
  ++counters.cm_requests_received;
  if (req.local_comm_id == 0) return drop_unexpected();
  if (CmId* known = ids.find_remote(Remote::kCommId, origin.from, req.local_comm_id)) {
    ++counters.cm_duplicates;
    return on_repeated_req(*known, origin);
  }
  wire::CmIpHeader header;
  CmId* listener = check_request(req, origin, &header);
  if (listener == nullptr) return;
  CmId* id = add_request(*listener, origin.from, header);
  if (id == nullptr) return refuse(req, origin, wire::CmRejectReason::kNoResources);
  id->state = CmState::kRequested;
  id->service = req.service;
  id->remote_comm_id = req.local_comm_id;
  id->remote_qpn = req.qpn;
  ids.draw_comm_id(*id);
  id->transaction = origin.transaction;  // the request's, through to RTU
  id->timeout = cm_timeout(req.local_cm_response_timeout);
  id->retries = req.max_cm_retries;
  id->patience = cm_timeout(req.remote_cm_response_timeout) / 4;
  id->traffic_class = req.traffic_class;
  id->path_mtu = req.path_mtu;
  ids.learn(*id, Remote::kCommId);
  ids.learn(*id, Remote::kQpn);
  set_timer(*id, id->patience);
  const mprdma_abi_cm_params params = params_of(req, origin.modifier);
  emit(*id, MPRDMA_ABI_CM_EVENT_REQUEST, 0, &params);
}

CmId* CmAgent::State::add_request(CmId& listener, const wire::IpAddress& from,
                                  const wire::CmIpHeader& header) {
  CmListener& queue = *listener.listener;
  if (queue.waiting.size() >= queue.backlog) return nullptr;
  // Clients must always be able to create ids, whatever peers flood us with.
  if (requests_waiting >= config.ids_max / kRequestsShare) return nullptr;
  if (CmId* orphan = ids.oldest_orphan(); ids.full() && orphan != nullptr) end_of(*orphan);
  CmId* id = ids.add();
  if (id == nullptr) return nullptr;
  id->client = listener.client;
  id->cookie = listener.cookie;
  id->port_space = listener.port_space;
  id->local = header.destination;
  id->local_port = listener.local_port;
  id->remote = from;
  id->remote_port = header.source_port;
  id->has_ack_timeout = listener.has_ack_timeout;
  id->ack_timeout = listener.ack_timeout;
  id->passive = true;
  id->listener_id = listener.id;
  queue.waiting.insert(id->id);
  ++requests_waiting;
  return id;
}

void CmAgent::State::end_request(CmId& id) {
  if (id.listener_id == 0) return;
  CmId* listener = ids.find(id.listener_id);
  if (listener != nullptr) listener->listener->waiting.erase(id.id);
  id.listener_id = 0;
  --requests_waiting;
}

// Answers a duplicate REQ (12.9.8.2): with nothing, or with the earlier message.
void CmAgent::State::on_repeated_req(CmId& id, const Origin& origin) {
  switch (id.state) {
    case CmState::kRequested:
      if (id.mra_said) ask_for_time(id, Room::kAnswer);
      return;
    case CmState::kAccepted:
      return send_kept(id, Room::kAnswer);
    case CmState::kTimeWait:
      return answer(origin,
                    wire::CmRej{.local_comm_id = id.comm_id,
                                .remote_comm_id = id.remote_comm_id,
                                .message = 0,
                                .reason = static_cast<uint16_t>(wire::CmRejectReason::kStale),
                                .info = {},
                                .private_data = {}});
    default:
      return;
  }
}

int CmAgent::State::accept(CmId& id, const mprdma_abi_cm_command& in) {
  const mprdma_abi_cm_params& params = in.params;
  if (id.state == CmState::kSidrRequested) {
    constexpr uint8_t kValid = 0;
    const int error = answer_service(id, kValid, params);
    if (error == 0) id.cookie = in.cookie;
    return error;
  }
  wire::CmRep rep;
  if (id.state != CmState::kRequested || params.qpn > wire::kQpnMask || params.psn > kPsnMask ||
      !private_fits(params, 196)) {
    return EINVAL;
  }
  end_request(id);
  id.cookie = in.cookie;
  id.local_qpn = Qpn(params.qpn);
  const bool xrc = id.service == wire::CmService::kXrc;
  rep.local_comm_id = id.comm_id;
  rep.remote_comm_id = id.remote_comm_id;
  rep.ca_guid = guid_number(config.node_guid);
  (xrc ? rep.ee_context : rep.qpn) = Qpn(params.qpn);
  rep.starting_psn = params.psn;
  rep.responder_resources = params.responder_resources;
  rep.initiator_depth = xrc ? uint8_t{0} : params.initiator_depth;
  rep.target_ack_delay = id.has_ack_timeout ? id.ack_timeout : params.ack_timeout;
  rep.flow_control = !xrc && params.flow_control != 0;
  rep.rnr_retry_count = params.rnr_retry_count;
  rep.srq = xrc || params.srq != 0;
  rep.ece_vendor = params.ece_vendor;
  copy_private(params, &rep.private_data);
  id.state = CmState::kAccepted;
  send_repeatedly(id, {.transaction = id.transaction, .modifier = params.ece_options, .body = rep});
  return 0;
}

void CmAgent::State::on_message(const wire::CmRtu& rtu, const Origin& origin) {
  CmId* id = find_connection(rtu.remote_comm_id, rtu.local_comm_id, origin);
  if (id == nullptr || !id->passive) {
    drop_unexpected();
    if (ids.find_comm(rtu.remote_comm_id) != nullptr) return;
    // Our wait ended before the RTU came: the peer has half a connection (12.6.7.2, reason 6).
    constexpr auto kReason = static_cast<uint16_t>(wire::CmRejectReason::kInvalidCommId);
    return answer(origin, wire::CmRej{.local_comm_id = rtu.remote_comm_id,
                                      .remote_comm_id = rtu.local_comm_id,
                                      .message = 2,
                                      .reason = kReason,
                                      .info = {},
                                      .private_data = {}});
  }
  if (id->state != CmState::kAccepted) {
    ++counters.cm_duplicates;
    return;
  }
  established(*id, &rtu.private_data);
}

void CmAgent::State::established(CmId& id, const wire::CmPrivate* data) {
  stop_timer(id);
  id.state = CmState::kConnected;
  id.ended = true;
  ++counters.cm_established;
  mprdma_abi_cm_params params{};
  params.qpn = id.remote_qpn.value();
  params.qp_type = qp_type_of(id.service);
  if (data != nullptr) copy_private(*data, &params);
  emit(id, MPRDMA_ABI_CM_EVENT_ESTABLISHED, 0, &params);
}

int CmAgent::State::notify(CmId& id) {
  if (id.state == CmState::kConnected) return 0;
  if (id.state != CmState::kAccepted) return EINVAL;
  established(id, nullptr);
  return 0;
}

void CmAgent::State::ask_for_time(CmId& id, Room room) {
  id.mra_said = true;
  const bool of_req = id.state == CmState::kRequested;
  const wire::CmMra mra{.local_comm_id = id.comm_id,
                        .remote_comm_id = id.remote_comm_id,
                        .message = static_cast<uint8_t>(of_req ? 0 : 1),
                        .service_timeout = kMraServiceTimeout};
  send(id, {.transaction = id.transaction, .modifier = 0, .body = mra}, room);
}

}  // namespace mprdma::dataplane
