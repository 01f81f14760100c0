#include "tests/swarm/node.hpp"

#include <algorithm>

namespace mprdma::swarm {

namespace {

constexpr uint64_t kReceiveBytesMax = 256 * 1024;

}  // namespace

Node::Node(uint32_t node_number, const Scenario& scenario, Prng prng, std::FILE* trace_file)
    : number(node_number),
      shares_receives(scenario.shared_receives[node_number]),
      regions(1 + 6 * scenario.queue_pairs),
      held(scenario.held_budget[node_number]),
      trace(trace_file, node_number, scenario.start),
      placement_storage(transport::kMaxPlacements),
      released_storage(transport::kMaxReleased),
      actions(placement_storage, released_storage),
      answers(scenario.queue_pairs),
      engine(scenario.engines[node_number]),
      engine_prng(Prng(scenario.seed).split("engine host").split(node_number)),
      unanswered_left(scenario.queue_pairs, 1),
      base_(uint64_t{node_number + 1} << 40) {
  device = {.memory = &regions, .held = &held, .counters = &counters};
  device.owes_acks = engine.owes_acks;
  if (trace_file != nullptr) device.trace = &trace;
  const uint64_t room = scenario.message_max + 64;
  for (uint32_t q = 0; q < scenario.queue_pairs; ++q) {
    const SideKnobs& side = scenario.sides[q][number];
    Areas a;
    const uint64_t recv_bytes =
        std::min<uint64_t>(side.recv_depth * 2 * room, kReceiveBytesMax + 2 * room);
    a.source = make_area(prng, 2 * room, transport::kRemoteRead, q);
    const auto ordering = [](bool relaxed) { return relaxed ? transport::kRelaxedOrdering : 0u; };
    a.target = make_area(prng, 2 * room,
                         transport::kRemoteRead | transport::kRemoteWrite | transport::kLocalWrite |
                             transport::kMwBind | ordering(side.relaxed_target),
                         q);
    a.sink = make_area(prng, 2 * room, transport::kLocalWrite | ordering(side.relaxed_sink), q);
    a.recv = make_area(prng, recv_bytes, transport::kLocalWrite, q);
    a.inlined = make_area(prng, side.send_depth * uint64_t{256}, 0, q);
    a.words = make_area(prng, 8 * sizeof(uint64_t),
                        transport::kRemoteAtomic | transport::kLocalWrite, q, sizeof(uint64_t));
    areas.push_back(a);
    windows.emplace_back().key = transport::MemoryTable::make_key(next_slot_++, 0);
    window_kinds_.push_back(side.window_type2 ? transport::MemoryKind::kWindow2
                                              : transport::MemoryKind::kWindow1);
    renew_window(q);
  }
  for (uint64_t slot = areas[0].recv.length / room; slot > 0; --slot) {
    shared.free_slots.push_back(slot - 1);
  }
  // Fills eight bytes a draw; bytes behind the last whole eight do not matter.
  for (size_t i = 0; i + 8 <= memory_.size(); i += 8) {
    const uint64_t word = prng.next_u64();
    for (size_t b = 0; b < 8; ++b) memory_[i + b] = static_cast<uint8_t>(word >> (8 * b));
  }
  model_ = memory_;
}

void Node::renew_window(uint32_t q) {
  const uint32_t slot = transport::MemoryTable::slot_of(windows[q].key);
  const auto key_byte = static_cast<uint8_t>(regions.key_at(slot).value() + 1);
  regions.remove(regions.key_at(slot) == Key(0) ? windows[q].key : regions.key_at(slot));
  windows[q] = Window();
  windows[q].key = transport::MemoryTable::make_key(slot, key_byte);
  regions.set({.pd = q, .key = windows[q].key, .kind = window_kinds_[q]});
}

Area Node::make_area(Prng& prng, uint64_t length, uint32_t access, uint32_t pd, uint64_t align) {
  Area area;
  memory_.resize((memory_.size() + kGuardBytes + align - 1) / align * align);
  area.addr = base_ + memory_.size();
  area.length = length;
  memory_.resize(memory_.size() + length + kGuardBytes);
  // Draws the address by which requests name the memory; now and then at the very end of the
  // address space.
  area.iova = prng.chance(1, 8) ? 0 - length - 1 : prng.below(uint64_t{1} << 62);
  area.iova = area.iova / align * align;
  if (access == 0) {  // inline data lies outside of any region
    area.iova = area.addr;
    return area;
  }
  area.key = transport::MemoryTable::make_key(next_slot_++, static_cast<uint8_t>(prng.below(256)));
  regions.set({.iova = area.iova,
               .addr = area.addr,
               .length = length,
               .pd = pd,
               .access = access,
               .key = area.key});
  return area;
}

std::span<uint8_t> Node::view(std::vector<uint8_t>& memory, uint64_t addr, uint64_t length) {
  expect(addr >= base_ && addr - base_ <= memory.size() && length <= memory.size() - (addr - base_),
         "node {}: address {:x} + {} is nobody's memory", number, addr, length);
  return {memory.data() + (addr - base_), length};
}

void Node::forget_model(uint32_t q) {
  const Areas& a = areas[q];
  for (const Area& area : {a.source, a.target, a.sink, a.recv, a.words, a.inlined}) {
    const auto from = bytes(area.addr, area.length);
    std::copy(from.begin(), from.end(), model(area.addr, area.length).begin());
  }
}

bool Node::writable(uint32_t q, uint64_t addr, uint64_t length) const {
  const Areas& a = areas[q];
  const Area& recv = shares_receives ? areas[0].recv : a.recv;
  for (const Area& area : {a.target, a.sink, recv, a.words}) {
    if (addr >= area.addr && addr + length <= area.addr + area.length) return true;
  }
  return false;
}

void Node::check_memory() const {
  const auto wrong = std::mismatch(memory_.begin(), memory_.end(), model_.begin());
  if (wrong.first == memory_.end()) return;
  fail("node {}: byte {:x} is {:02x} instead of {:02x}", number,
       base_ + static_cast<uint64_t>(wrong.first - memory_.begin()), *wrong.first, *wrong.second);
}

}  // namespace mprdma::swarm
