// The active side (IBTA 12.9.5): REQ, then REP, then RTU.
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
constexpr uint8_t kUd = 4;
constexpr uint8_t kXrcSend = 9;

bool service_of(uint8_t qp_type, wire::CmService* service) {
  switch (qp_type) {
    case kRc:
      *service = wire::CmService::kRc;
      return true;
    case kUc:
      *service = wire::CmService::kUc;
      return true;
    case kXrcSend:
      *service = wire::CmService::kXrc;
      return true;
    default:
      return false;
  }
}

uint8_t qp_type_of(wire::CmService service) {
  if (service == wire::CmService::kXrc) return kXrcSend;
  return service == wire::CmService::kUc ? kUc : kRc;
}

wire::CmReq make_req(const CmId& id, const CmConfig& config, const mprdma_abi_cm_params& params) {
  wire::CmReq req;
  req.local_comm_id = id.comm_id;
  req.service_id = wire::cm_service_id(static_cast<uint16_t>(id.port_space), id.remote_port);
  req.ca_guid = guid_number(config.node_guid);
  req.qpn = Qpn(params.qpn);
  req.starting_psn = params.psn;
  req.service = id.service;
  req.initiator_depth = params.initiator_depth;
  req.remote_cm_response_timeout = config.response_timeout;
  req.local_cm_response_timeout = config.response_timeout;
  req.max_cm_retries = config.retries;
  req.flow_control = params.flow_control != 0;
  req.retry_count = params.retry_count;
  req.rnr_retry_count = params.rnr_retry_count;
  // An XRC initiator receives nothing (A14): the fields about receiving stay 0.
  const bool receives = id.service != wire::CmService::kXrc;
  req.responder_resources = receives ? params.responder_resources : uint8_t{0};
  req.srq = receives && params.srq != 0;
  req.path_mtu = id.path_mtu;
  req.local_gid = id.local;
  req.remote_gid = id.remote;
  req.traffic_class = id.traffic_class;
  req.ack_timeout = id.ack_timeout;
  req.ece_vendor = params.ece_vendor;
  return req;
}

mprdma_abi_cm_params params_of(const CmId& id, const wire::CmRep& rep) {
  mprdma_abi_cm_params params{};
  params.qpn = id.remote_qpn.value();
  params.psn = rep.starting_psn;
  params.ece_vendor = rep.ece_vendor;
  params.qp_type = qp_type_of(id.service);
  params.srq = rep.srq ? 1 : 0;
  params.responder_resources = rep.responder_resources;
  params.initiator_depth = rep.initiator_depth;
  params.flow_control = rep.flow_control ? 1 : 0;
  params.rnr_retry_count = rep.rnr_retry_count;
  params.path_mtu = id.path_mtu;
  params.ack_timeout = id.ack_timeout;
  params.traffic_class = id.traffic_class;
  copy_private(rep.private_data, &params);
  return params;
}

}  // namespace

int CmAgent::State::connect(CmId& id, const mprdma_abi_cm_params& params) {
  if (id.state != CmState::kResolved) return EINVAL;
  id.retries = config.retries;
  id.timeout = cm_timeout(config.response_timeout);
  id.patience = id.timeout / 4;
  const bool of_datagrams = id.port_space == MPRDMA_ABI_CM_PS_UDP ||
                            id.port_space == MPRDMA_ABI_CM_PS_IPOIB ||
                            (id.port_space == MPRDMA_ABI_CM_PS_IB && params.qp_type == kUd);
  if (of_datagrams) return ask_service(id, params);
  constexpr size_t kRoom = wire::CmReq::kPrivateBytes - wire::CmIpHeader::kBytes;
  if (!private_fits(params, kRoom) || params.qpn > wire::kQpnMask || params.psn > kPsnMask ||
      !service_of(params.qp_type, &id.service)) {
    return EINVAL;
  }
  if (!id.has_ack_timeout) id.ack_timeout = params.ack_timeout;
  if (params.traffic_class != 0) id.traffic_class = params.traffic_class;
  ids.draw_comm_id(id);
  id.passive = false;
  id.local_qpn = Qpn(params.qpn);
  id.path_mtu = params.path_mtu != 0 ? params.path_mtu : config.path_mtu;
  id.state = CmState::kConnecting;
  wire::CmReq req = make_req(id, config, params);
  add_ip_header(id, params, &req.private_data);
  send_repeatedly(id, {.transaction = id.transaction, .modifier = params.ece_options, .body = req});
  return 0;
}

