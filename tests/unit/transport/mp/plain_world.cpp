#include "tests/unit/transport/mp/plain_world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace mprdma::transport::plain {

namespace {

constexpr uint32_t kHalf = Host::kMemoryBytes / 2;  // sources lie below it, destinations above
constexpr uint32_t kMessageMax = 6000;
constexpr uint32_t kSends = 24;

Parcel from_packet(const wire::Packet& packet) {
  Parcel parcel;
  parcel.bare = wire::BarePacket::carries(packet);
  parcel.header = packet;
  if (parcel.bare) {
    unsigned char bytes[wire::BarePacket::kBytes];
    wire::BarePacket::store(packet, bytes);
    std::memcpy(&parcel.raw, bytes, sizeof bytes);
  }
  return parcel;
}

std::string text(const Completion& c) {
  return "completion " + std::to_string(c.wr_id) + " status " +
         std::to_string(static_cast<int>(c.status)) + " opcode " +
         std::to_string(static_cast<int>(c.opcode)) + " bytes " + std::to_string(c.byte_len) +
         " flags " + std::to_string(c.emit | c.is_recv << 1 | c.has_imm << 2 | c.solicited << 3) +
         " imm " + std::to_string(c.imm) + " cause " + std::to_string(c.vendor_err);
}

}  // namespace

// ---- Host --------------------------------------------------------------------------------------

Host::Host(const Conditions& conditions, bool plain, int side)
    : plain_(plain), breaks_(conditions.breaks) {
  regions_.set({.iova = kBase,
                .addr = kBase,
                .length = kMemoryBytes,
                .pd = 0,
                .access = kLocalWrite | kRemoteRead | kRemoteWrite | kRemoteAtomic,
                .key = key});
  for (uint32_t i = 0; i < kHalf; ++i) {
    memory[i] = static_cast<uint8_t>(i * 7 + i / 256 + static_cast<uint32_t>(side));
  }
  QpConfig config;
  config.qpn = Qpn(side == 0 ? 17u : 34u);
  if (conditions.one_path) config.params.path_policy = PathPolicy::kSingle;
  if (conditions.narrow) config.params.initial_window = config.params.window_max = 3;
  config.send_depth = kSends;
  config.recv_depth = 64;
  config.max_send_sge = 3;
  config.max_recv_sge = 2;
  Device device{.memory = &regions_, .held = &held_, .counters = &counters};
  device.owes_acks = true;
  qp_ = std::make_unique<Qp>(config, device);
  attributes_.access = kRemoteRead | kRemoteWrite | kRemoteAtomic;
  attributes_.dest_qpn = Qpn(side == 0 ? 34 : 17);
  attributes_.sq_psn = attributes_.rq_psn = conditions.first;
  attributes_.send_segment = attributes_.take_segment = conditions.segment;
  attributes_.ack_run = conditions.ack_run;
  attributes_.max_rd_atomic = attributes_.max_dest_rd_atomic = 2;
  attributes_.path_seed = conditions.seed;
  qp_->set_attributes(attributes_);
  RxActions actions(placements_, released_);
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    if (state == QpState::kRts && conditions.one_way && side == 1) break;
    EXPECT_TRUE(qp_->set_state(Time(), state, actions));
  }
  for (int i = 0; i < 24; ++i) post_recv(Time());
}

void Host::look_at_changes() {
  QpChanges changes = qp_->take_changes();
  if (!plain_) changes = kAllChanged;
  may_complete_ |= (changes & kCompletionsChanged) != 0;
  may_send_ |= (changes & kSendingChanged) != 0;
  may_have_event_ |= (changes & kOthersChanged) != 0;
  if ((changes & kDeadlineChanged) != 0) deadline_ = qp_->next_deadline();
}

