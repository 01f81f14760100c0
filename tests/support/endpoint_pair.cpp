#include "tests/support/endpoint_pair.hpp"

#include <algorithm>
#include <cstring>

namespace mprdma::transport {

namespace {

QpConfig config_of(const PairOptions& options, Qpn qpn) {
  return {.qpn = qpn,
          .pd = 0,
          .send_depth = options.send_depth,
          .recv_depth = options.share_receives ? 0 : options.recv_depth,
          .max_send_sge = 4,
          .max_recv_sge = 4,
          .signal_all = false,
          .service = options.service,
          .mode_undecided = options.undecided,
          .params = options.params};
}

}  // namespace

// ---- Endpoint ----------------------------------------------------------------------------------

Endpoint::Endpoint(QpConfig config, uint32_t held_budget, bool share_receives, TraceSink* trace)
    : memory(kMemoryBytes),
      held(held_budget),
      placement_storage_(kMaxPlacements),
      released_storage_(kMaxReleased) {
  key = MemoryTable::make_key(1, 0x55);
  regions.set({.iova = kBase,
               .addr = kBase,
               .length = kMemoryBytes,
               .pd = 0,
               .access = kEverything,
               .key = key});
  const Device device{.memory = &regions, .held = &held, .counters = &counters, .trace = trace};
  if (share_receives) config.shared = &shared_queue_;
  qp = std::make_unique<Qp>(config, device);
}

bool Endpoint::pop_shared_receive(void* host, RecvRequest* out, Sge* sges) {
  auto& self = *static_cast<Endpoint*>(host);
  if (self.shared_.empty()) return false;
  sges[0] = self.shared_.front().sge;
  *out = {.wr_id = self.shared_.front().wr_id, .sges = {sges, 1}};
  self.shared_.pop_front();
  return true;
}

PostResult Endpoint::post(WorkOpcode opcode, uint64_t local, uint32_t length, uint64_t remote,
                          uint16_t flags) {
  const Sge sge{local, length, key};
  return post({.opcode = opcode,
               .flags = flags,
               .imm_or_rkey = 0xabcd,
               .rkey = key,  // both endpoints have the same key
               .remote_addr = remote,
               .sges = {&sge, 1}});
}

PostResult Endpoint::post(const SendRequest& request) {
  SendRequest numbered = request;
  numbered.wr_id = next_wr_id_++;
  return qp->post_send(now, numbered);
}

std::optional<Parcel> Endpoint::post_recv(uint64_t local, uint32_t length) {
  const Sge sge{local, length, key};
  RxActions actions(placement_storage_, released_storage_);
  CHECK(qp->post_recv(now, {.wr_id = next_recv_id_++, .sges = {&sge, 1}}, actions) ==
        PostResult::kOk);
  return do_actions(actions);
}

bool Endpoint::set_state(QpState state) {
  RxActions actions(placement_storage_, released_storage_);
  const bool moved = qp->set_state(now, state, actions);
  do_actions(actions);
  return moved;
}

std::vector<Parcel> Endpoint::send() {
  std::vector<Parcel> parcels;
  while (qp->wants_to_send()) {
    TxPacket out;
    if (!qp->poll_packet(now, out)) continue;
    Parcel parcel{out.header, {}};
    for (uint32_t i = 0; i < out.num_segments; ++i) {
      const uint8_t* from = at(out.segments[i].addr);
      parcel.payload.insert(parcel.payload.end(), from, from + out.segments[i].length);
    }
    CHECK(parcel.payload.size() == out.header.payload_len);
    parcels.push_back(std::move(parcel));
  }
  return parcels;
}

std::optional<Parcel> Endpoint::receive(const Parcel& parcel) {
  const FrameHandle frame = ++last_frame_;
  frames[frame] = parcel.payload;
  RxActions actions(placement_storage_, released_storage_);
  const RxVerdict verdict = qp->on_packet(now, parcel.header, frame, actions);
  std::optional<Parcel> ack = do_actions(actions);
  if (verdict == RxVerdict::kDone) frames.erase(frame);
  return ack;
}

void Endpoint::on_deadline() {
  RxActions actions(placement_storage_, released_storage_);
  qp->on_deadline(now, actions);
  do_actions(actions);
}

std::optional<Parcel> Endpoint::do_actions(RxActions& actions) {
  for (const Placement& p : actions.placements) place(p);
  for (const FrameHandle handle : actions.released) CHECK(frames.erase(handle) == 1);
  Completion c;
  while (qp->poll_completion(c)) completions_.push_back(c);
  if (!actions.has_ack) return std::nullopt;
  return Parcel{actions.ack, {}};
}

void Endpoint::place(const Placement& p) {
  CHECK(p.addr >= kBase && p.addr + p.length <= kBase + kMemoryBytes);
  placed_at.push_back(p.addr);
  if (p.kind == PlacementKind::kPayload) {
    const std::vector<uint8_t>& payload = frames.at(p.frame);
    CHECK(p.payload_offset + p.length <= payload.size());
    std::memcpy(at(p.addr), payload.data() + p.payload_offset, p.length);
  } else if (p.kind == PlacementKind::kValue) {
    CHECK(p.payload_offset + p.length <= sizeof(p.compare));
    std::memcpy(at(p.addr), reinterpret_cast<const uint8_t*>(&p.compare) + p.payload_offset,
                p.length);
  } else {
    CHECK(p.kind != PlacementKind::kGrh && p.addr % sizeof(uint64_t) == 0);
    const uint64_t found = value(p.addr);
    *p.original = found;
    if (p.kind == PlacementKind::kFetchAdd) set_value(p.addr, found + p.swap_add);
    if (p.kind == PlacementKind::kCompareSwap && found == p.compare) set_value(p.addr, p.swap_add);
  }
}

uint64_t Endpoint::value(uint64_t addr) {
  uint64_t value = 0;
  std::memcpy(&value, at(addr), sizeof(value));
  return value;
}

void Endpoint::set_value(uint64_t addr, uint64_t value) {
  std::memcpy(at(addr), &value, sizeof(value));
}

std::vector<Completion> Endpoint::take_completions() {
  Completion c;
  while (qp->poll_completion(c)) completions_.push_back(c);
  return std::exchange(completions_, {});
}

void Endpoint::fill(uint64_t addr, uint32_t length, uint8_t seed) {
  for (uint32_t i = 0; i < length; ++i) at(addr)[i] = static_cast<uint8_t>(seed + i * 7 + i / 256);
}

bool Endpoint::same(uint64_t addr, const Endpoint& other, uint64_t there, uint32_t length) const {
  return std::memcmp(memory.data() + (addr - kBase), other.memory.data() + (there - kBase),
                     length) == 0;
}

// ---- EndpointPair ------------------------------------------------------------------------------

EndpointPair::EndpointPair(const PairOptions& options)
    : a(config_of(options, Qpn(17)), options.held_budget, options.share_receives, options.trace),
      b(config_of(options, Qpn(34)), options.held_budget, options.share_receives) {
  for (Endpoint* endpoint : {&a, &b}) {
    const bool is_a = endpoint == &a;
    endpoint->attributes = options.attributes;
    endpoint->attributes.access = kRemoteRead | kRemoteWrite | kRemoteAtomic;
    endpoint->attributes.dest_qpn = Qpn(is_a ? 34 : 17);
    endpoint->attributes.sq_psn = is_a ? options.psn_a : options.psn_b;
    endpoint->attributes.rq_psn = is_a ? options.psn_b : options.psn_a;
    endpoint->qp->set_attributes(endpoint->attributes);
    if (!options.connect) continue;
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      CHECK(endpoint->set_state(state));
    }
  }
}

