// What the applications do: post random requests and receives in the drawn pattern, and keep the
// model of memory.

#include <algorithm>
#include <cstring>

#include "tests/swarm/world.hpp"

namespace mprdma::swarm {

namespace {

using transport::PostResult;
using transport::Sge;
using transport::WorkOpcode;

constexpr uint32_t kMillion = 1'000'000;
constexpr uint32_t kInlineSlotBytes = 256;
constexpr uint32_t kInlineMax = 220;

bool overlap(uint64_t a, uint64_t a_length, uint64_t b, uint64_t b_length) {
  return a < b + b_length && b < a + a_length;
}

void copy(std::span<uint8_t> to, const uint8_t* from) {
  if (!to.empty()) std::memcpy(to.data(), from, to.size());
}

}  // namespace

// ---- Drawing -----------------------------------------------------------------------------------

uint32_t World::draw_size(App& app, const SideKnobs&, bool inlined) {
  const uint32_t max =
      inlined ? std::min(kInlineMax, scenario_.message_max) : scenario_.message_max;
  Prng& prng = app.prng;
  Sizes sizes = scenario_.sizes;
  if (sizes == Sizes::kMixed) sizes = static_cast<Sizes>(prng.below(3));
  uint64_t size = 0;
  if (sizes == Sizes::kTiny) {
    size = prng.below(65);
  } else if (sizes == Sizes::kAroundMtu) {
    const uint64_t mtus = prng.range(0, 4) * scenario_.path_mtu;
    size = mtus + prng.range(0, 2);
    size = size > 0 ? size - 1 : 0;
  } else {
    size = prng.range(0, max);
  }
  return static_cast<uint32_t>(std::min<uint64_t>(size, max));
}

// Splits the operation's length over SGEs in [from, from + room) of an area.
std::vector<Sge> World::lay_out(Op& op, const Area& area, uint64_t from, uint64_t room,
                                uint32_t sges_max, App& app) {
  Prng& prng = app.prng;
  const auto count = static_cast<uint32_t>(prng.range(op.length == 0 ? 0 : 1, sges_max));
  uint64_t slack = room - op.length;
  uint64_t at = from;
  uint32_t left = op.length;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t gap = prng.below(std::min<uint64_t>(slack, 24) + 1);
    slack -= gap;
    at += gap;
    const uint32_t length =
        i + 1 == count ? left : static_cast<uint32_t>(prng.below(uint64_t{left} + 1));
    op.pieces.push_back({at, length});
    at += length;
    left -= length;
  }
  // Shuffles the pieces, so that they lie in any order in memory.
  for (size_t i = op.pieces.size(); i > 1; --i) {
    std::swap(op.pieces[i - 1], op.pieces[prng.below(i)]);
  }
  std::vector<Sge> sges;
  for (const Piece& piece : op.pieces) {
    sges.push_back({area.to_iova(piece.addr), piece.length, area.key});
  }
  return sges;
}

// Chooses the target of a READ or WRITE, and the data that a READ must bring.
void World::draw_remote(Node& node, uint32_t q, Op& op) {
  Node& peer = peer_of(node);
  Prng& prng = app(node, q).prng;
  const bool constant = op.is_read() && prng.chance(1, 2);
  const Area* window = constant ? nullptr : draw_window(node, q, op);
  const Area& area = constant            ? peer.areas[q].source
                     : window != nullptr ? *window
                                         : peer.areas[q].target;
  // Targets are close together now and then, so that operations overlap.
  const uint64_t span =
      prng.chance(1, 2) ? std::min<uint64_t>(area.length - op.length, 64) : area.length - op.length;
  op.remote_addr = area.addr + prng.range(0, span);
  op.remote_iova = area.to_iova(op.remote_addr);
  op.rkey = area.key;
  if (op.is_read()) {
    const auto bytes = peer.model(op.remote_addr, op.length);
    op.content.assign(bytes.begin(), bytes.end());
    return;
  }
  const Flow& flow = own_flow(node, q);
  for (uint64_t i = flow.completed(); i < flow.posted(); ++i) {
    const Op& before = flow.op(i);
    // Either of two overlapping WRITEs to relaxed memory may be seen in the end, unless the later
    // one has the synchronise flag.
    if (before.is_write() && op.relaxed &&
        overlap(before.remote_addr, before.length, op.remote_addr, op.length)) {
      op.flags |= transport::kSynchronise;
    }
    // Without a fence the WRITE might change what the READ brings (IBTA 10.8.3.3, table 79).
    if (before.is_read() && overlap(before.remote_addr, before.length, op.remote_addr, op.length)) {
      op.flags |= transport::kFence;
    }
  }
}

