// Unreliable datagrams (IBTA volume 1, 9.8.3): one packet per message, to and from anybody.
//
// Sending: each request names its address (the host's number of an address handle), queue pair and
// Q_Key; it is complete when its packet was handed out. A message longer than the path MTU ends in
// a local length error. Receiving: the packet's Q_Key must be the queue pair's; what finds no
// receive is dropped, as is what fails a check: the sender is never told. The first 40 bytes of a
// receive take the GRH, which byte_len counts (11.4.1.2). What does not fit into the next receive
// is dropped as well and takes none (9.9.3, class D): a sender that knows the Q_Key ends nobody's
// queue pair. A receive whose memory is closed, our own mistake, completes in error, and the queue
// pair enters ERR (10.10.3).
//
// Loop and multicast are the host's: it delivers a copy to each queue pair.
// Members: as qp_core.hpp says.
#pragma once

#include "transport/qp_core.hpp"
#include "transport/stats.hpp"
#include "transport/unacked_sends.hpp"

namespace mprdma::transport {

// What precedes the payload in the memory of a receive, whatever the IP version.
inline constexpr uint32_t kGrhBytes = 40;
// A Q_Key of a request with this bit set stands for the queue pair's own (IBTA 10.2.5).
inline constexpr uint32_t kOwnQkeyBit = 0x80000000;

class UdConnection {
 public:
  explicit UdConnection(QpCore& core);

  void enter_rtr() {}
  void enter_rts();
  void reset(RxActions& actions);
  void fail() {}
  void clean_up(RxActions& actions) { (void)actions; }
  void resume_sends() { sends_.resume(); }
  void set_draining(bool draining) { draining_ = draining; }
  [[nodiscard]] bool drained() const { return true; }
  [[nodiscard]] bool supports(WorkOpcode opcode) const {
    return opcode == WorkOpcode::kSend || opcode == WorkOpcode::kSendImm;
  }
  bool post_send(Time now, const SendRequest& request);
  bool resume(Time now, RxActions& actions);
  RxVerdict on_packet(Time now, const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  void on_deadline(Time now, RxActions& actions);
  void on_back_pressure() {}
  [[nodiscard]] bool wants_to_send() const;
  bool poll_packet(Time now, TxPacket& out);
  bool poll_completion(Completion& out);
  [[nodiscard]] bool sends_failed() const { return sends_.failed(); }
  bool take_refusal(QpEvent* event);
  [[nodiscard]] Time next_deadline() const { return Time::never(); }
  [[nodiscard]] bool busy() const { return sends_requests(core_.state) && outstanding() > 0; }
  [[nodiscard]] uint32_t outstanding() const { return sends_.outstanding(); }
  [[nodiscard]] StreamStats request_stats() const;
  [[nodiscard]] StreamStats response_stats() const { return {}; }

  // The address of the request that poll_packet() would hand out; only while wants_to_send(). A
  // host whose way there is not known yet keeps back the queue.
  [[nodiscard]] uint32_t next_ah() const { return sends_.current().request.ah; }

 private:
  WcStatus fill(TxPacket& out);
  WcStatus place(const wire::Packet& packet, FrameHandle frame, RxActions& actions);

  QpCore& core_;
  UnackedSends sends_;
  Psn snd_nxt_;
  uint64_t packets_sent_ = 0;
  bool draining_ = false;
  bool refusal_due_ = false;
};

}  // namespace mprdma::transport
