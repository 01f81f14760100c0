// The application of a flow: it posts messages and takes completions.
#include <fmt/format.h>

#include "base/check.hpp"
#include "switchsim/sim/hosts/host_set.hpp"

namespace mprdma::switchsim {

void HostSet::post_more(uint32_t number) {
  Flow& flow = flows_[number];
  const FlowSpec& spec = *flow.spec;
  const SimTime now = network_->now();
  const auto timer = static_cast<TimerId>(endpoints_.size() + number);
  while (!flow.all_posted(now) && flow.outstanding.size() < flow.send_depth()) {
    const SimTime due =
        flow.open_loop() ? spec.timed_messages[flow.next_timed].at : flow.next_post_at;
    if (due > now) {
      network_->set_timer(timer, due);
      break;
    }
    if (flow.open_loop()) {
      const TimedMessage& message = spec.timed_messages[flow.next_timed++];
      post(flow, number, message.bytes, message.at);
    } else {
      post(flow, number, spec.message_bytes, now);
    }
  }
  if (flow.rpc) send_requests(number);
}

void HostSet::post(Flow& flow, uint32_t number, uint64_t bytes, SimTime at) {
  flow.outstanding.push_back({at, bytes});
  ++flow.messages_posted;
  flow.posted_bytes += bytes;
  if (flow.rpc) return flow.rpc->client.post();
  const auto length = static_cast<uint32_t>(bytes);
  const transport::Sge sge{.addr = 0, .length = length, .lkey = kKey};
  transport::SendRequest request;
  request.wr_id = flow.messages_posted - 1;
  request.flags = transport::kSignaled;
  const uint32_t share_ppm = flow.spec->synchronise_ppm;
  if (share_ppm > 0 && flow.sync_draws.chance(share_ppm, 1'000'000)) {
    request.flags |= transport::kSynchronise;
    ++flow.sync_posted;
  }
  request.rkey = kKey;
  request.sges = {&sge, 1};
  switch (flow.spec->operation) {
    case FlowOperation::kWrite:
      request.opcode = transport::WorkOpcode::kWrite;
      break;
    case FlowOperation::kSend:
      request.opcode = transport::WorkOpcode::kSend;
      break;
    case FlowOperation::kRead:
      request.opcode = transport::WorkOpcode::kRead;
      break;
  }
  CHECK(endpoints_[2 * number]->qp.post_send(time(), request) == transport::PostResult::kOk);
}

void HostSet::post_receive(Endpoint& endpoint) {
  const transport::Sge sge{.addr = 0, .length = transport::kMaxMessageBytes, .lkey = kKey};
  transport::RecvRequest request;
  request.sges = {&sge, 1};
  const Time now = network_->now().to_time();
  CHECK(endpoint.qp.post_recv(now, request, actions_) == transport::PostResult::kOk);
}

void HostSet::drain(Endpoint& endpoint) {
  if (endpoint.rpc) return drain_rpc(endpoint);
  transport::Completion completion;
  bool news = false;
  while (endpoint.qp.poll_completion(completion)) {
    if (completion.is_recv) {
      if (completion.status != transport::WcStatus::kSuccess) continue;
      post_receive(endpoint);
      do_actions(endpoint);
      continue;
    }
    complete(flow_of_endpoint(endpoint), completion);
    news = true;
  }
  if (news) post_more(endpoint.number / 2);
}

void HostSet::complete(Flow& flow, const transport::Completion& completion) {
  CHECK(!flow.outstanding.empty());
  const Flow::Outstanding message = flow.outstanding.front();
  flow.outstanding.pop_front();
  last_completion_ = network_->now();
  flow.next_post_at = last_completion_ + flow.spec->think;
  if (completion.status != transport::WcStatus::kSuccess) {
    if (!flow.failed) {
      flow.failure = fmt::format("completion status {}", static_cast<int>(completion.status));
    }
    flow.failed = true;
    return;
  }
  ++flow.messages_completed;
  flow.completed_bytes += message.bytes;
  flow.messages.push_back({message.posted, last_completion_, message.bytes});
}

}  // namespace mprdma::switchsim
