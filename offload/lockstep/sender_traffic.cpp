#include "offload/lockstep/sender_traffic.hpp"

#include <algorithm>

#include "transport/stream/offload_fields.hpp"
#include "transport/stream/psn_map_bits.hpp"
#include "wire/constants.hpp"

namespace mprdma::offload {

using transport::OffloadAck;
using transport::OffloadContext;
using transport::PsnMap;
using transport::RoceSender;
using Kind = SenderRequest::Kind;

namespace {

// Before an event, so that what it restarts begins later.
constexpr Duration kJustNow = Duration::ns(1);
// Timeouts in a row, of 255 that the device counts.
constexpr uint32_t kBackoffMax = 250;
constexpr uint32_t kSpan = OffloadContext::kSpan;
constexpr uint32_t kSlots = OffloadContext::kSlots;

SenderState state_of(const OffloadContext& context, const RoceSender& roce) {
  return {.context = context,
          .una = roce.una.value(),
          .nxt = roce.nxt.value(),
          .backoff = roce.backoff};
}

}  // namespace

SenderTraffic::SenderTraffic(uint64_t seed, uint32_t connections)
    : prng_(seed), params_(transport::offload_params()), connections_(connections), now_() {
  now_ += Duration::s(300);
  settings_.initial_window = 1 + below(64);
  const uint32_t most = prng_.chance(1, 4) ? UINT8_MAX : OffloadContext::kSpan;
  settings_.max_window = settings_.initial_window + below(most + 1 - settings_.initial_window);
  settings_.delta = 1 + below(63);
  params_.initial_window = settings_.initial_window;
  params_.window_max = settings_.max_window;
  params_.reorder_delta = settings_.delta;
}

const SenderTraffic::Step& SenderTraffic::next() {
  offered_ = below(static_cast<uint32_t>(connections_.size()));
  Connection& c = connections_[*offered_];
  while (c.steps.empty()) make(*offered_);
  return c.steps.front();
}

void SenderTraffic::take() {
  connections_[*offered_].steps.pop_front();
  offered_.reset();
}

void SenderTraffic::forget(uint32_t connection) {
  connections_[connection].loaded = false;
  connections_[connection].steps.clear();
}

uint16_t SenderTraffic::path() {
  return static_cast<uint16_t>(wire::kVirtualPathMin + below(wire::kVirtualPathCount));
}

uint32_t SenderTraffic::any_time() {
  const uint32_t recent =
      transport::offload_units(now_) - below(prng_.chance(1, 2) ? 300 : 100'000);
  return (prng_.chance(1, 4) ? below(1U << 24) : recent) & ((1U << 24) - 1);
}

// Packets that have arrived, are lost, are copied: none is two of the first two.
OffloadContext SenderTraffic::any_maps(uint32_t span) {
  OffloadContext out;
  const uint32_t kinds = below(4);
  const auto some = [&](uint32_t per_mille) {
    PsnMap map;
    for (uint32_t i = 0; i < span; ++i) {
      if (prng_.chance(per_mille, 1000)) map = transport::with(map, i);
    }
    return map;
  };
  const uint32_t dense = kinds == 0 ? 20 : kinds == 1 ? 500 : kinds == 2 ? 980 : 1000;
  out.sacked = prng_.chance(1, 4) ? 0 : some(dense).words[0];
  const PsnMap arrived{{out.sacked, 0}};
  out.lost = prng_.chance(1, 2) ? PsnMap{} : some(prng_.chance(1, 4) ? 900 : 60) & ~arrived;
  out.penalised = prng_.chance(1, 2) ? out.lost : some(300);
  out.resent = prng_.chance(1, 2) ? PsnMap{} : some(200);
  out.resent_before = prng_.chance(1, 2) ? PsnMap{} : some(200);
  out.ooh_offset = static_cast<uint8_t>(std::bit_width(out.sacked));
  if (prng_.chance(1, 4)) {
    out.ooh_offset =
        static_cast<uint8_t>(std::max<uint32_t>(out.ooh_offset, below(std::min(span, kSlots) + 1)));
  }
  return out;
}

SenderState SenderTraffic::any_state() {
  const uint32_t span = prng_.chance(1, 8) ? 0 : prng_.chance(1, 4) ? kSpan : below(kSpan + 1);
  OffloadContext c = any_maps(span);
  constexpr uint32_t kOne = Fixed16::kOneRaw;
  const uint32_t most = settings_.max_window * kOne;
  c.window_raw = prng_.chance(1, 4) ? kOne + below(kOne) : kOne + below(most - kOne + 1);
  c.window_raw = std::min(c.window_raw, most);
  c.owed_raw = prng_.chance(1, 2) ? 0 : below(prng_.chance(1, 4) ? 1U << 24 : 8 * kOne);
  c.credits = static_cast<uint8_t>(prng_.chance(1, 2) ? below(4) : below(settings_.max_window + 1));
  // About as many as the window has room for.
  const auto used = static_cast<uint32_t>(span - transport::count(c.lost) -
                                          static_cast<uint32_t>(std::popcount(c.sacked)));
  if (prng_.chance(1, 2) && used + 4 < settings_.max_window) {
    c.window_raw = (used + 1 + below(4)) * kOne + below(kOne);
    c.credits = static_cast<uint8_t>(below(4));
  }
  c.flags = static_cast<uint8_t>(below(256));
  // The head asks by a packet that leaves whatever the window says.
  if ((c.flags & OffloadContext::kAsksHead) != 0) c.flags |= OffloadContext::kProbes;
  c.srtt_ns = below(prng_.chance(1, 4) ? 1U << 24 : 30'000);
  c.round_start = any_time();
  c.epoch_start = any_time();
  c.last_ack = any_time();
  c.last_congestion = any_time();
  const uint32_t una = prng_.chance(1, 2) ? kPsnMask - below(200) : below(kPsnMask + 1);
  return {.context = c,
          .una = una,
          .nxt = (una + span) & kPsnMask,
          .backoff = prng_.chance(1, 2) ? 0 : below(12)};
}

void SenderTraffic::load(uint32_t index) {
  Connection& c = connections_[index];
  SenderRequest request;
  request.connection = index;
  request.kind = Kind::kLoad;
  request.now_ns = now_.ns();
  request.state = any_state();
  c.context = request.state.context;
  c.roce = {.una = Psn(request.state.una),
            .nxt = Psn(request.state.nxt),
            .silent_since = now_,
            .backoff = request.state.backoff,
            .last_progress = now_};
  c.loaded = true;
  SenderReply reply;
  reply.connection = index;
  reply.state = request.state;
  c.steps.push_back({request, reply});
}

// Of what is in flight for the most part; of what was never sent, or long ago, now and then.
OffloadAck SenderTraffic::any_ack(const Connection& c) {
  OffloadAck out;
  const auto span = static_cast<uint32_t>(c.roce.una.distance_to(c.roce.nxt));
  const auto anywhere = [&](uint32_t most) {
    switch (below(16)) {
      case 0:
        return c.roce.una - (1 + below(130));
      case 1:
        return c.roce.nxt + below(3);
      case 2:
        return c.roce.una + (1U << below(24)) + below(3) - 1;
      default:
        return c.roce.una + below(most);
    }
  };
  out.aack = prng_.chance(1, 2) ? c.roce.una : anywhere(prng_.chance(1, 8) ? span + 1 : 4);
  out.sack_valid = !prng_.chance(1, 16);
  out.sack = anywhere(std::max(1U, prng_.chance(1, 8) ? span : std::min(span, kSlots)));
  const uint32_t code = below(16);
  out.nack = static_cast<wire::NackCode>(code < 10   ? 0
                                         : code < 13 ? 1
                                         : code < 15 ? 2
                                                     : 3 + below(5));
  out.ece = prng_.chance(1, 8);
  out.copy = prng_.chance(1, 8);
  out.sample = !prng_.chance(1, 8);
  const uint32_t ago = prng_.chance(1, 16) ? static_cast<uint32_t>(prng_.next_u64())
                                           : below(prng_.chance(1, 8) ? 20'000'000 : 40'000);
  out.echoed_timestamp = static_cast<uint32_t>(now_.ns()) - ago;
  out.delay_us = prng_.chance(1, 2) ? 0 : below(256);
  out.vp = prng_.chance(1, 8) ? static_cast<uint16_t>(below(1U << 16)) : path();
  return out;
}

bool SenderTraffic::may_have_new(const RoceSender& roce) {
  const auto span = static_cast<uint32_t>(roce.una.distance_to(roce.nxt));
  return span < kSpan && !prng_.chance(1, 6);
}

void SenderTraffic::add(uint32_t index, const SenderRequest& request, const Reference& after,
                        SenderReply reply) {
  const RoceSender roce = after.roce();
  reply.connection = index;
  reply.state = state_of(after.context(), roce);
  reply.restarts = roce.silent_since == now_;
  reply.progresses = roce.last_progress == now_;
  connections_[index].steps.push_back({request, reply});
}

void SenderTraffic::happen(Reference& sender, const SenderRequest& request,
                           SenderReply* reply) const {
  switch (request.kind) {
    case Kind::kAck:
      reply->refused = !sender.on_ack(now_, request.ack, request.has_new);
      break;
    case Kind::kBurst:
      sender.on_burst_timer(now_);
      break;
    case Kind::kTimeout:
      sender.on_transport_timer(now_);
      break;
    case Kind::kPost:
      sender.on_backlog(now_);
      break;
    case Kind::kWake:
      sender.wake(now_);
      break;
    default:
      sender.repeat_head();
  }
}

// The packets of an event, until there is none.
void SenderTraffic::send(uint32_t index, SenderRequest request, Reference& sender, Draw* draw) {
  bool more = true;
  while (more) {
    request.kind = Kind::kNext;
    request.has_new = may_have_new(sender.roce());
    draw->drawn_path = request.path = path();
    const bool idle = sender.roce().una == sender.roce().nxt;
    const auto packet = sender.next(now_, request.has_new);
    SenderReply reply;
    if (packet) {
      reply.packet = 1 + static_cast<uint32_t>(packet->kind);
      reply.psn = packet->psn.value();
      reply.vp = packet->vp;
    }
    add(index, request, sender, reply);
    // An answer tells what its own request did.
    SenderReply& told = connections_[index].steps.back().reply;
    told.restarts = told.progresses = packet && idle;
    more = packet.has_value();
  }
}

void SenderTraffic::event(uint32_t index, Kind kind) {
  Connection& c = connections_[index];
  SenderRequest request;
  request.connection = index;
  request.kind = kind;
  request.now_ns = now_.ns();
  request.has_new = may_have_new(c.roce);
  request.explore = prng_.chance(1, 2);
  request.path = path();
  if (kind == Kind::kAck) request.ack = any_ack(c);
  c.roce.silent_since = c.roce.last_progress = now_ - kJustNow;
  Draw draw{request.explore, request.path};
  Reference sender(params_, c.context, c.roce, draw);
  SenderReply reply;
  happen(sender, request, &reply);
  add(index, request, sender, reply);
  send(index, request, sender, &draw);
  c.context = OffloadContext::unpack(sender.context().pack());
  c.roce = sender.roce();
}

void SenderTraffic::make(uint32_t index) {
  Connection& c = connections_[index];
  const int64_t passed = prng_.chance(1, 32) ? below(50'000'000) : below(4000);
  now_ += Duration::ns(passed);
  if (!c.loaded || c.roce.backoff > kBackoffMax || prng_.chance(1, 30)) return load(index);
  const uint32_t what = below(32);
  const Kind kind = what < 22   ? Kind::kAck
                    : what < 25 ? Kind::kBurst
                    : what < 26 ? Kind::kTimeout
                    : what < 29 ? Kind::kPost
                    : what < 30 ? Kind::kWake
                                : Kind::kAsk;
  event(index, kind);
}

}  // namespace mprdma::offload
