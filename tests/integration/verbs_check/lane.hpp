// Lane: one QP of random traffic with its memory, its plan for sending and the peer's plan.
//
// Called by the thread of run_traffic() only. It is given completions, and never waits.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "base/prng.hpp"
#include "tests/integration/verbs_check/plan.hpp"
#include "tests/integration/verbs_check/verbs.hpp"

namespace mprdma::verbs_check {

// What a lane tells its peer once.
struct LaneAddress {
  QpAddress qp;
  uint64_t sink = 0;  // WRITEs go here: kSlots slots
  uint64_t read_area = 0;
  uint32_t sink_rkey = 0;
  uint32_t read_rkey = 0;
};

class Lane {
 public:
  static constexpr uint32_t kReceives = 8;  // receive buffers

  Lane(const Args& args, const Device& device, const Cq& send_cq, const Cq& recv_cq,
       uint32_t number);

  [[nodiscard]] LaneAddress address() const;
  void connect(const LaneAddress& peer);

  // Posts what the slots allow. Returns how many operations.
  unsigned send_some();
  // Posts receive buffers, unless the lane pretends to be slow. Returns how many.
  unsigned post_receives();
  void on_send_completion(const ibv_wc& wc);
  void on_receive_completion(const ibv_wc& wc);
  // The peer has verified so many of our operations.
  void on_credit(uint32_t verified) { credit_ = verified; }

  [[nodiscard]] uint32_t qpn() const { return qp_.qpn(); }
  // How many of the peer's operations are verified.
  [[nodiscard]] uint32_t verified() const { return verified_; }
  [[nodiscard]] bool all_sent() const { return completed_ == out_.ops.size(); }
  [[nodiscard]] bool all_received() const { return verified_ == in_.ops.size(); }
  [[nodiscard]] bool pausing() const { return pause_until_s_ > 0; }
  [[nodiscard]] uint64_t bytes_sent() const { return out_.bytes; }
  [[nodiscard]] uint32_t pauses() const { return pauses_; }
  void describe() const;

 private:
  [[nodiscard]] bool may_post() const;
  void build(uint32_t number, ibv_send_wr* wr, ibv_sge* sges);
  void prepare_local(const Op& op, uint32_t number);
  void verify_read(const Op& op, uint32_t number);
  void verify_write(const Op& op, uint32_t number);
  void verify_send(const Op& op, uint32_t number, uint32_t buffer);
  void check_bytes(const Op& op, uint32_t number, const Layout& layout, unsigned char* base,
                   uint64_t pattern_first, const char* where);
  [[nodiscard]] unsigned char* slot(const Memory& memory, uint32_t number) const {
    return memory.data() + (number % kSlots) * slot_bytes_;
  }

  uint32_t number_;
  size_t slot_bytes_;
  Qp qp_;
  Plan out_;
  Plan in_;
  Prng prng_;
  Memory local_;      // of our operations
  Memory sink_;       // the peer's WRITEs
  Memory read_area_;  // the peer's READs
  Memory receive_;
  LaneAddress peer_;

  // Sending.
  uint32_t posted_ = 0;
  uint32_t completed_ = 0;
  uint32_t credit_ = 0;
  // Receiving.
  Layout receive_layout_[kReceives];
  uint32_t receives_posted_ = 0;
  uint32_t receives_done_ = 0;
  uint32_t verified_ = 0;
  double pause_until_s_ = 0;
  uint32_t pauses_ = 0;
};

}  // namespace mprdma::verbs_check
