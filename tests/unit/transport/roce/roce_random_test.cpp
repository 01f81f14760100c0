// Two standard connections over a wire that loses, duplicates, delays and reorders what it likes.
// Each seed is a run of its own: both sides post drawn work in both directions, and every promise
// of the verbs is checked when it is made, at the completion. ROCE_SEED in the environment replays
// the run that a failure names.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>

#include "base/prng.hpp"
#include "tests/support/roce_pair.hpp"

namespace mprdma::transport {
namespace {

constexpr uint32_t kOperations = 40;
constexpr uint32_t kSlot = 1536;
constexpr uint64_t kSource = RoceHost::kBase;  // never changes
constexpr uint64_t kTargets = kSource + kOperations * kSlot;
constexpr uint64_t kReceives = kTargets + kOperations * kSlot;
constexpr uint64_t kSinks = kReceives + kOperations * kSlot;
constexpr uint64_t kWords = kSinks + kOperations * kSlot;  // of the peer's atomics
static_assert(kWords + 16 <= RoceHost::kBase + RoceHost::kBytes);

struct Operation {
  WorkOpcode opcode = WorkOpcode::kSend;
  uint32_t length = 0;
  uint16_t flags = 0;
  uint32_t imm = 0;
  uint64_t expected = 0;  // atomic: what it must find
};

struct Side {
  explicit Side(RoceHost& host_and_peer, RoceHost& peer_host)
      : host(host_and_peer), peer(peer_host) {}
  RoceHost& host;
  RoceHost& peer;
  std::vector<Operation> operations;
  std::vector<uint32_t> messages;  // operations that take a receive, in order
  uint32_t posted = 0;
  uint32_t completed = 0;
  uint32_t receives_posted = 0;
  uint32_t received = 0;
};

struct Wire {
  uint32_t loss_ppm = 0;
  uint32_t duplicate_ppm = 0;
  uint32_t reorder_ppm = 0;
  Duration delay;
};

using Rules = std::array<uint64_t, 7>;

class Conversation {
 public:
  explicit Conversation(uint64_t seed)
      : prng_(Prng(seed).split("run")),
        wire_(draw_wire()),
        pair_(draw_options()),
        sides_{Side(pair_.a, pair_.b), Side(pair_.b, pair_.a)} {
    for (Side& side : sides_) draw_work(side);
    clean_at_ = pair_.a.now + Duration::ms(static_cast<int64_t>(prng_.range(1, 60)));
  }

  void go() {
    for (int step = 0; step < 200'000; ++step) {
      if (done()) break;
      act();
      if (testing::Test::HasFailure()) return;
      if (!next_event()) break;
    }
    EXPECT_TRUE(done()) << "stands still";
    for (Side& side : sides_) check_end(side);
  }

  // How often each rule of recovery was met.
  void add_to(Rules& seen) {
    for (Side& side : sides_) {
      const TransportCounters& c = side.host.counters;
      const Rules here = {c.rto_expired,   c.naks_implied,     c.reads_again,
                          c.rnr_received,  c.atomics_replayed, c.drop_out_of_sequence,
                          c.drop_stale_ack};
      for (size_t i = 0; i < seen.size(); ++i) seen[i] += here[i];
    }
  }

  [[nodiscard]] bool done() const {
    return std::ranges::all_of(sides_, [this](const Side& side) {
      const Side& other = &side == &sides_[0] ? sides_[1] : sides_[0];
      return side.completed == kOperations && side.received == other.messages.size();
    });
  }

 private:
  struct Flight {
    RoceHost* to;
    RoceParcel parcel;
  };