void CmAgent::State::on_message(const wire::CmRep& rep, const Origin& origin) {
  CmId* id = ids.find_comm(rep.remote_comm_id);
  if (id == nullptr) {
    // The REP's connection no longer exists (12.6.7.2, reason 6): the REJ keeps the peer from
    // repeating it.
    drop_unexpected();
    return answer(origin,
                  wire::CmRej{.local_comm_id = rep.remote_comm_id,
                              .remote_comm_id = rep.local_comm_id,
                              .message = 1,
                              .reason = static_cast<uint16_t>(wire::CmRejectReason::kInvalidCommId),
                              .info = {},
                              .private_data = {}});
  }
  if (id->remote != origin.from || id->passive || rep.local_comm_id == 0) {
    return drop_unexpected();
  }
  if (id->state != CmState::kConnecting) {
    if (id->remote_comm_id != rep.local_comm_id) return drop_unexpected();
    ++counters.cm_duplicates;
    return on_repeated_rep(*id);
  }
  const Qpn qpn = id->service == wire::CmService::kXrc ? rep.ee_context : rep.qpn;
  id->remote_comm_id = rep.local_comm_id;
  if (stale(origin.from, qpn, id)) {
    // The peer's queue pair belongs to a connection of ours that the peer has forgotten.
    constexpr auto kReason = static_cast<uint16_t>(wire::CmRejectReason::kStale);
    send_rej(*id, kReason);
    to_idle(*id);
    return emit(*id, MPRDMA_ABI_CM_EVENT_REJECTED, kReason);
  }
  id->remote_qpn = qpn;
  ids.learn(*id, Remote::kCommId);
  ids.learn(*id, Remote::kQpn);
  id->state = CmState::kResponded;
  id->mra_said = false;
  set_timer(*id, id->patience);
  mprdma_abi_cm_params params = params_of(*id, rep);
  params.ece_options = origin.modifier;
  emit(*id, MPRDMA_ABI_CM_EVENT_RESPONSE, 0, &params);
}

void CmAgent::State::on_repeated_rep(CmId& id) {
  if (id.state == CmState::kConnected) return send_kept(id, Room::kAnswer);  // its RTU
  if (id.state == CmState::kResponded && id.mra_said) ask_for_time(id, Room::kAnswer);
}

int CmAgent::State::establish(CmId& id, const mprdma_abi_cm_params& params) {
  if (id.state != CmState::kResponded) return EINVAL;
  wire::CmRtu rtu{
      .local_comm_id = id.comm_id, .remote_comm_id = id.remote_comm_id, .private_data = {}};
  copy_private(params, &rtu.private_data);
  stop_timer(id);
  send_and_keep(id, {.transaction = id.transaction, .modifier = 0, .body = rtu});
  id.state = CmState::kConnected;
  id.ended = true;
  ++counters.cm_established;
  return 0;
}

void CmAgent::State::on_message(const wire::CmMra& mra, const Origin& origin) {
  constexpr uint8_t kOfReq = 0;
  constexpr uint8_t kOfRep = 1;
  CmId* id = ids.find_comm(mra.remote_comm_id);
  const bool expected = id != nullptr && id->remote == origin.from &&
                        ((id->state == CmState::kConnecting && mra.message == kOfReq) ||
                         (id->state == CmState::kAccepted && mra.message == kOfRep &&
                          id->remote_comm_id == mra.local_comm_id));
  if (!expected) return drop_unexpected();
  // An MRA counts once for each message that we send, so that no peer makes us wait for ever.
  if (id->mra_heard) {
    ++counters.cm_duplicates;
    return;
  }
  id->mra_heard = true;
  const uint8_t most = 24;  // 69 s: what Linux asks for
  set_timer(*id, Duration::ns(int64_t{4096} << std::min(mra.service_timeout, most)) + id->timeout);
}

}  // namespace mprdma::dataplane
