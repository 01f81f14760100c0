#include "offload/lockstep/receiver_traffic.hpp"

#include <algorithm>
#include <array>

#include "base/mix.hpp"

namespace mprdma::offload {

using transport::OffloadPacket;
using transport::OffloadSlot;

namespace {

constexpr uint64_t kReceived = 0x5555555555555555;  // 1 in all slots of two bits

// Those that are empty are received.
uint64_t without_empty(uint64_t slots) {
  return slots | (~(slots | slots >> 1) & kReceived);
}

}  // namespace

ReceiverTraffic::ReceiverTraffic(uint64_t seed, uint32_t connections) : prng_(seed) {
  std::vector<uint32_t> numbers(ReceiverDevice::kConnections);
  for (uint32_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  for (uint32_t i = 0; i < connections; ++i) {
    std::swap(numbers[i], numbers[i + prng_.below(numbers.size() - i)]);
    connections_.push_back({.number = numbers[i], .front = Psn(), .seed = prng_.next_u64()});
    unloaded_.push_back(i);
  }
}

void ReceiverTraffic::forget(uint32_t number) {
  for (uint32_t i = 0; i < connections_.size(); ++i) {
    const bool known = std::find(unloaded_.begin(), unloaded_.end(), i) != unloaded_.end();
    if (connections_[i].number == number && !known) unloaded_.push_back(i);
  }
}

ReceiverRequest ReceiverTraffic::first_load() {
  const uint32_t index = unloaded_.back();
  unloaded_.pop_back();
  return begin(index);
}

// PSNs and message numbers of half of them wrap soon.
ReceiverRequest ReceiverTraffic::begin(uint32_t index) {
  const auto near_the_wrap = [this] {
    const uint64_t back = prng_.chance(1, 2) ? prng_.below(200) : prng_.below(kPsnMask);
    return static_cast<uint32_t>(kPsnMask - back);
  };
  Connection& connection = connections_[index];
  connection.front = Psn(near_the_wrap());
  ReceiverRequest out;
  out.connection = connection.number;
  out.load = true;
  out.context.msn = near_the_wrap();
  out.context.nxt = connection.front.value();
  return out;
}

// A context at rest, as software may hand it over: its head is empty. Of some only the head is
// missing. What stands in the packet's place means nothing.
ReceiverRequest ReceiverTraffic::load(uint32_t index, Psn nxt) {
  const OffloadPacket noise = packet(index, nxt).packet;
  ReceiverRequest out = begin(index);
  out.packet = noise;
  uint64_t low = prng_.next_u64();
  uint64_t high = prng_.next_u64();
  const uint64_t kind = prng_.below(8);
  if (kind < 3) {  // 1, 2 or 3 in all slots
    low = high = (kind + 1) * kReceived;
  } else if (kind < 5) {
    low = without_empty(low);
    high = without_empty(high);
  } else {
    low &= prng_.next_u64();
    high &= prng_.next_u64();
  }
  out.context.slots_low = low & ~uint64_t{3};
  out.context.slots_high = high;
  return out;
}

ReceiverRequest ReceiverTraffic::packet(uint32_t index, Psn nxt) {
  Connection& connection = connections_[index];
  ReceiverRequest out;
  out.connection = connection.number;
  OffloadPacket& packet = out.packet;
  packet.psn = draw(connection, nxt);
  // A copy is as its original.
  const uint64_t facts = mix64(connection.seed ^ packet.psn.value());
  constexpr std::array<OffloadSlot, 8> kSlots = {
      OffloadSlot::kReceived,           OffloadSlot::kReceived, OffloadSlot::kReceived,
      OffloadSlot::kReceived,           OffloadSlot::kTail,     OffloadSlot::kTail,
      OffloadSlot::kTailWithCompletion, OffloadSlot::kTail};
  packet.slot = kSlots[facts % kSlots.size()];
  packet.synchronise = (facts >> 8) % 6 == 0;
  // Few, some, or about a power of two.
  constexpr std::array<uint32_t, 3> kReach = {4, 64, 130};
  const auto which = static_cast<uint32_t>((facts >> 16) % 4);
  const uint32_t power = uint32_t{1} << (facts >> 20) % 24;
  packet.packets_before = which < 3 ? static_cast<uint32_t>((facts >> 20) % kReach[which])
                                    : (power + static_cast<uint32_t>((facts >> 28) % 3)) & kPsnMask;
  return out;
}

Psn ReceiverTraffic::draw(Connection& connection, Psn nxt) {
  const uint64_t what = prng_.below(100);
  if (connection.front.before(nxt)) connection.front = nxt;
  if (what < 50) {
    if (prng_.chance(1, 10)) ++connection.front;  // lost
    if (nxt.distance_to(connection.front) < 80) return connection.front++;
  }
  if (what < 80) return nxt;
  if (what < 94) return nxt + static_cast<uint32_t>(prng_.below(160)) - 70;
  return what < 98 ? far(nxt) : Psn(static_cast<uint32_t>(prng_.below(kPsnMask + 1)));
}

// About a power of two away, before or ahead.
Psn ReceiverTraffic::far(Psn nxt) {
  const uint32_t distance = uint32_t{1} << prng_.range(6, 23);
  const auto about = static_cast<uint32_t>(prng_.below(5));
  return (prng_.chance(1, 2) ? nxt + distance : nxt - distance) + about - 2;
}

}  // namespace mprdma::offload
