// Two engines in one process at the ends of a wire of shared memory, driven by hand: what the tests
// of such a wire have in common.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "dataplane/port/local_port.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"
#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace mprdma::dataplane::testing {

// A registered page range that can be taken away and given back.
class Pages {
 public:
  Pages(Host& host, size_t bytes)
      : bytes_(bytes),
        at_(static_cast<unsigned char*>(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_NE(at_, MAP_FAILED);
    std::iota(at_, at_ + bytes, static_cast<unsigned char>(1));
    mprdma_abi_reg_mr in{addr(), bytes, addr(), host.pd, Host::kAllRights, 0, 0};
    mprdma_abi_reg_mr_out out{};
    EXPECT_EQ(host.execute(MPRDMA_ABI_REG_MR, in, &out), 0);
    key = out.rkey;
  }
  ~Pages() { munmap(at_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void allow(bool access) {
    EXPECT_EQ(mprotect(at_, bytes_, access ? PROT_READ | PROT_WRITE : PROT_NONE), 0);
  }
  unsigned char* data() { return at_; }
  [[nodiscard]] uint64_t addr() const { return reinterpret_cast<uint64_t>(at_); }

  uint32_t key = 0;

 private:
  size_t bytes_;
  unsigned char* at_;
};

// Two engines on a LocalPort that exchange bare packets, segments and lent payloads. a posts.
class EnginesOnMemory : public ::testing::Test {
 protected:
  static constexpr size_t kMemory = 1 << 18;

  static std::unique_ptr<Port> open_end(const std::string& path) {
    PortResult result = LocalPort::open({.path = path, .slots = 256, .engine = true});
    EXPECT_TRUE(result) << result.status.text;
    return std::move(result.port);
  }
  static void negotiate(WorkerConfig& config) { config.agree_modes = true; }

  void SetUp() override {
    ASSERT_TRUE(run_until([&] { return a.worker->link_up() && b.worker->link_up(); }));
    connect();
    ASSERT_TRUE(
        run_until([&] { return a.worker->port().takes_lent() && b.worker->port().takes_lent(); }));
  }
  // Another pair of queue pairs, which agree and hear each other.
  void connect(uint32_t mode_a = MPRDMA_ABI_MODE_DEFAULT,
               uint32_t mode_b = MPRDMA_ABI_MODE_DEFAULT) {
    posted = completed = 0;
    qp_a = a.make_qp_with(*cq_a, [=](mprdma_abi_create_qp& in) { in.transport.mode = mode_a; });
    qp_b = b.make_qp_with(*cq_b, [=](mprdma_abi_create_qp& in) { in.transport.mode = mode_b; });
    move_to_rts(a, *qp_a, 1, *qp_b);
    move_to_rts(b, *qp_b, 0, *qp_a);
    write(64, 0, kMemory - 64);
    ASSERT_TRUE(completes(1));
    for (int i = 0; i < 100; ++i) step();
  }
  static void move_to_rts(Host& host, const HostQp& qp, int peer_side, const HostQp& peer) {
    mprdma_abi_qp_attr attr = Host::attributes(Host::ip(peer_side), peer.qpn);
    attr.mask |= MPRDMA_ABI_QP_MIN_RNR_TIMER;
    attr.min_rnr_timer = 1;  // 10 us
    attr.timeout = 14;
    ASSERT_EQ(host.move_to(qp, MPRDMA_ABI_QPS_INIT), 0);
    ASSERT_EQ(host.modify(qp, attr), 0);
    ASSERT_EQ(host.move_to(qp, MPRDMA_ABI_QPS_RTR), 0);
    ASSERT_EQ(host.move_to(qp, MPRDMA_ABI_QPS_RTS), 0);
  }

  void pass() {
    a.now = b.now = a.now + Duration::us(10);
    a.worker->service(now(), a.now);
    b.worker->service(now(), b.now);
  }
  void step() {
    pass();
    a.worker->run(a.now);
    b.worker->run(b.now);
  }
  template <class Condition>
  bool run_until(Condition&& condition) {
    for (int i = 0; i < 20'000; ++i) {
      if (condition()) return true;
      step();
    }
    return false;
  }
  // A WRITE from a to b.
  void write(uint32_t bytes, size_t from, size_t to) {
    auto& wqe = a.begin_send(*qp_a, MPRDMA_ABI_WRITE, ++posted,
                             {{source.addr() + from, bytes, source.key}});
    wqe.remote_addr = mr_b->addr() + to;
    wqe.rkey = mr_b->key;
    a.end_send(*qp_a);
  }
  // Completions of a until there are so many in all; each is a success.
  bool completes(uint64_t n) {
    return run_until([&] {
      for (mprdma_abi_cqe cqe; cq_a->poll(&cqe); ++completed) {
        EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
        EXPECT_EQ(cqe.wr_id, completed + 1);
      }
      return completed >= n;
    });
  }
  bool same(size_t from, size_t to, size_t bytes) {
    return std::memcmp(source.data() + from, mr_b->bytes.data() + to, bytes) == 0;
  }
  // b has received nothing more than `bytes` since.
  [[nodiscard]] uint64_t received() const { return b.worker->counters().payload_bytes_in; }
  [[nodiscard]] EngineCounters counters() const { return b.worker->counters(); }

  WireDirectory directory;
  Host a{open_end(directory.wire()), 0, Time::from_ns(1'000'000), negotiate};
  Host b{open_end(directory.wire()), 1, Time::from_ns(1'000'000), negotiate};
  std::unique_ptr<HostCq> cq_a = a.make_cq(), cq_b = b.make_cq();
  std::unique_ptr<HostQp> qp_a, qp_b;
  std::vector<std::unique_ptr<HostQp>> former;  // whose rings the engines may still use
  Pages source{a, kMemory};
  std::unique_ptr<HostMr> mr_b = b.make_mr(kMemory);
  uint64_t posted = 0;
  uint64_t completed = 0;
};

}  // namespace mprdma::dataplane::testing
