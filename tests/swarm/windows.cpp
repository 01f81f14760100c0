// Atomics, and memory windows over a part of the memory that the peer may write: requests of the
// applications and their expected results.

#include <algorithm>
#include <cstring>

#include "tests/swarm/world.hpp"

namespace mprdma::swarm {

namespace {

using transport::WorkOpcode;

constexpr uint32_t kWindowAccess = transport::kRemoteRead | transport::kRemoteWrite;

}  // namespace

// ---- Atomics -----------------------------------------------------------------------------------

// Only atomics change these words, so the result of each is known when it is posted: a lost or
// repeated one breaks the chain.
void World::draw_atomic(Node& node, uint32_t q, Op& op) {
  Node& peer = peer_of(node);
  Prng& prng = app(node, q).prng;
  const Area& words = peer.areas[q].words;
  op.remote_addr = words.addr + prng.below(words.length / sizeof(uint64_t)) * sizeof(uint64_t);
  op.remote_iova = words.to_iova(op.remote_addr);
  op.rkey = words.key;
  const auto model = peer.model(op.remote_addr, sizeof(uint64_t));
  op.content.assign(model.begin(), model.end());
  uint64_t value = 0;
  std::memcpy(&value, model.data(), sizeof(value));
  op.compare_add = prng.next_u64();
  op.swap = prng.next_u64();
  const bool swaps = op.opcode == WorkOpcode::kCompareSwap;
  if (swaps && prng.chance(2, 3)) std::memcpy(&op.compare_add, model.data(), sizeof(uint64_t));
}

void World::on_atomic_posted(Node& node, const Op& op) {
  const auto model = peer_of(node).model(op.remote_addr, sizeof(uint64_t));
  uint64_t value = 0;
  std::memcpy(&value, model.data(), sizeof(value));
  if (op.opcode == WorkOpcode::kFetchAdd) {
    value += op.compare_add;
  } else if (value == op.compare_add) {
    value = op.swap;
  }
  std::memcpy(model.data(), &value, sizeof(value));
}

// ---- Windows -----------------------------------------------------------------------------------

// Binds a free window or ends an open one with which the peer has finished; otherwise posts a plain
// SEND.
void World::draw_window_work(Node& node, uint32_t q, Op& op) {
  const bool type2 = side(node, q).window_type2;
  const Window& window = node.windows[q];
  const bool may_bind = window.state == Window::State::kFree;
  const bool may_end = window.state == Window::State::kOpen && window.users == 0;
  op.flags &= static_cast<uint16_t>(op.is_local() ? ~transport::kInline : 0xffff);
  if (op.opcode == WorkOpcode::kBindMw && (may_bind || (may_end && !type2))) {
    draw_bind(node, q, op);
  } else if (op.opcode == WorkOpcode::kLocalInvalidate && may_end) {
    op.length = 0;
    op.imm = window.key.value();
    if (type2) return;
    // An unbinding of a type 1 window: a bind of length 0.
    op.opcode = WorkOpcode::kBindMw;
    op.rkey = window.key;
    op.imm = transport::MemoryTable::make_key(transport::MemoryTable::slot_of(window.key),
                                              static_cast<uint8_t>(window.key.value() + 1))
                 .value();
  } else if (op.invalidates_there()) {
    draw_send_invalidate(node, q, op);
  } else if (op.is_local()) {
    op.opcode = WorkOpcode::kSend;
  }
}

void World::draw_bind(Node& node, uint32_t q, Op& op) {
  Prng& prng = app(node, q).prng;
  const Area& target = node.areas[q].target;
  Window& window = node.windows[q];
  const bool zero_based = side(node, q).window_zero_based;
  Area next;
  next.length = prng.range(1, target.length);
  next.addr = target.addr + prng.below(target.length - next.length + 1);
  next.iova = zero_based ? 0 : target.to_iova(next.addr);
  next.key = transport::MemoryTable::make_key(
      transport::MemoryTable::slot_of(window.key),
      static_cast<uint8_t>(window.key.value() + prng.range(1, 255)));
  window.next = next;
  op.length = 0;
  op.rkey = window.key;
  op.imm = next.key.value();
  op.remote_iova = target.to_iova(next.addr);
  op.compare_add = next.length;
  op.swap = target.key.value();
  op.bind_access = kWindowAccess | (zero_based ? transport::kZeroBased : 0);
}

void World::draw_send_invalidate(Node& node, uint32_t q, Op& op) {
  const Window& window = peer_of(node).windows[q];
  const bool type2 = side(peer_of(node), q).window_type2;
  if (!type2 || window.state != Window::State::kOpen) {
    op.opcode = WorkOpcode::kSend;
    return;
  }
  op.imm = window.key.value();
  // A READ by this key is open until its data has arrived.
  const Flow& flow = own_flow(node, q);
  for (uint64_t i = flow.completed(); i < flow.posted(); ++i) {
    if (flow.op(i).is_read() && flow.op(i).in_window) op.flags |= transport::kFence;
  }
}

// Returns the peer's window if it is open and the request fits.
const Area* World::draw_window(Node& node, uint32_t q, Op& op) {
  Window& window = peer_of(node).windows[q];
  if (window.state != Window::State::kOpen || op.length > window.area.length) return nullptr;
  if (!app(node, q).prng.chance(2, 3)) return nullptr;
  op.in_window = true;
  return &window.area;
}

// The request was accepted: from here on both applications know of it.
void World::on_window_posted(Node& node, uint32_t q, const Op& op) {
  if (op.in_window) ++peer_of(node).windows[q].users;
  if (op.invalidates_there()) peer_of(node).windows[q].state = Window::State::kClosing;
  if (!op.is_local()) return;
  Window& window = node.windows[q];
  if (op.opcode == WorkOpcode::kBindMw && op.compare_add > 0) {
    window.state = Window::State::kBinding;
    return;
  }
  window.state = Window::State::kClosing;
  window.next = {.addr = 0, .length = 0, .iova = 0, .key = Key(op.imm)};
}

bool World::window_opens(const Node& node, uint32_t q, Key key, const Area& area) const {
  uint64_t addr = 0;
  if (!node.regions.translate_remote(key, q, node.qpns[q], area.iova, area.length, kWindowAccess,
                                     &addr)) {
    return false;
  }
  expect(addr == area.addr, "n{} qp{}: the window opens {:x} instead of {:x}", node.number, q, addr,
         area.addr);
  return true;
}

// Called when a bind or an invalidation of this queue pair is complete.
void World::on_window_work_done(Node& node, uint32_t q) {
  Window& window = node.windows[q];
  const Area before = window.area;
  expect(window.key == window.next.key || before.length == 0 ||
             !window_opens(node, q, window.key, before),
         "n{} qp{}: the key before still opens the window", node.number, q);
  window.key = window.next.key;
  window.area = window.next;
  const bool open = window.next.length > 0;
  expect(open || before.length == 0 || !window_opens(node, q, window.key, before),
         "n{} qp{}: the window is still open", node.number, q);
  expect(!open || window_opens(node, q, window.key, window.area),
         "n{} qp{}: the window is not open", node.number, q);
  window.state = open ? Window::State::kOpen : Window::State::kFree;
}

void World::on_invalidated(Node& node, uint32_t q) {
  Window& window = node.windows[q];
  expect(!window_opens(node, q, window.key, window.area),
         "n{} qp{}: the window that the peer invalidated is still open", node.number, q);
  window.state = Window::State::kFree;
  window.area = {};
}

}  // namespace mprdma::swarm
