// Service id resolution (IBTA 12.11): a UD queue pair and its Q_Key instead of a connection.
#include <algorithm>
#include <cerrno>

#include "dataplane/cm/state.hpp"
#include "wire/constants.hpp"

namespace mprdma::dataplane {

namespace {

constexpr uint8_t kUd = 4;  // enum ibv_qp_type
constexpr size_t kSidrReqRoom = 216 - wire::CmIpHeader::kBytes;
constexpr size_t kSidrRepRoom = 136;

// 12.11.2.
constexpr uint8_t kValid = 0;
constexpr uint8_t kNoSuchService = 1;
constexpr uint8_t kNoResources = 5;

}  // namespace

int CmAgent::State::ask_service(CmId& id, const mprdma_abi_cm_params& params) {
  if (!private_fits(params, kSidrReqRoom)) return EINVAL;
  ids.draw_comm_id(id);
  id.state = CmState::kSidrAsking;
  wire::CmSidrReq req;
  req.request_id = id.comm_id;
  req.service_id = wire::cm_service_id(static_cast<uint16_t>(id.port_space), id.remote_port);
  add_ip_header(id, params, &req.private_data);
  send_repeatedly(id, {.transaction = id.transaction, .modifier = params.ece_options, .body = req});
  return 0;
}

void CmAgent::State::on_message(const wire::CmSidrReq& req, const Origin& origin) {
  ++counters.cm_requests_received;
  if (CmId* known = ids.find_remote(Remote::kSidrRequest, origin.from, req.request_id)) {
    ++counters.cm_duplicates;
    if (known->state == CmState::kIdle) send_kept(*known, Room::kAnswer);
    return;
  }
  const auto refuse_with = [&](uint8_t status) {
    ++counters.cm_rejected;
    wire::CmSidrRep rep;
    rep.request_id = req.request_id;
    rep.status = status;
    rep.service_id = req.service_id;
    answer(origin, rep);
  };
  wire::CmIpHeader header;
  const std::span data(req.private_data.data);
  if (!wire::decode_cm_ip_header(data.first<wire::CmIpHeader::kBytes>(), header)) {
    return refuse_with(kNoSuchService);
  }
  const uint64_t space = req.service_id >> 16;
  const bool of_rdma_cm = space == MPRDMA_ABI_CM_PS_UDP || space == MPRDMA_ABI_CM_PS_IPOIB ||
                          space == MPRDMA_ABI_CM_PS_IB;
  CmId* listener =
      of_rdma_cm ? ids.find(ports.find_listener(req.service_id, header.destination)) : nullptr;
  if (listener == nullptr) return refuse_with(kNoSuchService);
  CmId* id = add_request(*listener, origin.from, header);
  if (id == nullptr) return refuse_with(kNoResources);
  id->state = CmState::kSidrRequested;
  id->remote_comm_id = req.request_id;
  id->transaction = origin.transaction;
  ids.learn(*id, Remote::kSidrRequest);
  mprdma_abi_cm_params params{};
  params.qp_type = kUd;
  params.ece_options = origin.modifier;
  copy_private(req.private_data, &params, wire::CmIpHeader::kBytes);
  emit(*id, MPRDMA_ABI_CM_EVENT_REQUEST, 0, &params);
}

int CmAgent::State::answer_service(CmId& id, uint8_t status, const mprdma_abi_cm_params& params) {
  if (!private_fits(params, kSidrRepRoom) || params.qpn > wire::kQpnMask) return EINVAL;
  end_request(id);
  wire::CmSidrRep rep;
  rep.request_id = id.remote_comm_id;
  rep.status = status;
  rep.qpn = Qpn(status == kValid ? params.qpn : 0);
  rep.qkey = status == kValid ? params.qkey : 0;
  rep.service_id = wire::cm_service_id(static_cast<uint16_t>(id.port_space), id.local_port);
  rep.ece_vendor = params.ece_vendor;
  copy_private(params, &rep.private_data);
  // The id stays indexed by the request, which the peer may repeat.
  id.state = CmState::kIdle;
  send_and_keep(id, {.transaction = id.transaction, .modifier = params.ece_options, .body = rep});
  return 0;
}

void CmAgent::State::on_message(const wire::CmSidrRep& rep, const Origin& origin) {
  CmId* id = ids.find_comm(rep.request_id);
  if (id == nullptr || id->state != CmState::kSidrAsking || id->remote != origin.from) {
    return drop_unexpected();
  }
  to_idle(*id);
  mprdma_abi_cm_params params{};
  params.qp_type = kUd;
  params.qpn = rep.qpn.value();
  params.qkey = rep.qkey;
  params.ece_vendor = rep.ece_vendor;
  params.ece_options = origin.modifier;
  copy_private(rep.private_data, &params);
  if (rep.status != kValid) return emit(*id, MPRDMA_ABI_CM_EVENT_UNREACHABLE, rep.status, &params);
  ++counters.cm_established;
  emit(*id, MPRDMA_ABI_CM_EVENT_ESTABLISHED, 0, &params);
}

}  // namespace mprdma::dataplane
