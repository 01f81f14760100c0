// Two processes with an engine each, driven over the queue ABI from the test's threads.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <memory>
#include <utility>

#include "abi/mprdma_ring.h"
#include "dataplane/engine/engine.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"

namespace mprdma::dataplane::testing {

// A process: an engine with its helper, and one connected client.
struct Process {
  Process(const std::shared_ptr<MemoryWire>& wire, int side, Duration away_max = Config{}.away_max)
      : Process(std::make_unique<MemoryPort>(wire, side, derived_mac(Host::ip(side))), side,
                away_max) {}
  Process(std::unique_ptr<Port> port, int side, Duration away_max = Config{}.away_max) {
    Config config;
    config.away_max = away_max;
    config.ipv4 = Host::ip(side);
    config.mac = derived_mac(config.ipv4);
    const Status status =
        Engine::create_over(config, std::move(port), static_cast<uint64_t>(side) + 1, &engine);
    EXPECT_TRUE(status.ok()) << status.text;
    mprdma_abi_client client{};
    client.abi_major = MPRDMA_ABI_MAJOR;
    client.abi_minor = MPRDMA_ABI_MINOR;
    client.context = this;
    client.on_event = [](void* context, const mprdma_abi_event* event) {
      auto* self = static_cast<Process*>(context);
      if (event->type == MPRDMA_ABI_EVENT_COMPLETION) self->events.fetch_add(1);
      pthread_testcancel();  // a provider writes to a pipe
    };
    engine->connect(client, &channel);
    execute(MPRDMA_ABI_ALLOC_PD, mprdma_abi_handle{}, &pd);
    const mprdma_abi_create_cq create{reinterpret_cast<uint64_t>(cq.ring.data()),
                                      reinterpret_cast<uint64_t>(&cq.dbr), 1, cq.depth, 0};
    mprdma_abi_handle handle{};
    execute(MPRDMA_ABI_CREATE_CQ, create, &handle);
    cq.handle = handle.handle;
    mr.bytes.resize(1 << 16);
    const mprdma_abi_reg_mr reg{
        mr.addr(), mr.bytes.size(), mr.addr(), pd.handle, Host::kAllRights, 0, 0};
    mprdma_abi_reg_mr_out keys{};
    execute(MPRDMA_ABI_REG_MR, reg, &keys);
    mr.key = keys.rkey;
    create_qp();
  }

  template <class In, class Out>
  void execute(uint32_t command, const In& in, Out* out) {
    EXPECT_EQ(channel.execute(channel.engine, command, &in, sizeof(in), out, sizeof(*out)), 0);
  }

  void create_qp() {
    mprdma_abi_create_qp in{};
    in.type = MPRDMA_ABI_QP_RC;
    in.pd = pd.handle;
    in.send_cq = in.recv_cq = cq.handle;
    in.cookie = 1;
    in.sq = qp.sends();
    in.rq = qp.receives();
    mprdma_abi_create_qp_out out{};
    execute(MPRDMA_ABI_CREATE_QP, in, &out);
    qp.handle = out.handle;
    qp.qpn = out.qpn;
    qp.doorbell = out.doorbell;
  }

  void connect(int peer_side, uint32_t peer_qpn) {
    mprdma_abi_modify_qp in{};
    in.handle = qp.handle;
    in.attr = Host::attributes(Host::ip(peer_side), peer_qpn);
    in.attr.timeout = 14;
    in.attr.mask |= MPRDMA_ABI_QP_STATE;
    for (const uint32_t state : {MPRDMA_ABI_QPS_INIT, MPRDMA_ABI_QPS_RTR, MPRDMA_ABI_QPS_RTS}) {
      in.attr.state = state;
      uint64_t none = 0;
      execute(MPRDMA_ABI_MODIFY_QP, in, &none);
    }
  }

  void post_write(Process& peer, uint32_t bytes, uint64_t to_offset) {
    post_write_to(peer.mr.addr() + to_offset, peer.mr.key, bytes);
  }
  void post_write_to(uint64_t addr, uint32_t rkey, uint32_t bytes) {
    mprdma_abi_send_wqe* wqe = qp.send_slot();
    *wqe = mprdma_abi_send_wqe{};
    wqe->opcode = MPRDMA_ABI_WRITE;
    wqe->flags = MPRDMA_ABI_WQE_SIGNALED;
    wqe->num_sge = 1;
    wqe->remote_addr = addr;
    wqe->rkey = rkey;
    *reinterpret_cast<mprdma_abi_sge*>(wqe + 1) = {mr.addr(), bytes, mr.key};
    mprdma_abi_store_release(&qp.sq.producer, qp.sq.producer + 1);
    mprdma_abi_ring_doorbell(channel.doorbells, qp.doorbell);
  }
  // Acts as a provider does after a doorbell.
  void poke() {
    channel.progress(channel.engine);
    if (mprdma_abi_doorbell_waits(channel.doorbells, qp.doorbell) != 0 &&
        mprdma_abi_engine_sleeps(channel.doorbells) != 0) {
      channel.kick(channel.engine);
    }
  }

  std::unique_ptr<Engine> engine;
  mprdma_abi_channel channel{};
  mprdma_abi_handle pd{};
  HostCq cq{64};
  HostMr mr;
  HostQp qp;
  std::atomic<uint64_t> events{0};
};

struct Pair {
  Pair() : wire(std::make_shared<MemoryWire>()), a(wire, 0), b(wire, 1) {
    a.connect(1, b.qp.qpn);
    b.connect(0, a.qp.qpn);
  }
  std::shared_ptr<MemoryWire> wire;
  Process a;
  Process b;
};

}  // namespace mprdma::dataplane::testing
