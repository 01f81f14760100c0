// A CM agent inside an engine: the clients of this process, and the agent's work in the order in
// which it has to be done. Frames and neighbours are the worker's (worker_management.cpp).
//
// Called with the worker's lock held. Callbacks of clients run inside serve().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "abi/mprdma_abi.h"
#include "abi/mprdma_abi_cm.h"
#include "dataplane/cm/agent.hpp"

namespace mprdma::dataplane {

class CmHost {
 public:
  // A wire that was full is tried again after this.
  static constexpr Duration kFullWirePause = Duration::ms(1);

  explicit CmHost(const CmConfig& config) : agent_(config) {}

  // ---- Commands: 0 or an errno value. serve() is due after all but open().
  int open(const mprdma_abi_client* client, const mprdma_abi_cm_open& open);
  int execute(const mprdma_abi_client* client, const mprdma_abi_cm_command& in,
              mprdma_abi_cm_result* out, Time now);
  void forget_client(const mprdma_abi_client* client, Time now);
  // The process ends: nobody hears any more, and the peers are told.
  void forget_clients(Time now);

  // ---- Facts. serve() is due afterwards.
  void on_mad(std::span<const unsigned char> bytes, const wire::IpAddress& from, Time now);
  // `mac`: nullptr: there is no way to it.
  void on_resolved(const wire::IpAddress& to, const wire::MacAddress* mac, Time now);

  // ---- Work
  [[nodiscard]] Time next_deadline() const { return deadline_; }
  // resolve(ip) starts what ends in on_resolved(), perhaps at once; send(mad) is false if the wire
  // is full.
  template <class Resolve, class Send>
  void serve(Time now, Resolve&& resolve, Send&& send) {
    agent_.on_deadline(now);
    wire::IpAddress to;
    while (agent_.poll_resolve(&to)) resolve(to);
    const bool full = !send_all(send);
    deliver_events();
    deadline_ = agent_.next_deadline();
    if (full && now + kFullWirePause < deadline_) deadline_ = now + kFullWirePause;
  }
  // Now, whatever the agent waits for.
  void serve_again() { deadline_ = Time(); }

  [[nodiscard]] const CmAgent& agent() const { return agent_; }

 private:
  struct Client {
    const mprdma_abi_client* client;
    uint32_t number;  // the agent's name for it; never used again
    mprdma_abi_cm_open open;
  };

  // False: the wire was full; what could not be sent waits.
  template <class Send>
  bool send_all(Send&& send) {
    for (;;) {
      if (!unsent_ && !agent_.poll_mad(&unsent_.emplace())) break;
      if (!send(*unsent_)) return false;
      unsent_.reset();
    }
    unsent_.reset();
    return true;
  }
  void deliver_events();

  CmAgent agent_;
  std::vector<Client> clients_;
  uint32_t next_number_ = 1;
  std::optional<CmAgent::OutgoingMad> unsent_;
  Time deadline_ = Time::never();
};

}  // namespace mprdma::dataplane
