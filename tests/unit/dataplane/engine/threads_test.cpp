// Commands of several threads at once, beside traffic over a shared receive queue: verbs are thread
// safe. Fit for the thread sanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "dataplane/engine/engine.hpp"
#include "tests/support/eventually.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Host;
using testing::HostCq;
using testing::HostQp;
using testing::HostSrq;
using testing::MemoryPort;
using testing::MemoryWire;

// One engine and a client; everything goes through its channel, as a provider's calls do.
class Threads : public ::testing::Test {
 protected:
  Threads() {
    Config config;
    config.ipv4 = Host::ip(0);
    config.mac = derived_mac(config.ipv4);
    auto port = std::make_unique<MemoryPort>(std::make_shared<MemoryWire>(), 0, config.mac);
    port_ = port.get();
    const Status status = Engine::create_over(config, std::move(port), 1, &engine_);
    EXPECT_TRUE(status.ok()) << status.text;
    client_ = connect_client(&channel_);
    EXPECT_EQ(execute(MPRDMA_ABI_ALLOC_PD, mprdma_abi_handle{}, &pd_), 0);
  }
  ~Threads() override { engine_->disconnect(client_); }

  EngineClient* connect_client(mprdma_abi_channel* channel) {
    mprdma_abi_client client{};
    client.abi_major = MPRDMA_ABI_MAJOR;
    client.context = this;
    client.on_event = [](void* context, const mprdma_abi_event* event) {
      auto* self = static_cast<Threads*>(context);
      // Relaxed: a count must not order what the threads do beside it.
      if (event->type == MPRDMA_ABI_EVENT_SRQ_LIMIT_REACHED) {
        self->limits_.fetch_add(1, std::memory_order_relaxed);
      }
      if (event->type == MPRDMA_ABI_EVENT_PORT_ERR) {
        self->link_downs_.fetch_add(1, std::memory_order_relaxed);
      }
      if (event->type == MPRDMA_ABI_EVENT_PORT_ACTIVE) {
        self->link_ups_.fetch_add(1, std::memory_order_relaxed);
      }
    };
    return engine_->connect(client, channel);
  }

  template <class In, class Out>
  int execute(uint32_t command, const In& in, Out* out) {
    return channel_.execute(channel_.engine, command, &in, sizeof(in), out, sizeof(*out));
  }
  template <class In>
  int execute(uint32_t command, const In& in) {
    return channel_.execute(channel_.engine, command, &in, sizeof(in), nullptr, 0);
  }
  int destroy(uint32_t command, uint32_t handle) {
    return execute(command, mprdma_abi_handle{handle, 0});
  }

  uint32_t make_cq(HostCq& cq) {
    const mprdma_abi_create_cq in{reinterpret_cast<uint64_t>(cq.ring.data()),
                                  reinterpret_cast<uint64_t>(&cq.dbr), 1, cq.depth, 0};
    mprdma_abi_handle out{};
    EXPECT_EQ(execute(MPRDMA_ABI_CREATE_CQ, in, &out), 0);
    return cq.handle = out.handle;
  }
  uint32_t make_srq(HostSrq& srq, uint32_t limit) {
    mprdma_abi_create_srq in{};
    in.pd = pd_.handle;
    in.limit = limit;
    in.rq = srq.queue();
    mprdma_abi_srq_out out{};
    EXPECT_EQ(execute(MPRDMA_ABI_CREATE_SRQ, in, &out), 0);
    return srq.handle = out.handle;
  }
  void make_qp(HostQp& qp, uint32_t cq, uint32_t srq) {
    mprdma_abi_create_qp in{};
    in.type = MPRDMA_ABI_QP_RC;
    in.pd = pd_.handle;
    in.send_cq = in.recv_cq = cq;
    in.srq = srq;
    in.transport.mode = MPRDMA_ABI_MODE_MP;
    in.sq = qp.sends();
    mprdma_abi_create_qp_out out{};
    EXPECT_EQ(execute(MPRDMA_ABI_CREATE_QP, in, &out), 0);
    qp.handle = out.handle;
    qp.qpn = out.qpn;
    qp.doorbell = out.doorbell;
  }
  void modify(const HostQp& qp, mprdma_abi_qp_attr attr, uint32_t state) {
    attr.mask |= MPRDMA_ABI_QP_STATE;
    attr.state = state;
    EXPECT_EQ(execute(MPRDMA_ABI_MODIFY_QP, mprdma_abi_modify_qp{qp.handle, 0, attr}), 0);
  }
  // The queue pair is connected to its own device.
  void connect(const HostQp& qp, uint32_t peer) {
    modify(qp, {}, MPRDMA_ABI_QPS_INIT);
    // Threads wait for each other and for the processor: the patience that programs ask for.
    mprdma_abi_qp_attr attr = Host::attributes(Host::ip(0), peer);
    attr.timeout = 14;
    attr.retry_cnt = 7;
    modify(qp, attr, MPRDMA_ABI_QPS_RTR);
    modify(qp, {}, MPRDMA_ABI_QPS_RTS);
  }

