// The offload context holds all that the sender of offload_params() knows: before the events of a
// random network a second sender is made from the packed bytes of the first, and both have to do
// the same, and to pack the same bytes afterwards. So has OffloadSender, the step of a hardware
// sender.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/prng.hpp"
#include "tests/support/print.hpp"
#include "transport/core/counters.hpp"
#include "transport/path/random_path.hpp"
#include "transport/stream/offload_context.hpp"
#include "transport/stream/offload_sender.hpp"
#include "transport/stream/stream_sender.hpp"
#include "wire/packet.hpp"

namespace mprdma::transport {
namespace {

constexpr int64_t kUnitNs = 64;  // all events lie on the context's units of time

struct Network {
  uint32_t lost_per_mille;
  uint32_t marked_per_mille;
  int64_t spread_units;  // of the time that a packet takes, beside the least
  // A receiver that is not ready: it acknowledges nothing more, or has no frame; a peer that
  // acknowledges what was never sent; a network that takes nothing for a second.
  bool unready = false;
};

// Draws as the software's: the same ones, in the same order.
struct Draws {
  bool explore() { return prng.chance(per_mille, 1000); }
  uint16_t path() { return random_path(prng); }
  Prng prng;
  uint32_t per_mille;
};

// The hardware's step behind the names of StreamSender.
struct Hardware {
  Hardware(const Params& params, const OffloadContext& context, const RoceSender& roce,
           const Prng& paths)
      : draws{paths, params.path_probe_per_mille}, sender(params, context, roce, draws) {}

  void on_ack(Time now, const wire::Packet& packet, bool has_new) {
    const wire::MpAckExt& ext = packet.mp_ack;
    sender.on_ack(now,
                  {.aack = packet.psn,
                   .sack_valid = (ext.flags & wire::kMpAckSackValid) != 0,
                   .sack = ext.sack,
                   .nack = ext.nack,
                   .ece = (ext.flags & wire::kMpAckEce) != 0,
                   .copy = (ext.flags & wire::kMpAckReTx) != 0,
                   .sample = true,
                   .echoed_timestamp = ext.echoed_timestamp,
                   .delay_us = ext.delay_us,
                   .vp = packet.vp},
                  has_new);
  }
  void on_deadline(Time now) { sender.on_deadline(now); }
  void on_backlog(Time now) { sender.on_backlog(now); }
  void wake(Time now) { sender.wake(now); }
  void repeat_head() { sender.repeat_head(); }

  Draws draws;
  OffloadSender<Draws> sender;
};

// Both senders, and a receiver with 64 slots behind a network that loses, marks and reorders.
class Lockstep {
 public:
  Lockstep(uint64_t seed, const Network& network)
      : prng_(seed),
        network_(network),
        live_(params(), &counters_),
        moved_(params(), &moved_counters_) {
    live_.reset(first_, wire::kVirtualPathMin, Prng(seed));
    rcv_nxt_ = first_;
  }

  void run(int events) {
    step("post", [&](auto& s) { s.on_backlog(now_); });
    for (int i = 0; i < events && !::testing::Test::HasFailure(); ++i) {
      now_ += Duration::ns(kUnitNs);
      const Time deadline = rounded(live_.next_deadline(has_new()));
      const auto next = std::min_element(acks_.begin(), acks_.end(),
                                         [](const Ack& a, const Ack& b) { return a.at < b.at; });
      const Time arrival = next == acks_.end() ? Time::never() : next->at;
      const Time until = std::min(arrival, deadline);
      // A message ends now and then, and the next one is posted later.
      if (until.is_never() || (!posted_ && prng_.chance(1, 20))) {
        posted_ = true;
        if (prng_.chance(1, 4)) now_ += Duration::ms(5);
        step("post", [&](auto& s) { s.on_backlog(now_); });
        continue;
      }
      if (prng_.chance(1, 100)) {  // a packet of the peer, or its word that it still waits
        const bool waits = prng_.chance(1, 2);
        step("peer", [&](auto& s) { waits ? s.repeat_head() : s.wake(now_); });
        continue;
      }
      now_ = std::max(now_, until);
      if (arrival <= now_) {
        const wire::Packet packet = next->packet;
        acks_.erase(next);
        step("acknowledgement", [&](auto& s) { s.on_ack(now_, packet, has_new()); });
      } else {
        step("timer", [&](auto& s) { s.on_deadline(now_); });
      }
      if (prng_.chance(1, 200)) posted_ = false;
      if (network_.unready && prng_.chance(1, 1000)) dark_until_ = now_ + Duration::s(2);
    }
  }

  uint32_t moves = 0;
  uint32_t stays = 0;
  TransportCounters counters_;

 private:
  struct Ack {
    Time at;
    wire::Packet packet;
  };

  static Params params() {
    Params p = offload_params();
    p.path_probe_per_mille = 300;
    return p;
  }
  static Time rounded(Time time) {
    if (time.is_never()) return time;
    return Time::from_ns((time.ns() + kUnitNs - 1) / kUnitNs * kUnitNs);
  }
  // Hardware sends nothing new beyond what its maps hold.
  [[nodiscard]] bool has_new() const { return posted_ && live_.span() < OffloadContext::kSpan; }

