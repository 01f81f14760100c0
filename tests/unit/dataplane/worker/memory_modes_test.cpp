// What two engines on shared memory send in each mode: long packets and one acknowledgement for
// many where the mode is ours to shape, and the paper's packets and acknowledgements where it is
// not.
#include <gtest/gtest.h>

#include "tests/unit/dataplane/worker/engines_on_memory.hpp"

namespace mprdma::dataplane {
namespace {

using testing::EnginesOnMemory;
using testing::Host;
using testing::HostQp;
using testing::kSegment;

constexpr uint32_t kPathMtu = 1024;

class MemoryModes : public EnginesOnMemory {
 protected:
  static constexpr uint32_t kPackets = 30;
  static constexpr uint32_t kBytes = kPackets * kPathMtu;
  static constexpr uint32_t kSegments = (kBytes + kSegment - 1) / kSegment;

  // Further queue pairs, whose modes are pinned, or agreed where they are the default.
  void connect_anew(uint32_t mode_a, uint32_t mode_b) {
    former.push_back(std::move(qp_a));
    former.push_back(std::move(qp_b));
    connect(mode_a, mode_b);
  }
  static QpContext& context(Host& host, const HostQp& qp) {
    return *host.worker->qps().find(Qpn(qp.qpn));
  }
  // How many packets of each side a request takes.
  struct Packets {
    uint64_t a;
    uint64_t b;
  };
  Packets write_one() {
    const Packets before = sent();
    write(kBytes, 0, 0);
    return finish(before);
  }
  Packets read_one() {
    const Packets before = sent();
    auto& wqe =
        a.begin_send(*qp_a, MPRDMA_ABI_READ, ++posted, {{source.addr(), kBytes, source.key}});
    wqe.remote_addr = mr_b->addr();
    wqe.rkey = mr_b->key;
    a.end_send(*qp_a);
    return finish(before);
  }
  // As this side knows its peer.
  static bool offers_nothing(const QpContext& of) {
    return of.pair.peer_offer() == PairNegotiation::WireOffer{};
  }
  void expect_modes(uint32_t mode_a, uint32_t mode_b) {
    EXPECT_EQ(context(a, *qp_a).mode, mode_a);
    EXPECT_EQ(context(b, *qp_b).mode, mode_b);
  }

 private:
  Packets sent() { return {a.worker->counters().frames_out, b.worker->counters().frames_out}; }
  Packets finish(const Packets& before) {
    EXPECT_TRUE(completes(posted));
    for (int i = 0; i < 50; ++i) step();
    EXPECT_TRUE(same(0, 0, kBytes));
    const Packets now = sent();
    return {now.a - before.a, now.b - before.b};
  }
};

TEST_F(MemoryModes, OursUseSegmentsAndRuns) {
  struct Case {
    uint32_t a;
    uint32_t b;
    uint32_t agreed;
  };
  for (const auto& [mode_a, mode_b, agreed] :
       {Case{MPRDMA_ABI_MODE_DEFAULT, MPRDMA_ABI_MODE_DEFAULT, MPRDMA_ABI_MODE_MP},
        Case{MPRDMA_ABI_MODE_MP, MPRDMA_ABI_MODE_DEFAULT, MPRDMA_ABI_MODE_MP},
        Case{MPRDMA_ABI_MODE_MP_SINGLE, MPRDMA_ABI_MODE_DEFAULT, MPRDMA_ABI_MODE_MP_SINGLE},
        Case{MPRDMA_ABI_MODE_DEFAULT, MPRDMA_ABI_MODE_MP_SINGLE, MPRDMA_ABI_MODE_MP_SINGLE}}) {
    SCOPED_TRACE(mode_a * 10 + mode_b);
    connect_anew(mode_a, mode_b);
    expect_modes(agreed, agreed);
    const Packets write = write_one();
    EXPECT_EQ(write.a, kSegments);
    EXPECT_LE(write.b, kSegments);
    const Packets read = read_one();
    EXPECT_LE(read.b, kSegments + 1) << "and an acknowledgement of the request";
    for (const QpContext* qp : {&context(a, *qp_a), &context(b, *qp_b)}) {
      EXPECT_EQ(qp->qp.attributes().send_segment, kSegment);
      EXPECT_EQ(qp->qp.attributes().ack_run, 32u);
    }
  }
}

// Whichever side wants it, and whatever the other has offered before it knew the mode.
TEST_F(MemoryModes, ThePapersHasPacketsOfThePathMtuAndAnAcknowledgementForEach) {
  struct Case {
    uint32_t a;
    uint32_t b;
    uint32_t is_a;
    uint32_t is_b;
  };
  constexpr uint32_t kPaper = MPRDMA_ABI_MODE_MP_PAPER;
  for (const Case& modes :
       {Case{kPaper, MPRDMA_ABI_MODE_DEFAULT, kPaper, kPaper},
        Case{MPRDMA_ABI_MODE_DEFAULT, kPaper, kPaper, kPaper}, Case{kPaper, kPaper, kPaper, kPaper},
        Case{MPRDMA_ABI_MODE_MP, kPaper, MPRDMA_ABI_MODE_MP, kPaper},
        Case{kPaper, MPRDMA_ABI_MODE_MP, kPaper, MPRDMA_ABI_MODE_MP}}) {
    SCOPED_TRACE(modes.a * 10 + modes.b);
    connect_anew(modes.a, modes.b);
    expect_modes(modes.is_a, modes.is_b);
    const Packets write = write_one();
    EXPECT_EQ(write.a, kPackets);
    EXPECT_EQ(write.b, kPackets);
    const Packets read = read_one();
    EXPECT_GE(read.b, kPackets);
    EXPECT_GE(read.a, kPackets) << "acknowledgements";
    for (const QpContext* qp : {&context(a, *qp_a), &context(b, *qp_b)}) {
      EXPECT_EQ(qp->qp.attributes().send_segment, 0u);
      EXPECT_EQ(qp->qp.attributes().ack_run, 1u);
    }
    EXPECT_EQ(offers_nothing(context(b, *qp_b)), modes.is_a == kPaper);
    EXPECT_EQ(offers_nothing(context(a, *qp_a)), modes.is_b == kPaper);
  }
  EXPECT_EQ(a.worker->counters().payload_bytes_lent, 0u);
}

TEST_F(MemoryModes, IrnHasPacketsOfThePathMtuAndAnAcknowledgementForEach) {
  connect_anew(MPRDMA_ABI_MODE_IRN, MPRDMA_ABI_MODE_DEFAULT);
  expect_modes(MPRDMA_ABI_MODE_IRN, MPRDMA_ABI_MODE_IRN);
  const Packets write = write_one();
  EXPECT_EQ(write.a, kPackets);
  EXPECT_EQ(write.b, kPackets);
  EXPECT_TRUE(offers_nothing(context(a, *qp_a)) && offers_nothing(context(b, *qp_b)));
}

TEST_F(MemoryModes, TheStandardsHasPacketsOfThePathMtu) {
  connect_anew(MPRDMA_ABI_MODE_ROCE, MPRDMA_ABI_MODE_DEFAULT);
  expect_modes(MPRDMA_ABI_MODE_ROCE, MPRDMA_ABI_MODE_ROCE);
  EXPECT_EQ(write_one().a, kPackets);
}

}  // namespace
}  // namespace mprdma::dataplane