  // The work that a thread repeats with objects of its own.
  void make_and_destroy() {
    HostCq cq(16);
    HostSrq srq(16);
    HostQp qp;
    for (int i = 0; i < 100; ++i) {
      make_cq(cq);
      make_srq(srq, 4);
      make_qp(qp, cq.handle, srq.handle);
      connect(qp, qp.qpn);
      const mprdma_abi_modify_srq limit{srq.handle, MPRDMA_ABI_SRQ_LIMIT, 8, 0, {}};
      EXPECT_EQ(execute(MPRDMA_ABI_MODIFY_SRQ, limit), 0);
      EXPECT_EQ(execute(MPRDMA_ABI_MODIFY_CQ, mprdma_abi_modify_cq{cq.handle, 4, 10}), 0);
      modify(qp, {}, MPRDMA_ABI_QPS_ERR);
      EXPECT_EQ(destroy(MPRDMA_ABI_DESTROY_QP, qp.handle), 0);
      EXPECT_EQ(destroy(MPRDMA_ABI_DESTROY_SRQ, srq.handle), 0);
      EXPECT_EQ(destroy(MPRDMA_ABI_DESTROY_CQ, cq.handle), 0);
    }
  }

  std::unique_ptr<Engine> engine_;
  MemoryPort* port_ = nullptr;
  EngineClient* client_ = nullptr;
  mprdma_abi_channel channel_{};
  mprdma_abi_handle pd_{};
  std::atomic<unsigned> limits_{0};
  std::atomic<unsigned> link_downs_{0};
  std::atomic<unsigned> link_ups_{0};
};

TEST_F(Threads, ObjectsAreMadeAndDestroyedBesideTrafficOverASharedQueue) {
  HostCq cq(256);
  HostSrq srq(64);
  HostQp from;
  HostQp to;
  make_cq(cq);
  make_srq(srq, 0);
  make_qp(from, cq.handle, 0);
  make_qp(to, cq.handle, srq.handle);
  connect(from, to.qpn);
  connect(to, from.qpn);

  std::atomic<bool> stop{false};
  std::thread makers[2] = {std::thread([this] { make_and_destroy(); }),
                           std::thread([this] { make_and_destroy(); })};
  std::thread poller([&] {
    while (!stop.load()) channel_.progress(channel_.engine);
  });

  // This thread posts receives without a doorbell, sends, and counts what arrives.
  unsigned received = 0;
  unsigned sent = 0;
  constexpr unsigned kMessages = 2000;
  unsigned posted = 0;
  unsigned asked = 0;
  EXPECT_TRUE(eventually(
      [&] {
        while (posted < kMessages && posted - received < 32) {
          srq.post(posted++, {});
        }
        while (asked < kMessages && asked - sent < 16) {
          mprdma_abi_send_wqe* wqe = from.send_slot();
          *wqe = mprdma_abi_send_wqe{};
          wqe->opcode = MPRDMA_ABI_SEND;
          wqe->flags = MPRDMA_ABI_WQE_SIGNALED;
          mprdma_abi_store_release(&from.sq.producer, from.sq.producer + 1);
          mprdma_abi_ring_doorbell(channel_.doorbells, from.doorbell);
          if (mprdma_abi_engine_sleeps(channel_.doorbells) != 0) channel_.kick(channel_.engine);
          ++asked;
        }
        mprdma_abi_cqe cqe;
        while (cq.poll(&cqe)) {
          EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
          ++(cqe.opcode == MPRDMA_ABI_WC_RECV ? received : sent);
        }
        return received == kMessages && sent == kMessages;
      },
      std::chrono::seconds(100)));
  for (std::thread& maker : makers) maker.join();
  stop.store(true);
  poller.join();
  EXPECT_EQ(destroy(MPRDMA_ABI_DESTROY_QP, from.handle), 0);
  EXPECT_EQ(destroy(MPRDMA_ABI_DESTROY_QP, to.handle), 0);
  EXPECT_EQ(destroy(MPRDMA_ABI_DESTROY_SRQ, srq.handle), 0);
  EXPECT_EQ(destroy(MPRDMA_ABI_DESTROY_CQ, cq.handle), 0);
  EXPECT_EQ(destroy(MPRDMA_ABI_FREE_PD, pd_.handle), 0) << "every count came back";
  EXPECT_GE(limits_.load(), 200u);
}

// The helper settles the transport's parameters when a link comes up; nothing but the engine's lock
// stands between that and a thread that connects.
TEST_F(Threads, AClientConnectsWhileTheLinkComesUp) {
  port_->up = false;
  ASSERT_TRUE(eventually([&] { return link_downs_.load(std::memory_order_relaxed) == 1; }));
  mprdma_abi_channel channel{};
  EngineClient* second = connect_client(&channel);
  port_->up = true;
  EXPECT_TRUE(eventually([&] { return link_ups_.load(std::memory_order_relaxed) == 2; }))
      << "both clients are told";
  engine_->disconnect(second);
}

}  // namespace
}  // namespace mprdma::dataplane
