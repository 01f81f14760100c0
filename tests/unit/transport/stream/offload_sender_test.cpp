// The offload context holds all that the sender of offload_params() knows: before the events of a
// random network a second sender is made from the packed bytes of the first, and both have to do
// the same, and to pack the same bytes afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/prng.hpp"
#include "tests/support/print.hpp"
#include "transport/core/counters.hpp"
#include "transport/stream/offload_context.hpp"
#include "transport/stream/stream_sender.hpp"
#include "wire/packet.hpp"

namespace mprdma::transport {
namespace {

constexpr int64_t kUnitNs = 64;  // all events lie on the context's units of time

struct Network {
  uint32_t lost_per_mille;
  uint32_t marked_per_mille;
  int64_t spread_units;  // of the time that a packet takes, beside the least
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
    step("post", [&](StreamSender& s) { s.on_backlog(now_); });
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
        step("post", [&](StreamSender& s) { s.on_backlog(now_); });
        continue;
      }
      if (prng_.chance(1, 100)) {  // a packet of the peer, or its word that it still waits
        const bool waits = prng_.chance(1, 2);
        step("peer", [&](StreamSender& s) { waits ? s.repeat_head() : s.wake(now_); });
        continue;
      }
      now_ = std::max(now_, until);
      if (arrival <= now_) {
        const wire::Packet packet = next->packet;
        acks_.erase(next);
        step("acknowledgement", [&](StreamSender& s) { s.on_ack(now_, packet, has_new()); });
      } else {
        step("timer", [&](StreamSender& s) { s.on_deadline(now_); });
      }
      if (prng_.chance(1, 200)) posted_ = false;
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

  // Both take the event, the second one from the bytes of the first.
  template <class Event>
  void step(const std::string& what, Event event) {
    const std::optional<OffloadContext> before = live_.to_offload(now_);
    std::vector<Sent> of_moved;
    // Software keeps the path of a credit for which there was no packet.
    const bool moves_now = before && live_.credits_with_path() == 0;
    if (moves_now) {
      moved_.from_offload(now_, OffloadContext::unpack(before->pack()), live_.roce_half(),
                          live_.random_paths());
      of_moved = run_one(moved_, event);
    }
    const std::vector<Sent> sent = run_one(live_, event);
    if (moves_now) {
      ASSERT_EQ(difference(live_.to_offload(now_), moved_.to_offload(now_)), "") << what;
      ASSERT_TRUE(sent == of_moved) << what << ": other packets, or on other paths";
      ASSERT_EQ(live_.nxt(), moved_.nxt()) << what;
      ASSERT_EQ(live_.next_deadline(posted_), moved_.next_deadline(posted_)) << what;
      const RoceSender a = live_.roce_half();
      const RoceSender b = moved_.roce_half();
      ASSERT_TRUE(a.una == b.una && a.silent_since == b.silent_since && a.backoff == b.backoff &&
                  a.last_progress == b.last_progress)
          << what;
      Prng of_live = live_.random_paths();
      Prng of_moved_one = moved_.random_paths();
      ASSERT_EQ(of_live.next_u64(), of_moved_one.next_u64()) << what << ": another draw";
    }
    ++(moves_now ? moves : stays);
    for (const Sent& packet : sent) {
      if (prng_.chance(network_.lost_per_mille, 1000)) continue;
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
    const int32_t ahead = rcv_nxt_.distance_to(psn);
    if (ahead >= static_cast<int32_t>(OffloadContext::kSlots)) {
      ack.mp_ack.nack = wire::NackCode::kWindowOverflow;
    } else if (ahead >= 0) {
      got_.push_back(psn);
      for (auto at = got_.begin();
           (at = std::find(got_.begin(), got_.end(), rcv_nxt_)) != got_.end(); ++rcv_nxt_) {
        got_.erase(at);
      }
    }
    ack.psn = rcv_nxt_;
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
  TransportCounters moved_counters_;
  StreamSender live_;
  StreamSender moved_;
  bool posted_ = true;
  Psn rcv_nxt_;
  std::vector<Psn> got_;
  std::vector<Ack> acks_;
};

TEST(OffloadSender, GoesOnFromThePackedBytes) {
  const Network networks[] = {
      {0, 0, 40}, {0, 100, 40}, {20, 20, 100}, {100, 50, 400}, {500, 0, 50}};
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