void Host::post(Time now, const PlainRequest& request) {
  if (plain_ && qp_->post_plain(now, request)) {
    ++accepted.posts;
    story.push_back("posted 0");
    return look_at_changes();
  }
  post(now, SendRequest{.wr_id = request.wr_id,
                        .opcode = request.opcode,
                        .flags = request.flags,
                        .rkey = request.rkey,
                        .remote_addr = request.remote_addr,
                        .sges = {&request.sge, 1}});
}

void Host::post(Time now, const SendRequest& request) {
  story.push_back("posted " + std::to_string(static_cast<int>(qp_->post_send(now, request))));
  look_at_changes();
}

std::optional<Parcel> Host::post_and_send(Time now, const PlainRequest& request) {
  PlainPacket packet;
  const PlainSend done = plain_ ? qp_->send_plain(now, request, packet) : PlainSend::kNothing;
  if (done == PlainSend::kSent) {
    ++accepted.at_once;
    EXPECT_FALSE(packet.more || qp_->wants_to_send());
  }
  accepted.kept += done == PlainSend::kPosted ? 1 : 0;
  if (done == PlainSend::kNothing) {
    post(now, request);
  } else {
    story.push_back("posted 0");
    look_at_changes();
  }
  if (done == PlainSend::kSent) return parcel_of(packet);
  Parcel parcel;
  const bool sent =
      qp_->wants_to_send() && ((plain_ && poll_plain(now, parcel)) || poll_general(now, parcel));
  EXPECT_FALSE(sent && done == PlainSend::kPosted);
  look_at_changes();
  return sent ? std::optional(std::move(parcel)) : std::nullopt;
}

void Host::post_recv(Time now) {
  const auto slot = static_cast<uint32_t>(next_recv_ % 4);
  const uint32_t room = breaks_ && next_recv_ % 15 == 14 ? 100 : 8192;
  const uint64_t addr = kBase + kHalf + slot * 8192;
  const Sge sges[] = {{addr + 7000, 50, key}, {addr, room - 50, key}};
  const Sge whole{addr, room, key};
  RxActions actions(placements_, released_);
  const bool split = next_recv_ % 4 == 3;
  const RecvRequest request{.wr_id = next_recv_++,
                            .sges = split ? std::span(sges) : std::span(&whole, 1)};
  story.push_back("received " +
                  std::to_string(static_cast<int>(qp_->post_recv(now, request, actions))));
  do_actions(actions);
}

void Host::set_segment(uint32_t bytes) {
  attributes_.send_segment = bytes;
  qp_->set_attributes(attributes_);
  look_at_changes();
}

bool Host::wants_to_send() {
  may_send_ = may_send_ && qp_->wants_to_send();
  return may_send_;
}

std::vector<Parcel> Host::send(Time now, uint32_t most) {
  std::vector<Parcel> out = std::exchange(answers_, {});
  for (; most > 0 && wants_to_send(); --most) {
    Parcel parcel;
    if ((plain_ && poll_plain(now, parcel)) || poll_general(now, parcel)) {
      out.push_back(std::move(parcel));
    }
    look_at_changes();
  }
  if (most == 0 && wants_to_send()) qp_->on_back_pressure();
  PlainPacket none;
  EXPECT_FALSE(plain_ && !qp_->wants_to_send() && qp_->poll_plain(now, none));
  return out;
}

bool Host::poll_plain(Time now, Parcel& out) {
  PlainPacket packet;
  if (!qp_->poll_plain(now, packet)) return false;
  ++accepted.packets;
  EXPECT_TRUE(packet.more || !qp_->wants_to_send());
  out = parcel_of(packet);
  return true;
}

Parcel Host::parcel_of(const PlainPacket& packet) {
  Parcel parcel;
  parcel.raw = packet.header;
  if (packet.header.payload_len > 0) {
    const uint8_t* from = at(packet.from, packet.header.payload_len);
    parcel.payload.assign(from, from + packet.header.payload_len);
  }
  return parcel;
}

