// Sessions of RPCs (rpc_session.hpp) over UD queue pairs: requests and responses are SENDs with the
// number of the request as immediate data. Each session has a queue pair at either end.
#include "base/check.hpp"
#include "switchsim/sim/hosts/host_set.hpp"
#include "transport/unreliable/ud_connection.hpp"

namespace mprdma::switchsim {

using transport::PostResult;

namespace {

// What a session drops is counted with what transports drop.
void count(RpcVerdict verdict, transport::TransportCounters& counters) {
  counters.drop_duplicate += verdict == RpcVerdict::kCopy ? 1 : 0;
  counters.drop_out_of_sequence += verdict == RpcVerdict::kAhead ? 1 : 0;
}

}  // namespace

// A datagram leaves its queue with the NIC's turn. Until then copies of requests may wait behind
// the requests themselves, and the server's answers behind each other.
void HostSet::configure_rpc(const Flow& flow, bool client, transport::QpConfig* config) {
  const uint32_t credits = flow.rpc->client.credits();
  config->service = transport::QpService::kUd;
  config->send_depth = client ? credits : 2 * credits;
}

// False: the queue pair has no room.
bool HostSet::send_datagram(Endpoint& endpoint, uint32_t number, uint32_t bytes) {
  const transport::Sge sge{.addr = 0, .length = bytes, .lkey = kKey};
  transport::SendRequest request;
  request.opcode = transport::WorkOpcode::kSendImm;
  request.imm_or_rkey = number;
  request.remote_qpn = qpn_of(endpoint.number ^ 1);
  request.remote_qkey = kQkey;
  request.sges = {&sge, 1};
  const PostResult result = endpoint.qp.post_send(time(), request);
  CHECK(result == PostResult::kOk || result == PostResult::kQueueFull);
  return result == PostResult::kOk;
}

// Sends what the credits allow.
void HostSet::send_requests(uint32_t number) {
  Flow& flow = flows_[number];
  RpcClient& client = flow.rpc->client;
  Endpoint& endpoint = *endpoints_[2 * number];
  while (client.may_send()) {
    const auto bytes =
        static_cast<uint32_t>(flow.outstanding[client.next() - client.first()].bytes);
    if (!send_datagram(endpoint, static_cast<uint32_t>(client.next()), bytes)) return;
    client.send(network_->now());
  }
}

void HostSet::drain_rpc(Endpoint& endpoint) {
  const bool client = endpoint.number % 2 == 0;
  transport::Completion completion;
  while (endpoint.qp.poll_completion(completion)) {
    CHECK(completion.status == transport::WcStatus::kSuccess);
    if (!completion.is_recv) continue;
    post_receive(endpoint);
    do_actions(endpoint);
    client ? on_response(endpoint, completion) : on_request(endpoint, completion);
  }
  // There may be credits, requests, or room for copies that were not there before.
  if (client) post_more(endpoint.number / 2);
}

void HostSet::on_request(Endpoint& endpoint, const transport::Completion& completion) {
  Flow& flow = flow_of_endpoint(endpoint);
  const RpcVerdict verdict = flow.rpc->server.on_request(completion.imm);
  count(verdict, *endpoint.counters);
  if (verdict == RpcVerdict::kAhead) return;
  if (verdict == RpcVerdict::kTaken) {
    flow.delivered_bytes += completion.byte_len - transport::kGrhBytes;
  }
  // Without room the client asks again, as after the loss of a response.
  send_datagram(endpoint, completion.imm, flow.spec->rpc_response_bytes);
}

void HostSet::on_response(Endpoint& endpoint, const transport::Completion& completion) {
  Flow& flow = flow_of_endpoint(endpoint);
  const RpcVerdict verdict = flow.rpc->client.on_response(network_->now(), completion.imm);
  count(verdict, *endpoint.counters);
  if (verdict == RpcVerdict::kTaken) complete(flow, completion);
}

// The credits are the window.
transport::StreamStats HostSet::rpc_stats(uint32_t flow) const {
  const RpcClient& client = flows_[flow].rpc->client;
  transport::StreamStats stats = endpoints_[2 * flow]->qp.request_stats();
  stats.window_raw = client.credits() << 16;
  stats.in_flight = client.in_flight();
  stats.retransmitted = stats.retransmitted_rto = client.resent();
  stats.rto_expired = client.timeouts();
  return stats;
}

}  // namespace mprdma::switchsim
