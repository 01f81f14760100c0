// The command channel: every command of the queue ABI, checked and executed.
//
// Input comes from a provider in our own process, which is still somebody else's code: sizes,
// handles and values are checked, and what is wrong is an errno value, never a crash. Handles stay
// valid until their object is destroyed; one client's handles mean nothing to another.
//
// execute() is called with the engine's lock held, but for what prepare() does before: touching the
// pages of a new memory region may take long and needs no lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "abi/mprdma_abi.h"
#include "dataplane/cq.hpp"
#include "dataplane/qp_context.hpp"
#include "dataplane/worker.hpp"

namespace mprdma::dataplane {

// Limits, also for queries without an engine.
mprdma_abi_device_info device_limits();

class Commands {
 public:
  struct Call {
    uint32_t command;
    const void* in;
    size_t in_bytes;
    void* out;
    size_t out_bytes;
  };

  explicit Commands(Worker& worker) : worker_(worker) {}
  ~Commands();

  // Without the lock. 0 or an errno value.
  static int prepare(const Call& call);
  // With the lock. 0 or an errno value.
  int execute(const mprdma_abi_client* client, const Call& call, Time now);
  // Destroys what is left of a client's objects.
  void forget_client(const mprdma_abi_client* client, Time now);

 private:
  struct Pd {
    const mprdma_abi_client* client = nullptr;
    uint32_t users = 0;
  };
  struct Mr {
    const mprdma_abi_client* client = nullptr;
    uint32_t pd = 0;
  };

  int query_device(const Call& call);
  int query_port(const Call& call);
  int alloc_pd(const mprdma_abi_client* client, const Call& call);
  int free_pd(const mprdma_abi_client* client, const Call& call);
  int reg_mr(const mprdma_abi_client* client, const Call& call);
  int dereg_mr(const mprdma_abi_client* client, const Call& call);
  int create_cq(const mprdma_abi_client* client, const Call& call);
  int resize_cq(const mprdma_abi_client* client, const Call& call);
  int destroy_cq(const mprdma_abi_client* client, const Call& call);
  int create_qp(const mprdma_abi_client* client, const Call& call);
  int modify_qp(const mprdma_abi_client* client, const Call& call, Time now);
  int query_qp(const mprdma_abi_client* client, const Call& call);
  int destroy_qp(const mprdma_abi_client* client, const Call& call, Time now);
  int query_qp_stats(const mprdma_abi_client* client, const Call& call, Time now);
  int query_counters(const Call& call);

  Pd* find_pd(const mprdma_abi_client* client, uint32_t handle);
  Cq* find_cq(const mprdma_abi_client* client, uint32_t handle);
  QpContext* find_qp(const mprdma_abi_client* client, uint32_t handle);
  void drop_qp(QpContext* qp, Time now);
  void warn_of_own_address();

  Worker& worker_;
  uint32_t next_pd_ = 1;
  uint32_t next_cq_ = 1;
  std::unordered_map<uint32_t, Pd> pds_;
  std::unordered_map<uint32_t, Mr> mrs_;  // by key
  std::unordered_map<uint32_t, std::unique_ptr<Cq>> cqs_;
  std::unordered_map<uint32_t, std::unique_ptr<QpContext>> qps_;  // by queue pair number
  bool said_own_address_ = false;
};

}  // namespace mprdma::dataplane