bool Host::poll_general(Time now, Parcel& out) {
  TxPacket packet;
  if (!qp_->poll_packet(now, packet)) return false;
  EXPECT_TRUE(packet.more || !qp_->wants_to_send());
  out = from_packet(packet.header);
  for (uint32_t i = 0; i < packet.num_segments; ++i) {
    const Segment& segment = packet.segments[i];
    const uint8_t* from = at(segment.addr, segment.length);
    out.payload.insert(out.payload.end(), from, from + segment.length);
  }
  return true;
}

void Host::receive(Time now, const Parcel& parcel) {
  RxActions actions(placements_, released_);
  if (plain_ && take_plain(now, parcel, actions)) return do_actions(actions);
  plan_stands_ = false;
  wire::Packet packet = parcel.header;
  if (parcel.bare && !parcel.raw.load(sizeof(parcel.raw) + parcel.payload.size(), packet)) return;
  const FrameHandle frame = ++last_frame_;
  frames_[frame] = parcel.payload;
  const RxVerdict verdict = qp_->on_packet(now, packet, frame, actions);
  do_actions(actions);
  if (verdict == RxVerdict::kDone) frames_.erase(frame);
}

// Foresees a packet of a WRITE: alone, and behind those that came before it and were foreseen, too.
bool Host::plan(const Parcel& parcel, uint64_t* to) {
  PlannedWrites alone;
  uint64_t there = 0;
  const bool foreseen =
      qp_->begin_plan(parcel.raw.psn, alone) && qp_->plan_plain_write(parcel.raw, alone, to);
  if (plan_stands_) {
    accepted.planned += foreseen;
    EXPECT_EQ(qp_->plan_plain_write(parcel.raw, plan_, &there), foreseen);
    EXPECT_EQ(foreseen ? there : 0, foreseen ? *to : 0);
  }
  plan_ = alone;
  return plan_stands_ = foreseen;
}

bool Host::take_plain(Time now, const Parcel& parcel, RxActions& actions) {
  PlainPlacement placement;
  if (!parcel.bare || parcel.payload.size() != parcel.raw.payload_len) return false;
  uint64_t to = 0;
  const bool foreseen = plan(parcel, &to);
  if (foreseen && parcel.raw.psn % 3 == 0) {
    qp_->take_planned(now, parcel.raw, plan_, actions);
    ++accepted.writes;
    std::memcpy(at(to, parcel.raw.payload_len), parcel.payload.data(), parcel.raw.payload_len);
    return true;
  }
  const bool taken = qp_->take_plain(now, parcel.raw, actions, &placement);
  const bool is_write = wire::opcode_info(parcel.raw.opcode).operation == wire::Operation::kWrite;
  EXPECT_EQ(foreseen, taken && is_write);
  if (!taken) return false;
  EXPECT_EQ(foreseen ? placement.to : 0, to);
  const bool send = parcel.raw.opcode == static_cast<uint8_t>(wire::Opcode::kMpSendOnly);
  ++(send ? accepted.sends : placement.length > 0 ? accepted.writes : accepted.acks);
  EXPECT_TRUE(actions.placements.empty() && actions.released.empty() && !actions.has_ack);
  if (placement.length > 0) {
    std::memcpy(at(placement.to, placement.length), parcel.payload.data(), placement.length);
  }
  return true;
}

void Host::do_actions(const RxActions& actions) {
  for (const Placement& placement : actions.placements) place(placement);
  for (const FrameHandle handle : actions.released) EXPECT_EQ(frames_.erase(handle), 1u);
  if (actions.has_owed_ack) answers_.push_back(from_packet(actions.owed_ack));
  if (actions.has_ack) answers_.push_back(from_packet(actions.ack));
  look_at_changes();
}

uint8_t* Host::at(uint64_t addr, uint32_t length) {
  CHECK(addr >= kBase && addr + length <= kBase + kMemoryBytes);
  return memory.data() + (addr - kBase);
}

