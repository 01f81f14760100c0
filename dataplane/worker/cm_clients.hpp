// The CM agent inside an engine (cm/driver.hpp), and the clients of this process. The NIC part
// handles frames and neighbours (nic_part.cpp).
//
// Called with the worker's lock held. Callbacks of clients run inside serve().
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "abi/mprdma_abi.h"
#include "abi/mprdma_abi_cm.h"
#include "dataplane/cm/driver.hpp"

namespace mprdma::dataplane {

class CmClients {
 public:
  explicit CmClients(const CmConfig& config) : driver_(config) {}

  // ---- Commands: 0 or an errno value. serve() is due after all but open().
  int open(const mprdma_abi_client* client, const mprdma_abi_cm_open& open);
  int execute(const mprdma_abi_client* client, const mprdma_abi_cm_command& in,
              mprdma_abi_cm_result* out, Time now);
  void forget_client(const mprdma_abi_client* client, Time now);
  // Called when the process ends: no client gets further events, and the peers are told.
  void forget_clients(Time now);

  // ---- Facts. serve() is due afterwards.
  void on_mad(std::span<const unsigned char> bytes, const wire::IpAddress& from, Time now);
  // `mac`: nullptr if the address is unreachable.
  void on_resolved(const wire::IpAddress& to, const wire::MacAddress* mac, Time now);

  // ---- Work
  [[nodiscard]] Time next_deadline() const { return driver_.next_deadline(); }
  // resolve(ip) starts a resolution that ends in on_resolved(), perhaps at once; send(mad) is false
  // if the wire is full.
  template <class Resolve, class Send>
  void serve(Time now, Resolve&& resolve, Send&& send) {
    driver_.serve(now, std::numeric_limits<unsigned>::max(), resolve, send,
                  [this](const CmAgent::ClientEvent& event) { deliver(event); });
  }
  void serve_again() { driver_.serve_again(); }

  [[nodiscard]] const CmAgent& agent() const { return driver_.agent(); }

 private:
  struct Client {
    const mprdma_abi_client* client;
    uint32_t number;  // the agent's name for it; never used again
    mprdma_abi_cm_open open;
  };

  void deliver(const CmAgent::ClientEvent& event);

  CmDriver driver_;
  std::vector<Client> clients_;
  uint32_t next_number_ = 1;
};

}  // namespace mprdma::dataplane