  struct Sent {
    StreamSender::Choice choice;
    uint16_t vp;
    bool operator==(const Sent& o) const {
      return choice.kind == o.choice.kind && choice.psn == o.choice.psn && vp == o.vp;
    }
  };

  // What hardware does at once: the event, and the packets that leave then.
  template <class Event>
  std::vector<Sent> run_one(StreamSender& sender, Event event) const {
    event(sender);
    std::vector<Sent> out;
    while (true) {
      const bool more = posted_ && sender.span() < OffloadContext::kSpan;
      const StreamSender::Choice choice = sender.choose(more);
      if (!choice.any()) return out;
      out.push_back({choice, sender.on_sent(now_, choice)});
    }
  }

  // The hardware's event from the bytes of the software; afterwards they have the same state.
  template <class Event>
  void step_hardware(Hardware& hardware, Event event, std::vector<Sent>* out) const {
    using Kind = OffloadPacketOut::Kind;
    event(hardware);
    while (true) {
      const RoceSender roce = hardware.sender.roce();
      const auto span = static_cast<uint32_t>(roce.una.distance_to(roce.nxt));
      const auto packet = hardware.sender.next(now_, posted_ && span < OffloadContext::kSpan);
      if (!packet) return;
      const auto kind = packet->kind == Kind::kNew    ? StreamSender::Choice::Kind::kNew
                        : packet->kind == Kind::kCopy ? StreamSender::Choice::Kind::kRetransmit
                                                      : StreamSender::Choice::Kind::kProbe;
      out->push_back({{kind, packet->psn}, packet->vp});
    }
  }
  void expect_same(const std::string& what, const RoceSender& a, const RoceSender& b, Prng of_a,
                   Prng of_b) const {
    ASSERT_TRUE(a.una == b.una && a.nxt == b.nxt && a.silent_since == b.silent_since &&
                a.backoff == b.backoff && a.last_progress == b.last_progress)
        << what;
    ASSERT_EQ(of_a.next_u64(), of_b.next_u64()) << what << ": another draw";
  }

  // All take the event, the others from the bytes of the first.
  template <class Event>
  void step(const std::string& what, Event event) {
    const std::optional<OffloadContext> before = live_.to_offload(now_);
    std::vector<Sent> of_moved;
    std::vector<Sent> of_hardware;
    std::optional<Hardware> hardware;
    // Software keeps the path of a credit for which there was no packet.
    const bool moves_now = before && live_.credits_with_path() == 0;
    if (moves_now) {
      moved_.from_offload(now_, OffloadContext::unpack(before->pack()), live_.roce_half(),
                          live_.random_paths());
      of_moved = run_one(moved_, event);
      hardware.emplace(live_params_, OffloadContext::unpack(before->pack()), live_.roce_half(),
                       live_.random_paths());
      step_hardware(*hardware, event, &of_hardware);
    }
    const std::vector<Sent> sent = run_one(live_, event);
    if (moves_now) {
      ASSERT_EQ(difference(live_.to_offload(now_), moved_.to_offload(now_)), "") << what;
      ASSERT_TRUE(sent == of_moved) << what << ": other packets, or on other paths";
      ASSERT_EQ(live_.nxt(), moved_.nxt()) << what;
      ASSERT_EQ(live_.next_deadline(posted_), moved_.next_deadline(posted_)) << what;
      expect_same(what, live_.roce_half(), moved_.roce_half(), live_.random_paths(),
                  moved_.random_paths());
      ASSERT_EQ(difference(live_.to_offload(now_), hardware->sender.context()), "")
          << what << " in hardware";
      ASSERT_TRUE(sent == of_hardware) << what << ": hardware sends other packets";
      expect_same(what + " in hardware", live_.roce_half(), hardware->sender.roce(),
                  live_.random_paths(), hardware->draws.prng);
      if (::testing::Test::HasFailure()) return;
    }
    ++(moves_now ? moves : stays);
    for (const Sent& packet : sent) {
      if (prng_.chance(network_.lost_per_mille, 1000) || now_ < dark_until_) continue;
      receive(packet.choice.psn, packet.vp, packet.choice.retransmits());
    }
  }

  // The fields that differ.
  static std::string difference(const std::optional<OffloadContext>& a,
                                const std::optional<OffloadContext>& b) {
    if (!a || !b) return a.has_value() == b.has_value() ? "" : "one has no room";
    std::string out;
#define COMPARE(name, type, bytes, what) out += a->name == b->name ? "" : " " #name;
    MPRDMA_OFFLOAD_CONTEXT(COMPARE)
#undef COMPARE
    return out;
  }