void Host::place(const Placement& p) {
  if (p.kind == PlacementKind::kPayload) {
    std::memcpy(at(p.addr, p.length), frames_.at(p.frame).data() + p.payload_offset, p.length);
  } else if (p.kind == PlacementKind::kValue) {
    std::memcpy(at(p.addr, p.length),
                reinterpret_cast<const uint8_t*>(&p.compare) + p.payload_offset, p.length);
  } else {
    uint64_t value = 0;
    std::memcpy(&value, at(p.addr, sizeof value), sizeof value);
    *p.original = value;
    value = p.kind == PlacementKind::kFetchAdd ? value + p.swap_add
            : value == p.compare               ? p.swap_add
                                               : value;
    std::memcpy(at(p.addr, sizeof value), &value, sizeof value);
  }
}

void Host::on_time(Time now) {
  plan_stands_ = false;
  if (deadline_ > now) return;
  deadline_ = qp_->next_deadline();
  if (deadline_ > now) return;
  RxActions actions(placements_, released_);
  qp_->on_deadline(now, actions);
  do_actions(actions);
  deadline_ = qp_->next_deadline();
}

void Host::send_owed(Time now) {
  Parcel bare;
  while (plain_ && qp_->take_bare_ack(now, bare.raw)) {
    ++accepted.owed;
    answers_.push_back(bare);
  }
  wire::Packet ack;
  while (qp_->take_ack(now, ack)) answers_.push_back(from_packet(ack));
}

void Host::complete() {
  while (may_complete_ && tell_completion()) look_at_changes();
  may_complete_ = false;
  if (!std::exchange(may_have_event_, false)) return;
  while (true) {
    const QpEvent event = qp_->poll_event();
    if (event == QpEvent::kNone) return;
    story.push_back("event " + std::to_string(static_cast<int>(event)));
  }
}

bool Host::tell_completion() {
  PlainCompletion done;
  if (plain_ && qp_->pop_plain(done)) {
    ++accepted.completions;
    Completion same;
    same.wr_id = done.wr_id;
    same.byte_len = done.byte_len;
    same.opcode = done.opcode;
    same.emit = done.emit;
    story.push_back(text(same));
    return true;
  }
  PlainReceive received;
  if (plain_ && qp_->pop_plain_receive(received)) {
    ++accepted.receives;
    Completion same;
    same.is_recv = true;
    same.wr_id = received.wr_id;
    same.byte_len = received.byte_len;
    same.opcode = WcOpcode::kRecv;
    same.solicited = received.solicited;
    story.push_back(text(same));
    return true;
  }
  Completion completion;
  if (!qp_->poll_completion(completion)) return false;
  story.push_back(text(completion));
  return true;
}

// ---- World -------------------------------------------------------------------------------------

World::World(const Conditions& conditions, bool plain)
    : hosts{Host(conditions, plain, 0), Host(conditions, plain, 1)},
      conditions_(conditions),
      prng_(conditions.seed) {}

Time World::next_event() const {
  Time next = stalled_ ? now_ + Duration::us(1) : Time::never();
  if (!flights_.empty()) next = std::min(next, flights_.top().at);
  for (size_t i = 0; i < 2; ++i) {
    next = std::min({next, hosts[i].deadline(), acks_at_[i]});
    if (acts_left_ > 0) next = std::min(next, acts_at_[i]);
  }
  return next;
}

void World::run() {
  const Time end = now_ + Duration::s(60);
  for (Time next = next_event(); next <= end; next = next_event()) {
    now_ = std::max(now_, next);
    stalled_ = false;
    deliver();
    for (const int side : {0, 1}) {
      Host& host = hosts[static_cast<size_t>(side)];
      Time& acks_at = acks_at_[static_cast<size_t>(side)];
      host.on_time(now_);
      host.complete();
      if (acts_left_ > 0 && acts_at_[static_cast<size_t>(side)] <= now_) act(side);
      if (acks_at <= now_) {
        acks_at = Time::never();
        host.send_owed(now_);
      }
      send_from(side);
      host.complete();
      if (acks_at.is_never() && host.qp().owes_ack()) acks_at = now_ + draw_us(15);
    }
  }
}