Time EndpointPair::next_deadline() const {
  return std::min(a.qp->next_deadline(), b.qp->next_deadline());
}

void EndpointPair::advance(Duration by) {
  const Time end = a.now + by;
  while (next_deadline() <= end) {
    set_time(std::max(a.now, next_deadline()));
    for (Endpoint* endpoint : {&a, &b}) {
      if (endpoint->qp->next_deadline() > endpoint->now) continue;
      endpoint->on_deadline();
      if (endpoint->qp->wants_to_send()) return;  // the test's turn
    }
  }
  set_time(end);
}

void EndpointPair::exchange() {
  bool progress = true;
  while (progress) {
    progress = false;
    for (Endpoint* from : {&a, &b}) {
      Endpoint& to = from == &a ? b : a;
      for (const Parcel& parcel : from->send()) {
        progress = true;
        if (const auto ack = to.receive(parcel)) from->receive(*ack);
      }
    }
  }
}

void EndpointPair::run(Duration delay) {
  struct Flight {
    Time at;
    Endpoint* to;
    Parcel parcel;
  };
  std::deque<Flight> flights;
  while (true) {
    for (Endpoint* from : {&a, &b}) {
      Endpoint* to = from == &a ? &b : &a;
      for (Parcel& parcel : from->send()) flights.push_back({a.now + delay, to, std::move(parcel)});
    }
    const Time arrival = flights.empty() ? Time::never() : flights.front().at;
    const Time next = std::min(arrival, next_deadline());
    if (next.is_never()) return;
    set_time(std::max(a.now, next));
    if (arrival <= a.now) {
      const Flight flight = std::move(flights.front());
      flights.pop_front();
      Endpoint* back = flight.to == &a ? &b : &a;
      if (auto ack = flight.to->receive(flight.parcel)) {
        flights.push_back({a.now + delay, back, std::move(*ack)});
      }
      continue;
    }
    for (Endpoint* endpoint : {&a, &b}) {
      if (endpoint->qp->next_deadline() <= endpoint->now) endpoint->on_deadline();
    }
  }
}

}  // namespace mprdma::transport
