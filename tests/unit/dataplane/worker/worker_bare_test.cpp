// Packets without addresses, from a process that does not keep to the rules: from a direct ring
// they reach the queue pairs that are connected to that process, from a port those that are
// connected to the other end, and no others. Payloads that are taken back while they are read are
// not taken.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "dataplane/port/lent_payload.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"
#include "tests/unit/dataplane/engine/scripted_daemon.hpp"
#include "wire/bare_packet.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::HostQp;
using testing::kSegment;
using testing::MemoryPort;
using testing::MemoryWire;
using testing::ScriptedDaemon;

// One process of a device: its port, and a direct ring to another one.
class BarePackets : public ::testing::Test {
 protected:
  static constexpr QpBlock kPeers{16, 8};       // of the process at the ring's other end
  static constexpr QpBlock kOurs{64, 8};        // of this one
  static constexpr QpBlock kStrangers{128, 8};  // of a third one
  static constexpr Qpn number_in(const QpBlock& block) {
    return make_qpn(block.first_generation, 5);
  }

  void SetUp() override {
    daemon.its_block = kOurs;
    daemon.its_ring = &ring;
    ring.up = true;
    wire->daemon[1] = &daemon;
    // What this process sends is lost.
    wire->on_frame = ring_wire->on_frame = [](int, const Bytes&) { return false; };
    host.emplace(wire, 1, [](WorkerConfig& config) {
      config.ipv4 = Host::ip(0);
      config.mac = derived_mac(Host::ip(0));
    });
    cq = host->make_cq();
    mr = host->make_mr(4 * kSegment);
    std::iota(source.begin(), source.end(), static_cast<unsigned char>(3));
  }

  std::unique_ptr<HostQp> connected_to(Ipv4 ip, Qpn peer) {
    auto qp = host->make_qp(*cq);
    host->connect(*qp, ip, peer.value());
    QpContext* const context = host->worker->qps().find(Qpn(qp->qpn));
    transport::QpAttributes attributes = context->qp.attributes();
    attributes.take_segment = kSegment;
    context->qp.set_attributes(attributes);
    step();
    return qp;
  }
  void step() {
    host->now = host->now + Duration::us(10);
    host->worker->run(host->now);
  }

  // A WRITE that the responder takes as number `index` of its connection.
  [[nodiscard]] wire::Packet write_to(uint32_t qpn, uint32_t bytes = 8, uint32_t index = 0) const {
    wire::Packet packet;
    packet.opcode = wire::Opcode::kMpWriteOnly;
    packet.dest_qpn = Qpn(qpn);
    packet.psn = Psn(100 + index);
    packet.mp_data.message_number = index;
    packet.payload_len = bytes;
    packet.reth = {mr->addr() + uint64_t{index} * kSegment, Key(mr->key), bytes};
    return packet;
  }
  // With its payload behind it.
  [[nodiscard]] Bytes bare(const wire::Packet& packet) const {
    Bytes bytes(wire::BarePacket::kBytes + packet.payload_len);
    wire::BarePacket::store(packet, bytes.data());
    std::copy_n(source.begin(), packet.payload_len, bytes.begin() + wire::BarePacket::kBytes);
    return bytes;
  }
  // Whose payload stands in `source`.
  [[nodiscard]] Bytes lent(const wire::Packet& packet) const {
    Bytes bytes(wire::BarePacket::kBytes + LentPayload::kBytes);
    wire::BarePacket::store(packet, bytes.data());
    LentPayload::store(bytes.data() + wire::BarePacket::kBytes,
                       reinterpret_cast<uint64_t>(source.data()), 1);
    return bytes;
  }
  // The packets arrive in one burst.
  void deliver(const std::shared_ptr<MemoryWire>& by, FrameForm form, std::vector<Bytes> packets) {
    by->form = form;
    for (Bytes& packet : packets) by->inject(1, std::move(packet));
    step();
    EXPECT_TRUE(by->side[1].incoming.empty());
    by->form = FrameForm::kFrame;
  }
  // Whatever is behind the header.
  void deliver_each_form(const std::shared_ptr<MemoryWire>& by, uint32_t qpn) {
    deliver(by, FrameForm::kBare, {bare(write_to(qpn))});
    deliver(by, FrameForm::kLent, {lent(write_to(qpn, kSegment))});
  }

