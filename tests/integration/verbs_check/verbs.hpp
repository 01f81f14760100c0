// The verbs objects of a check, owned: destroyed in reverse order of creation, and every verb that
// fails ends the process with its name and errno. Plain libibverbs, nothing of ours.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/integration/verbs_check/args.hpp"

namespace mprdma::verbs_check {

constexpr uint32_t kPort = 1;
constexpr uint32_t kMaxSge = 4;

// The opened device with a protection domain and its RoCE v2 address.
class Device {
 public:
  explicit Device(const Args& args);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] ibv_context* context() const { return context_; }
  [[nodiscard]] ibv_pd* pd() const { return pd_; }
  [[nodiscard]] const ibv_gid& gid() const { return gid_; }
  [[nodiscard]] uint8_t gid_index() const { return gid_index_; }
  [[nodiscard]] ibv_mtu mtu() const { return mtu_; }

  // Waits up to the time given for the next asynchronous event of the device, or returns false.
  void expect_active() const;
  bool async_event(ibv_event_type* type, uint32_t* qpn, int timeout_ms);

 private:
  void find_gid();

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_gid gid_{};
  uint8_t gid_index_ = 0;
  ibv_mtu mtu_ = IBV_MTU_1024;
};

// Page-aligned memory, registered.
class Memory {
 public:
  Memory(ibv_pd* pd, size_t bytes, int access, unsigned char fill = 0);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] unsigned char* data() const { return data_; }
  [[nodiscard]] uint64_t address() const { return reinterpret_cast<uint64_t>(data_); }
  [[nodiscard]] size_t size() const { return bytes_; }
  [[nodiscard]] uint32_t lkey() const { return mr_->lkey; }
  [[nodiscard]] uint32_t rkey() const { return mr_->rkey; }
  [[nodiscard]] ibv_sge sge(size_t offset, size_t length) const {
    return {address() + offset, static_cast<uint32_t>(length), mr_->lkey};
  }

 private:
  unsigned char* data_ = nullptr;
  size_t bytes_;
  ibv_mr* mr_ = nullptr;
};

// A completion queue with its channel.
class Cq {
 public:
  Cq(const Device& device, uint32_t entries, bool with_channel);
  ~Cq();
  Cq(const Cq&) = delete;
  Cq& operator=(const Cq&) = delete;

  [[nodiscard]] ibv_cq* get() const { return cq_; }
  unsigned poll(ibv_wc* wcs, unsigned n);
  // One completion within the time, or failure.
  ibv_wc wait_one(uint32_t seconds, const char* what);
  void arm();
  // Sleeps until one of the channels or `fd` is readable; takes and acknowledges their events.
  static void sleep_any(Cq& one, Cq& other, int fd, int timeout_ms);
  // Sleeps until there is an event, takes and acknowledges it.
  void get_event();

 private:
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
};

struct QpOptions {
  uint32_t send_wr = 64;
  uint32_t recv_wr = 64;
  uint32_t inline_bytes = 64;
  bool signal_all = false;
  unsigned access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE;
  uint8_t timeout = 14;
  uint8_t retry_cnt = 7;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 12;  // 0.64 ms
  uint8_t max_rd_atomic = 4;
};

// What the peer has to know of a QP.
struct QpAddress {
  uint32_t qpn = 0;
  uint32_t psn = 0;
  ibv_gid gid{};
  uint32_t mtu = 0;  // enum ibv_mtu
};

class Qp {
 public:
  Qp(const Device& device, const Cq& send_cq, const Cq& recv_cq, const QpOptions& options,
     uint32_t psn);
  ~Qp();
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  [[nodiscard]] ibv_qp* get() const { return qp_; }
  [[nodiscard]] uint32_t qpn() const { return qp_->qp_num; }
  [[nodiscard]] QpAddress address() const;
  [[nodiscard]] uint32_t inline_bytes() const { return inline_bytes_; }
  [[nodiscard]] ibv_qp_state state() const;

  // RESET to RTS.
  void connect(const QpAddress& peer);
  void post_recv(uint64_t wr_id, const ibv_sge* sges, int count);

 private:
  const Device& device_;
  QpOptions options_;
  uint32_t psn_;
  uint32_t inline_bytes_ = 0;
  ibv_qp* qp_ = nullptr;
};

// Seconds of a clock that never goes back.
double now_s();

}  // namespace mprdma::verbs_check