// READs whose data goes to the same memory need an order, where there is none otherwise.
void World::order_read(const Node& node, uint32_t q, Op& op) {
  const Flow& flow = own_flow(node, q);
  if (!op.relaxed) return;
  for (uint64_t i = flow.completed(); i < flow.posted(); ++i) {
    const Op& before = flow.op(i);
    if (!before.is_answered()) continue;
    for (const Piece& a : before.pieces) {
      for (const Piece& b : op.pieces) {
        if (overlap(a.addr, a.length, b.addr, b.length)) op.flags |= transport::kSynchronise;
      }
    }
  }
}

// May data of this operation be placed as it arrives?
bool World::is_relaxed(const Node& node, uint32_t q, const Op& op) {
  using transport::PlacementPolicy;
  if ((!op.is_read() && !op.is_write()) || is_roce()) return false;
  const SideKnobs& placer = op.is_read() ? side(node, q) : side(peer_of(node), q);
  if (placer.params.placement != PlacementPolicy::kStandard) {
    return placer.params.placement == PlacementPolicy::kRelaxed;
  }
  return op.is_read() ? placer.relaxed_sink : placer.relaxed_target;
}

Op World::draw_op(Node& node, uint32_t q) {
  App& a = app(node, q);
  const SideKnobs& knobs = side(node, q);
  Op op;
  uint64_t total = 0;
  for (const uint32_t weight : knobs.weights) total += weight;
  uint64_t pick = a.prng.below(total);
  size_t kind = 0;
  while (pick >= knobs.weights[kind]) pick -= knobs.weights[kind++];
  op.opcode = kOpcodes[kind];
  // Garbage runs have no model that knows the state of a window.
  const bool windows = op.is_local() || op.invalidates_there();
  if (windows && scenario_.kind == Kind::kGarbage) op.opcode = WorkOpcode::kSend;
  op.wr_id = a.next_wr_id;
  const bool marked = a.prng.chance(knobs.signaled_ppm, kMillion);
  op.signaled = marked || knobs.signal_all;
  if (marked) op.flags |= transport::kSignaled;
  if (a.prng.chance(knobs.fence_ppm, kMillion)) op.flags |= transport::kFence;
  if (op.takes_receive() && a.prng.chance(1, 3)) op.flags |= transport::kSolicited;
  const bool inlined = a.prng.chance(knobs.inline_ppm, kMillion) && !op.is_answered();
  if (inlined) op.flags |= transport::kInline;
  if (knobs.sync_ppm > 0 && a.prng.chance(knobs.sync_ppm, kMillion)) {
    op.flags |= transport::kSynchronise;
  }
  op.relaxed = is_relaxed(node, q, op);
  op.imm = static_cast<uint32_t>(a.prng.next_u64());
  op.length = draw_size(a, knobs, inlined);
  if (op.is_atomic()) op.length = sizeof(uint64_t);
  return op;
}

// ---- Posting sends -----------------------------------------------------------------------------

PostResult World::post(Node& node, uint32_t q, const Op& op, const std::vector<Sge>& sges) {
  if (post_plain(node, q, op, sges)) return PostResult::kOk;
  return node.qps[q]->post_send(now_, {.wr_id = op.wr_id,
                                       .opcode = op.opcode,
                                       .flags = op.flags,
                                       .imm_or_rkey = op.imm,
                                       .rkey = op.rkey,
                                       .remote_addr = op.remote_iova,
                                       .compare_add = op.compare_add,
                                       .swap = op.swap,
                                       .remote_qkey = op.bind_access,
                                       .sges = sges});
}

