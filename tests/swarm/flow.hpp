// The model of one direction of a connection: the requests that one queue pair posts, the receives
// that its peer posts for them, and everything that may be seen of them on the wire, in memory and
// in completions. It knows the rules, not the transport; every method is a check.
//
//   requests   from the requester's node, placed at the responder's
//   responses  READ data and results of atomics, from the responder's node, placed at the
//   requester's
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "base/key.hpp"
#include "base/qpn.hpp"
#include "base/units.hpp"
#include "tests/swarm/stream_model.hpp"
#include "transport/core/types.hpp"

namespace mprdma::swarm {

// Where bytes lie in a node's memory.
struct Piece {
  uint64_t addr = 0;
  uint32_t length = 0;
};

// A posted send request.
struct Op {
  uint64_t wr_id = 0;
  transport::WorkOpcode opcode = transport::WorkOpcode::kSend;
  uint16_t flags = 0;
  bool signaled = true;
  uint32_t imm = 0;  // or SendRequest::imm_or_rkey
  Key rkey{};
  uint64_t remote_iova = 0;
  uint64_t remote_addr = 0;  // the same, in the peer's memory
  uint64_t compare_add = 0;
  uint64_t swap = 0;
  uint32_t bind_access = 0;
  uint32_t length = 0;
  std::vector<Piece> pieces;     // at home
  std::vector<uint8_t> content;  // what must arrive, wherever it goes
  uint32_t segment = 0;          // of its packets, or its answer's; filled by Flow, as what follows
  uint64_t first_packet = 0;
  uint64_t packets = 1;
  uint64_t receive = 0;        // number of the receive that it consumes, if it does
  uint64_t read_number = 0;    // among READs and atomics
  uint64_t atomic_number = 0;  // among atomics
  bool relaxed = false;        // its data may be placed as it arrives
  bool in_window = false;      // it names memory by the peer's window

  [[nodiscard]] bool is_sync() const { return (flags & transport::kSynchronise) != 0; }
  [[nodiscard]] bool is_read() const { return opcode == transport::WorkOpcode::kRead; }
  [[nodiscard]] bool is_write() const {
    return opcode == transport::WorkOpcode::kWrite || opcode == transport::WorkOpcode::kWriteImm;
  }
  [[nodiscard]] bool has_imm() const {
    return opcode == transport::WorkOpcode::kSendImm || opcode == transport::WorkOpcode::kWriteImm;
  }
  [[nodiscard]] bool is_atomic() const {
    return opcode == transport::WorkOpcode::kCompareSwap ||
           opcode == transport::WorkOpcode::kFetchAdd;
  }
  [[nodiscard]] bool is_answered() const { return is_read() || is_atomic(); }
  [[nodiscard]] bool is_local() const {
    return opcode == transport::WorkOpcode::kBindMw ||
           opcode == transport::WorkOpcode::kLocalInvalidate;
  }
  [[nodiscard]] bool invalidates_there() const {
    return opcode == transport::WorkOpcode::kSendInvalidate;
  }
  [[nodiscard]] bool is_send() const { return !is_answered() && !is_write() && !is_local(); }
  [[nodiscard]] bool takes_receive() const {
    return is_send() || opcode == transport::WorkOpcode::kWriteImm;
  }
};

struct Recv {
  uint64_t wr_id = 0;
  std::vector<Piece> pieces;
};

// How this direction may end. Without a plan every request must succeed.
struct Ending {
  static constexpr uint64_t kAnywhere = UINT64_MAX;
  // Statuses that the one request may get at which things go wrong; empty: none but flush.
  std::vector<transport::WcStatus> send_statuses;
  uint64_t at_op = kAnywhere;
  bool nothing_placed = false;  // and no byte of the message may be placed
  bool flush_allowed = false;   // queued work may come out flushed
  std::vector<transport::WcStatus> recv_statuses;
  [[nodiscard]] bool planned() const { return flush_allowed || !send_statuses.empty(); }
};

struct FlowConfig {
  std::string name;
  Psn base;
  uint32_t mtu = 1024;
  uint32_t segment = 1024;  // of the packets of requests that have not begun
  uint32_t window_slots = 128;
  uint32_t max_rd_atomic = 1;
  bool stop_and_wait = false;
  // A connection of the standard: what is seen of it on the wire is not checked here, only what it
  // promises to the applications.
  bool roce = false;
  Qpn requester_qpn{};
  Qpn responder_qpn{};
};

class Flow {
 public:
  explicit Flow(const FlowConfig& config)
      : config_(config),
        request_name_(config.name + " requests"),
        response_name_(config.name + " responses"),
        requests_(request_name_.c_str(), config.base),
        responses_(response_name_.c_str(), config.base) {}
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  Ending ending;
  // What READs from this one on bring is not known: a WRITE before them is done in part.
  uint64_t unknown_from = UINT64_MAX;

