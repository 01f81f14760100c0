// The kernel's tap: the frames that go to it and come from it, and a tap that is full.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ipv4.hpp"
#include "tests/unit/dataplane/daemon/switch_bed.hpp"
#include "wire/ipv6.hpp"

namespace mprdma::dataplane::mprdmad {
namespace {

using wire::ArpOperation;

constexpr uint8_t kTcp = 6;
constexpr uint8_t kIcmp = 1;

// Each message of this socket is a frame, as with a tap.
class KernelBed : public SwitchBed {
 public:
  explicit KernelBed(bool shared_address = false) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds_), 0);
    sw.use_tap(std::make_unique<KernelTap>(fds_[0]));
    sw.configure({.ipv4 = kOurIp, .prefix_bits = 24, .shared_address = shared_address}, now);
  }
  ~KernelBed() { close(fds_[1]); }

  std::vector<Bytes> kernel_gets() const {
    std::vector<Bytes> out;
    Bytes buffer(10000);
    for (ssize_t n = 0; (n = recv(fds_[1], buffer.data(), buffer.size(), 0)) > 0;) {
      out.emplace_back(buffer.begin(), buffer.begin() + n);
    }
    return out;
  }
  void kernel_queues(const Bytes& frame) const {
    ASSERT_EQ(send(fds_[1], frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
  }
  void kernel_sends(const Bytes& frame) {
    kernel_queues(frame);
    sw.serve_kernel(now);
  }
  // The frame from the wire ends at the kernel or nowhere.
  bool reaches_kernel(const Bytes& frame) {
    wire_sends(frame);
    run();
    const std::vector<Bytes> got = kernel_gets();
    EXPECT_LE(got.size(), 1u);
    const bool reached = !got.empty();
    EXPECT_EQ(reached ? got[0] : frame, frame);
    return reached;
  }

 private:
  int fds_[2];
};

Bytes ipv4_frame(uint8_t protocol, Ipv4 src, Ipv4 dst, const wire::MacAddress& dst_mac) {
  Bytes frame(14 + 20 + 40, 0x5a);
  wire::Ethernet{.dst = dst_mac, .src = kPeerMac, .ether_type = wire::kEtherTypeIpv4}.store(
      frame.data());
  wire::Ipv4Header{.total_length = 60, .protocol = protocol, .src = src, .dst = dst}.store(
      frame.data() + 14);
  if (protocol == kIcmp) frame[34] = 8;
  return frame;
}

Bytes to_kernels_address(uint8_t protocol) {
  return ipv4_frame(protocol, kPeerIp, kFarIp, kOurMac);
}

Bytes to_our_address(uint8_t protocol) {
  return ipv4_frame(protocol, kPeerIp, kOurIp, kOurMac);
}

TEST(SwitchKernel, GetsWhatIsNotTheDevices) {
  KernelBed bed;
  bed.add(1);
  EXPECT_TRUE(bed.reaches_kernel(to_kernels_address(kTcp)));
  EXPECT_TRUE(bed.reaches_kernel(to_kernels_address(kIcmp)));
  EXPECT_TRUE(bed.reaches_kernel(ipv4_frame(kTcp, kPeerIp, Ipv4(0xffffffff), wire::kBroadcastMac)));
  Bytes of_another_protocol(60, 1);
  std::copy(kOurMac.begin(), kOurMac.end(), of_another_protocol.begin());
  EXPECT_TRUE(bed.reaches_kernel(of_another_protocol));
  // RoCEv2 for an address that is the kernel's.
  FrameSpec far = from_peer({.dest_qpn = qpn_in(1)});
  far.dst_ip = kFarIp;
  EXPECT_TRUE(bed.reaches_kernel(make_frame(far)));
  EXPECT_EQ(bed.sw.wire_counters().nic_kernel_out, 5u);

  // Frames for the device, for nobody here, or broken.
  EXPECT_FALSE(bed.reaches_kernel(make_frame(from_peer({.dest_qpn = qpn_in(1)}))));
  EXPECT_EQ(bed.client_gets(1).size(), 1u);
  EXPECT_FALSE(bed.reaches_kernel(ipv4_frame(kTcp, kPeerIp, kFarIp, kPeerMac)));
  Bytes broken = to_kernels_address(kTcp);
  broken[20] ^= 1;
  EXPECT_FALSE(bed.reaches_kernel(broken));
  EXPECT_EQ(bed.sw.wire_counters().nic_kernel_out, 5u);
}

TEST(SwitchKernel, GetsNothingForAnAddressThatIsOursAlone) {
  KernelBed bed;
  EXPECT_FALSE(bed.reaches_kernel(to_our_address(kTcp)));
  EXPECT_FALSE(bed.reaches_kernel(to_our_address(kIcmp)));
  EXPECT_EQ(bed.wire_gets().size(), 1u);  // ping is answered here
  EXPECT_EQ(bed.sw.wire_counters().nic_drop_not_ours, 1u);
}

TEST(SwitchKernel, ThatSharesTheAddressGetsAllButRdma) {
  KernelBed bed(true);
  bed.add(1);
  EXPECT_TRUE(bed.reaches_kernel(to_our_address(kTcp)));
  EXPECT_TRUE(bed.reaches_kernel(to_our_address(kIcmp)));
  EXPECT_TRUE(bed.wire_gets().empty());
  EXPECT_FALSE(bed.reaches_kernel(make_frame(from_peer({.dest_qpn = qpn_in(1)}))));
  EXPECT_EQ(bed.client_gets(1).size(), 1u);
}

TEST(SwitchKernel, HearsWhoHasWhichAddressAsWeDo) {
  KernelBed bed;
  bed.sw.resolve(wire::map_ipv4(kPeerIp), bed.now);
  bed.run();
  bed.wire_gets();
  EXPECT_TRUE(
      bed.reaches_kernel(arp_frame(ArpOperation::kReply, kPeerMac, kPeerIp, kOurIp, kOurMac)));
  EXPECT_EQ(bed.management.resolved.at(wire::map_ipv4(kPeerIp)), kPeerMac);
  EXPECT_TRUE(bed.reaches_kernel(arp_frame(ArpOperation::kRequest, kPeerMac, kPeerIp, kFarIp)));
  // Only one of daemon and kernel may answer.
  EXPECT_FALSE(bed.reaches_kernel(arp_frame(ArpOperation::kRequest, kPeerMac, kPeerIp, kOurIp)));
  EXPECT_EQ(bed.wire_gets().size(), 1u);
}

TEST(SwitchKernel, SendsThroughThePort) {
  KernelBed bed;
  const Bytes frame = ipv4_frame(kTcp, kFarIp, kPeerIp, kPeerMac);
  bed.kernel_sends(frame);
  EXPECT_EQ(bed.wire_gets(), std::vector<Bytes>{frame});
  bed.kernel_sends(Bytes(13));
  bed.kernel_sends(Bytes(9000));
  EXPECT_TRUE(bed.wire_gets().empty());
  const StationCounters counters = bed.sw.wire_counters();
  EXPECT_EQ(counters.nic_kernel_in, 3u);
  EXPECT_EQ(counters.nic_drop_malformed, 1u);
  EXPECT_EQ(counters.nic_drop_long, 1u);
}

// A process without any right may send UDP from the address that it shares with us.
TEST(SwitchKernel, DoesNotSpeakInTheDevicesName) {
  KernelBed bed(true);
  const Bytes whole = make_frame({.dest_qpn = Qpn(5)});
  bed.kernel_sends(whole);
  Bytes fragment = whole;
  wire::Ipv4Header ip = wire::Ipv4Header::load(fragment.data() + 14);
  ip.more_fragments = true;
  ip.store(fragment.data() + 14);
  bed.kernel_sends(fragment);
  Bytes with_options = whole;  // a header of six words
  with_options[14] = 0x46;
  with_options.insert(with_options.begin() + 34, {1, 1, 1, 0});
  bed.kernel_sends(with_options);
  EXPECT_TRUE(bed.wire_gets().empty());
  EXPECT_EQ(bed.sw.wire_counters().nic_drop_forged, 3u);
  // The kernel may send in its own name, and to other ports.
  FrameSpec own{.dest_qpn = Qpn(5)};
  own.src_ip = kFarIp;
  bed.kernel_sends(make_frame(own));
  bed.kernel_sends(ipv4_frame(wire::kIpProtocolUdp, kOurIp, kPeerIp, kPeerMac));
  EXPECT_EQ(bed.wire_gets().size(), 2u);
}

TEST(SwitchKernel, DoesNotSpeakInTheDevicesNameByIpv6) {
  KernelBed bed;
  Bytes frame(14 + 40 + 8 + 8 + 40);
  wire::Ethernet{.dst = kPeerMac, .src = kOurMac, .ether_type = wire::kEtherTypeIpv6}.store(
      frame.data());
  wire::Ipv6 ip;
  ip.payload_length = 56;
  ip.next_header = wire::kIpv6NextHeaderFragment;
  ip.src = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x4d, 0x52, 0xff, 0xfe, 0x49, 0, 1};
  ip.store(frame.data() + 14);
  frame[54] = wire::kIpProtocolUdp;
  store_be16(frame.data() + 64, wire::kRoceUdpPort);
  bed.kernel_sends(frame);
  EXPECT_EQ(bed.sw.wire_counters().nic_drop_forged, 1u);
  store_be16(frame.data() + 64, 53);
  bed.kernel_sends(frame);
  EXPECT_EQ(bed.wire_gets().size(), 1u);
}

