// Runs that end in an error, each with exact expectations. The victim is queue pair 0 and its
// requester node 0, unless the whole network dies; the other queue pairs must not notice.

#include <algorithm>

#include "tests/swarm/world.hpp"
#include "wire/rnr_timer.hpp"

namespace mprdma::swarm {

namespace {

using transport::QpState;
using transport::Sge;
using transport::WcStatus;
using transport::WorkOpcode;

enum Step : uint64_t { kCut, kError, kReset, kReconnect, kBury };

// The time after which the requester gives up on a silent peer: less than twice what was asked for,
// and long enough for recovery.
Duration retry_time(const Scenario& s, const transport::Qp& qp) {
  const Duration timeout = Duration::ns(4096) * (int64_t{1} << s.timeout);
  if (qp.mp() == nullptr) return std::max(timeout, qp.params().rto_floor) * 2 * (s.retry_cnt + 1);
  return std::max(timeout, qp.mp()->requester().sender().base_rto()) * 2 * (s.retry_cnt + 1);
}

}  // namespace

void World::start_script() {
  Ending& own = flows_[0][0]->ending;
  Ending& other = flows_[0][1]->ending;
  bad_op_ = script_prng_.below(scenario_.sides[0][0].operations + uint64_t{1});
  script_done_ = true;
  switch (scenario_.kind) {
    case Kind::kAccess:
      own.send_statuses = {WcStatus::kRemoteAccessError};
      own.recv_statuses = {WcStatus::kLocalAccessError};  // the receive of a WRITE with immediate
      own.nothing_placed = true;
      other.flush_allowed = true;
      break;
    case Kind::kTooLong:
      own.send_statuses = {WcStatus::kRemoteInvalidRequestError};
      own.recv_statuses = {WcStatus::kLocalLengthError};
      other.flush_allowed = true;
      break;
    case Kind::kLocalError:
      own.send_statuses = {WcStatus::kLocalProtectionError};
      other.send_statuses = {WcStatus::kRetryExceeded};
      break;
    case Kind::kRnrExhaust:
      own.send_statuses = {WcStatus::kRnrRetryExceeded};
      other.send_statuses = {WcStatus::kRetryExceeded};
      break;
    case Kind::kSilent:
      for (auto& flows : flows_) {
        for (auto& flow : flows) flow->ending.send_statuses = {WcStatus::kRetryExceeded};
      }
      break;
    default:
      bad_op_ = UINT64_MAX;
      break;
  }
  if (scenario_.kind == Kind::kSilent) bad_op_ = UINT64_MAX;
  if (bad_op_ != UINT64_MAX) {
    ++apps_[0][0].ops_left;
    wake_send_app(*nodes_[0], 0, Duration::zero());
  }
  // The NAK may be lost, and the standard sends it once.
  const bool refused = scenario_.kind == Kind::kAccess || scenario_.kind == Kind::kTooLong;
  if (is_roce() && refused) own.send_statuses.push_back(WcStatus::kRetryExceeded);
  const auto until_clean = static_cast<uint64_t>((scenario_.clean_at - now_).count_ns());
  const Time at = now_ + Duration::ns(static_cast<int64_t>(script_prng_.range(1, until_clean)));
  if (scenario_.kind == Kind::kSilent) {
    script_done_ = false;
    events_.push(at, EventKind::kScript, 0, kCut);
  } else if (scenario_.kind == Kind::kReset) {
    script_done_ = false;
    events_.push(at, EventKind::kScript, 0, kError);
  } else if (scenario_.kind == Kind::kGarbage) {
    script_done_ = false;
    events_.push(scenario_.clean_at + Duration::ms(1), EventKind::kScript, 0, kBury);
  }
}

void World::script_step(uint64_t step) {
  switch (step) {
    case kCut: {
      const uint64_t which = script_prng_.range(1, 3);
      if ((which & 1) != 0) links_[0]->set_cut(true);
      if ((which & 2) != 0) links_[1]->set_cut(true);
      trace("the network is cut: {}", which);
      silent_since_ = now_;
      script_done_ = true;
      break;
    }
    case kError: {
      for (auto& flow : flows_[0]) flow->ending.flush_allowed = true;
      const uint64_t which = script_prng_.range(0, 3);
      for (uint32_t n = 0; n < 2; ++n) {
        if ((which >> n & 1) == 0) continue;
        set_state(n, 0, QpState::kErr);
        service(*nodes_[n], 0);
        expect(flows_[0][n]->outstanding() == 0, "n{} qp0: {} requests survive the error state", n,
               flows_[0][n]->outstanding());
        expect(flows_[0][1 - n]->recvs_outstanding() == 0,
               "n{} qp0: {} receives survive the error state", n,
               flows_[0][1 - n]->recvs_outstanding());
      }
      const auto pause = static_cast<int64_t>(script_prng_.range(0, 500'000));
      events_.push(now_ + Duration::ns(pause), EventKind::kScript, 0, kReset);
      break;
    }
    case kReset: {
      for (uint32_t n = 0; n < 2; ++n) {
        set_state(n, 0, QpState::kReset);
        expect(!nodes_[n]->qps[0]->busy() && !nodes_[n]->qps[0]->wants_to_send() &&
                   nodes_[n]->qps[0]->next_deadline().is_never(),
               "n{} qp0: is busy after its reset", n);
      }
      const auto pause = static_cast<int64_t>(script_prng_.range(0, 200'000));
      // From here on packets of the old connection do not count.
      ++incarnation_[0];
      paths_[0] = {};
      events_.push(now_ + Duration::ns(pause), EventKind::kScript, 0, kReconnect);
      break;
    }
    case kReconnect:
      reconnect(0);
      script_done_ = true;
      break;
    default:
      for (uint32_t q = 0; q < scenario_.queue_pairs; ++q) bury(q);
      script_done_ = true;
      break;
  }
}

// Connects the queue pairs anew, with PSNs far from the old ones: old packets may still be under
// way.
void World::reconnect(uint32_t q) {
  for (uint32_t n = 0; n < 2; ++n) {
    App& a = apps_[q][n];
    a.base = flows_[q][n]->config().base +
             static_cast<uint32_t>(script_prng_.range(1u << 16, (1u << 24) - (1u << 16)));
    nodes_[n]->forget_model(q);
    nodes_[n]->renew_window(q);
    reclaim_shared(*nodes_[n], q);
    if (a.ops_left == 0) a.ops_left = scenario_.sides[q][n].operations;
  }
  make_flows(q);
  connect(q);
  for (uint32_t n = 0; n < 2; ++n) service(*nodes_[n], q);
}

void World::bury(uint32_t q) {
  for (uint32_t n = 0; n < 2; ++n) {
    apps_[q][n].stopped = true;
    set_state(n, q, QpState::kErr);
    service(*nodes_[n], q);
  }
}

// Posts the n-th request of the victim as the bad one. True if it was posted.
bool World::script_post(Node& node, uint32_t q) {
  App& a = app(node, q);
  if (node.number != 0 || q != 0 || a.next_wr_id != bad_op_) return false;
  if (node.qps[q]->sends_outstanding() >= side(node, q).send_depth) return false;
  post_bad_request(node, q);
  return true;
}

// Makes `op`, whose length is drawn, break the rule that the scenario is about.
void World::break_rule(Node& node, uint32_t q, Op& op, Sge& sge) {
  Prng& prng = script_prng_;
  const Areas& areas = node.areas[q];
  const Areas& there = peer_of(node).areas[q];
  const Area& target = there.target;
  if (scenario_.kind == Kind::kAccess) {
    op.opcode = prng.chance(1, 2)   ? WorkOpcode::kRead
                : prng.chance(1, 2) ? WorkOpcode::kWrite
                                    : WorkOpcode::kWriteImm;
    const uint64_t how = prng.below(8);
    if (how == 0) op.rkey = Key(op.rkey.value() ^ 1);  // a key that was
    if (how == 1) op.rkey = Key(static_cast<uint32_t>(prng.next_u64()) | 0xffff0000u);
    if (how == 2) op.remote_iova += target.length - op.length + 1;  // one byte too far
    if (how == 3) op.remote_iova -= 1;
    if (how == 6) {  // a window that is not bound
      const Window& window = peer_of(node).windows[q];
      op.rkey = window.state == Window::State::kFree ? window.key : Key(op.rkey.value() ^ 1);
    }
    if (how == 7) {  // no atomics here
      op.opcode = WorkOpcode::kFetchAdd;
      op.length = sizeof(uint64_t);
      op.remote_iova &= ~uint64_t{sizeof(uint64_t) - 1};  // alignment is not the error here
    }
    if (how == 4 || how == 5) {  // no such right
      const Area& closed = op.is_read() ? there.sink : there.source;
      op.rkey = closed.key;
      op.remote_iova = closed.iova;
    }
  } else if (scenario_.kind == Kind::kTooLong || scenario_.kind == Kind::kRnrExhaust) {
    op.opcode = prng.chance(1, 2) ? WorkOpcode::kSend : WorkOpcode::kSendImm;
    if (scenario_.kind == Kind::kTooLong) {
      op.length = static_cast<uint32_t>(scenario_.message_max + prng.range(1, 32));
    }
    op.rkey = Key(0);
    op.remote_iova = 0;
    sge.length = op.length;
  } else {
    op.opcode = prng.chance(1, 3) ? WorkOpcode::kRead : WorkOpcode::kWrite;
    if (prng.chance(1, 2)) {
      sge.lkey = Key(sge.lkey.value() ^ 0x40);
    } else {
      sge.addr += areas.source.length - op.length + 1;
    }
  }
  // Packets of the bad request must not change data that earlier READs return.
  if (scenario_.kind == Kind::kLocalError && !op.is_read()) op.flags |= transport::kFence;
  if (op.is_answered() && scenario_.kind == Kind::kAccess) {
    sge = {areas.sink.iova, op.length, areas.sink.key};
  }
}

void World::post_bad_request(Node& node, uint32_t q) {
  App& a = app(node, q);
  Prng& prng = script_prng_;
  Op op = draw_op(node, q);
  op.flags &= static_cast<uint16_t>(~(transport::kInline | transport::kFence));
  op.length = static_cast<uint32_t>(prng.range(1, scenario_.message_max));
  const Areas& areas = node.areas[q];
  const Areas& there = peer_of(node).areas[q];
  Sge sge{areas.source.iova, op.length, areas.source.key};
  const Area& target = there.target;
  op.remote_iova = target.iova;
  op.rkey = target.key;
  op.imm = static_cast<uint32_t>(prng.next_u64());
  break_rule(node, q, op, sge);
  const auto bytes =
      op.is_answered() ? peer_of(node).model(there.target.addr, op.length)
                       : node.bytes(areas.source.addr + (sge.addr - areas.source.iova), op.length);
  op.content.assign(bytes.begin(), bytes.end());
  op.relaxed = is_relaxed(node, q, op);
  op.remote_addr = there.target.addr;
  op.pieces = {{areas.sink.addr, op.length}};
  const transport::PostResult result = post(node, q, op, {sge});
  expect(result == transport::PostResult::kOk, "n{} qp{}: the bad request is not taken: {}",
         node.number, q, static_cast<int>(result));
  trace("n{} qp{} posts the BAD wr {} opcode {} length {}", node.number, q, op.wr_id,
        static_cast<int>(op.opcode), op.length);
  ++a.next_wr_id;
  --a.ops_left;
  Flow& flow = own_flow(node, q);
  if (flow.ending.at_op == Ending::kAnywhere) flow.ending.at_op = flow.posted();
  // READ data without a valid place arrives, and is acknowledged, without placement.
  if (scenario_.kind == Kind::kLocalError && op.is_read()) flow.responses().excuse_placement();
  flow.unknown_from = flow.posted();
  flow.post(std::move(op));
}

void World::check_script_end() {
  const Flow& flow = *flows_[0][0];
  const auto state = [&](uint32_t n) { return nodes_[n]->qps[0]->state(); };
  switch (scenario_.kind) {
    case Kind::kAccess:
    case Kind::kTooLong:
      expect(state(0) == QpState::kErr && state(1) == QpState::kErr,
             "the refused connection is in states {} and {}", static_cast<int>(state(0)),
             static_cast<int>(state(1)));
      [[fallthrough]];
    case Kind::kLocalError:
    case Kind::kRnrExhaust:
      // The completion's status is checked when it is polled.
      expect(flow.send_failed(), "the bad request does not fail");
      expect(is_roce() || flow.send_failure() == flow.ending.send_statuses[0],
             "the bad request is flushed");
      expect(state(0) == QpState::kErr, "a failed queue pair is in state {}",
             static_cast<int>(state(0)));
      break;
    case Kind::kSilent: {
      const Duration slack =
          scenario_.nap_max * 2 + Duration::ms(1) + wire::rnr_timer(scenario_.min_rnr_timer);
      for (uint32_t q = 0; q < scenario_.queue_pairs; ++q) {
        for (uint32_t n = 0; n < 2; ++n) {
          const Flow& f = *flows_[q][n];
          if (!f.send_failed()) continue;
          const Time by = std::max(silent_since_, f.last_sign_of_life()) +
                          retry_time(scenario_, *nodes_[n]->qps[q]) + slack;
          expect(f.failed_at() <= by, "{}: gives up {} us too late", f.config().name,
                 (f.failed_at() - by).count_ns() / 1000);
          expect(f.failed_at() >= silent_since_, "{}: gives up on a peer that lives",
                 f.config().name);
        }
      }
      break;
    }
    case Kind::kGarbage:
      for (auto& apps : apps_) {
        for (App& a : apps) {
          expect(a.completed == a.next_wr_id, "{} of {} requests complete", a.completed,
                 a.next_wr_id);
          expect(a.recv_completed == a.next_recv, "{} of {} receives complete", a.recv_completed,
                 a.next_recv);
        }
      }
      break;
    default:
      break;
  }
}

}  // namespace mprdma::swarm
