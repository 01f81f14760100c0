// A process without an Engine: a worker and its Progress, whose helper runs if the test starts it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "dataplane/engine/progress.hpp"
#include "dataplane/sys/clock.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"
#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace mprdma::dataplane::testing {

struct Program {
  Program(std::unique_ptr<Port> port, int side, Duration rto_floor)
      : host(std::move(port), side, clock_now(),
             [=](WorkerConfig& config) { config.params.rto_floor = rto_floor; }),
        progress(*host.worker),
        cq(host.make_cq()),
        qp(host.make_qp(*cq)),
        mr(host.make_mr(4096)) {}
  void connect(const Program& peer, int peer_side) {
    host.now = clock_now();
    host.connect(*qp, Host::ip(peer_side), peer.qp->qpn);
  }
  void post(const Program& peer, uint8_t opcode = MPRDMA_ABI_WRITE) {
    auto& wqe = host.begin_send(*qp, opcode, 1, {{mr->addr(), 8, mr->key}});
    wqe.remote_addr = peer.mr->addr();
    wqe.rkey = peer.mr->key;
    Host::end_send_silently(*qp);
    progress.send(qp->doorbell);
  }
  int completions() {
    mprdma_abi_cqe cqe{};
    int found = 0;
    for (; cq->poll(&cqe); ++found) EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
    return found;
  }
  // System calls that this side made to wake the other one.
  [[nodiscard]] uint64_t wakes() { return host.worker->port().stats().wakeups_sent; }

  Host host;
  Progress progress;
  std::unique_ptr<HostCq> cq;
  std::unique_ptr<HostQp> qp;
  std::unique_ptr<HostMr> mr;
};

// Connects the two, of sides 0 and 1, once the wire between them is up. False: it does not come up.
inline bool connect(Program& a, Program& b) {
  const bool up = until([&] {
    a.host.worker->service(clock_now());
    b.host.worker->service(clock_now());
    return a.host.worker->link_up() && b.host.worker->link_up();
  });
  if (!up) return false;
  a.connect(b, 1);
  b.connect(a, 0);
  return true;
}

}  // namespace mprdma::dataplane::testing
