// Two queue pairs of the mode irn: the packets of the standard, whatever is lost or reordered.
#include "transport/irn/irn_connection.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <vector>

#include "tests/support/endpoint_pair.hpp"
#include "tests/support/print.hpp"

namespace mprdma::transport {
namespace {

using wire::Opcode;

constexpr uint64_t kLocal = Endpoint::kBase;
constexpr uint64_t kRemote = Endpoint::kBase + 0x10000;

PairOptions irn_options() {
  PairOptions options;
  options.params = Params::irn();
  options.psn_a = Psn(kPsnMask - 3);  // every message crosses the wrap
  options.psn_b = Psn(kPsnMask - 1);
  options.attributes.max_rd_atomic = options.attributes.max_dest_rd_atomic = 4;
  return options;
}

// Work of every kind. All of it lies in memory of its own, so that it can be compared.
void post_everything(EndpointPair& pair) {
  pair.a.fill(kLocal, 0x8000, 3);
  pair.b.fill(kRemote + 0x8000, 0x8000, 5);
  pair.b.set_value(kRemote + 0x7000, 40);
  for (uint64_t i = 0; i < 3; ++i) pair.b.post_recv(kRemote + 0x4000 + i * 0x1000, 4096);
  pair.a.post(WorkOpcode::kWrite, kLocal, 4000, kRemote);
  pair.a.post(WorkOpcode::kSend, kLocal + 0x1000, 3000);
  pair.a.post(WorkOpcode::kRead, kLocal + 0x8000, 5000, kRemote + 0x8000);
  pair.a.post(WorkOpcode::kWriteImm, kLocal + 0x2000, 2100, kRemote + 0x1000);
  SendRequest atomic;
  const Sge result{kLocal + 0xf000, 8, pair.a.key};
  atomic.opcode = WorkOpcode::kFetchAdd;
  atomic.sges = {&result, 1};
  atomic.remote_addr = kRemote + 0x7000;
  atomic.rkey = pair.b.key;
  atomic.compare_add = 2;
  atomic.flags = kSignaled;
  atomic.wr_id = 5;
  pair.a.post(atomic);
  pair.a.post(WorkOpcode::kSend, kLocal + 0x3000, 10);
}

void expect_everything(EndpointPair& pair) {
  const auto sent = pair.a.take_completions();
  ASSERT_EQ(sent.size(), 6u);
  for (const Completion& completion : sent) EXPECT_EQ(completion.status, WcStatus::kSuccess);
  const auto received = pair.b.take_completions();
  ASSERT_EQ(received.size(), 3u);
  EXPECT_EQ(received[0].byte_len, 3000u);
  EXPECT_EQ(received[1].opcode, WcOpcode::kRecvWriteImm);
  EXPECT_EQ(received[1].byte_len, 2100u);
  EXPECT_EQ(received[2].byte_len, 10u);
  EXPECT_TRUE(pair.b.same(kRemote, pair.a, kLocal, 4000));
  EXPECT_TRUE(pair.b.same(kRemote + 0x4000, pair.a, kLocal + 0x1000, 3000));
  EXPECT_TRUE(pair.a.same(kLocal + 0x8000, pair.b, kRemote + 0x8000, 5000));
  EXPECT_TRUE(pair.b.same(kRemote + 0x1000, pair.a, kLocal + 0x2000, 2100));
  EXPECT_TRUE(pair.b.same(kRemote + 0x6000, pair.a, kLocal + 0x3000, 10));
  EXPECT_EQ(pair.b.value(kRemote + 0x7000), 42u);
  EXPECT_EQ(pair.a.value(kLocal + 0xf000), 40u);
  EXPECT_TRUE(pair.a.frames.empty() && pair.b.frames.empty());
}

// The parcel as the peer reads it: a packet in the middle of a WRITE, for one, does not say where.
Parcel over_the_wire(const Parcel& sent) {
  std::array<unsigned char, wire::kMaxTransportHeaderBytes> bytes{};
  const size_t headers = encode_transport(sent.header, bytes.data());
  const uint32_t payload = sent.header.payload_len;
  const size_t length = headers + payload + wire::pad_bytes(payload);
  Parcel read{{}, sent.payload};
  EXPECT_EQ(decode_transport(std::span(bytes).first(headers), length, read.header),
            wire::DropReason::kNone);
  read.header.vp = sent.header.vp;
  read.header.ce = sent.header.ce;
  return read;
}

// Carries what both send, acknowledgements, too, in the order that `carry` leaves: it may take
// parcels out and move them. True if nothing is under way in the end.
bool run(EndpointPair& pair, const std::function<void(std::vector<Parcel>&)>& carry) {
  for (int turn = 0; turn < 2000; ++turn) {
    std::vector<Parcel> to_b = pair.a.send();
    std::vector<Parcel> to_a = pair.b.send();
    while (!to_a.empty() || !to_b.empty()) {
      carry(to_b);
      for (const Parcel& parcel : to_b) {
        if (auto ack = pair.b.receive(over_the_wire(parcel))) to_a.push_back(*std::move(ack));
      }
      to_b.clear();
      carry(to_a);
      for (const Parcel& parcel : to_a) {
        if (auto ack = pair.a.receive(over_the_wire(parcel))) to_b.push_back(*std::move(ack));
      }
      to_a.clear();
    }
    if (!pair.a.qp->busy() && !pair.b.qp->busy()) return true;
    pair.advance(Duration::us(20));
  }
  return false;
}

TEST(Irn, ThePacketsAreThoseOfTheStandard) {
  EndpointPair pair(irn_options());
  post_everything(pair);
  std::vector<Opcode> seen;
  EXPECT_TRUE(run(pair, [&](std::vector<Parcel>& parcels) {
    for (const Parcel& parcel : parcels) {
      const wire::Packet& header = parcel.header;
      if (header.opcode == Opcode::kMpAck) continue;
      seen.push_back(header.opcode);
      EXPECT_EQ(header.info().transport, wire::TransportService::kRc);
      EXPECT_TRUE(header.irn);
      EXPECT_EQ(header.ack_req, header.info().stream == wire::PacketStream::kRequest);
      EXPECT_EQ(header.mp_data.flags, 0);
      const bool answers = header.info().has_aeth;
      EXPECT_EQ(header.aeth.syndrome, answers ? wire::kAckSyndrome : 0);
    }
  }));
  expect_everything(pair);
  const std::vector<Opcode> requests = {
      Opcode::kRcWriteFirst,  Opcode::kRcWriteMiddle,  Opcode::kRcWriteMiddle,
      Opcode::kRcWriteLast,   Opcode::kRcSendFirst,    Opcode::kRcSendMiddle,
      Opcode::kRcSendLast,    Opcode::kRcReadRequest,  Opcode::kRcWriteFirst,
      Opcode::kRcWriteMiddle, Opcode::kRcWriteLastImm, Opcode::kRcFetchAdd,
      Opcode::kRcSendOnly};
  for (const Opcode opcode : requests) {
    EXPECT_NE(std::find(seen.begin(), seen.end(), opcode), seen.end()) << wire::opcode_name(opcode);
  }
  EXPECT_EQ(seen.size(), requests.size() + 5 + 1) << "READ data and the answer of the atomic";
  EXPECT_EQ(pair.a.counters.packets_retransmitted + pair.b.counters.packets_retransmitted, 0u);
}

// Data and acknowledgements alike; and with each one the next one, which may be its copy.
TEST(Irn, EachPacketMayBeLost) {
  for (const size_t both : {1, 2}) {
    size_t lost = 0;
    for (size_t which = 0; which < lost + 1 && which < 200; ++which) {
      EndpointPair pair(irn_options());
      post_everything(pair);
      size_t number = 0;
      ASSERT_TRUE(run(pair,
                      [&](std::vector<Parcel>& parcels) {
                        std::erase_if(parcels, [&](const Parcel&) {
                          const bool loses = number >= which && number < which + both;
                          ++number;
                          return loses;
                        });
                      }))
          << "packet " << which;
      expect_everything(pair);
      if (testing::Test::HasFailure()) FAIL() << "without packets " << which << " +" << both;
      lost = number;
    }
    EXPECT_GT(lost, 30u);
  }
}

TEST(Irn, PacketsComeInAnyOrder) {
  EndpointPair pair(irn_options());
  post_everything(pair);
  EXPECT_TRUE(run(
      pair, [](std::vector<Parcel>& parcels) { std::reverse(parcels.begin(), parcels.end()); }));
  expect_everything(pair);
}

TEST(Irn, NothingButPacketsOfTheModeIsTaken) {
  EndpointPair pair(irn_options());
  pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote);
  std::vector<Parcel> sent = pair.a.send();
  ASSERT_EQ(sent.size(), 1u);
  Parcel foreign = sent[0];
  foreign.header.irn = false;
  EXPECT_FALSE(pair.b.receive(foreign));
  foreign.header.opcode = Opcode::kMpWriteOnly;
  EXPECT_FALSE(pair.b.receive(foreign));
  foreign.header.opcode = Opcode::kRcAck;
  foreign.header.irn = true;
  EXPECT_FALSE(pair.b.receive(foreign));
  EXPECT_EQ(pair.b.counters.drop_wrong_mode, 3u);
  EXPECT_TRUE(pair.b.receive(sent[0]));
}

TEST(Irn, AQueuePairOfTheStandardTakesNoPacketOfIt) {
  PairOptions options;
  options.params = Params::roce();
  EndpointPair pair(options);
  pair.a.post(WorkOpcode::kWrite, kLocal, 8, kRemote);
  std::vector<Parcel> sent = pair.a.send();
  ASSERT_EQ(sent.size(), 1u);
  sent[0].header.irn = true;
  EXPECT_FALSE(pair.b.receive(sent[0]));
  EXPECT_EQ(pair.b.counters.drop_wrong_mode, 1u);
}

TEST(SendClock, EchoesWhatLeftOnceAndIsKnown) {
  SendClock clock(8);
  const Time start = Time::from_ns((int64_t{1} << 32) - 1000);  // the low bits wrap
  const auto no_echo = [](Time now) { return static_cast<uint32_t>(now.ns()) + 1; };
  EXPECT_EQ(clock.echo(start, Psn(0)), no_echo(start)) << "it never left";
  clock.note(start, Psn(kPsnMask), false);
  clock.note(start + Duration::us(2), Psn(0), false);
  const Time now = start + Duration::us(5);
  EXPECT_EQ(clock.echo(now, Psn(kPsnMask)), static_cast<uint32_t>(start.ns()));
  EXPECT_EQ(clock.echo(now, Psn(0)), static_cast<uint32_t>((start + Duration::us(2)).ns()));
  clock.note(now, Psn(0), true);
  EXPECT_EQ(clock.echo(now, Psn(0)), no_echo(now)) << "either copy may have come";
  EXPECT_TRUE(clock.left_again(Psn(0)));
  EXPECT_FALSE(clock.left_again(Psn(kPsnMask)));
  clock.note(now, Psn(8), false);
  EXPECT_EQ(clock.echo(now, Psn(0)), no_echo(now)) << "its place is that of another packet";
}

TEST(Irn, TheRoundTripIsTimedAtTheSender) {
  EndpointPair pair(irn_options());
  pair.a.post(WorkOpcode::kWrite, kLocal, 4000, kRemote);
  pair.run(Duration::us(7));
  EXPECT_EQ(pair.a.qp->request_stats().srtt_ns, 14'000);
}

}  // namespace
}  // namespace mprdma::transport