TEST(SwitchKernel, ThatDoesNotReadLosesItsFramesAndNobodyElseAny) {
  KernelBed bed;
  bed.add(1);
  constexpr unsigned kFrames = 5000;
  for (unsigned i = 0; i < kFrames; ++i) bed.wire_sends(to_kernels_address(kTcp));
  for (unsigned i = 0; i < 10; ++i) bed.wire_sends(make_frame(from_peer({.dest_qpn = qpn_in(1)})));
  bed.run();
  EXPECT_EQ(bed.client_gets(1).size(), 10u);
  const StationCounters counters = bed.sw.wire_counters();
  EXPECT_GT(counters.nic_drop_kernel, 0u);
  EXPECT_EQ(counters.nic_drop_kernel + counters.nic_kernel_out, kFrames);
}

TEST(SwitchKernel, WaitsForAWireThatIsFull) {
  KernelBed bed;
  const Bytes frame = ipv4_frame(kTcp, kFarIp, kPeerIp, kPeerMac);
  for (unsigned i = 0; i < 20; ++i) bed.kernel_queues(frame);
  bed.wire->room = 8;
  for (const size_t taken : {8u, 8u, 4u}) {
    bed.sw.serve_kernel(bed.now);
    bed.sw.serve_kernel(bed.now);  // nothing goes without room
    EXPECT_EQ(bed.wire_gets().size(), taken);
  }
  EXPECT_EQ(bed.sw.wire_counters().nic_drop_full, 0u);
  // One call serves at most a burst.
  bed.wire->room = 1024;
  for (unsigned i = 0; i < kBurst + 1; ++i) bed.kernel_queues(frame);
  bed.sw.serve_kernel(bed.now);
  EXPECT_EQ(bed.wire_gets().size(), kBurst);
}

}  // namespace
}  // namespace mprdma::dataplane::mprdmad
