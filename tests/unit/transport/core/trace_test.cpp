// The trace: which events a queue pair raises, in which order, and their text.
#include "transport/core/trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/endpoint_pair.hpp"
#include "transport/core/trace_text.hpp"

namespace mprdma::transport {
namespace {

constexpr uint64_t kLocal = Endpoint::kBase;
constexpr uint64_t kRemote = Endpoint::kBase + 0x10000;
constexpr uint32_t kMtu = 1024;

class Recorder : public TraceSink {
 public:
  void on_event(const TraceEvent& event) override { events.push_back(event); }

  [[nodiscard]] std::vector<TraceEvent> all(TraceKind kind) const {
    std::vector<TraceEvent> found;
    std::copy_if(events.begin(), events.end(), std::back_inserter(found),
                 [kind](const TraceEvent& event) { return event.kind == kind; });
    return found;
  }

  // The place of the first event for which it holds.
  template <class Predicate>
  [[nodiscard]] ptrdiff_t first(Predicate&& holds) const {
    return std::find_if(events.begin(), events.end(), holds) - events.begin();
  }

  std::vector<TraceEvent> events;
};

struct TracedPair : Recorder, EndpointPair {
  explicit TracedPair(const Params& params = Params::mp()) : EndpointPair(options(params)) {}
  PairOptions options(const Params& params) {
    PairOptions options;
    options.params = params;
    options.trace = this;
    return options;
  }
  std::vector<Parcel> write(uint32_t packets) {
    a.post(WorkOpcode::kWrite, kLocal, packets * kMtu, kRemote);
    return a.send();
  }
};

// Gives the packets to b, and b's answers to a.
void deliver(EndpointPair& pair, const std::vector<Parcel>& packets) {
  for (const Parcel& packet : packets) {
    if (const auto answer = pair.b.receive(packet)) pair.a.receive(*answer);
  }
}

TEST(Trace, NamesTheStatesOfAConnection) {
  TracedPair pair;
  pair.a.set_state(QpState::kErr);
  std::string states;
  for (const TraceEvent& event : pair.all(TraceKind::state)) {
    EXPECT_EQ(event.qpn, pair.a.qp->qpn());
    states += std::string(event.reason) + " ";
  }
  EXPECT_EQ(states, "INIT RTR RTS ERR ");
}

TEST(Trace, HoldsEveryPacketOfBothDirections) {
  TracedPair pair;
  const auto packets = pair.write(3);
  deliver(pair, packets);
  const auto sent = pair.all(TraceKind::send);
  ASSERT_EQ(sent.size(), 3U);
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(sent[i].packet, packets[i].header);
    EXPECT_EQ(sent[i].psn, packets[i].header.psn);
    EXPECT_FALSE(sent[i].again);
  }
  EXPECT_EQ(pair.all(TraceKind::receive).size(), pair.a.counters.acks_received);
  // The window grows with each acknowledgement, and nothing is in flight after the last one.
  const auto windows = pair.all(TraceKind::window);
  ASSERT_EQ(windows.size(), 3U);
  EXPECT_EQ(windows.back().in_flight, 0U);
  EXPECT_EQ(windows.back().window_raw, pair.a.qp->request_stats().window_raw);
}

// The acknowledgement of a SEND that waited for its receive leaves when that is posted.
TEST(Trace, HoldsTheAcknowledgementThatAReceiveLetsGo) {
  TracedPair pair;
  pair.b.post(WorkOpcode::kSend, kLocal, kMtu);
  for (const Parcel& packet : pair.b.send()) pair.a.receive(packet);
  const size_t before = pair.all(TraceKind::send).size();
  const std::optional<Parcel> ack = pair.a.post_recv(kRemote, kMtu);
  ASSERT_TRUE(ack.has_value());
  const auto sent = pair.all(TraceKind::send);
  ASSERT_EQ(sent.size(), before + 1);
  EXPECT_EQ(sent.back().packet, ack->header);
}

TEST(Trace, TellsOfALossBeforeItsCopyIsSent) {
  TracedPair pair;
  auto packets = pair.write(3);
  packets.erase(packets.begin() + 1);
  deliver(pair, packets);
  pair.run();
  const auto lost = pair.all(TraceKind::lost);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].psn, packets[0].header.psn + 1);
  const auto sent = pair.all(TraceKind::send);
  const auto copy = std::find_if(sent.begin(), sent.end(), [](const auto& e) { return e.again; });
  ASSERT_NE(copy, sent.end());
  EXPECT_EQ(copy->psn, lost[0].psn);
  EXPECT_LT(pair.first([](const auto& e) { return e.kind == TraceKind::lost; }),
            pair.first([](const auto& e) { return e.again; }));
}

TEST(Trace, ATimeoutFollowsTheLossesThatItFound) {
  Params params = Params::mp();
  params.tail_probe = false;
  TracedPair pair(params);
  pair.write(2);
  pair.advance(Duration::ms(50));
  const auto timeouts = pair.all(TraceKind::timeout);
  ASSERT_FALSE(timeouts.empty());
  EXPECT_EQ(timeouts[0].timeouts, 1U);
  const auto lost = pair.all(TraceKind::lost);
  ASSERT_GE(lost.size(), 2U);
  EXPECT_EQ(lost[0].reason, "timeout");
  EXPECT_LT(pair.first([](const auto& e) { return e.kind == TraceKind::lost; }),
            pair.first([](const auto& e) { return e.kind == TraceKind::timeout; }));
}

