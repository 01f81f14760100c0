// Queue pairs: creation, attributes, states.

#include <algorithm>

#include "tests/swarm/world.hpp"

namespace mprdma::swarm {

using transport::QpState;

void World::make_queue_pair(uint32_t n, uint32_t q) {
  Node& node = *nodes_[n];
  const SideKnobs& knobs = scenario_.sides[q][n];
  Taker& taker = takers_[q][n];
  taker = {.world = this, .node = n, .queue_pair = q, .receives = {}};
  taker.receives = {.host = &taker, .pd = 0, .take = pop_shared_receive};
  node.qps.push_back(std::make_unique<transport::Qp>(
      transport::QpConfig{.qpn = node.qpns[q],
                          .pd = q,
                          .send_depth = knobs.send_depth,
                          .recv_depth = node.shares_receives ? 0 : knobs.recv_depth,
                          .max_send_sge = knobs.send_sge,
                          .max_recv_sge = knobs.recv_sge,
                          .signal_all = knobs.signal_all,
                          .shared = node.shares_receives ? &taker.receives : nullptr,
                          .params = knobs.params},
      node.device));
  apps_[q][n].prng = root_.split("app").split(q * 2 + n);
  apps_[q][n].ops_left = knobs.operations;
  apps_[q][n].base = knobs.sq_psn;
}

void World::make_flows(uint32_t q) {
  for (uint32_t n = 0; n < 2; ++n) {
    flows_[q][n] = std::make_unique<Flow>(FlowConfig{
        .name = fmt::format("n{} qp{}", n, q),
        .base = apps_[q][n].base,
        .mtu = scenario_.path_mtu,
        .segment = std::max(scenario_.path_mtu, scenario_.sides[q][n].send_segment),
        .window_slots = scenario_.sides[q][n].params.window_slots,
        .max_rd_atomic = scenario_.sides[q][n].max_rd_atomic,
        .stop_and_wait =
            scenario_.sides[q][n].params.sync_policy == transport::SyncPolicy::kStopAndWait,
        .roce = is_roce(),
        .requester_qpn = nodes_[n]->qpns[q],
        .responder_qpn = nodes_[1 - n]->qpns[q]});
  }
}

transport::QpAttributes World::attributes_of(uint32_t n, uint32_t q) const {
  const SideKnobs& knobs = scenario_.sides[q][n];
  const bool victim = q == 0 && n == 0;  // requester of the unready peer
  return {.access = transport::kRemoteRead | transport::kRemoteWrite | transport::kRemoteAtomic,
          .path_mtu = scenario_.path_mtu,
          .send_segment = knobs.send_segment,
          .take_segment = knobs.take_segment,
          .ack_run = knobs.ack_run,
          .dest_qpn = nodes_[1 - n]->qpns[q],
          .rq_psn = apps_[q][1 - n].base,
          .sq_psn = apps_[q][n].base,
          .vp = knobs.vp,
          .path_seed = knobs.path_seed,
          .timeout = scenario_.timeout,
          .retry_cnt = scenario_.retry_cnt,
          .rnr_retry = victim ? scenario_.rnr_retry : uint8_t{7},
          .min_rnr_timer = scenario_.min_rnr_timer,
          .max_rd_atomic = knobs.max_rd_atomic,
          .max_dest_rd_atomic = scenario_.sides[q][1 - n].max_rd_atomic};
}

void World::set_state(uint32_t n, uint32_t q, QpState state) {
  Node& node = *nodes_[n];
  trace("n{} qp{} goes to state {}", n, q, static_cast<int>(state));
  node.actions.clear();
  if (state == QpState::kReset) send_owed_acks(node, q);
  expect(node.qps[q]->set_state(now_, state, node.actions), "n{} qp{}: no way from state {} to {}",
         n, q, static_cast<int>(node.qps[q]->state()), static_cast<int>(state));
  do_actions(node, q, nullptr);
}

// Node 0 connects at once, node 1 after connect_skew: packets that arrive there earlier are lost.
void World::connect(uint32_t q) {
  for (uint32_t n = 0; n < 2; ++n) {
    nodes_[n]->qps[q]->set_attributes(attributes_of(n, q));
    set_state(n, q, QpState::kInit);
    // Receives may be posted from INIT on.
    const bool starving = scenario_.sides[q][n].recv_pattern == RecvPattern::kStarving;
    if (starving) {
      wake_recv_app(*nodes_[n], q, scenario_.sides[q][n].pace);
    } else {
      run_recv_app(*nodes_[n], q);
    }
    if (n == 1 && scenario_.connect_skew > Duration::zero()) {
      events_.push(now_ + scenario_.connect_skew, EventKind::kScript, 1, kScriptConnect + q);
      continue;
    }
    finish_connect(n, q);
  }
}

void World::connect_late(Node& node, uint32_t q) {
  // The queue pair may have been reset before.
  if (node.qps[q]->state() != QpState::kInit) return;
  finish_connect(node.number, q);
  service(node, q);
}

void World::finish_connect(uint32_t n, uint32_t q) {
  set_state(n, q, QpState::kRtr);
  set_state(n, q, QpState::kRts);
  wake_send_app(*nodes_[n], q, Duration::zero());
}

}  // namespace mprdma::swarm