bool World::post_one(Node& node, uint32_t q) {
  App& a = app(node, q);
  const Areas& areas = node.areas[q];
  Op op = draw_op(node, q);
  if (op.is_local() || op.invalidates_there()) draw_window_work(node, q, op);
  std::vector<Sge> sges;
  const bool inlined = (op.flags & transport::kInline) != 0;
  const Area& area = op.is_answered() ? areas.sink : inlined ? areas.inlined : areas.source;
  uint64_t from = area.addr;
  uint64_t room = area.length;
  if (inlined) {
    from += op.wr_id % side(node, q).send_depth * kInlineSlotBytes;
    room = kInlineSlotBytes;
  } else {
    const uint64_t shift = a.prng.below(room - op.length + 1);
    from += shift;
    room -= shift;
  }
  if (!op.is_local()) sges = lay_out(op, area, from, room, side(node, q).send_sge, a);
  if (!op.is_answered()) {
    for (const Piece& piece : op.pieces) {
      const auto bytes = node.bytes(piece.addr, piece.length);
      op.content.insert(op.content.end(), bytes.begin(), bytes.end());
    }
  }
  if (op.is_read()) order_read(node, q, op);
  if (op.is_read() || op.is_write()) draw_remote(node, q, op);
  if (op.is_atomic()) draw_atomic(node, q, op);
  const bool garbage = scenario_.kind == Kind::kGarbage;
  const uint64_t outstanding =
      garbage ? node.qps[q]->sends_outstanding() : own_flow(node, q).outstanding();
  const PostResult result = post(node, q, op, sges);
  const PostResult expected =
      outstanding < side(node, q).send_depth ? PostResult::kOk : PostResult::kQueueFull;
  expect(result == expected, "n{} qp{}: post_send with {} of {} outstanding: {}", node.number, q,
         outstanding, side(node, q).send_depth, static_cast<int>(result));
  if (result != PostResult::kOk) return false;
  last_activity_ = now_;
  ++a.next_wr_id;
  if (a.ops_left > 0) --a.ops_left;
  trace("n{} qp{} posts wr {} opcode {} length {} flags {}", node.number, q, op.wr_id,
        static_cast<int>(op.opcode), op.length, op.flags);
  if (garbage) return true;
  if (op.is_write()) {
    copy(peer_of(node).model(op.remote_addr, op.length), op.content.data());
  }
  if (op.is_atomic()) on_atomic_posted(node, op);
  on_window_posted(node, q, op);
  own_flow(node, q).note_life(now_);
  // In an RNR exhaust run the first operation that takes a receive is the one that fails.
  Ending& ending = own_flow(node, q).ending;
  if (scenario_.kind == Kind::kRnrExhaust && node.number == 0 && q == 0 && op.takes_receive() &&
      ending.at_op == Ending::kAnywhere) {
    ending.at_op = own_flow(node, q).posted();
  }
  own_flow(node, q).post(std::move(op));
  return true;
}

void World::wake_send_app(Node& node, uint32_t q, Duration after) {
  App& a = app(node, q);
  if (a.send_event || a.stopped || a.ops_left == 0) return;
  a.send_event = true;
  events_.push(now_ + after, EventKind::kSendApp, node.number, q);
}

void World::run_send_app(Node& node, uint32_t q) {
  App& a = app(node, q);
  a.send_event = false;
  const transport::QpState state = node.qps[q]->state();
  if (a.stopped || (state != transport::QpState::kRts && state != transport::QpState::kErr)) return;
  const SideKnobs& knobs = side(node, q);
  const auto pause = Duration::ns(
      static_cast<int64_t>(a.prng.range(1, static_cast<uint64_t>(knobs.pace.count_ns()) + 1)));
  uint64_t count = a.ops_left;
  Duration next = Duration::zero();  // zero: continue at the next completion
  switch (knobs.send_pattern) {
    case SendPattern::kPaced:
      count = 1;
      next = pause;
      break;
    case SendPattern::kBursts:
      count = a.prng.range(1, 12);
      next = pause * 10;
      break;
    case SendPattern::kOneByOne:
      count = node.qps[q]->sends_outstanding() == 0 ? 1 : 0;
      break;
    default:
      break;
  }
  // Posts one more request than fits, now and then: the queue must refuse it.
  while (count > 0 && a.ops_left > 0) {
    const bool full = node.qps[q]->sends_outstanding() >= knobs.send_depth;
    if (full && !a.prng.chance(1, 8)) break;
    const bool posted = script_post(node, q) || post_one(node, q);
    check_changes(node, q);
    if (!posted) break;
    --count;
  }
  const bool full = node.qps[q]->sends_outstanding() >= knobs.send_depth;
  if (next > Duration::zero() && !full) wake_send_app(node, q, next);
  service(node, q);
}

