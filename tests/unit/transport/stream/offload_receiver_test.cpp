// The step of a hardware receiver against the software's: the same packets, lost, doubled, marked
// and out of order, get the same answers and completions, and leave the same slots, taken through
// the packed bytes of the context between any two packets.
#include "transport/stream/offload_receiver.hpp"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <string>
#include <vector>

#include "base/prng.hpp"
#include "tests/support/print.hpp"
#include "transport/core/counters.hpp"
#include "transport/core/held_pool.hpp"
#include "transport/stream/stream_receiver.hpp"

namespace mprdma::transport {
namespace {

constexpr Psn kFirst(kPsnMask - 200);  // PSNs come round in every run

// What both take, in their own forms.
struct Arrival {
  wire::Packet packet;
  OffloadPacket step;
};

// Messages of one to twelve packets, in order: WRITEs, with and without a completion, and some that
// synchronise.
class Messages {
 public:
  explicit Messages(uint64_t seed) : prng_(seed) {}

  Arrival next() {
    if (left_ == 0) begin();
    Arrival out;
    wire::Packet& packet = out.packet;
    packet.psn = out.step.psn = psn_++;
    const bool first = done_ == 0;
    const bool last = --left_ == 0;
    packet.opcode = opcode(first, last);
    packet.mp_data.offset = done_ * kBytes;
    packet.mp_data.timestamp = packet.psn.value() * 7;
    packet.payload_len = kBytes;
    packet.vp = static_cast<uint16_t>(49152 + packet.psn.value() % 1000);
    packet.ce = prng_.chance(1, 10);
    if (synchronises_) packet.mp_data.flags |= wire::kMpDataSync;
    if (prng_.chance(1, 2)) packet.mp_data.flags |= wire::kMpDataTakesMaps;
    if (prng_.chance(1, 5)) packet.mp_data.flags |= wire::kMpDataReTx;
    out.step.synchronise = synchronises_;
    out.step.packets_before = done_++;
    if (last) out.step.slot = completes_ ? OffloadSlot::kTailWithCompletion : OffloadSlot::kTail;
    return out;
  }

 private:
  static constexpr uint32_t kBytes = 1024;

  void begin() {
    left_ = 1 + prng_.below(12);
    done_ = 0;
    completes_ = prng_.chance(1, 3);
    synchronises_ = prng_.chance(1, 6);
  }
  [[nodiscard]] wire::Opcode opcode(bool first, bool last) const {
    using enum wire::Opcode;
    if (first && last) return completes_ ? kMpWriteOnlyImm : kMpWriteOnly;
    if (first) return kMpWriteFirst;
    if (!last) return kMpWriteMiddle;
    return completes_ ? kMpWriteLastImm : kMpWriteLast;
  }

  Prng prng_;
  Psn psn_ = kFirst;
  uint32_t left_ = 0;
  uint32_t done_ = 0;
  bool completes_ = false;
  bool synchronises_ = false;
};

class Lockstep {
 public:
  Lockstep()
      : receiver_(params(), 0, {.memory = &memory_, .held = &held_, .counters = &counters_}) {
    receiver_.reset(kFirst, Qpn(77));
    roce_.nxt = kFirst;
  }

  void take(const Arrival& arrival) {
    now_step_ = &arrival.step;
    now_ += Duration::us(1);
    const uint32_t before = completions_;
    actions_.clear();
    receiver_.receive(now_, arrival.packet, FrameHandle{}, actions_, *this);

    OffloadContext context = OffloadContext::unpack(bytes_);
    const OffloadAnswer answer = OffloadReceiver::receive(&context, &roce_, arrival.step);
    bytes_ = context.pack();
    compare(arrival, answer, completions_ - before);
    OffloadContext stored;
    ASSERT_TRUE(receiver_.store(&stored));
    ASSERT_EQ(stored.received_low, context.received_low);
    ASSERT_EQ(stored.received_high, context.received_high);
    placed += answer.placed ? 1 : 0;
    refused += answer.nack != wire::NackCode::kNone ? 1 : 0;
    duplicates += answer.duplicate ? 1 : 0;
  }
  [[nodiscard]] Psn nxt() const { return roce_.nxt; }

  // ---- As the owner of the software's receiver
  ExecuteResult execute(const wire::Packet& packet, FrameHandle, bool) {
    const wire::OpcodeInfo& info = packet.info();
    if (info.last || info.only) receiver_.set_msn(receiver_.msn() + 1);
    completions_ += info.has_immdt ? 1 : 0;
    executed.push_back(packet.psn);
    return {};
  }
  PlacementVerdict place(const wire::Packet& packet, FrameHandle) {
    if (now_step_->synchronise) {
      const Psn message = packet.psn - now_step_->packets_before;
      if (receiver_.rcv_nxt().before(message)) return PlacementVerdict::kTooEarly;
    }
    return PlacementVerdict::kPlaced;
  }

