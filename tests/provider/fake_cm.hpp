// Connection management of the fake engine: ids of one process connect to each other, at once and
// without a wire. Everything here is called with the engine's mutex held, and raises its events so.
#pragma once

#include <cstdint>
#include <map>

#include "abi/mprdma_abi_cm.h"

namespace mprdma::provider_test {

enum class FakeCmState {
  kIdle,
  kBound,
  kListening,
  kResolved,
  kConnecting,
  kResponded,
  kRequested,
  kAccepted,
  kConnected,
};

struct FakeCmId {
  const void* owner;  // the connection to the engine
  mprdma_abi_cm_open client;
  uint64_t cookie;
  uint32_t port_space;
  FakeCmState state = FakeCmState::kIdle;
  uint32_t peer = 0;
  bool reuses = false;
  mprdma_abi_cm_address local{};
  mprdma_abi_cm_address remote{};
};

class FakeCm {
 public:
  int open(const void* owner, const mprdma_abi_cm_open& client);
  int execute(const void* owner, const mprdma_abi_cm_command& in, mprdma_abi_cm_result& out);
  void forget(const void* owner);

  [[nodiscard]] uint32_t ids() const { return static_cast<uint32_t>(ids_.size()); }
  void fail_next(uint32_t op, int error) { fail_op_ = op, fail_error_ = error; }
  [[nodiscard]] const mprdma_abi_cm_command& last(uint32_t op) { return last_[op]; }
  // An event of the agent's own accord, for whoever has the queue pair as its own.
  bool raise(uint32_t type, uint32_t id);

 private:
  int bind(FakeCmId& id, mprdma_abi_cm_address local);
  int resolve(uint32_t number, FakeCmId& id, const mprdma_abi_cm_command& in);
  int connect(uint32_t number, FakeCmId& id, const mprdma_abi_cm_command& in);
  int accept(uint32_t number, FakeCmId& id, const mprdma_abi_cm_command& in);
  int establish(FakeCmId& id);
  int reject(FakeCmId& id, const mprdma_abi_cm_command& in);
  int disconnect(uint32_t number, FakeCmId& id);
  void end(uint32_t number, FakeCmId& id);
  int dispatch(uint32_t number, FakeCmId& id, const mprdma_abi_cm_command& in);
  static void tell(uint32_t number, const FakeCmId& id, uint32_t type, int status = 0,
                   const mprdma_abi_cm_params* params = nullptr);

  std::map<const void*, mprdma_abi_cm_open> clients_;
  std::map<uint32_t, FakeCmId> ids_;
  std::map<uint32_t, mprdma_abi_cm_command> last_;
  uint32_t next_ = 70001;  // beyond what librdmacm could use as a handle
  uint16_t next_port_ = 40000;
  uint32_t fail_op_ = 0;
  int fail_error_ = 0;
};

}  // namespace mprdma::provider_test
