// The send requests of a service without acknowledgements (UC, UD), in posting order: posted,
// handed out packet by packet, done, completed. A request is done as soon as its last packet was
// handed to the host (IBTA 9.8.2.3, 9.8.3.3), because no acknowledgement will come.
//
// The first request that fails stops the queue: no later request is handed out. Its completion
// makes failed() true; the queue pair then enters SQE (IBTA 10.3.1.6), and later requests are
// flushed until resume().
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "base/ring.hpp"
#include "transport/core/qp_config.hpp"
#include "transport/core/types.hpp"
#include "transport/work/sge_list.hpp"
#include "transport/work/work_opcode.hpp"

namespace mprdma::transport {

class UnackedSends {
 public:
  struct Work {
    SendRequest request;  // its sges: current_sges()
    uint32_t num_sge = 0;
    uint32_t length = 0;
    WcStatus status = WcStatus::kSuccess;
    bool done = false;
  };

  explicit UnackedSends(const QpConfig& config)
      : depth_(config.send_depth),
        max_sge_(config.max_send_sge),
        signal_all_(config.signal_all),
        queue_(std::max(config.send_depth, 1u)),
        sges_(std::make_unique<Sge[]>(size_t{queue_.capacity()} * max_sge_)) {}

  // False when the queue is full.
  bool post(const SendRequest& request) {
    if (queue_.size() >= depth_) return false;
    std::copy(request.sges.begin(), request.sges.end(), sges_of(queue_.tail_index()).begin());
    Work work;
    work.request = request;
    work.num_sge = static_cast<uint32_t>(request.sges.size());
    work.length = static_cast<uint32_t>(total_bytes(request.sges));
    work.request.sges = {};
    queue_.push(work);
    return true;
  }

  // True if there is a request that is not done, and no earlier one failed.
  [[nodiscard]] bool has_current() const { return !blocked_ && next_ != queue_.tail_index(); }
  [[nodiscard]] Work& current() { return queue_.at_index(next_); }
  [[nodiscard]] const Work& current() const { return queue_.at_index(next_); }
  [[nodiscard]] std::span<const Sge> current_sges() const {
    return sges_of(next_).first(current().num_sge);
  }
  void finish_current(WcStatus status) {
    current().done = true;
    current().status = status;
    blocked_ = status != WcStatus::kSuccess;
    ++next_;
  }

  // Hands out the oldest completion. `flushing`: what is not done is flushed.
  bool poll(bool flushing, Completion& out) {
    if (queue_.empty()) return false;
    const Work& work = queue_.front();
    if (!work.done && !flushing) return false;
    out = Completion{};
    out.wr_id = work.request.wr_id;
    out.opcode = completion_opcode(work.request.opcode);
    out.status = work.done ? work.status : WcStatus::kFlushError;
    out.emit =
        out.status != WcStatus::kSuccess || signal_all_ || (work.request.flags & kSignaled) != 0;
    out.byte_len = work.length;
    failed_ = failed_ || (work.done && work.status != WcStatus::kSuccess);
    if (next_ == queue_.head_index()) ++next_;
    queue_.pop();
    return true;
  }

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] uint32_t outstanding() const { return queue_.size(); }

  // SQE to RTS. Posted requests were flushed as far as the host has polled; the rest is sent like
  // new requests.
  void resume() { failed_ = blocked_ = false; }

  void clear() {
    queue_.clear();
    next_ = queue_.tail_index();
    resume();
  }

 private:
  [[nodiscard]] std::span<Sge> sges_of(uint32_t index) const {
    const uint32_t slot = index & (queue_.capacity() - 1);
    return {&sges_[size_t{slot} * max_sge_], max_sge_};
  }

  uint32_t depth_;
  uint32_t max_sge_;
  bool signal_all_;
  Ring<Work> queue_;
  std::unique_ptr<Sge[]> sges_;  // queue_.capacity() x max_sge_, by ring slot
  uint32_t next_ = 0;            // index of the first request that is not done
  bool blocked_ = false;         // a request failed
  bool failed_ = false;          // the completion of the failed request was handed out
};

}  // namespace mprdma::transport
