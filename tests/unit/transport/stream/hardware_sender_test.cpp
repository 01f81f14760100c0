// A stream whose sending half a device keeps (stream/hardware.hpp), here OffloadSender in the
// place of a device: everything arrives, over lossy and reordering paths, and the device decides.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.hpp"
#include "transport/path/random_path.hpp"
#include "transport/stream/hardware.hpp"
#include "transport/stream/offload_sender.hpp"
#include "transport/stream/stream_sender.hpp"

namespace mprdma::transport {
namespace {

// The step of hardware as a device.
class Reference : public HardwareSender {
 public:
  explicit Reference(const Params& params) : params_(params) {}

  void load(Time /*now*/, const State& state) override {
    state_ = state;
    ++loads;
  }
  Answer step(const Event& event) override {
    ++events;
    Drawn drawn{event.explore, event.path};
    const RoceSender roce{.una = state_.una,
                          .nxt = state_.nxt,
                          .silent_since = Time(),
                          .backoff = state_.backoff,
                          .last_progress = Time()};
    OffloadSender<Drawn> sender(params_, state_.context, roce, drawn);
    Answer out;
    switch (event.kind) {
      case Kind::kAck:
        out.refused = !sender.on_ack(event.now, event.ack, event.has_new);
        break;
      case Kind::kBurst:
        sender.on_burst_timer(event.now);
        break;
      case Kind::kTimeout:
        sender.on_transport_timer(event.now);
        break;
      case Kind::kPost:
        sender.on_backlog(event.now);
        break;
      case Kind::kWake:
        sender.wake(event.now);
        break;
      case Kind::kAsk:
        sender.repeat_head();
        break;
      case Kind::kNext:
        out.packet = sender.next(event.now, event.has_new);
        if (out.packet && events == lies_at) ++out.packet->psn;
        break;
      case Kind::kLoad:
        ADD_FAILURE() << "a load is no event";
    }
    const RoceSender after = sender.roce();
    out.restarts = after.silent_since != roce.silent_since;
    out.progresses = after.last_progress != roce.last_progress;
    state_ = out.state = {sender.context(), after.una, after.nxt, after.backoff};
    return out;
  }

  uint64_t events = 0;
  uint64_t loads = 0;
  uint64_t lies_at = UINT64_MAX;  // the event, if it asks for a packet

 private:
  struct Drawn {
    bool explores;
    uint16_t drawn;
    [[nodiscard]] bool explore() const { return explores; }
    [[nodiscard]] uint16_t path() const { return drawn; }
  };

  Params params_;
  State state_;
};

// Sends `count` packets over a network that loses and reorders; how long that takes.
class Transfer {
 public:
  Transfer(uint64_t seed, uint32_t lost_per_mille)
      : prng_(seed),
        lost_(lost_per_mille),
        device_(offload_params()),
        sender(offload_params(), &counters) {
    sender.attach(&device_);
    sender.reset(first_, wire::kVirtualPathMin, Prng(seed));
  }

  void run(uint32_t count) {
    end_ = first_ + count;
    sender.on_backlog(now_);
    send();
    // Each round hears an acknowledgement or a timer.
    for (int rounds = 0; sender.una() != end_ && rounds < 20'000; ++rounds) {
      const auto next = std::min_element(acks_.begin(), acks_.end(),
                                         [](const Ack& a, const Ack& b) { return a.at < b.at; });
      const Time arrival = next == acks_.end() ? Time::never() : next->at;
      const Time deadline = sender.next_deadline(has_new());
      ASSERT_FALSE(std::min(arrival, deadline).is_never()) << "nothing will ever happen";
      now_ = std::max(now_, std::min(arrival, deadline));
      if (arrival <= deadline) {
        const wire::Packet ack = next->packet;
        acks_.erase(next);
        sender.on_ack(now_, ack, has_new());
      } else {
        sender.on_deadline(now_);
      }
      send();
    }
    ASSERT_EQ(sender.una(), end_);
  }
  void rest(Duration time) { now_ += time; }
  Reference& device() { return device_; }

  TransportCounters counters;
  uint64_t paths = 0;  // that differ from the one before

 private:
  struct Ack {
    Time at;
    wire::Packet packet;
  };

