// What the events do: packets arrive, time passes, applications post. Around every call of the
// transport this does what a dataplane does.

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/explore/state_hash.hpp"
#include "tests/explore/world.hpp"
#include "tests/swarm/failure.hpp"
#include "wire/print.hpp"

namespace mprdma::explore {

using swarm::expect;
using swarm::fail;
using transport::PostResult;
using transport::RxVerdict;

namespace {

constexpr uint32_t kCallsMax = 1000;  // between two events
constexpr const char* kNames[2] = {"a", "b"};

std::string text_of(const wire::Packet& packet) {
  std::array<char, wire::kTextBytes> text;
  return std::string(wire::to_string(packet, text));
}

uint64_t hash_of(const Flight& flight) {
  std::array<uint8_t, wire::kMaxTransportHeaderBytes> header{};
  wire::encode_transport(flight.header, header.data());
  StateHash hash;
  hash.add_bytes(header);
  hash.add(flight.header.vp);
  hash.add(flight.source);
  return hash.value();
}

void spend(uint8_t& budget) {
  CHECK(budget > 0);
  if (budget != kUnlimited) --budget;
}

}  // namespace

void World::apply(const Event& event) {
  if (setup_.verbose) trace("{}", to_string(event));
  auto& flights = scene_.sides[event.side].flights;
  Budgets& left = scene_.left;
  switch (event.kind) {
    case EventKind::kDeliver:
      if (event.index > 0) spend(left.overtakes);
      deliver(event.side, event.index);
      break;
    case EventKind::kLose:
      spend(left.losses);
      flights.erase(event.index);
      break;
    case EventKind::kDuplicate:
      expect(!flights.full(), "more than {} packets in flight", kFlightsMax);
      spend(flights[event.index].is_ack() ? left.duplicate_acks : left.duplicate_packets);
      flights.push(Flight(flights[event.index]));
      break;
    case EventKind::kAcknowledge:
      acknowledge(event.side);
      break;
    case EventKind::kTime:
      if (!time_is_free()) spend(left.delays);
      scene_.now = std::max(scene_.now, next_deadline());
      break;
    case EventKind::kPost:
      post(event.side);
      break;
    case EventKind::kPostReceive:
      post_receive(event.side);
      break;
  }
  settle();
}

void World::deliver(uint32_t side, size_t index) {
  auto& flights = scene_.sides[side].flights;
  const Flight flight = flights[index];
  flights.erase(index);
  pass_to(flight.sent + kDelay);
  const uint32_t to = 1 - side;
  Host& host = hosts_[to];
  trace("{} <- {}", kNames[to], setup_.verbose ? text_of(flight.header) : "");
  auto& frames = scene_.sides[to].frames;
  const auto free = std::find_if(frames.begin(), frames.end(), [](auto& f) { return !f.used; });
  expect(free != frames.end(), "{}: all frames are lent", kNames[to]);
  *free = {.used = true,
           .source = flight.source,
           .bytes = flight.header.payload_len,
           .hash = flight.hash};
  host.actions.clear();
  const auto handle = static_cast<transport::FrameHandle>(free - frames.begin() + 1);
  const RxVerdict verdict = host.qp->on_packet(scene_.now, flight.header, handle, host.actions);
  do_actions(to);
  if (verdict == RxVerdict::kDone) free->used = false;
}

void World::acknowledge(uint32_t side) {
  wire::Packet ack;
  CHECK(hosts_[side].qp->take_ack(scene_.now, ack));
  send(side, ack, nullptr);
}

void World::post(uint32_t side) {
  const uint32_t i = message_of(side, scene_.progress[side].posted++, false);
  const Message& message = setup_.messages[i];
  const uint64_t addr = kBase + i * kAreaBytes;
  const transport::Sge sge{addr, message.length(), kKey};
  const PostResult result = hosts_[side].qp->post_send(scene_.now, {.wr_id = i,
                                                                    .opcode = message.opcode,
                                                                    .flags = transport::kSignaled,
                                                                    .rkey = kKey,
                                                                    .remote_addr = addr,
                                                                    .sges = {&sge, 1}});
  CHECK(result == PostResult::kOk);
}

void World::post_receive(uint32_t side) {
  const uint32_t number = scene_.progress[side].receives_posted++;
  const transport::Sge sge{kBase + message_of(1 - side, number, true) * kAreaBytes, kAreaBytes,
                           kKey};
  Host& host = hosts_[side];
  host.actions.clear();
  CHECK(host.qp->post_recv(scene_.now, {.wr_id = number, .sges = {&sge, 1}}, host.actions) ==
        PostResult::kOk);
  do_actions(side);
}

// Every timer that is due until then expires, in its turn.
void World::pass_to(Time time) {
  for (uint32_t calls = 0; next_deadline() < time; ++calls) {
    expect(calls < kCallsMax, "deadlines without end");
    scene_.now = std::max(scene_.now, next_deadline());
    settle();
  }
  scene_.now = std::max(scene_.now, time);
}

// Both hosts do what they can do now.
void World::settle() {
  for (uint32_t calls = 0; calls < kCallsMax; ++calls) {
    bool rests = true;
    for (uint32_t side : {0u, 1u}) {
      send_all(side);
      take_completions(side);
      check_queue_pair(side);
      rests = !expire(side) && rests;
    }
    if (rests) return;
  }
  fail("a deadline that handling does not move");
}

// False: no timer of this side is due.
bool World::expire(uint32_t side) {
  Host& host = hosts_[side];
  if (host.qp->next_deadline() > scene_.now) return false;
  trace("{}: a timer expires", kNames[side]);
  host.actions.clear();
  host.qp->on_deadline(scene_.now, host.actions);
  do_actions(side);
  return true;
}

void World::send_all(uint32_t side) {
  transport::Qp& qp = *hosts_[side].qp;
  transport::TxPacket packet;
  for (uint32_t calls = 0; qp.wants_to_send(); ++calls) {
    expect(calls < kCallsMax, "{} sends without end", kNames[side]);
    if (qp.poll_packet(scene_.now, packet)) send(side, packet.header, &packet);
  }
}

// `packet`: where the payload is; nullptr: there is none.
void World::send(uint32_t side, const wire::Packet& header, const transport::TxPacket* packet) {
  Side& from = scene_.sides[side];
  expect(!from.flights.full(), "more than {} packets of {} in flight", kFlightsMax, kNames[side]);
  Flight flight;
  flight.header = header;
  flight.sent = scene_.now;
  if (packet != nullptr && packet->num_segments > 0) {
    const transport::Segment& segment = packet->segments[0];
    expect(packet->num_segments == 1 && segment.length == header.payload_len,
           "{}: a payload that is not in one piece", kNames[side]);
    expect(segment.addr >= kBase && segment.addr - kBase < kMessagesMax * kAreaBytes,
           "{}: reads outside of its memory", kNames[side]);
    flight.source = static_cast<uint32_t>(segment.addr - kBase);
  } else {
    expect(header.payload_len == 0, "{}: a payload from nowhere", kNames[side]);
  }
  flight.hash = hash_of(flight);
  trace("{} -> {}", kNames[side], setup_.verbose ? text_of(header) : "");
  from.flights.push(flight);
}

void World::do_actions(uint32_t side) {
  const transport::RxActions& actions = hosts_[side].actions;
  for (const transport::Placement& placement : actions.placements) place(side, placement);
  for (const transport::FrameHandle handle : actions.released) {
    CHECK(handle >= 1 && handle <= kFramesMax);
    Frame& frame = scene_.sides[side].frames[handle - 1];
    expect(frame.used, "{} gives a frame back twice", kNames[side]);
    frame.used = false;
  }
  if (actions.has_owed_ack) send(side, actions.owed_ack, nullptr);
  if (actions.has_ack) send(side, actions.ack, nullptr);
  take_completions(side);
}

}  // namespace mprdma::explore
