// Two engines at the ends of a wire, whose queue pairs agree on their mode: what the tests of
// negotiation, and of how long silence is borne, have in common.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>

#include "base/ipv4.hpp"
#include "dataplane/worker/worker.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"
#include "wire/frame.hpp"
#include "wire/mad.hpp"

namespace mprdma::dataplane::testing {

// What a frame is, as far as these tests care.
inline bool is_mad(const Bytes& frame) {
  wire::DecodedFrame decoded;
  return wire::decode_frame(frame, decoded, false) == wire::DropReason::kNone &&
         decoded.packet.dest_qpn == wire::kGeneralServicesQpn;
}
inline wire::PairMad mad_of(const Bytes& frame) {
  wire::DecodedFrame decoded;
  wire::PairMad mad;
  EXPECT_EQ(wire::decode_frame(frame, decoded, false), wire::DropReason::kNone);
  EXPECT_EQ(wire::decode_pair_mad(wire::payload_of(frame, decoded), mad), wire::MadDrop::kNone);
  return mad;
}

inline Bytes make_frame(const wire::FrameAddress& address, const wire::Packet& packet,
                        const Bytes& payload) {
  Bytes room(wire::kMaxFrameHeaderBytes + payload.size() + wire::kMaxFrameTrailerBytes);
  unsigned char* start = room.data() + wire::kMaxFrameHeaderBytes;
  std::copy(payload.begin(), payload.end(), start);
  const size_t header = wire::encode_frame(address, packet, start);
  const size_t bytes = wire::finish_frame(start - header, header, payload.size(), true);
  return {start - header, start - header + bytes};
}

struct Node {
  Node(const std::shared_ptr<MemoryWire>& wire, int side,
       const std::function<void(WorkerConfig&)>& change)
      : host(wire, side,
             [&](WorkerConfig& config) {
               config.agree_modes = true;
               if (change) change(config);
             }),
        cq(host.make_cq()),
        qp(host.make_qp(*cq)),
        mr(host.make_mr(1 << 16)) {}

  uint32_t mode(const HostQp& of) {
    mprdma_abi_qp_stats stats{};
    EXPECT_EQ(host.execute(MPRDMA_ABI_QUERY_QP_STATS, mprdma_abi_handle{of.handle, 0}, &stats), 0);
    return stats.mode;
  }
  uint32_t mode() { return mode(*qp); }
  void write(const Node& peer, uint32_t bytes = 3000) {
    auto& wqe = host.begin_send(*qp, MPRDMA_ABI_WRITE, 1, {{mr->addr(), bytes, mr->key}});
    wqe.remote_addr = peer.mr->addr() + 8192;
    wqe.rkey = peer.mr->key;
    host.end_send(*qp);
  }
  EngineCounters& counters() { return host.worker->counters(); }

  Host host;
  std::unique_ptr<HostCq> cq;
  std::unique_ptr<HostQp> qp;
  std::unique_ptr<HostMr> mr;
};

// a posts, b is whom it asks.
class WorkerNegotiationTest : public ::testing::Test {
 protected:
  void make(const std::function<void(WorkerConfig&)>& change_a = nullptr,
            const std::function<void(WorkerConfig&)>& change_b = nullptr) {
    a = std::make_unique<Node>(wire, 0, change_a);
    b = std::make_unique<Node>(wire, 1, change_b);
    std::iota(a->mr->bytes.begin(), a->mr->bytes.end(), 3);
  }
  // Patient, so that who speaks the wrong mode for a while does not give up.
  static void connect(Node& node, const HostQp& qp, Ipv4 peer_ip, uint32_t peer_qpn,
                      uint8_t timeout = 14, uint8_t retry_cnt = 7) {
    mprdma_abi_qp_attr attr = Host::attributes(peer_ip, peer_qpn);
    attr.timeout = timeout;  // 14: 67 ms
    attr.retry_cnt = retry_cnt;
    ASSERT_EQ(node.host.move_to(qp, MPRDMA_ABI_QPS_INIT), 0);
    ASSERT_EQ(node.host.modify(qp, attr), 0);
    ASSERT_EQ(node.host.move_to(qp, MPRDMA_ABI_QPS_RTR), 0);
    ASSERT_EQ(node.host.move_to(qp, MPRDMA_ABI_QPS_RTS), 0);
  }
  void connect_a() { connect(*a, *a->qp, Host::ip(1), b->qp->qpn); }
  void connect_b() { connect(*b, *b->qp, Host::ip(0), a->qp->qpn); }
  void run(Duration time, Duration step = Duration::us(20)) {
    const Time end = a->host.now + time;
    while (a->host.now < end) {
      a->host.now = b->host.now = a->host.now + step;
      a->host.worker->run(a->host.now);
      b->host.worker->run(b->host.now);
    }
  }
  bool completed(Node& node) {
    mprdma_abi_cqe cqe;
    if (!node.cq->poll(&cqe)) return false;
    EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
    return true;
  }
  bool arrived() const {
    return std::equal(&a->mr->bytes[0], &a->mr->bytes[3000], &b->mr->bytes[8192]);
  }
  static std::function<void(WorkerConfig&)> pin(transport::Params params) {
    return [params](WorkerConfig& config) {
      config.agree_modes = false;
      config.params = params;
    };
  }

  std::shared_ptr<MemoryWire> wire = std::make_shared<MemoryWire>();
  std::unique_ptr<Node> a;
  std::unique_ptr<Node> b;
};

}  // namespace mprdma::dataplane::testing