  uint64_t placed = 0;
  uint64_t refused = 0;
  uint64_t duplicates = 0;
  std::vector<Psn> executed;

 private:
  static Params params() {
    Params p = offload_params();
    p.placement = PlacementPolicy::kRelaxed;
    return p;
  }

  void compare(const Arrival& arrival, const OffloadAnswer& answer, uint32_t completions) const {
    const wire::Packet& ack = actions_.ack;
    ASSERT_TRUE(actions_.has_ack);
    ASSERT_EQ(ack.psn, roce_.nxt);
    ASSERT_EQ(ack.mp_ack.msn, roce_.msn);
    ASSERT_EQ(ack.mp_ack.nack, answer.nack);
    ASSERT_EQ(ack.mp_ack.sack, arrival.step.psn);
    ASSERT_EQ((ack.mp_ack.flags & wire::kMpAckDuplicate) != 0, answer.duplicate);
    ASSERT_EQ(receiver_.took_packet(), answer.placed);
    ASSERT_EQ(answer.completions, completions);
    const bool asks = (arrival.packet.mp_data.flags & wire::kMpDataTakesMaps) != 0;
    ASSERT_EQ(ack.opcode == wire::Opcode::kMpAckMap, asks && answer.behind_hole);
    if (!asks || !answer.behind_hole) return;
    ASSERT_EQ(ack.mp_ack_map.received, answer.map);
  }

  TransportCounters counters_;
  MemoryTable memory_{8};
  HeldPool held_{1};
  StreamReceiver receiver_;
  std::vector<Placement> placements_ = std::vector<Placement>(16);
  std::vector<FrameHandle> frames_ = std::vector<FrameHandle>(kMaxReleased);
  RxActions actions_{placements_, frames_};
  Time now_;
  const OffloadPacket* now_step_ = nullptr;
  uint32_t completions_ = 0;
  RoceReceiver roce_;
  std::array<uint8_t, OffloadContext::kBytes> bytes_{};
};

// The sender keeps up to 100 packets outstanding, more than the window, and repeats what has not
// come.
void run(uint64_t seed, uint32_t lost_per_mille, Lockstep& both) {
  Prng prng(seed);
  Messages messages(seed + 1);
  std::deque<Arrival> outstanding;
  while (both.executed.size() < 3000) {
    while (outstanding.size() < 1 + prng.below(100)) outstanding.push_back(messages.next());
    const Arrival& sent = outstanding[prng.below(static_cast<uint32_t>(outstanding.size()))];
    if (prng.chance(lost_per_mille, 1000)) continue;
    both.take(sent);
    if (::testing::Test::HasFatalFailure()) return;
    // What is acknowledged may come once more, and is mostly forgotten.
    while (!outstanding.empty() && outstanding.front().step.psn.distance_to(both.nxt()) > 0 &&
           prng.chance(9, 10)) {
      outstanding.pop_front();
    }
  }
}

TEST(OffloadReceiver, DoesWhatTheSoftwaresDoes) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Lockstep both;
    run(seed, seed % 2 == 0 ? 0 : 200, both);
    if (HasFatalFailure()) return;
    Psn expected = kFirst;
    for (const Psn psn : both.executed) ASSERT_EQ(psn, expected++);
    EXPECT_GT(both.refused, 100u);
    EXPECT_GT(both.duplicates, 100u);
    EXPECT_GE(both.placed, 3000u);
  }
}

TEST(OffloadReceiver, AStreamThatKeepsMoreStaysInSoftware) {
  TransportCounters counters;
  MemoryTable memory(8);
  HeldPool held(1);
  OffloadContext context;
  const Device device{.memory = &memory, .held = &held, .counters = &counters};
  EXPECT_FALSE(StreamReceiver(Params::mp(), 0, device).store(&context)) << "a larger window";
  Params params = offload_params();
  params.placement = PlacementPolicy::kRelaxed;
  StreamReceiver receiver(params, 0, device);
  receiver.reset(kFirst, Qpn(77));
  EXPECT_TRUE(receiver.store(&context));

  // A packet that is placed, and waits for its receiver: hardware would take its copy for a double.
  struct NotReady {
    ExecuteResult execute(const wire::Packet&, FrameHandle, bool) {
      return {.nack = wire::NackCode::kRnr};
    }
    PlacementVerdict place(const wire::Packet&, FrameHandle) { return PlacementVerdict::kPlaced; }
  } owner;
  std::vector<Placement> placements(16);
  std::vector<FrameHandle> frames(kMaxReleased);
  RxActions actions{placements, frames};
  wire::Packet packet;
  packet.opcode = wire::Opcode::kMpWriteOnlyImm;
  packet.psn = kFirst;
  receiver.receive(Time(), packet, FrameHandle{}, actions, owner);
  EXPECT_FALSE(receiver.store(&context));
}

}  // namespace
}  // namespace mprdma::transport
