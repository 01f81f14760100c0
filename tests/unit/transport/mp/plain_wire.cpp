// The wire of a world: it delays, and may lose, repeat, mark and forge packets.
#include <gtest/gtest.h>

#include <utility>

#include "tests/unit/transport/mp/plain_world.hpp"

namespace mprdma::transport::plain {

namespace {

// A packet as the receiver's engine would see it.
wire::Packet packet_of(const Parcel& parcel) {
  wire::Packet out = parcel.header;
  if (parcel.bare) {
    EXPECT_TRUE(parcel.raw.load(sizeof(parcel.raw) + size_t{parcel.raw.payload_len}, out));
  }
  return out;
}

}  // namespace

void World::put_on_wire(int from, Parcel parcel) {
  sent.push_back({now_, from, packet_of(parcel), parcel.payload});
  Time at = now_ + Duration::us(5);
  if (conditions_.lossy) {
    if (prng_.chance(1, 40)) return;
    if (prng_.chance(1, 20)) at = at + draw_us(60);
    if (parcel.bare && prng_.chance(1, 25)) parcel.raw.flags |= wire::BarePacket::kCe;
    if (prng_.chance(1, 40)) flights_.push({at + draw_us(60), order_++, 1 - from, parcel});
  }
  if (conditions_.forged && parcel.bare && prng_.chance(1, 50)) {
    // The genuine packet arrives, too, before or after.
    Parcel forged = parcel;
    forge(forged);
    flights_.push({at, order_++, 1 - from, std::move(forged)});
  }
  flights_.push({at, order_++, 1 - from, std::move(parcel)});
}

// Gives one field another value, often one that is nearly right.
void World::forge(Parcel& parcel) {
  const bool near = prng_.chance(2, 3);
  const auto value = static_cast<uint32_t>(prng_.next_u64());
  const uint32_t step = near ? draw(17) - 8 : value;
  wire::BarePacket& raw = parcel.raw;
  switch (draw(12)) {
    case 0:
      raw.opcode = static_cast<uint8_t>(near ? raw.opcode + draw(7) - 3 : value);
      break;
    case 1:
      raw.flags = static_cast<uint8_t>(value);
      break;
    case 2:
      raw.vp = static_cast<uint16_t>(value);
      break;
    case 3:
      raw.psn += step;
      break;
    case 4:
      raw.payload_len = near ? raw.payload_len + step : value % 20'000;
      raw.payload_len &= 0xffff;
      if (prng_.chance(1, 2)) parcel.payload.resize(raw.payload_len, 0xee);
      break;
    case 5:
      raw.number += step;
      break;
    case 6:
      raw.number ^= (value & 0xff) << 24;
      break;
    case 7:
      raw.offset = near ? raw.offset + step : value;
      break;
    case 8:
      raw.extra = near ? raw.extra ^ 1u << value % 24 : value;
      break;
    case 9:
      raw.va += step;
      break;
    case 10:
      raw.rkey = value;
      break;
    default:
      raw.dma_len += step;
      break;
  }
}

void World::deliver() {
  while (!flights_.empty() && flights_.top().at <= now_) {
    const Flight flight = flights_.top();
    flights_.pop();
    hosts[static_cast<size_t>(flight.to)].receive(now_, flight.parcel);
  }
}

}  // namespace mprdma::transport::plain
