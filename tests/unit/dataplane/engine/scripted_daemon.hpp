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

  DaemonDevice its_device;
  QpBlock its_block{16, 8};
  std::atomic<bool> is_away{false};
};

}  // namespace mprdma::dataplane::testing