  [[nodiscard]] bool has_new() const { return sender.nxt().before(end_); }
  void send() {
    while (true) {
      const StreamSender::Choice choice = sender.choose(has_new());
      if (!choice.any()) return;
      const uint16_t vp = sender.on_sent(now_, choice);
      paths += vp != last_vp_ ? 1 : 0;
      last_vp_ = vp;
      if (!prng_.chance(lost_, 1000)) arrive(choice.psn, vp, choice.retransmits());
    }
  }
  void arrive(Psn psn, uint16_t vp, bool copy) {
    if (rcv_nxt_.distance_to(psn) >= 64) return;
    if (rcv_nxt_.at_or_before(psn)) got_.push_back(psn);
    for (auto at = got_.begin(); (at = std::find(got_.begin(), got_.end(), rcv_nxt_)) != got_.end();
         ++rcv_nxt_) {
      got_.erase(at);
    }
    wire::Packet ack;
    ack.opcode = wire::Opcode::kMpAck;
    ack.vp = vp;
    ack.psn = rcv_nxt_;
    ack.mp_ack.flags = wire::kMpAckSackValid;
    if (copy) ack.mp_ack.flags |= wire::kMpAckReTx;
    ack.mp_ack.sack = psn;
    ack.mp_ack.echoed_timestamp = static_cast<uint32_t>(now_.ns());
    if (prng_.chance(lost_, 1000)) return;
    acks_.push_back(
        {now_ + Duration::us(5) + Duration::ns(static_cast<int64_t>(prng_.below(5000))), ack});
  }

  Psn first_ = Psn(kPsnMask - 100);
  Psn end_ = first_;
  Time now_ = Time::from_ns(int64_t{1} << 40);
  Prng prng_;
  uint32_t lost_;
  Reference device_;
  uint16_t last_vp_ = 0;
  Psn rcv_nxt_ = first_;
  std::vector<Psn> got_;
  std::vector<Ack> acks_;

 public:
  StreamSender sender;
};

TEST(HardwareSender, DecidesForTheStream) {
  for (const uint32_t lost : {0U, 10U, 100U, 300U}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE("loss " + std::to_string(lost) + ", seed " + std::to_string(seed));
      Transfer transfer(seed, lost);
      ASSERT_NO_FATAL_FAILURE(transfer.run(2000));
      EXPECT_GE(transfer.device().events, 3000U);
      EXPECT_GT(transfer.paths, 100U);
      EXPECT_EQ(transfer.counters.packets_retransmitted > 0, lost > 0);
    }
  }
}

TEST(HardwareSender, AfterASilenceItsTimesAreOld) {
  Transfer transfer(1, 0);
  ASSERT_NO_FATAL_FAILURE(transfer.run(100));
  EXPECT_EQ(transfer.device().loads, 2U);  // by reset(), which was long ago at the first event
  transfer.rest(Duration::ms(1074));       // times of the context come round
  ASSERT_NO_FATAL_FAILURE(transfer.run(200));
  EXPECT_EQ(transfer.device().loads, 3U);
}

TEST(HardwareSender, ThatLosesItsWayIsLeft) {
  uint64_t left = 0;
  for (uint64_t at = 100; at < 110; ++at) {
    Transfer transfer(2, 50);
    transfer.device().lies_at = at;
    ASSERT_NO_FATAL_FAILURE(transfer.run(500));
    const bool lied = transfer.device().events == at;
    EXPECT_EQ(transfer.counters.hardware_left, lied ? 1U : 0U);
    EXPECT_NE(transfer.sender.in_hardware(), lied);
    left += lied ? 1 : 0;
  }
  EXPECT_GT(left, 0U);
  EXPECT_LT(left, 10U) << "other events are no packets";
}

TEST(HardwareSender, StaysOutOfWhatItDoesNotKnow) {
  Params params = offload_params();
  params.tail_probe = true;
  TransportCounters counters;
  Reference device(params);
  StreamSender sender(params, &counters);
  sender.attach(&device);
  sender.reset(Psn(1));
  EXPECT_FALSE(sender.in_hardware());
  EXPECT_EQ(device.loads, 0U);
}

}  // namespace
}  // namespace mprdma::transport
