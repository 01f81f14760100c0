// A fake of mprdmad behind a MemoryPort, as an engine sees it: the test sets what it reports.
#pragma once

#include <atomic>
#include <cerrno>

#include "dataplane/client/daemon.hpp"

namespace mprdma::dataplane::testing {

struct ScriptedDaemon final : Daemon {
  [[nodiscard]] DaemonDevice device() const override { return its_device; }
  [[nodiscard]] QpBlock block() const override { return its_block; }
  [[nodiscard]] bool away() const override { return is_away.load(); }
  int cm_open(const mprdma_abi_client*, const mprdma_abi_cm_open&) override { return 0; }
  void cm_forget(const mprdma_abi_client*) override {}
  int cm_execute(const mprdma_abi_client*, const mprdma_abi_cm_command&,
                 mprdma_abi_cm_result*) override {
    return ENOTCONN;
  }

  RingState ring_state(Qpn peer, bool ask) override {
    rings_asked += ask ? 1 : 0;
    return ring_to(peer) != nullptr ? RingState::kUp : its_ring_state;
  }
  [[nodiscard]] DirectRing* ring_to(Qpn peer) override {
    return its_ring != nullptr && its_ring->up && its_ring->peers.owns(peer) ? its_ring : nullptr;
  }
  [[nodiscard]] std::span<DirectRing* const> rings() override {
    return {&its_ring, its_ring != nullptr && its_ring->up ? 1u : 0u};
  }
  [[nodiscard]] uint64_t ring_changes() const override { return its_changes; }

  // Its only direct ring; null: none.
  DirectRing* its_ring = nullptr;
  RingState its_ring_state = RingState::kNone;  // without a ring that is up
  uint64_t its_changes = 0;
  uint32_t rings_asked = 0;
  DaemonDevice its_device;
  QpBlock its_block{16, 8};
  std::atomic<bool> is_away{false};
};

}  // namespace mprdma::dataplane::testing
