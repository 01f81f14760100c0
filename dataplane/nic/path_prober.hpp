// The asking side of path probes (wire/probe_mad.hpp) in mprdmad: which questions of its clients
// are under way, and what became of them. A question waits for the neighbour, then for the answer,
// until kTimeout has passed; each ends in one result, which is taken by the host's loop.
//
// Pure: time is an argument. No allocation but in the constructor; who asks too much is refused.
#pragma once

#include <cstdint>
#include <vector>

#include "base/prng.hpp"
#include "dataplane/nic/protocol.hpp"
#include "dataplane/path_probe.hpp"

namespace mprdma::dataplane::nic {

class PathProber {
 public:
  static constexpr Duration kTimeout = Duration::s(2);  // neighbour included
  static constexpr size_t kOpenMax = 256;
  static constexpr size_t kOpenOfOne = 32;  // of one connection

  struct Open {
    uint32_t client = 0;  // connection
    uint32_t serial = 0;
    uint64_t transaction = 0;
    wire::IpAddress ip{};  // of the peer
    bool sent = false;
    Time sent_at;
    Time until;
    PathProbe question;
  };
  struct Result {
    uint32_t client = 0;
    PathAnswer answer;
  };

  explicit PathProber(uint64_t seed) : prng_(seed) {
    open_.reserve(kOpenMax);
    results_.reserve(kOpenMax);
  }

  // What a question may look like. 0 or EINVAL.
  static int check(const PathProbe& question);

  // Requires check(). nullptr: EAGAIN, there are too many. Good until the next call.
  Open* ask(uint32_t client, const PathProbe& question, Time now);
  // The question that this answers, taken off the list; false: none.
  bool take(const wire::ProbeMad& answer, const wire::IpAddress& from, Open* out);
  // Calls send(open) for those that wait for this address.
  template <class Send>
  void on_neighbour(const wire::IpAddress& ip, Send&& send) {
    for (Open& open : open_) {
      if (!open.sent && open.ip == ip) send(open);
    }
  }
  // Nobody has this address: their results are EHOSTUNREACH.
  void on_no_neighbour(const wire::IpAddress& ip);
  void expire(Time now);
  void forget_client(uint32_t client);
  void finish(const Open& open, const PathAnswer& answer) {
    results_.push_back({open.client, answer});
  }
  static PathAnswer failed(const Open& open, int error);

  [[nodiscard]] Time next_deadline() const;
  [[nodiscard]] bool has_results() const { return !results_.empty(); }
  template <class Take>
  void take_results(Take&& take) {
    for (const Result& result : results_) take(result);
    results_.clear();
  }

 private:
  Prng prng_;
  RateLimit limit_{kProbeInterval, kProbeBurst};
  std::vector<Open> open_;
  std::vector<Result> results_;
};

}  // namespace mprdma::dataplane::nic