  EngineCounters& counters() { return host->worker->counters(); }
  void expect_taken(const std::shared_ptr<MemoryWire>& by, uint32_t qpn) {
    deliver(by, FrameForm::kBare, {bare(write_to(qpn))});
    EXPECT_EQ(counters().payload_bytes_in, 8u) << "else the other tests prove nothing";
    EXPECT_EQ(counters().drop_wrong_source, 0u);
  }
  // Two drops, of one reason or the other; nothing is placed, read or kept.
  void expect_refused(const std::shared_ptr<MemoryWire>& by, uint32_t qpn, bool known = true) {
    const uint64_t wrong = counters().drop_wrong_source;
    const uint64_t unknown = counters().drop_unknown_qp;
    deliver_each_form(by, qpn);
    EXPECT_EQ(counters().drop_wrong_source - wrong, known ? 2u : 0u);
    EXPECT_EQ(counters().drop_unknown_qp - unknown, known ? 0u : 2u);
    EXPECT_EQ(counters().payload_bytes_in, 0u);
    EXPECT_EQ(counters().pulls, 0u);
    EXPECT_EQ(borrowed(), 0);
  }
  [[nodiscard]] MemoryPort& ring_port() const { return static_cast<MemoryPort&>(*ring.port); }
  [[nodiscard]] int borrowed() { return host->port().borrowed + ring_port().borrowed; }

  std::shared_ptr<MemoryWire> wire = std::make_shared<MemoryWire>();
  std::shared_ptr<MemoryWire> ring_wire = std::make_shared<MemoryWire>();
  DirectRing ring{kPeers, std::make_unique<MemoryPort>(ring_wire, 1, derived_mac(Host::ip(0)))};
  ScriptedDaemon daemon;
  std::optional<Host> host;
  std::unique_ptr<testing::HostCq> cq;
  std::unique_ptr<testing::HostMr> mr;
  std::vector<unsigned char> source = std::vector<unsigned char>(2 * kSegment);
};

// ---- From a direct ring

TEST_F(BarePackets, OfARingReachWhoIsConnectedToItsProcess) {
  const auto qp = connected_to(Host::ip(0), number_in(kPeers));
  expect_taken(ring_wire, qp->qpn);
}

TEST_F(BarePackets, OfARingDoNotReachWhoIsConnectedToAnotherProcess) {
  const auto qp = connected_to(Host::ip(0), number_in(kStrangers));
  expect_refused(ring_wire, qp->qpn);
}

TEST_F(BarePackets, OfARingDoNotReachWhoIsConnectedWithinThisProcess) {
  const auto peer = host->make_qp(*cq);
  const auto qp = connected_to(Host::ip(0), Qpn(peer->qpn));
  ASSERT_TRUE(host->worker->qps().find(Qpn(qp->qpn))->loop);
  ring.peers = kOurs;
  expect_refused(ring_wire, qp->qpn);
}

// The peer's number may be known before the peer's address is.
TEST_F(BarePackets, OfARingDoNotReachWhoHasNoPath) {
  const auto qp = host->make_qp(*cq);
  ASSERT_EQ(host->move_to(*qp, MPRDMA_ABI_QPS_INIT), 0);
  mprdma_abi_qp_attr attr{};
  attr.mask = MPRDMA_ABI_QP_DEST_QPN;
  attr.dest_qpn = number_in(kPeers).value();
  ASSERT_EQ(host->modify(*qp, attr), 0);
  expect_refused(ring_wire, qp->qpn);
}

// One for datagrams has no use for a peer, but nobody keeps an application from naming one.
TEST_F(BarePackets, OfARingDoNotReachDatagrams) {
  const auto qp =
      host->make_qp_with(*cq, [](mprdma_abi_create_qp& in) { in.type = MPRDMA_ABI_QP_UD; });
  host->connect(*qp, Host::ip(0), number_in(kPeers).value());
  ASSERT_NE(host->worker->qps().find(Qpn(qp->qpn))->path, PathState::kNone);
  expect_refused(ring_wire, qp->qpn);
}