  Wire draw_wire() {
    Wire wire;
    wire.delay = Duration::us(static_cast<int64_t>(prng_.range(1, 50)));
    perfect_ = prng_.chance(1, 8);
    if (perfect_) return wire;
    wire.loss_ppm = static_cast<uint32_t>(prng_.below(100'000));
    wire.duplicate_ppm = prng_.chance(1, 2) ? static_cast<uint32_t>(prng_.below(100'000)) : 0;
    wire.reorder_ppm = prng_.chance(1, 3) ? static_cast<uint32_t>(prng_.below(100'000)) : 0;
    return wire;
  }

  RoceOptions draw_options() {
    RoceOptions options;
    options.params.window_max = static_cast<uint32_t>(prng_.range(1, 64));
    options.psn_a =
        Psn(static_cast<uint32_t>(prng_.chance(1, 2) ? -prng_.below(100) : prng_.next_u64()));
    options.psn_b = Psn(static_cast<uint32_t>(prng_.next_u64()));
    options.attributes.path_mtu = 256;
    options.attributes.timeout = 8;
    options.attributes.min_rnr_timer = static_cast<uint8_t>(prng_.range(1, 12));
    options.attributes.max_rd_atomic = static_cast<uint8_t>(prng_.range(1, 8));
    options.attributes.max_dest_rd_atomic = options.attributes.max_rd_atomic;
    options.params.go_back_0 = prng_.chance(1, 4);
    Prng control = prng_.split("window control");
    if (control.chance(1, 3)) {
      options.params.window_control =
          control.chance(1, 2) ? cc::WindowControl::kAimd : cc::WindowControl::kSwift;
      options.params.initial_window =
          static_cast<uint32_t>(control.range(1, options.params.window_max));
    }
    return options;
  }

  void draw_work(Side& side) {
    side.host.fill(kSource, kOperations * kSlot, static_cast<uint8_t>(prng_.next_u64()));
    std::array<uint64_t, 2> words{};
    for (uint32_t i = 0; i < kOperations; ++i) {
      constexpr std::array kOpcodes = {
          WorkOpcode::kSend, WorkOpcode::kSendImm,  WorkOpcode::kWrite,      WorkOpcode::kWriteImm,
          WorkOpcode::kRead, WorkOpcode::kFetchAdd, WorkOpcode::kCompareSwap};
      Operation operation;
      operation.opcode = kOpcodes[prng_.below(kOpcodes.size())];
      operation.length = static_cast<uint32_t>(prng_.range(0, kSlot));
      operation.flags = kSignaled;
      if (prng_.chance(1, 10)) operation.flags |= kFence;
      operation.imm = static_cast<uint32_t>(prng_.next_u64());
      if (operation.opcode == WorkOpcode::kFetchAdd) operation.expected = words[0]++;
      if (operation.opcode == WorkOpcode::kCompareSwap) operation.expected = words[1]++;
      if (operation.opcode <= WorkOpcode::kSendImm || operation.opcode == WorkOpcode::kWriteImm) {
        side.messages.push_back(i);
      }
      side.operations.push_back(operation);
    }
    side.peer.word(kWords) = side.peer.word(kWords + 8) = 0;
  }

  void post(Side& side) {
    const uint32_t i = side.posted++;
    const Operation& operation = side.operations[i];
    SendRequest request;
    request.opcode = operation.opcode;
    request.flags = operation.flags;
    request.rkey = side.host.key;
    request.imm_or_rkey = operation.imm;
    request.remote_addr = kTargets + uint64_t{i} * kSlot;
    uint64_t local = kSource + uint64_t{i} * kSlot;
    uint32_t length = operation.length;
    if (operation.opcode == WorkOpcode::kRead) {
      request.remote_addr = kSource + uint64_t{i} * kSlot;
      local = kSinks + uint64_t{i} * kSlot;
    } else if (operation.opcode == WorkOpcode::kFetchAdd ||
               operation.opcode == WorkOpcode::kCompareSwap) {
      const bool adds = operation.opcode == WorkOpcode::kFetchAdd;
      request.remote_addr = adds ? kWords : kWords + 8;
      request.compare_add = adds ? 1 : operation.expected;
      request.swap = operation.expected + 1;
      local = kSinks + uint64_t{i} * kSlot;
      length = 8;
    }
    ASSERT_EQ(side.host.post(request, local, length), PostResult::kOk);
  }

  void act() {
    for (Side& side : sides_) {
      const bool may_post = side.posted < kOperations && side.posted - side.completed < 20;
      if (may_post && prng_.chance(1, 2)) post(side);
      if (side.receives_posted < kOperations && prng_.chance(1, 4)) {
        side.host.post_recv(kReceives + uint64_t{side.receives_posted++} * kSlot, kSlot);
      }
      check_completions(side);
      for (RoceParcel& parcel : side.host.send()) transmit(side, std::move(parcel));
      check_completions(side);
    }
  }

  void transmit(Side& side, RoceParcel parcel) {
    const Time now = pair_.a.now;
    const bool clean = now >= clean_at_;
    if (!clean && prng_.chance(wire_.loss_ppm, 1'000'000)) return;
    Time at = now + wire_.delay;
    const bool reordered = !clean && prng_.chance(wire_.reorder_ppm, 1'000'000);
    if (reordered) at += Duration::us(static_cast<int64_t>(prng_.below(100)));
    if (!clean && prng_.chance(wire_.duplicate_ppm, 1'000'000)) {
      const Duration late = Duration::us(static_cast<int64_t>(prng_.below(2'000)));
      flights_.emplace(at + late, Flight{&side.peer, parcel});
    }
    flights_.emplace(at, Flight{&side.peer, std::move(parcel)});
  }

  // Advances time a little, or to the next event.
  bool next_event() {
    Time next = std::min(pair_.a.qp->next_deadline(), pair_.b.qp->next_deadline());
    if (!flights_.empty()) next = std::min(next, flights_.begin()->first);
    const bool more = std::ranges::any_of(sides_, [](const Side& side) {
      return side.posted < kOperations || side.receives_posted < kOperations;
    });
    if (more) next = std::min(next, pair_.a.now + Duration::us(20));
    if (next.is_never()) return false;
    pair_.a.now = pair_.b.now = std::max(pair_.a.now, next);
    while (!flights_.empty() && flights_.begin()->first <= pair_.a.now) {
      const Flight flight = std::move(flights_.begin()->second);
      flights_.erase(flights_.begin());
      flight.to->receive(flight.parcel);
      // Acknowledgements do not always wait for more to come.
      if (prng_.chance(1, 2)) break;
    }
    for (Side& side : sides_) {
      if (side.host.qp->next_deadline() <= side.host.now) side.host.on_deadline();
    }
    return true;
  }

  void check_completions(Side& side) {
    for (const Completion& completion : side.host.completions()) {
      ASSERT_EQ(completion.status, WcStatus::kSuccess);
      if (completion.is_recv) {
        check_receive(side, completion);
      } else {
        check_send(side, completion);
      }
    }
  }

  void check_send(Side& side, const Completion& completion) {
    const uint32_t i = side.completed++;
    ASSERT_EQ(completion.wr_id, i + 1) << "order";
    const Operation& operation = side.operations[i];
    const uint64_t slot = uint64_t{i} * kSlot;
    switch (operation.opcode) {
      case WorkOpcode::kWrite:
      case WorkOpcode::kWriteImm:
        ASSERT_TRUE(side.host.same(kSource + slot, side.peer, kTargets + slot, operation.length));
        break;
      case WorkOpcode::kRead:
        ASSERT_TRUE(side.host.same(kSinks + slot, side.peer, kSource + slot, operation.length));
        break;
      case WorkOpcode::kFetchAdd:
      case WorkOpcode::kCompareSwap:
        ASSERT_EQ(side.host.word(kSinks + slot), operation.expected) << "not exactly once";
        break;
      default:
        break;
    }
  }

  void check_receive(Side& side, const Completion& completion) {
    const Side& from = &side == &sides_[0] ? sides_[1] : sides_[0];
    const uint32_t nth = side.received++;
    ASSERT_LT(nth, from.messages.size()) << "a message that nobody sent";
    ASSERT_EQ(completion.wr_id, 1000 + nth);
    const uint32_t i = from.messages[nth];
    const Operation& operation = from.operations[i];
    ASSERT_EQ(completion.byte_len, operation.length);
    ASSERT_EQ(completion.has_imm, operation.opcode != WorkOpcode::kSend);
    ASSERT_TRUE(!completion.has_imm || completion.imm == operation.imm);
    const bool write = operation.opcode == WorkOpcode::kWriteImm;
    const uint64_t there =
        write ? kTargets + uint64_t{i} * kSlot : kReceives + uint64_t{nth} * kSlot;
    ASSERT_TRUE(side.host.same(there, from.host, kSource + uint64_t{i} * kSlot, operation.length));
  }

  void check_end(Side& side) {
    const auto count = [&](WorkOpcode opcode) {
      return static_cast<uint64_t>(std::ranges::count(side.operations, opcode, &Operation::opcode));
    };
    EXPECT_EQ(side.peer.word(kWords), count(WorkOpcode::kFetchAdd));
    EXPECT_EQ(side.peer.word(kWords + 8), count(WorkOpcode::kCompareSwap));
    const TransportCounters& counters = side.host.counters;
    if (perfect_ && counters.rnr_received + counters.rnr_sent == 0) {
      EXPECT_EQ(counters.packets_retransmitted, 0u);
      EXPECT_EQ(counters.nacks_sent + counters.rto_expired + counters.naks_implied, 0u);
    }
    EXPECT_EQ(counters.errors_local + counters.errors_remote + counters.drop_bad_packet, 0u);
  }

  Prng prng_;
  bool perfect_ = false;
  Wire wire_;
  RocePair pair_;
  std::array<Side, 2> sides_;
  Time clean_at_;
  std::multimap<Time, Flight> flights_;
};

TEST(RoceRandom, EveryPromiseHoldsOverABadWire) {
  const char* one = std::getenv("ROCE_SEED");
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 1;
  const uint64_t last = one != nullptr ? first : 800;
  Rules seen;
  for (uint64_t seed = first; seed <= last && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("ROCE_SEED=" + std::to_string(seed));
    Conversation conversation(seed);
    conversation.go();
    conversation.add_to(seen);
  }
  if (one != nullptr || testing::Test::HasFailure()) return;
  // The runs are worth something only while they meet all the rules of recovery.
  for (const uint64_t count : seen) EXPECT_GT(count, 50u);
}

}  // namespace
}  // namespace mprdma::transport