  // The receiver has the packet at once; what is random is when its acknowledgement comes.
  void receive(Psn psn, uint16_t vp, bool copy) {
    wire::Packet ack;
    ack.opcode = wire::Opcode::kMpAck;
    ack.vp = vp;
    ack.mp_ack.flags = wire::kMpAckSackValid;
    if (copy) ack.mp_ack.flags |= wire::kMpAckReTx;
    if (prng_.chance(network_.marked_per_mille, 1000)) ack.mp_ack.flags |= wire::kMpAckEce;
    ack.mp_ack.sack = psn;
    ack.mp_ack.echoed_timestamp = static_cast<uint32_t>(now_.ns());
    if (network_.unready && now_ >= stuck_until_ && prng_.chance(1, 200)) {
      stuck_until_ = now_ + Duration::us(300);
      stuck_ = rcv_nxt_;
    }
    const Psn aack = now_ < stuck_until_ ? stuck_ : rcv_nxt_;
    const int32_t ahead = aack.distance_to(psn);
    if (network_.unready && ahead > 0 && prng_.chance(1, 50)) {
      ack.mp_ack.nack = wire::NackCode::kBudgetExhausted;
    } else if (ahead >= static_cast<int32_t>(OffloadContext::kSlots)) {
      ack.mp_ack.nack = wire::NackCode::kWindowOverflow;
    } else if (rcv_nxt_.at_or_before(psn)) {
      got_.push_back(psn);
      for (auto at = got_.begin();
           (at = std::find(got_.begin(), got_.end(), rcv_nxt_)) != got_.end(); ++rcv_nxt_) {
        got_.erase(at);
      }
    }
    ack.psn = now_ < stuck_until_ ? stuck_ : rcv_nxt_;  // its own packet counts
    if (network_.unready && prng_.chance(1, 200)) {
      (prng_.chance(1, 2) ? ack.psn : ack.mp_ack.sack) += 5000;
    }
    const auto units =
        80 + static_cast<int64_t>(prng_.below(static_cast<uint32_t>(network_.spread_units)));
    if (!prng_.chance(network_.lost_per_mille, 1000)) {
      acks_.push_back({now_ + Duration::ns(units * kUnitNs), ack});
    }
  }

  Psn first_ = Psn(kPsnMask - 100);
  Time now_ = Time::from_ns(int64_t{1} << 31);
  Prng prng_;
  Network network_;
  Params live_params_ = params();
  TransportCounters moved_counters_;
  StreamSender live_;
  StreamSender moved_;
  bool posted_ = true;
  Psn rcv_nxt_;
  Psn stuck_;
  Time stuck_until_;
  Time dark_until_;
  std::vector<Psn> got_;
  std::vector<Ack> acks_;
};

TEST(OffloadSender, GoesOnFromThePackedBytes) {
  const Network networks[] = {{0, 0, 40},     {0, 100, 40}, {20, 20, 100},
                              {100, 50, 400}, {500, 0, 50}, {10, 20, 200, true}};
  uint64_t overflows = 0;
  for (const Network& network : networks) {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      SCOPED_TRACE("loss " + std::to_string(network.lost_per_mille) + ", seed " +
                   std::to_string(seed));
      Lockstep lockstep(seed, network);
      lockstep.run(3000);
      if (HasFailure()) return;
      EXPECT_GT(lockstep.moves, lockstep.stays * 4);
      overflows += lockstep.counters_.retransmitted_nack;
    }
  }
  EXPECT_GT(overflows, 100u) << "the receiver's window was hardly ever full";
}

TEST(OffloadSender, AStreamThatKeepsMoreStaysInSoftware) {
  TransportCounters counters;
  for (const Params& params : {Params::mp(), Params::mp_figures(), Params::mp_paper()}) {
    EXPECT_FALSE(StreamSender(params, &counters).to_offload(Time()));
  }
  EXPECT_TRUE(StreamSender(offload_params(), &counters).to_offload(Time()));
}

TEST(OffloadSender, WhatAFieldCannotHoldIsItsLargestValue) {
  TransportCounters counters;
  Params params = offload_params();
  params.initial_rtt = Duration::ms(20);
  StreamSender sender(params, &counters);
  sender.reset(Psn(0), wire::kVirtualPathMin, Prng(1));
  EXPECT_EQ(sender.to_offload(Time())->srtt_ns, (1u << 24) - 1);

  // A mark at 63 ns, and a unit less than the range later, in nanoseconds.
  sender.on_backlog(Time());
  sender.on_sent(Time(), sender.choose(true));
  wire::Packet ack;
  ack.opcode = wire::Opcode::kMpAck;
  ack.psn = Psn(1);
  ack.vp = wire::kVirtualPathMin;
  ack.mp_ack.flags = wire::kMpAckSackValid | wire::kMpAckEce;
  sender.on_ack(Time::from_ns(63), ack, false);
  const auto context = sender.to_offload(Time::from_ns((int64_t{1} << 30) + 62));
  ASSERT_TRUE(context);
  EXPECT_NE(context->flags & OffloadContext::kCongestionOld, 0) << "or it would come back as now";
}

}  // namespace
}  // namespace mprdma::transport
