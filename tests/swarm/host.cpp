// Does what a dataplane does around every call of the transport: completions, events, timers.

#include <algorithm>

#include "tests/swarm/world.hpp"

namespace mprdma::swarm {

void World::service(Node& node, uint32_t q) {
  drain(node, q);
  pump(node);
  for (uint32_t i = 0; i < node.qps.size(); ++i) drain(node, i);
  send_due_acks(node);
  arm(node);
}

void World::drain(Node& node, uint32_t q) {
  transport::Completion c;
  uint32_t count = 0;
  while (pop_plain(node, q, c) || node.qps[q]->poll_completion(c)) {
    expect(++count < 100'000, "n{} qp{}: completions without end", node.number, q);
    if (options_.sabotage == Sabotage::kLoseCompletion && !sabotaged_) {
      sabotaged_ = true;
      continue;
    }
    if (options_.sabotage == Sabotage::kSwapCompletions && !sabotaged_) {
      if (!delayed_completion_) {
        delayed_completion_ = c;
        continue;
      }
      sabotaged_ = true;
      process_completion(node, q, c);
      c = *delayed_completion_;
    }
    process_completion(node, q, c);
  }
  check_changes(node, q);
  while (true) {
    const transport::QpEvent event = node.qps[q]->poll_event();
    if (event == transport::QpEvent::kNone) break;
    trace("n{} qp{} event {}", node.number, q, static_cast<int>(event));
    expect(fatal() || event == transport::QpEvent::kCommEstablished,
           "n{} qp{}: asynchronous event {}", node.number, q, static_cast<int>(event));
    expect(event != transport::QpEvent::kLastWqeReached ||
               (node.shares_receives && node.qps[q]->state() == transport::QpState::kErr &&
                recvs_outstanding(node, q) == 0),
           "n{} qp{}: the last receive is said to be reached", node.number, q);
    expect(++count < 100'000, "n{} qp{}: events without end", node.number, q);
  }
}

void World::process_completion(Node& node, uint32_t q, const transport::Completion& c) {
  trace("n{} qp{} {} completion wr {} status {}", node.number, q, c.is_recv ? "recv" : "send",
        c.wr_id, static_cast<int>(c.status));
  last_activity_ = now_;
  note(node, q, "a completion",
       {c.wr_id, static_cast<uint64_t>(c.status), static_cast<uint64_t>(c.opcode), c.byte_len,
        uint64_t{c.is_recv}, uint64_t{c.emit}});
  if (scenario_.kind == Kind::kGarbage) {
    App& a = app(node, q);
    const uint64_t next = c.is_recv ? (uint64_t{1} << 40) + a.recv_completed++ : a.completed++;
    expect(c.wr_id == next, "n{} qp{}: wr {} completes, {} is next", node.number, q, c.wr_id, next);
    wake_send_app(node, q, Duration::zero());
    return;
  }
  if (c.is_recv) {
    Flow& flow = peer_flow(node, q);
    const uint64_t number = flow.recvs_posted() - flow.recvs_outstanding();
    const Op* op = flow.on_recv_completion(c);
    if (op != nullptr) on_recv_completed(node, q, number, *op);
    expect((c.shared != nullptr) == node.shares_receives, "n{} qp{}: from the wrong receive queue",
           node.number, q);
    if (node.shares_receives) on_shared_completed(node, c.wr_id);
    // The receive's place in the shared queue is free again; the other queue pairs wait for it.
    if (node.shares_receives && op == nullptr) wake_recv_app(node, q, Duration::zero());
    if (op != nullptr && op->invalidates_there()) on_invalidated(node, q);
    return;
  }
  Flow& flow = own_flow(node, q);
  const Op op = flow.on_send_completion(c);
  if (c.status == transport::WcStatus::kSuccess) {
    if (op.in_window) --peer_of(node).windows[q].users;
    on_op_completed(node, q, op);
  } else {
    flow.note_failure(now_);  // its packets may still be under way, and need their window
  }
  wake_send_app(node, q, Duration::zero());
}

void World::arm(Node& node) {
  if (node.asleep) return;
  Time next = Time::never();
  for (const auto& qp : node.qps) next = std::min(next, qp->next_deadline());
  if (next.is_never() || options_.sabotage == Sabotage::kDeafTimer) return;
  next = std::max(next, now_);
  if (next >= node.timer_at) return;
  node.timer_at = next;
  events_.push(next, EventKind::kTimer, node.number);
}

void World::on_timer(Node& node) {
  if (now_ < node.timer_at) return;
  node.timer_at = Time::never();
  for (uint32_t q = 0; q < node.qps.size(); ++q) {
    transport::Qp& qp = *node.qps[q];
    if (qp.next_deadline() > now_) continue;
    trace("n{} qp{} deadline", node.number, q);
    if (scenario_.kind == Kind::kClean && !is_roce()) {
      own_flow(node, q).requests().on_deadline(now_);
      peer_flow(node, q).responses().on_deadline(now_);
    }
    node.actions.clear();
    qp.on_deadline(now_, node.actions);
    check_changes(node, q);
    do_actions(node, q, nullptr);
    expect(
        qp.next_deadline() > now_ || qp.wants_to_send() || qp.mp()->requester().completion_ready(),
        "n{} qp{}: a deadline that handling does not move", node.number, q);
    service(node, q);
  }
  arm(node);
}

void World::wake(Node& node) {
  node.asleep = false;
  std::vector<InFlight> backlog;
  backlog.swap(node.backlog);
  for (const InFlight& packet : backlog) arrive(node, packet);
  node.timer_at = now_;
  on_timer(node);
  for (uint32_t q = 0; q < node.qps.size(); ++q) service(node, q);
}

}  // namespace mprdma::swarm
