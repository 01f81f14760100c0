// The command channel: every command of the queue ABI, checked and executed.
//
// Input comes from a provider in our own process, which is still somebody else's code: sizes,
// handles and values are checked, and a wrong one gives an errno value, never a crash. Handles stay
// valid until their object is destroyed; one client's handles mean nothing to another.
//
// execute() is called with the engine's lock held. prepare() runs before it without the lock,
// because touching the pages of a new memory region may take long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "abi/mprdma_abi.h"
#include "dataplane/engine/command_io.hpp"
#include "dataplane/worker/cq.hpp"
#include "dataplane/worker/qp_context.hpp"
#include "dataplane/worker/worker.hpp"

namespace mprdma::dataplane {

// Limits, also for queries without an engine.
mprdma_abi_device_info device_limits();

// A send or receive ring of a command: aligned, within the limits, its slots large enough.
bool good_queue(const mprdma_abi_queue& queue, size_t header_bytes);

class Commands {
 public:
  using Call = CommandCall;

  explicit Commands(Worker& worker) : worker_(worker) {}
  ~Commands();

  // Without the lock. 0 or an errno value.
  static int prepare(const Call& call);
  // With the lock. 0 or an errno value.
  int execute(const mprdma_abi_client* client, const Call& call, Time now);
  // CM commands where the agent runs in the daemon. Without the lock. 0 or an errno value.
  static int cm_by_daemon(Daemon& daemon, const mprdma_abi_client* client, const Call& call);
  // Destroys the client's remaining objects.
  void forget_client(const mprdma_abi_client* client, Time now);

 private:
  struct Pd {
    const mprdma_abi_client* client = nullptr;
    uint32_t users = 0;
  };
  struct Mr {  // a region or a window
    const mprdma_abi_client* client = nullptr;
    uint32_t pd = 0;
    bool on_demand = false;
  };

  // An XRC domain (IBTA 14.4): the queue pairs that packets come to, and the SRQs that they name.
  struct Xrcd {
    const mprdma_abi_client* client = nullptr;
    uint32_t qps = 0;
    uint32_t srqs = 0;
    // SRQs that were destroyed while a queue pair of the domain could still fill one of their
    // receives; freed with the domain's last queue pair.
    std::vector<std::unique_ptr<Srq>> retired;
  };
  // Objects that a new queue pair refers to; nullptr: no such object.
  struct QpParts {
    Pd* pd = nullptr;
    Cq* send_cq = nullptr;
    Cq* recv_cq = nullptr;
    Srq* srq = nullptr;
    Xrcd* xrcd = nullptr;
  };

  // Commands, grouped by object. EINVAL: there is no such command.
  int execute_on_memory(const mprdma_abi_client* client, const Call& call);
  int execute_on_queues(const mprdma_abi_client* client, const Call& call);
  int execute_on_qp(const mprdma_abi_client* client, const Call& call, Time now);

  int query_device(const Call& call);
  int query_port(const Call& call);
  int alloc_pd(const mprdma_abi_client* client, const Call& call);
  int free_pd(const mprdma_abi_client* client, const Call& call);
  int reg_mr(const mprdma_abi_client* client, const Call& call);
  void take_back(Key key);
  int dereg_mr(const mprdma_abi_client* client, const Call& call);
  int rereg_mr(const mprdma_abi_client* client, const Call& call);
  int alloc_mw(const mprdma_abi_client* client, const Call& call);
  int dealloc_mw(const mprdma_abi_client* client, const Call& call);
  int create_cq(const mprdma_abi_client* client, const Call& call);
  int resize_cq(const mprdma_abi_client* client, const Call& call);
  int destroy_cq(const mprdma_abi_client* client, const Call& call);
  int modify_cq(const mprdma_abi_client* client, const Call& call);
  int create_srq(const mprdma_abi_client* client, const Call& call);
  int modify_srq(const mprdma_abi_client* client, const Call& call);
  int query_srq(const mprdma_abi_client* client, const Call& call);
  int destroy_srq(const mprdma_abi_client* client, const Call& call);
  int alloc_xrcd(const mprdma_abi_client* client, const Call& call);
  int free_xrcd(const mprdma_abi_client* client, const Call& call);
  int create_ah(const mprdma_abi_client* client, const Call& call, Time now);
  int destroy_ah(const mprdma_abi_client* client, const Call& call, Time now);
  int attach_mcast(const mprdma_abi_client* client, const Call& call);
  int detach_mcast(const mprdma_abi_client* client, const Call& call);
  int create_qp(const mprdma_abi_client* client, const Call& call);
  int modify_qp(const mprdma_abi_client* client, const Call& call, Time now);
  int query_qp(const mprdma_abi_client* client, const Call& call);
  int destroy_qp(const mprdma_abi_client* client, const Call& call, Time now);
  int query_qp_stats(const mprdma_abi_client* client, const Call& call, Time now);
  int query_counters(const Call& call);
  int cm_open(const mprdma_abi_client* client, const Call& call);
  int cm(const mprdma_abi_client* client, const Call& call, Time now);

  Pd* find_pd(const mprdma_abi_client* client, uint32_t handle);
  Cq* find_cq(const mprdma_abi_client* client, uint32_t handle);
  QpContext* find_qp(const mprdma_abi_client* client, uint32_t handle);
  Srq* find_srq(const mprdma_abi_client* client, uint32_t handle);
  Xrcd* find_xrcd(const mprdma_abi_client* client, uint32_t handle);
  bool find_parts(const mprdma_abi_client* client, const mprdma_abi_create_qp& in, QpParts* out);
  QpContext* add_qp(const transport::QpConfig& config, const mprdma_abi_create_qp& in);
  void drop_qp(QpContext* qp, Time now);
  void drop_srq(uint32_t handle);
  void drop_ahs(const mprdma_abi_client* client);
  void forget_memory(const mprdma_abi_client* client);
  void warn_of_own_address();

  Worker& worker_;
  uint32_t next_pd_ = 1;
  uint32_t next_cq_ = 1;
  uint32_t next_xrcd_ = 1;
  std::unordered_map<uint32_t, Pd> pds_;
  std::unordered_map<uint32_t, Mr> mrs_;  // by key
  std::unordered_map<uint32_t, Mr> mws_;  // by slot: the key changes with each bind
  std::unordered_map<uint32_t, std::unique_ptr<Cq>> cqs_;
  std::unordered_map<uint32_t, Xrcd> xrcds_;
  std::unordered_map<uint32_t, std::unique_ptr<QpContext>> qps_;  // by queue pair number
  bool warned_own_address_ = false;
};

}  // namespace mprdma::dataplane
