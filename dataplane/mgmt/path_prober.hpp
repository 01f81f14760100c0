// The asking side of path probes (wire/probe_mad.hpp) in mprdmad: the open questions of its
// clients, and their results. A question waits for the neighbour, then for the answer, until
// kTimeout has passed; each ends in one result, which the host's loop takes.
//
// Pure: time is an argument. No allocation except in the constructor; a client with too many
// questions is refused.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ipv4.hpp"
#include "base/prng.hpp"
#include "dataplane/mgmt/probe_responder.hpp"

namespace mprdma::dataplane {

// A client's question; `serial` names it in the outcome.
struct ProbeQuestion {
  uint32_t serial = 0;
  Ipv4 peer{};
  uint32_t sequence = 0;
  uint16_t source_port = 0;   // UDP, of the dynamic range
  uint16_t bytes = 0;         // payload: 256..4096
  uint16_t answer_bytes = 0;  // 256..bytes
  uint8_t ecn = 0;            // ECN codepoint of the probe
};

// How a probe or its answer arrived.
struct ProbeArrival {
  uint16_t bytes = 0;
  uint16_t source_port = 0;
  uint8_t hop_limit_sent = 0;
  uint8_t hop_limit = 0;
  uint8_t ecn = 0;
};

struct ProbeOutcome {
  uint32_t serial = 0;
  // 0, or: EHOSTUNREACH (no neighbour answers), ETIMEDOUT (no answer).
  int error = 0;
  uint32_t sequence = 0;
  Duration rtt;
  wire::MacAddress next_hop{};  // source of the answer
  ProbeArrival there;           // the probe, at the peer
  ProbeArrival back;            // the answer, here
};

class PathProber {
 public:
  static constexpr Duration kTimeout = Duration::s(2);  // neighbour included
  static constexpr size_t kOpenMax = 256;
  static constexpr size_t kOpenOfOne = 32;  // of one connection

  struct Open {
    uint32_t client = 0;  // connection
    uint64_t transaction = 0;
    wire::IpAddress ip{};  // of the peer
    bool sent = false;
    Time sent_at;
    Time until;
    ProbeQuestion question;
  };
  struct Result {
    uint32_t client = 0;
    ProbeOutcome outcome;
  };

  explicit PathProber(uint64_t seed) : prng_(seed) {
    open_.reserve(kOpenMax);
    results_.reserve(kOpenMax);
  }

  // Checks a client's question. 0 or EINVAL.
  static int check(const ProbeQuestion& question);

  // Requires check(). nullptr: EAGAIN, there are too many. Good until the next call.
  Open* ask(uint32_t client, const ProbeQuestion& question, Time now);
  // Takes the answer of a peer, whose question ends with a result. False: nobody asked.
  bool on_answer(const wire::ProbeMad& answer, const wire::DecodedFrame& decoded, Time now);
  // Calls send(open) for those that wait for this address.
  template <class Send>
  void on_neighbour(const wire::IpAddress& ip, Send&& send) {
    for (Open& open : open_) {
      if (!open.sent && open.ip == ip) send(open);
    }
  }
  // No neighbour has this address: the questions to it end with EHOSTUNREACH.
  void on_no_neighbour(const wire::IpAddress& ip);
  void expire(Time now);
  void forget_client(uint32_t client);
  // The datagram of an open question, which counts as sent from now on.
  static wire::ProbeMad send(Open& open, Time now);

  [[nodiscard]] Time next_deadline() const;
  template <class Take>
  void drain_results(Take&& take) {
    for (const Result& result : results_) take(result);
    results_.clear();
  }

 private:
  static ProbeOutcome failed(const Open& open, int error);
  void finish(const Open& open, const ProbeOutcome& outcome) {
    results_.push_back({open.client, outcome});
  }

  Prng prng_;
  TokenBucket limit_{kProbeInterval, kProbeBurst};
  std::vector<Open> open_;
  std::vector<Result> results_;
};

}  // namespace mprdma::dataplane
