// The promises: each piece of a message is placed once, at its place, with the right bytes, in
// order where that is promised; completions come once, in order, with success, and not before the
// data; at the end everything is complete and nothing is left over.

#include "tests/explore/world.hpp"
#include "tests/swarm/failure.hpp"

namespace mprdma::explore {

using swarm::expect;
using transport::Placement;
using transport::WcStatus;
using transport::WorkOpcode;

namespace {

constexpr const char* kNames[2] = {"a", "b"};

}  // namespace

// The message, or the SEND, that `poster` posts after `number` others.
uint32_t World::message_of(uint32_t poster, uint32_t number, bool send) const {
  uint32_t i = 0;
  for (; i < setup_.messages.size(); ++i) {
    const Message& message = setup_.messages[i];
    const bool counts = message.poster == poster && (!send || message.opcode == WorkOpcode::kSend);
    if (counts && number-- == 0) break;
  }
  CHECK(i < setup_.messages.size());
  return i;
}

void World::place(uint32_t side, const Placement& p) {
  CHECK(p.kind == transport::PlacementKind::kPayload && p.frame >= 1 && p.frame <= kFramesMax);
  expect(p.addr >= kBase && p.addr + p.length <= kBase + setup_.messages.size() * kAreaBytes,
         "{}: places outside of its memory", kNames[side]);
  const auto at = static_cast<uint32_t>(p.addr - kBase);
  const uint32_t i = at / kAreaBytes;
  const uint32_t offset = at % kAreaBytes;
  const uint32_t piece = offset / kPathMtu;
  const Message& message = setup_.messages[i];
  trace("{} places piece {} of message {}", kNames[side], piece, i);
  const uint32_t posted = scene_.progress[message.poster].posted;
  const bool is_posted = posted > 0 && message_of(message.poster, posted - 1, false) >= i;
  expect(message.target() == side && is_posted, "{}: no data of message {} belongs here",
         kNames[side], i);
  expect(offset % kPathMtu == 0 && offset + p.length <= message.length() &&
             (p.length == kPathMtu || offset + p.length == message.length()),
         "{}: bytes [{}, {}) of message {} are no packet of it", kNames[side], offset,
         offset + p.length, i);
  // Go-back-0: an incomplete message begins again.
  const bool disturbed = scene_.left != setup_.budgets;
  if (setup_.params.go_back_0 && disturbed && piece == 0 &&
      scene_.placed[i][message.packets - 1] == 0) {
    scene_.placed[i] = {};
  }
  expect(scene_.placed[i][piece]++ == 0, "{}: piece {} of message {} is placed twice", kNames[side],
         piece, i);
  const Frame& frame = scene_.sides[side].frames[p.frame - 1];
  expect(frame.used && p.payload_offset + p.length <= frame.bytes, "{}: placed from no payload",
         kNames[side]);
  expect(frame.source + p.payload_offset == at, "{}: offset {} of message {} gets other bytes",
         kNames[side], offset, i);
  if (!in_order_ && message.opcode != WorkOpcode::kSend) return;
  for (uint32_t before = 0; before < piece; ++before) {
    expect(scene_.placed[i][before] > 0, "{}: piece {} of message {} is placed before piece {}",
           kNames[side], piece, i, before);
  }
  check_before(i, "later data is placed");
}

// All data before that of message i, of the same stream, is there.
void World::check_before(uint32_t i, const char* when) const {
  const Message& message = setup_.messages[i];
  for (uint32_t before = 0; before < i; ++before) {
    const Message& other = setup_.messages[before];
    const bool same = other.poster == message.poster && other.target() == message.target();
    if (same) check_arrived(before, when);
  }
}

void World::check_arrived(uint32_t i, const char* when) const {
  const Message& message = setup_.messages[i];
  for (uint32_t piece = 0; piece < message.packets; ++piece) {
    expect(scene_.placed[i][piece] == 1, "{} before piece {} of message {} is there", when, piece,
           i);
  }
}

void World::take_completions(uint32_t side) {
  transport::Completion c;
  while (hosts_[side].qp->poll_completion(c)) {
    trace("{}: {} {} completes", kNames[side], c.is_recv ? "receive" : "message", c.wr_id);
    expect(c.status == WcStatus::kSuccess, "{}: {} {} ends with status {}", kNames[side],
           c.is_recv ? "receive" : "message", c.wr_id, static_cast<int>(c.status));
    if (c.is_recv) {
      take_receive_completion(side, c);
    } else {
      take_send_completion(side, c);
    }
  }
}

void World::take_send_completion(uint32_t side, const transport::Completion& c) {
  Scene::Progress& own = scene_.progress[side];
  expect(own.completed < own.posted, "{}: a completion of nothing", kNames[side]);
  const uint32_t i = message_of(side, own.completed++, false);
  expect(c.wr_id == i, "message {} completes, {} is next", c.wr_id, i);
  check_arrived(i, "a message completes");
  uint32_t sends = 0;
  for (uint32_t n = 0; n <= i; ++n) {
    const Message& message = setup_.messages[n];
    sends += message.poster == side && message.opcode == WorkOpcode::kSend ? 1 : 0;
  }
  expect(scene_.progress[1 - side].receives_done >= sends,
         "message {} completes before its receive", i);
}

void World::take_receive_completion(uint32_t side, const transport::Completion& c) {
  Scene::Progress& own = scene_.progress[side];
  const uint32_t number = own.receives_done++;
  expect(number < own.receives_posted && c.wr_id == number, "{}: receive {} completes, {} is next",
         kNames[side], c.wr_id, number);
  const uint32_t i = message_of(1 - side, number, true);
  expect(c.byte_len == setup_.messages[i].length(), "receive {} has {} bytes", number, c.byte_len);
  check_arrived(i, "a receive completes");
  // Whatever the placement.
  check_before(i, "a receive completes");
}

void World::check_queue_pair(uint32_t side) {
  transport::Qp& qp = *hosts_[side].qp;
  const transport::QpEvent event = qp.poll_event();
  expect(event == transport::QpEvent::kNone || event == transport::QpEvent::kCommEstablished,
         "{}: asynchronous event {}", kNames[side], static_cast<int>(event));
  expect(qp.state() == transport::QpState::kRts, "{}: state {}", kNames[side],
         static_cast<int>(qp.state()));
  const transport::TransportCounters& counters = hosts_[side].counters;
  expect(counters.drop_bad_packet + counters.drop_bad_state + counters.drop_wrong_mode == 0,
         "{} takes a packet of its peer for a bad one", kNames[side]);
  expect(counters.drop_ghost_ack == 0, "{} takes an acknowledgement for a ghost", kNames[side]);
}

void World::check_end() const {
  for (uint32_t side : {0u, 1u}) {
    const Scene::Progress& own = scene_.progress[side];
    expect(own.completed == messages_of_[side], "stuck: {} of {} messages of {} are complete",
           own.completed, messages_of_[side], kNames[side]);
    expect(own.receives_done == sends_of_[1 - side], "stuck: {} of {} receives of {} are complete",
           own.receives_done, sends_of_[1 - side], kNames[side]);
    expect(!hosts_[side].qp->busy(), "{}: busy at the end", kNames[side]);
    expect(hosts_[side].held->in_use() == 0, "{}: holds a frame at the end", kNames[side]);
    for (const Frame& frame : scene_.sides[side].frames) {
      expect(!frame.used, "{}: a frame is not given back", kNames[side]);
    }
  }
}

}  // namespace mprdma::explore