  // ---- Commands of the applications
  const Op& post(Op op);
  // Requests that have not begun are sent in segments of this length.
  void set_segment(uint32_t segment);
  void post_recv(Recv recv) { recvs_.push_back(std::move(recv)); }

  // Adds what a packet of the mode irn leaves out, of those that are sent: place, number, flags of
  // the packet of mp that it stands for.
  void complete(wire::Packet& packet);

  // ---- The wire. `payload` is what the host gathered. Returns the packet's index.
  uint64_t on_request_sent(const wire::Packet& packet, std::span<const uint8_t> payload, Time now,
                           uint64_t marks);
  uint64_t on_response_sent(const wire::Packet& packet, std::span<const uint8_t> payload, Time now,
                            uint64_t marks);
  // An acknowledgement of the requests (or responses) reaches their sender; see StreamModel.
  bool on_ack_delivered(const wire::Packet& ack, bool of_responses, Time now, uint64_t marks,
                        bool by_time);
  StreamModel& requests() { return requests_; }
  StreamModel& responses() { return responses_; }

  // ---- Memory
  void on_request_placed(uint64_t index, const transport::Placement& p,
                         std::span<const uint8_t> bytes);
  void on_response_placed(uint64_t index, const transport::Placement& p,
                          std::span<const uint8_t> bytes);
  // The responder's host is about to execute an atomic, and found this.
  void on_atomic(const transport::Placement& p, uint64_t found);
  // The requester's host is about to place a part of an atomic's result.
  void on_value_placed(const transport::Placement& p);

  // ---- Completions
  // Returns the operation that it completes.
  const Op& on_send_completion(const transport::Completion& c);
  // Returns the operation whose message it received, or nullptr for a flushed one.
  const Op* on_recv_completion(const transport::Completion& c);

  // ---- Getters
  [[nodiscard]] const FlowConfig& config() const { return config_; }
  [[nodiscard]] uint64_t posted() const { return ops_.size(); }
  [[nodiscard]] uint64_t completed() const { return completed_; }
  [[nodiscard]] uint64_t outstanding() const { return ops_.size() - completed_; }
  [[nodiscard]] uint64_t recvs_posted() const { return recvs_.size(); }
  [[nodiscard]] uint64_t recvs_outstanding() const { return recvs_.size() - recvs_completed_; }
  // Messages so far that take a receive.
  [[nodiscard]] uint64_t receives_wanted() const { return receives_wanted_; }
  [[nodiscard]] const Op& op(uint64_t index) const { return ops_[index]; }
  [[nodiscard]] const Recv& recv(uint64_t index) const { return recvs_[index]; }
  [[nodiscard]] bool send_failed() const { return send_failed_; }
  [[nodiscard]] transport::WcStatus send_failure() const { return send_failure_; }
  [[nodiscard]] bool recv_failed() const { return recv_failed_; }
  // The host's time, for the checks of deadlines.
  void note_life(Time now) {  // a post, or a packet from the peer
    if (!send_failed_) last_life_ = now;
  }
  void note_failure(Time now) {
    if (failed_at_.is_never()) failed_at_ = now;
  }
  [[nodiscard]] Time last_sign_of_life() const { return last_life_; }
  [[nodiscard]] Time failed_at() const { return failed_at_; }
  // Operations whose requests have executed at the responder, as far as placement tells.
  [[nodiscard]] uint64_t executed_ops();

 private:
  void size_op(Op& op, uint64_t op_index);
  void check_request(const Op& op, uint64_t at, const wire::Packet& packet) const;
  void process_implied_acks();
  void process_implied_response_acks();
  void check_first_copy(const Op& op, uint64_t op_index);
  void check_atomic_request(const Op& op, const wire::Packet& packet) const;
  void check_atomic_response(const Op& op, const wire::Packet& packet) const;
  void check_success(const Op& op, const transport::Completion& c);
  [[nodiscard]] static uint64_t locate(const std::vector<Piece>& pieces, uint64_t offset,
                                       uint32_t length);

  FlowConfig config_;
  std::string request_name_;
  std::string response_name_;
  StreamModel requests_;
  StreamModel responses_;
  std::deque<Op> ops_;
  std::deque<Recv> recvs_;
  std::vector<uint64_t> receive_ops_;  // operation that consumes the n-th receive
  uint64_t receives_wanted_ = 0;
  std::vector<uint64_t> atomic_ops_;
  uint64_t atomics_executed_ = 0;
  uint64_t reads_ = 0;
  uint64_t reads_sent_ = 0;
  uint64_t reads_taken_ = 0;  // by the responder, in order
  uint64_t completed_ = 0;
  uint64_t recvs_completed_ = 0;
  Time last_life_;
  Time failed_at_ = Time::never();
  bool peer_in_order_ = false;  // as the responder said last
  bool send_failed_ = false;
  bool recv_failed_ = false;
  transport::WcStatus send_failure_ = transport::WcStatus::kSuccess;
};

}  // namespace mprdma::swarm
