// What the fake engine is made of. Only its own files, fake_engine*.cpp, include this one.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "abi/mprdma_abi.h"
#include "abi/mprdma_ring.h"
#include "tests/provider/fake_cm.hpp"
#include "tests/provider/fake_engine.hpp"

namespace mprdma::provider_test {

// Reliable connections: what tests find if they ask for nothing else.
constexpr uint64_t kFewFeatures = MPRDMA_ABI_FEATURE_RC | MPRDMA_ABI_FEATURE_SYNCHRONISE |
                                  MPRDMA_ABI_FEATURE_QP_TRANSPORT | MPRDMA_ABI_FEATURE_QP_STATS;
constexpr uint64_t kGrhBytes = 40;

struct Connection {
  mprdma_abi_client client;
};

struct Cq {
  Connection* owner;
  mprdma_abi_cqe* ring;
  mprdma_abi_cq_dbr* dbr;
  uint64_t cookie;
  uint32_t depth;
  uint32_t producer = 0;
  uint32_t fired_arm = 0;
};

struct Srq {
  Connection* owner;
  mprdma_abi_create_srq init;
  uint32_t limit;
};

struct Window {
  mprdma_abi_alloc_mw init;
  uint32_t rkey;
  mprdma_abi_reg_mr bound{};  // length 0: not bound
};

inline mprdma_abi_send_wqe* send_slot(const mprdma_abi_queue& queue, uint32_t index) {
  return mprdma_abi_send_slot(reinterpret_cast<void*>(queue.ring), queue.depth, queue.stride,
                              index);
}
inline mprdma_abi_recv_wqe* recv_slot(const mprdma_abi_queue& queue, uint32_t index) {
  return mprdma_abi_recv_slot(reinterpret_cast<void*>(queue.ring), queue.depth, queue.stride,
                              index);
}
// True if an existing queue holds a request.
inline bool has_work(const mprdma_abi_queue_dbr* dbr) {
  return dbr != nullptr && dbr->consumer != mprdma_abi_load_acquire(&dbr->producer);
}
inline void pop(mprdma_abi_queue_dbr* dbr) {
  mprdma_abi_store_release(&dbr->consumer, dbr->consumer + 1);
}

// A receive ring, wherever it is.
struct Receives {
  mprdma_abi_queue queue;
  uint32_t cq;

  mprdma_abi_queue_dbr* dbr() const { return reinterpret_cast<mprdma_abi_queue_dbr*>(queue.dbr); }
  uint32_t left() const { return mprdma_abi_load_acquire(&dbr()->producer) - dbr()->consumer; }
  const mprdma_abi_recv_wqe* head() const { return recv_slot(queue, dbr()->consumer); }
};

struct Qp {
  Connection* owner;
  mprdma_abi_create_qp init;
  mprdma_abi_qp_attr attr{};
  uint32_t qpn;
  FakeQp asked{};

  mprdma_abi_queue_dbr* sq_dbr() const {
    return reinterpret_cast<mprdma_abi_queue_dbr*>(init.sq.dbr);
  }
  mprdma_abi_queue_dbr* rq_dbr() const {
    return reinterpret_cast<mprdma_abi_queue_dbr*>(init.rq.dbr);
  }
};

// One for the process. Everything happens under its mutex, in whoever calls.
struct Engine {
  std::mutex mutex;
  mprdma_abi_doorbell_page doorbells{};
  std::map<uint32_t, Cq> cqs;
  std::map<uint32_t, Qp> qps;
  std::map<uint32_t, mprdma_abi_reg_mr> mrs;
  std::map<uint32_t, Srq> srqs;
  std::map<uint32_t, Window> windows;
  std::map<uint32_t, mprdma_abi_create_ah> ahs;
  std::set<uint32_t> xrcds;
  std::multimap<std::string, uint32_t> groups;  // MGID -> QP
  mprdma_abi_modify_cq moderation{};
  uint32_t connections = 0;
  uint32_t connects = 0;
  uint32_t pds = 0;
  uint32_t next_handle = 1;
  uint64_t progress_calls = 0;
  bool hold = false;
  uint64_t features = kFewFeatures;
  Connection* any = nullptr;
  FakeCm cm;
};

inline Engine& engine() {
  static Engine instance;
  return instance;
}

// The object of that number, or nullptr.
template <class Object>
Object* find(std::map<uint32_t, Object>& objects, uint32_t number) {
  const auto found = objects.find(number);
  return found == objects.end() ? nullptr : &found->second;
}

// A scatter or gather list as pieces of memory.
struct Pieces {
  const mprdma_abi_sge* sge;
  uint32_t count;

  uint64_t bytes() const {
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) total += sge[i].length;
    return total;
  }
  void write(const char* from, uint64_t length) const {
    for (uint32_t i = 0; i < count && length > 0; i++) {
      const uint64_t part = sge[i].length < length ? sge[i].length : length;
      std::memcpy(reinterpret_cast<void*>(sge[i].addr), from, part);
      from += part;
      length -= part;
    }
  }
  void read(char* to) const {
    for (uint32_t i = 0; i < count; i++) {
      std::memcpy(to, reinterpret_cast<const void*>(sge[i].addr), sge[i].length);
      to += sge[i].length;
    }
  }
};

// ---- fake_engine_queues.cpp. The engine's mutex is held, except around progress().

void raise(Connection* to, uint32_t type, uint64_t cookie, uint32_t arm_serial = 0);
// If the shared receive queue holds less than its limit.
void raise_limit(uint32_t handle);
// Completes with an error what a QP has outstanding.
void flush(Qp& qp);
void before_next_event(void (*call)());
// The functions of a channel.
void progress(void*);
void send(void*, uint32_t doorbell);

// ---- fake_engine_commands.cpp

int execute(void* opaque, uint32_t command, const void* in, size_t in_bytes, void* out, size_t);

}  // namespace mprdma::provider_test
