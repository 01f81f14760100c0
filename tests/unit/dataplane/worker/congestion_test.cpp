// Congestion control of the modes roce and irn in the engine: it begins at the link's rate, says on
// the wire that it answers to marks, and slows down when it hears of one.
#include <gtest/gtest.h>

#include "dataplane/worker/qp_params.hpp"
#include "tests/unit/dataplane/mgmt/negotiation_support.hpp"
#include "wire/frame.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::WorkerNegotiationTest;
using transport::Params;
using transport::Preset;

constexpr size_t kIpv4At = 14;  // behind the Ethernet header
constexpr size_t kIpv4Bytes = 20;

// Marks a frame as a switch does: both bits, and the header's checksum.
Bytes with_mark(Bytes frame) {
  unsigned char* ip = frame.data() + kIpv4At;
  ip[1] |= 3;
  ip[10] = ip[11] = 0;
  uint32_t sum = 0;
  for (size_t i = 0; i < kIpv4Bytes; i += 2) sum += uint32_t{ip[i]} << 8 | ip[i + 1];
  sum = (sum >> 16) + (sum & 0xffff);
  sum = ~(sum + (sum >> 16)) & 0xffff;
  ip[10] = static_cast<unsigned char>(sum >> 8);
  ip[11] = static_cast<unsigned char>(sum);
  return frame;
}

class WorkerCongestionTest : public WorkerNegotiationTest {
 protected:
  // Every frame that a sends with ECT arrives marked, or every frame.
  void SetUp() override {
    wire->on_frame = [this](int from, const Bytes& frame) {
      wire::DecodedFrame decoded;
      const bool data = from == 0 &&
                        decode_frame(frame, decoded, false) == wire::DropReason::kNone &&
                        decoded.packet.info().stream == wire::PacketStream::kRequest;
      if (!data) return true;
      ecn = decoded.address.ecn;
      if (ecn == wire::Ecn::kNotEct && !marks_everything) return true;
      wire->inject(1, with_mark(frame));
      return false;
    };
  }
  void write_with(Preset preset) { write_with(preset, preset); }
  void write_with(Preset sender, Preset receiver) {
    write_with(Params::of(sender), Params::of(receiver), MPRDMA_ABI_MODE_ROCE);
  }
  void write_with(const Params& sender, const Params& receiver, uint32_t mode) {
    make(pin(sender), pin(receiver));
    connect_a();
    connect_b();
    a->write(*b);
    run(Duration::us(100));
    ASSERT_TRUE(completed(*a));
    ASSERT_TRUE(arrived());
    EXPECT_EQ(a->mode(), mode);
  }
  // The rate that congestion control allows a; 0: no limit.
  double rate_gbps() {
    const transport::Qp& qp = a->host.worker->qps().find(Qpn(a->qp->qpn))->qp;
    return static_cast<double>(qp.request_stats().rate_bps) / 1e9;
  }
  uint64_t cnps_received() { return a->host.worker->transport_counters().cnps_received; }

  wire::Ecn ecn = wire::Ecn::kNotEct;  // ECN of the last data packet
  bool marks_everything = false;
};

TEST_F(WorkerCongestionTest, DcqcnHalvesTheRateOfTheLinkWhenAMarkComes) {
  wire->link_mbps = 40'000;
  write_with(Preset::kDcqcnTuned);
  EXPECT_EQ(ecn, wire::Ecn::kEct0) << "else no switch marks it";
  EXPECT_GE(b->host.worker->transport_counters().cnps_sent, 1u);
  EXPECT_GE(cnps_received(), 1u);
  EXPECT_GE(rate_gbps(), 20);
  EXPECT_LT(rate_gbps(), 40);
}

TEST_F(WorkerCongestionTest, DcqcnOfIrnDoesThatToo) {
  wire->link_mbps = 40'000;
  Params irn = Params::irn();
  irn.congestion = transport::Congestion::kDcqcnTuned;
  write_with(irn, irn, MPRDMA_ABI_MODE_IRN);
  EXPECT_EQ(ecn, wire::Ecn::kEct0);
  EXPECT_GE(cnps_received(), 1u);
  EXPECT_GE(rate_gbps(), 20);
  EXPECT_LT(rate_gbps(), 40);
}

