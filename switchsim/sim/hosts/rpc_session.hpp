// A session of RPCs over datagrams, as eRPC's (Kalia et al., "Datacenter RPCs can be General and
// Fast", NSDI 2019): the state of both ends. HostSet sends what they ask for through UD queue pairs
// of the transport, with the number of the request as immediate data.
//
// Requests are numbered from 0, and each is one packet. A request spends a credit when it is sent,
// and its response gives the credit back; without a credit, requests wait. Both ends take packets
// in order only, and drop all others. Nobody says that something is missing: when `timeout` has
// passed without progress the client takes all credits back, and sends everything again from the
// first request without a response on (go-back-N). The server answers a request that it has seen
// before once more, because that response may be what was lost.
//
// Numbers are 64 bits wide here and 32 on the wire. Nothing allocates. Used by HostSet.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.hpp"
#include "switchsim/model/sim_time.hpp"

namespace mprdma::switchsim {

// What became of a packet.
enum class RpcVerdict : uint8_t {
  kTaken,
  kCopy,   // of one that was taken before
  kAhead,  // one before it is missing
};

class RpcClient {
 public:
  RpcClient(uint32_t credits, SimSpan timeout) : credits_(credits), timeout_(timeout) {}

  // ---- Commands
  // One more request waits.
  void post() { ++posted_; }
  // The request next() leaves. Requires may_send().
  void send(SimTime now) {
    CHECK(may_send());
    if (in_flight() == 0) progress_ = now;
    resent_ += next_ < sent_to_ ? 1 : 0;
    ++next_;
    sent_to_ = std::max(sent_to_, next_);
  }

  // ---- Facts
  // Taken: the response of the oldest request in flight, which is complete now. All others are
  // dropped.
  RpcVerdict on_response(SimTime now, uint32_t number) {
    const auto ahead = static_cast<int32_t>(number - static_cast<uint32_t>(first_));
    if (ahead < 0) return RpcVerdict::kCopy;
    if (ahead > 0 || first_ == sent_to_) return RpcVerdict::kAhead;
    ++first_;
    // After a timeout the response to an earlier copy may come first.
    next_ = std::max(next_, first_);
    progress_ = now;
    return RpcVerdict::kTaken;
  }
  // Goes back, if it is time to.
  void on_deadline(SimTime now) {
    if (now < deadline()) return;
    ++timeouts_;
    next_ = first_;
  }

  // ---- Getters
  // A request waits, and there is a credit for it.
  [[nodiscard]] bool may_send() const { return next_ < posted_ && in_flight() < credits_; }
  [[nodiscard]] uint64_t next() const { return next_; }
  // The oldest request without a response.
  [[nodiscard]] uint64_t first() const { return first_; }
  [[nodiscard]] uint32_t in_flight() const { return static_cast<uint32_t>(next_ - first_); }
  [[nodiscard]] uint32_t credits() const { return credits_; }
  [[nodiscard]] SimTime deadline() const {
    return in_flight() > 0 ? progress_ + timeout_ : SimTime::never();
  }
  [[nodiscard]] uint64_t resent() const { return resent_; }
  [[nodiscard]] uint64_t timeouts() const { return timeouts_; }

 private:
  uint32_t credits_;
  SimSpan timeout_;
  // first_ <= next_ <= sent_to_ <= posted_
  uint64_t first_ = 0;
  uint64_t next_ = 0;
  uint64_t sent_to_ = 0;
  uint64_t posted_ = 0;
  SimTime progress_;  // of the last response, or of the first request after there was none
  uint64_t resent_ = 0;
  uint64_t timeouts_ = 0;
};

class RpcServer {
 public:
  // Taken: it is executed and answered. A copy is answered again, and all others are dropped.
  RpcVerdict on_request(uint32_t number) {
    const int32_t ahead = ahead_of(number);
    if (ahead < 0) return RpcVerdict::kCopy;
    if (ahead > 0) return RpcVerdict::kAhead;
    ++expected_;
    return RpcVerdict::kTaken;
  }

  // How far the request is ahead of the one that is expected; below 0: a copy.
  [[nodiscard]] int32_t ahead_of(uint32_t number) const {
    return static_cast<int32_t>(number - static_cast<uint32_t>(expected_));
  }

 private:
  uint64_t expected_ = 0;
};

struct RpcSession {
  RpcSession(uint32_t credits, SimSpan timeout) : client(credits, timeout) {}
  RpcClient client;
  RpcServer server;
};

}  // namespace mprdma::switchsim