void World::act(int side) {
  Host& host = hosts[static_cast<size_t>(side)];
  --acts_left_;
  acts_at_[static_cast<size_t>(side)] = now_ + draw_us(prng_.chance(1, 12) ? 3000 : 30);
  if (prng_.chance(1, 2)) host.post_recv(now_);
  if (conditions_.one_way && side == 1) return;
  if (conditions_.segment != 0 && prng_.chance(1, 10)) {
    host.set_segment(prng_.chance(1, 2) ? conditions_.segment : 0);
  }
  for (uint32_t n = draw(5); n > 0; --n) {
    conditions_.others&& prng_.chance(1, 5) ? post_other(host) : post_plain(side);
  }
}

void World::post_plain(int side) {
  Host& host = hosts[static_cast<size_t>(side)];
  const bool is_inline = prng_.chance(1, 4);
  const uint32_t length = draw(is_inline || prng_.chance(1, 2) ? 200 : kMessageMax);
  PlainRequest request{.wr_id = next_wr_++,
                       .remote_addr = Host::kBase + kHalf + draw(kHalf - kMessageMax),
                       .rkey = host.key,
                       .opcode = prng_.chance(1, 3) ? WorkOpcode::kSend : WorkOpcode::kWrite,
                       .flags = static_cast<uint16_t>(draw(4)),  // kSignaled, kSolicited
                       .sge = {Host::kBase + draw(kHalf - kMessageMax), length, host.key}};
  if (is_inline) request.flags |= kInline;
  if (conditions_.breaks && prng_.chance(1, 60)) request.rkey = Key(7);
  if (conditions_.breaks && prng_.chance(1, 60)) request.sge.lkey = Key(7);
  if (conditions_.breaks && prng_.chance(1, 60)) request.remote_addr = 1;
  if (prng_.chance(1, 2)) return host.post(now_, request);
  if (auto parcel = host.post_and_send(now_, request)) put_on_wire(side, std::move(*parcel));
}

void World::post_other(Host& host) {
  const WorkOpcode opcodes[] = {WorkOpcode::kRead,    WorkOpcode::kFetchAdd, WorkOpcode::kWriteImm,
                                WorkOpcode::kSendImm, WorkOpcode::kWrite,    WorkOpcode::kSend};
  const WorkOpcode opcode = opcodes[draw(6)];
  const bool atomic = opcode == WorkOpcode::kFetchAdd;
  const uint32_t sges = atomic ? 1 : draw(4);
  std::array<Sge, 3> pieces{};
  for (uint32_t i = 0; i < sges; ++i) {
    const uint32_t below = opcode == WorkOpcode::kRead || atomic ? kHalf : 0;
    pieces[i] = {Host::kBase + below + draw(kHalf - kMessageMax), atomic ? 8 : draw(2000),
                 host.key};
  }
  SendRequest request{.wr_id = next_wr_++,
                      .opcode = opcode,
                      .flags = static_cast<uint16_t>(draw(4)),
                      .imm_or_rkey = draw(1000),
                      .rkey = host.key,
                      .remote_addr = Host::kBase + kHalf + draw((kHalf - kMessageMax) / 8) * 8,
                      .compare_add = draw(100),
                      .sges = {pieces.data(), sges}};
  if (opcode == WorkOpcode::kRead) request.remote_addr -= kHalf;
  if (prng_.chance(1, 6)) request.flags |= kFence;
  if (prng_.chance(1, 6)) request.flags |= kSynchronise;
  host.post(now_, request);
}

void World::send_from(int side) {
  Host& host = hosts[static_cast<size_t>(side)];
  if (!host.sends_next()) return;
  for (Parcel& parcel : host.send(now_, draw(32))) put_on_wire(side, std::move(parcel));
  stalled_ |= host.sends_next();
}

}  // namespace mprdma::transport::plain