TEST_F(BarePackets, OfARingForNobodyAreDropped) {
  const auto qp = connected_to(Host::ip(0), number_in(kPeers));
  expect_refused(ring_wire, qp->qpn + 1, false);
}

// ---- From the port

TEST_F(BarePackets, OfAPortReachWhoIsConnected) {
  const auto qp = connected_to(Host::ip(2), number_in(kStrangers));
  expect_taken(wire, qp->qpn);
}

TEST_F(BarePackets, OfAPortDoNotReachWhoIsConnectedWithinThisProcess) {
  const auto peer = host->make_qp(*cq);
  const auto qp = connected_to(Host::ip(0), Qpn(peer->qpn));
  expect_refused(wire, qp->qpn);
}

TEST_F(BarePackets, OfAPortDoNotReachWhoHasNoPath) {
  const auto qp = host->make_qp(*cq);
  ASSERT_EQ(host->move_to(*qp, MPRDMA_ABI_QPS_INIT), 0);
  expect_refused(wire, qp->qpn);
}

TEST_F(BarePackets, OfAPortDoNotReachDatagrams) {
  const auto qp =
      host->make_qp_with(*cq, [](mprdma_abi_create_qp& in) { in.type = MPRDMA_ABI_QP_UD; });
  host->connect(*qp, Host::ip(2), number_in(kStrangers).value());
  ASSERT_NE(host->worker->qps().find(Qpn(qp->qpn))->path, PathState::kNone);
  expect_refused(wire, qp->qpn);
}

TEST_F(BarePackets, OfAPortForNobodyAreDropped) {
  const auto qp = connected_to(Host::ip(2), number_in(kStrangers));
  expect_refused(wire, qp->qpn + 1, false);
}

// ---- Payloads in the sender's memory

class LentWhileRead : public BarePackets {
 protected:
  void SetUp() override {
    BarePackets::SetUp();
    qp = connected_to(Host::ip(0), number_in(kPeers));
    // Its first packet: the short ways are for peers that have been heard.
    deliver(ring_wire, FrameForm::kBare, {bare(write_to(qp->qpn, 8, 0))});
    ASSERT_EQ(counters().payload_bytes_in, 8u);
    before = counters();
    ring_wire->on_pull = [this](std::span<const iovec> to, std::span<const iovec> from) {
      if (!readable) return false;
      copy(to, from);
      if (on_read) on_read();
      if (taken_back != nullptr) {
        LentPayload::set_ticket(taken_back + wire::BarePacket::kBytes, 0);
      }
      return true;
    };
  }
  // As process_vm_readv(2).
  static void copy(std::span<const iovec> to, std::span<const iovec> from) {
    Bytes bytes;
    for (const iovec& piece : from) {
      const auto* const at = static_cast<const unsigned char*>(piece.iov_base);
      bytes.insert(bytes.end(), at, at + piece.iov_len);
    }
    size_t done = 0;
    for (const iovec& piece : to) {
      std::memcpy(piece.iov_base, bytes.data() + done, piece.iov_len);
      done += piece.iov_len;
    }
    EXPECT_EQ(done, bytes.size());
  }
  // A burst of lent packets, of which one is taken back while they are read, or none.
  void deliver_lent(const std::vector<wire::Packet>& packets, std::optional<size_t> back) {
    std::vector<Bytes> frames;
    frames.reserve(packets.size());
    for (const wire::Packet& packet : packets) frames.push_back(lent(packet));
    taken_back = back ? frames[*back].data() : nullptr;
    deliver(ring_wire, FrameForm::kLent, std::move(frames));
    taken_back = nullptr;
  }
  // Packets 1 and 2 of the connection.
  [[nodiscard]] std::vector<wire::Packet> two() const {
    return {write_to(qp->qpn, kSegment, 1), write_to(qp->qpn, kSegment, 2)};
  }
  [[nodiscard]] uint64_t received() {
    return counters().payload_bytes_in - before.payload_bytes_in;
  }
  [[nodiscard]] uint64_t pulls() { return counters().pulls - before.pulls; }
  [[nodiscard]] uint64_t dropped() { return counters().drop_not_pulled - before.drop_not_pulled; }
  [[nodiscard]] bool placed(uint32_t index, uint32_t bytes) const {
    return std::memcmp(mr->bytes.data() + size_t{index} * kSegment, source.data(), bytes) == 0;
  }