// Its own data may go without limit, and yet a sender with DCQCN has to hear of the marks.
TEST_F(WorkerCongestionTest, AReceiverWithoutItTellsOfMarksAllTheSame) {
  wire->link_mbps = 40'000;
  write_with(Preset::kDcqcnTuned, Preset::kRoce);
  EXPECT_GE(b->host.worker->transport_counters().cnps_sent, 1u);
  EXPECT_GE(cnps_received(), 1u);
  EXPECT_LT(rate_gbps(), 40);
  EXPECT_GT(rate_gbps(), 0);
}

TEST_F(WorkerCongestionTest, WhereThePortDoesNotKnowItsRateIsAFastOne) {
  write_with(Preset::kDcqcnPaper);
  EXPECT_GE(rate_gbps(), 50);
  EXPECT_LT(rate_gbps(), 100);
}

TEST_F(WorkerCongestionTest, ARateThatIsConfiguredComesBeforeThePorts) {
  wire->link_mbps = 40'000;
  make([](WorkerConfig& config) { config.params.link_mbps = 10'000; });
  EXPECT_EQ(a->host.worker->config().params.link_mbps, 10'000u);
  EXPECT_EQ(b->host.worker->config().params.link_mbps, 40'000u);
}

TEST_F(WorkerCongestionTest, RoceWithoutIsNotMarkedAndHearsNothing) {
  write_with(Preset::kRoce);
  EXPECT_EQ(ecn, wire::Ecn::kNotEct);
  EXPECT_EQ(cnps_received(), 0u);
  EXPECT_EQ(rate_gbps(), 0);
}

// As with an adapter as the peer, which tells of congestion: nobody has to configure anything.
TEST_F(WorkerCongestionTest, RoceWithoutObeysANotificationThatComes) {
  wire->link_mbps = 40'000;
  marks_everything = true;
  write_with(Preset::kRoce);
  EXPECT_GE(cnps_received(), 1u);
  EXPECT_GE(rate_gbps(), 20);
  EXPECT_LT(rate_gbps(), 40);
}

TEST(AgreedParams, RoceIsTheConfiguredOneWithItsCongestionControl) {
  Params configured = Params::of(Preset::kDcqcnTuned);
  configured.link_mbps = 25'000;
  Params agreed;
  ASSERT_EQ(agreed_params({}, configured, MPRDMA_ABI_MODE_ROCE, 128, &agreed), 0);
  EXPECT_EQ(agreed.preset, Preset::kDcqcnTuned);
  EXPECT_EQ(agreed.congestion, transport::Congestion::kDcqcnTuned);
  configured = Params::mp();
  configured.link_mbps = 25'000;
  configured.rto_floor = Duration::ms(9);
  configured.limit_growth = false;
  ASSERT_EQ(agreed_params({}, configured, MPRDMA_ABI_MODE_ROCE, 128, &agreed), 0);
  EXPECT_EQ(agreed.preset, Preset::kRoce);
  EXPECT_EQ(agreed.link_mbps, 25'000u) << "the link's";
  EXPECT_EQ(agreed.rto_floor, Duration::ms(9)) << "the device's";
  EXPECT_TRUE(agreed.limit_growth) << "the mode's";
}

// Whatever the device's own timers are, a peer may ask for it.
TEST(AgreedParams, IrnHasItsOwnTimeouts) {
  Params configured = Params::mp();
  configured.rto_floor = Duration::us(50);
  Params agreed;
  ASSERT_EQ(agreed_params({}, configured, MPRDMA_ABI_MODE_IRN, 64, &agreed), 0);
  EXPECT_EQ(agreed.preset, Preset::kIrn);
  EXPECT_EQ(agreed.rto_low, Duration::us(100));
  EXPECT_EQ(agreed.rto_high, Duration::us(320));
  EXPECT_EQ(agreed.window_slots, 64u);
}

}  // namespace
}  // namespace mprdma::dataplane
