// An engine that owns its port answers path probes, so many and no more.
#include "dataplane/mgmt/probe_responder.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::HostPair;

class WorkerProbeTest : public ::testing::Test {
 protected:
  WorkerProbeTest() {
    address_.dst_mac = derived_mac(Host::ip(1));
    address_.src_mac = derived_mac(Host::ip(0));
    address_.src_ip = wire::map_ipv4(Host::ip(0));
    address_.dst_ip = wire::map_ipv4(Host::ip(1));
    pair_.settle();
    pair_.wire->on_frame = [this](int from, const Bytes& frame) {
      if (from == 1) sent_.push_back(frame);
      return true;
    };
  }

  [[nodiscard]] Bytes frame(const wire::ProbeMad& mad, uint8_t flip = 0) const {
    Bytes bytes(4400);
    unsigned char* const payload = bytes.data() + 128;
    wire::encode_probe_mad(mad, payload);
    payload[43] ^= flip;  // the low byte of its length
    const size_t header =
        wire::encode_frame(address_, management_packet(51'000, mad.bytes, Psn{}), payload);
    const size_t total = wire::finish_frame(payload - header, header, mad.bytes, true);
    return {payload - header, payload - header + total};
  }
  const EngineCounters& counters() { return pair_.b.worker->counters(); }

  HostPair pair_;
  wire::FrameAddress address_;
  std::vector<Bytes> sent_;
};

TEST_F(WorkerProbeTest, TheAnswerSaysHowTheProbeArrived) {
  address_.ecn = wire::Ecn::kCe;
  address_.ttl = 60;
  for (const uint16_t bytes : {256, 4096}) {
    sent_.clear();
    pair_.wire->inject(
        1, frame({.transaction = 9, .bytes = bytes, .answer_bytes = bytes, .seen = {}}));
    pair_.settle(3);
    ASSERT_EQ(sent_.size(), 1u) << bytes;
    wire::DecodedFrame decoded;
    ASSERT_EQ(wire::decode_frame(sent_[0], decoded, true), wire::DropReason::kNone);
    wire::ProbeMad answer;
    const std::span<const unsigned char, wire::kMadBytes> head(
        sent_[0].data() + decoded.payload_offset, wire::kMadBytes);
    ASSERT_EQ(wire::decode_probe_mad(head, decoded.packet.payload_len, answer),
              wire::MadDrop::kNone);
    const wire::ProbeSeen seen{bytes, 51'000, 60, wire::Ecn::kCe};
    EXPECT_EQ(answer.seen, seen);
    EXPECT_EQ(answer.transaction, 9u);
    EXPECT_EQ(decoded.address.dst_ip, address_.src_ip);
  }
  EXPECT_EQ(counters().probes_answered, 2u);
  EXPECT_EQ(pair_.b.port().borrowed, 0);
}

TEST_F(WorkerProbeTest, NonsenseIsDroppedAndTheRateIsBounded) {
  pair_.wire->inject(1, frame({.bytes = 1024, .seen = {}}, 1));
  wire::ProbeMad response{.response = true, .seen = {.bytes = 256}};
  pair_.wire->inject(1, frame(response));
  pair_.settle(3);
  EXPECT_EQ(counters().drop_bad_probe, 2u);
  EXPECT_TRUE(sent_.empty());
  for (int64_t i = 0; i < kProbeBurst * 4; ++i) pair_.wire->inject(1, frame({.seen = {}}));
  pair_.settle(40);
  EXPECT_EQ(counters().probes_answered + counters().probes_refused, uint64_t{kProbeBurst} * 4);
  EXPECT_GE(counters().probes_answered, uint64_t{kProbeBurst});
  EXPECT_GT(counters().probes_refused, uint64_t{kProbeBurst});
  EXPECT_EQ(sent_.size(), counters().probes_answered);
}

}  // namespace
}  // namespace mprdma::dataplane
