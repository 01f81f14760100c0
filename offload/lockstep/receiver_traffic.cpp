#include "offload/lockstep/receiver_traffic.hpp"

#include <algorithm>
#include <array>

#include "base/mix.hpp"

namespace mprdma::offload {

using transport::OffloadPacket;
using transport::OffloadSlot;

namespace {

// Slots of two bits: those that are empty are received.
uint64_t without_empty(uint64_t slots) {
  constexpr uint64_t kReceived = 0x5555555555555555;
  return slots | (~(slots | slots >> 1) & kReceived);
}

}  // namespace

ReceiverTraffic::ReceiverTraffic(uint64_t seed, uint32_t connections) : prng_(seed) {
  std::vector<uint32_t> numbers(ReceiverDevice::kConnections);
  for (uint32_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  for (uint32_t i = 0; i < connections; ++i) {
    std::swap(numbers[i], numbers[i + prng_.below(numbers.size() - i)]);
    connections_.push_back({.number = numbers[i], .front = Psn(), .seed = prng_.next_u64()});
  }
}

// Half of them soon come round.
ReceiverRequest ReceiverTraffic::first_load(uint32_t index) {
  Connection& connection = connections_[index];
  connection.front = prng_.chance(1, 2) ? Psn(static_cast<uint32_t>(kPsnMask - prng_.below(200)))
                                        : Psn(static_cast<uint32_t>(prng_.below(kPsnMask)));
  ReceiverRequest out;
  out.connection = connection.number;
  out.load = true;
  out.context.msn = static_cast<uint32_t>(prng_.below(kPsnMask + 1));
  out.context.nxt = connection.front.value();
  return out;
}

// A context at rest, as software may hand it over: its head is empty. Of some only the head is
// missing. What stands in the packet's place means nothing.
ReceiverRequest ReceiverTraffic::load(uint32_t index, Psn nxt) {
  const OffloadPacket noise = packet(index, nxt).packet;
  ReceiverRequest out = first_load(index);
  out.packet = noise;
  uint64_t low = prng_.next_u64();
  uint64_t high = prng_.next_u64();
  if (prng_.chance(1, 4)) {
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
  constexpr std::array<uint32_t, 4> kReach = {4, 64, 130, kPsnMask};
  packet.packets_before = static_cast<uint32_t>((facts >> 20) % kReach[(facts >> 16) % 4]);
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