void World::on_op_completed(Node& node, uint32_t q, const Op& op) {
  if (op.is_local()) on_window_work_done(node, q);
  if (op.is_answered()) {
    uint64_t done = 0;
    for (const Piece& piece : op.pieces) {
      copy(node.model(piece.addr, piece.length), op.content.data() + done);
      done += piece.length;
    }
  }
  if ((op.flags & transport::kInline) != 0) {
    // Overwrites the free slot, so that a late reader is found out.
    const uint64_t slot =
        node.areas[q].inlined.addr + op.wr_id % side(node, q).send_depth * kInlineSlotBytes;
    for (uint8_t& byte : node.bytes(slot, kInlineSlotBytes)) byte = static_cast<uint8_t>(~byte);
    for (uint8_t& byte : node.model(slot, kInlineSlotBytes)) byte = static_cast<uint8_t>(~byte);
  }
}

// ---- Receives ----------------------------------------------------------------------------------

uint64_t World::recvs_outstanding(const Node& node, uint32_t q) {
  if (scenario_.kind != Kind::kGarbage) return peer_flow(node, q).recvs_outstanding();
  return app(node, q).next_recv - app(node, q).recv_completed;
}

bool World::post_one_receive(Node& node, uint32_t q) {
  if (node.shares_receives) return post_shared_receive(node, q);
  App& a = app(node, q);
  Flow& flow = peer_flow(node, q);
  const SideKnobs& knobs = side(node, q);
  const Area& area = node.areas[q].recv;
  const uint64_t room = scenario_.message_max + 64;
  const uint64_t slots = std::max<uint64_t>(area.length / room, 1);
  Op buffer;
  buffer.length = scenario_.message_max;
  const uint64_t outstanding = recvs_outstanding(node, q);
  const uint64_t number = a.next_recv++;
  const std::vector<Sge> sges =
      lay_out(buffer, area, area.addr + number % slots * room, room, knobs.recv_sge, a);
  Recv recv{.wr_id = (uint64_t{1} << 40) + number, .pieces = buffer.pieces};
  // The model gets the receive before the post, which may place data at once.
  const bool fits = outstanding < knobs.recv_depth;
  if (fits) flow.post_recv(recv);
  node.actions.clear();
  const PostResult result =
      node.qps[q]->post_recv(now_, {.wr_id = recv.wr_id, .sges = sges}, node.actions);
  expect(result == (fits ? PostResult::kOk : PostResult::kQueueFull),
         "n{} qp{}: post_recv with {} of {} outstanding: {}", node.number, q, outstanding,
         knobs.recv_depth, static_cast<int>(result));
  if (!fits) --a.next_recv;
  check_changes(node, q);
  do_actions(node, q, nullptr);
  drain(node, q);
  return fits;
}

void World::wake_recv_app(Node& node, uint32_t q, Duration after) {
  App& a = app(node, q);
  if (a.recv_event || a.stopped) return;
  a.recv_event = true;
  events_.push(now_ + after, EventKind::kRecvApp, node.number, q);
}

void World::run_recv_app(Node& node, uint32_t q) {
  App& a = app(node, q);
  a.recv_event = false;
  if (a.stopped || node.qps[q]->state() == transport::QpState::kReset) return;
  if (scenario_.kind == Kind::kRnrExhaust && node.number == 1 && q == 0) return;
  const SideKnobs& knobs = side(node, q);
  const bool starving = knobs.recv_pattern == RecvPattern::kStarving && !clean_;
  if (starving) {
    post_one_receive(node, q);
    if (node.qps[q]->state() != transport::QpState::kErr) wake_recv_app(node, q, knobs.pace);
  } else {
    // In the error state every post completes at once.
    for (uint32_t i = 0; i <= knobs.recv_depth; ++i) {
      const bool full = !node.shares_receives && recvs_outstanding(node, q) >= knobs.recv_depth;
      if (full && !a.prng.chance(1, 8)) break;
      if (!post_one_receive(node, q)) break;
    }
  }
  service(node, q);
}

void World::on_recv_completed(Node& node, uint32_t q, uint64_t number, const Op& op) {
  if (op.is_send()) {
    uint64_t done = 0;
    for (const Piece& piece : peer_flow(node, q).recv(number).pieces) {
      if (done >= op.length) break;
      const uint64_t length = std::min<uint64_t>(piece.length, op.length - done);
      copy(node.model(piece.addr, length), op.content.data() + done);
      done += length;
    }
  }
  const SideKnobs& knobs = side(node, q);
  const bool lazy = knobs.recv_pattern == RecvPattern::kLazy && !clean_;
  wake_recv_app(node, q, lazy ? knobs.pace * 4 : Duration::zero());
}

}  // namespace mprdma::swarm
