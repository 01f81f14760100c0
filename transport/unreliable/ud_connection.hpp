// Unreliable datagrams (IBTA volume 1, 9.8.3): one packet per message, to and from anybody.
//
// Sending: each request names its address (the host's number of an address handle), queue pair and
// Q_Key; it is complete when its packet was handed out. A message longer than the path MTU ends in
// a local length error. Receiving: the packet's Q_Key must be the queue pair's; a packet that finds
// no receive or fails a check is dropped, and the sender is never told. The first 40 bytes of a
// receive take the GRH, which byte_len counts (11.4.1.2). A packet that does not fit into the next
// receive is dropped and takes no receive (9.9.3, class D), so that a sender that knows the Q_Key
// cannot end a queue pair. A receive whose memory is closed, a local error, completes in error, and
// the queue pair enters ERR (10.10.3).
//
// The host does loopback and multicast: it delivers a copy to each queue pair.
// qp_core.hpp describes the members.
#pragma once

#include "transport/core/stats.hpp"
#include "transport/unreliable/unacked_sends.hpp"
#include "transport/work/connection_defaults.hpp"
#include "transport/work/qp_core.hpp"

namespace mprdma::transport {

// Bytes before the payload in the memory of a receive, for both IP versions.
inline constexpr uint32_t kGrhBytes = 40;
// A Q_Key of a request with this bit set stands for the queue pair's own (IBTA 10.2.5).
inline constexpr uint32_t kOwnQkeyBit = 0x80000000;

class UdConnection : public ConnectionDefaults {
 public:
  explicit UdConnection(QpCore& core);

  void enter_rts();
  void reset(RxActions& actions);
  void resume_sends() { sends_.resume(); }
  void set_draining(bool draining) { draining_ = draining; }
  [[nodiscard]] bool supports(WorkOpcode opcode) const {
    return opcode == WorkOpcode::kSend || opcode == WorkOpcode::kSendImm;
  }
  bool post_send(Time now, const SendRequest& request);
  RxVerdict on_packet(Time now, const wire::Packet& packet, FrameHandle frame, RxActions& actions);
  [[nodiscard]] bool wants_to_send() const;
  bool poll_packet(Time now, TxPacket& out);
  bool poll_completion(Completion& out);
  [[nodiscard]] bool sends_failed() const { return sends_.failed(); }
  [[nodiscard]] bool busy() const { return sends_requests(core_.state) && outstanding() > 0; }
  [[nodiscard]] uint32_t outstanding() const { return sends_.outstanding(); }
  [[nodiscard]] StreamStats request_stats() const;

  // The address of the request that poll_packet() would hand out; only while wants_to_send(). A
  // host holds the queue while it does not know the route to that address.
  [[nodiscard]] uint32_t next_ah() const { return sends_.current().request.ah; }

 private:
  WcStatus fill(TxPacket& out);
  WcStatus place(const wire::Packet& packet, FrameHandle frame, RxActions& actions);

  QpCore& core_;
  UnackedSends sends_;
  Psn snd_nxt_;
  uint64_t packets_sent_ = 0;
  bool draining_ = false;
};

}  // namespace mprdma::transport