  std::unique_ptr<HostQp> qp;
  EngineCounters before;
  unsigned char* taken_back = nullptr;
  bool readable = true;
  std::function<void()> on_read;  // called at the end of a reading
};

TEST_F(LentWhileRead, RunIsTakenIfItStands) {
  deliver_lent(two(), std::nullopt);
  EXPECT_EQ(pulls(), 1u);
  EXPECT_EQ(received(), 2 * kSegment);
  EXPECT_TRUE(placed(1, kSegment) && placed(2, kSegment));
  EXPECT_EQ(borrowed(), 0);
}

// An application may poll on them (copy_to_memory.hpp).
TEST_F(LentWhileRead, LastBytesOfAMessageAreStoredWhenTheReadingIsOver) {
  constexpr uint32_t kLast = 64;
  const std::vector<unsigned char> none(kLast);
  int readings = 0;
  on_read = [&] {
    ++readings;
    for (const uint32_t index : {1, 2}) {
      const unsigned char* const last = &mr->bytes[(index + 1) * kSegment - kLast];
      EXPECT_TRUE(placed(index, kSegment - kLast));
      EXPECT_EQ(std::memcmp(last, none.data(), kLast), 0);
    }
  };
  deliver_lent(two(), std::nullopt);
  EXPECT_EQ(readings, 1);
  EXPECT_TRUE(placed(1, kSegment) && placed(2, kSegment));
}

// Whichever of its packets it is; the sender repeats them.
TEST_F(LentWhileRead, RunOfWhichAPacketWasTakenBackIsNotTaken) {
  for (const size_t back : {0, 1}) {
    SCOPED_TRACE(back);
    before = counters();
    deliver_lent(two(), back);
    EXPECT_EQ(pulls(), 1u);
    EXPECT_EQ(received(), 0u);
    EXPECT_EQ(dropped(), 2u);
    EXPECT_EQ(borrowed(), 0);
  }
  EXPECT_FALSE(ring_port().pulls_no_more) << "others go on";
  deliver_lent(two(), std::nullopt);
  EXPECT_EQ(received(), 2 * kSegment) << "the same packets, if they stand";
}

// A short one goes the general way; so does one that is not in turn, which would be held.
TEST_F(LentWhileRead, SinglePacketThatWasTakenBackIsNotTaken) {
  constexpr uint32_t kShort = 1000;
  for (const uint32_t index : {1u, 2u}) {
    SCOPED_TRACE(index);
    before = counters();
    deliver_lent({write_to(qp->qpn, kShort, index)}, 0);
    EXPECT_EQ(pulls(), 1u);
    EXPECT_EQ(received(), 0u);
    EXPECT_EQ(dropped(), 1u);
    EXPECT_EQ(borrowed(), 0);
    EXPECT_EQ(host->worker->frames_borrowed(), 0u);
    EXPECT_FALSE(placed(index, kShort));
  }
  EXPECT_FALSE(ring_port().pulls_no_more) << "others go on";
  deliver_lent({write_to(qp->qpn, kShort, 1)}, std::nullopt);
  EXPECT_EQ(received(), kShort) << "the same packet, if it stands";
  EXPECT_TRUE(placed(1, kShort));
}

// The next one would be no better.
TEST_F(LentWhileRead, MemoryThatCannotBeReadIsNotTriedAgain) {
  readable = false;
  for (const uint32_t bytes : {kSegment, 1000u}) {
    ring_port().pulls_no_more = false;
    before = counters();
    deliver_lent({write_to(qp->qpn, bytes, 1)}, std::nullopt);
    EXPECT_EQ(received(), 0u);
    EXPECT_EQ(dropped(), 1u);
    EXPECT_EQ(borrowed(), 0);
    EXPECT_TRUE(ring_port().pulls_no_more);
  }
}

}  // namespace
}  // namespace mprdma::dataplane