// A receiver without a receive asks for a pause; a pause of the application ends in a restart.
TEST(Trace, TellsOfSilencesAndRestarts) {
  Params params = Params::mp();
  params.restart = RestartRule::kIdle;
  TracedPair pair(params);
  pair.a.post(WorkOpcode::kSend, kLocal, 64);
  deliver(pair, pair.a.send());
  const auto pauses = pair.all(TraceKind::not_ready);
  ASSERT_EQ(pauses.size(), 1U);
  EXPECT_GT(pauses[0].until, pauses[0].now);
  pair.b.post_recv(kRemote, 64);
  pair.run();
  EXPECT_TRUE(pair.all(TraceKind::restart).empty());
  pair.advance(Duration::s(1));
  deliver(pair, pair.write(1));
  EXPECT_EQ(pair.all(TraceKind::restart).size(), pair.a.counters.window_restarts);
  EXPECT_EQ(pair.all(TraceKind::restart).size(), 1U);
}

TEST(Trace, TellsThatATimeoutWasTooEarly) {
  TracedPair pair;
  const auto late = pair.write(2);
  while (pair.all(TraceKind::timeout).empty()) pair.advance(Duration::us(100));
  EXPECT_TRUE(pair.all(TraceKind::undone).empty());
  deliver(pair, late);
  const auto undone = pair.all(TraceKind::undone);
  ASSERT_EQ(undone.size(), 1U);
  EXPECT_EQ(undone[0].psn, late[0].header.psn);
  EXPECT_EQ(undone[0].reason, "timeout");
  EXPECT_EQ(pair.a.counters.timeouts_undone, 1U);
}

// The operation leaves in time, but the packet before it is late.
TEST(Trace, NamesTheOperationThatTheReceiverRefused) {
  Params params = Params::mp();
  params.placement = PlacementPolicy::kRelaxed;
  TracedPair pair(params);
  deliver(pair, pair.write(1));
  const Psn late = pair.write(1).at(0).header.psn;
  pair.a.post(WorkOpcode::kWrite, kLocal, kMtu, kRemote, kSignaled | kSynchronise);
  std::vector<Parcel> behind;
  for (int us = 0; us < 50 && behind.empty(); ++us) {
    pair.advance(Duration::us(1));
    behind = pair.a.send();
  }
  ASSERT_EQ(behind.size(), 1U);
  EXPECT_EQ(behind[0].header.psn, late + 1);
  deliver(pair, behind);
  const auto refused = pair.all(TraceKind::refused);
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].psn, behind[0].header.psn);
}

TEST(Trace, RoceSaysWhyItGoesBack) {
  TracedPair pair(Params::roce());
  auto packets = pair.write(3);
  packets.erase(packets.begin() + 1);
  deliver(pair, packets);
  for (const Parcel& answer : pair.b.send()) pair.a.receive(answer);
  const auto back = pair.all(TraceKind::go_back);
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(back[0].reason, "nak");
  EXPECT_EQ(back[0].psn, packets[0].header.psn + 1);
}

std::string text_of(const TraceEvent& event, std::string_view host = {}) {
  std::array<char, kTraceTextBytes> out;
  return std::string(trace_text(event, host, out));
}

TEST(TraceText, IsOneJsonObjectOnALine) {
  EXPECT_EQ(text_of({.now = Time::from_ns(7),
                     .kind = TraceKind::lost,
                     .qpn = Qpn(17),
                     .psn = Psn(101),
                     .reason = "nack",
                     .window_raw = 3 * 65536 / 2,
                     .in_flight = 2,
                     .credits = 1,
                     .srtt_ns = 900},
                    "h0"),
            R"({"ns":7,"host":"h0","qpn":17,"event":"lost","psn":101,"reason":"nack",)"
            R"("stream":"requests","window":1.500,"in_flight":2,"credits":1,"srtt_ns":900})"
            "\n");
  EXPECT_EQ(text_of({.now = Time::from_ns(8),
                     .kind = TraceKind::not_ready,
                     .stream = TraceStream::kResponses,
                     .qpn = Qpn(17),
                     .psn = Psn(5),
                     .until = Time::from_ns(640)}),
            R"({"ns":8,"qpn":17,"event":"not_ready","psn":5,"stream":"responses","until_ns":640})"
            "\n");
  EXPECT_EQ(text_of({.kind = TraceKind::state, .reason = "RTS"}),
            R"({"ns":0,"qpn":0,"event":"state","psn":0,"reason":"RTS"})"
            "\n");
}

// The longest packet text fits with everything else.
TEST(TraceText, APacketIsNeverCutOff) {
  wire::Packet packet{.opcode = wire::Opcode::kRcCompareSwap};
  packet.psn = Psn(kPsnMask);
  packet.reth = {.va = UINT64_MAX, .rkey = Key(UINT32_MAX), .dma_len = UINT32_MAX};
  packet.atomic_swap_add = packet.atomic_compare = UINT64_MAX;
  const std::string text = text_of({.now = Time::from_ns(INT64_MAX),
                                    .kind = TraceKind::send,
                                    .qpn = Qpn(UINT32_MAX),
                                    .psn = packet.psn,
                                    .packet = packet,
                                    .again = true},
                                   std::string(64, 'h'));
  EXPECT_EQ(text.substr(text.size() - 3), "\"}\n");
}

TEST(TracePage, HoldsEveryKind) {
  std::ifstream file(MPRDMA_SOURCE_ROOT "/docs/simulator.md");
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
#define MPRDMA_EXPECT_ROW(name, text) \
  EXPECT_NE(page.find("| `" #name "` | " text " |"), std::string::npos) << #name;
  MPRDMA_TRACE_KINDS(MPRDMA_EXPECT_ROW)
#undef MPRDMA_EXPECT_ROW
}

}  // namespace
}  // namespace mprdma::transport
