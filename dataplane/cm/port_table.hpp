// Ports of rdma_cm: 16 bits in each of its port spaces, shared by all clients of a
// device. The rules are those of bind(2) and listen(2) as Linux applies them to rdma_cm: two ids
// share a port if both have REUSEADDR and neither listens, if one is for IPv4 alone and the
// other for IPv6 alone, or if their addresses differ and neither is "any". A conflict is
// EADDRNOTAVAIL where either address is "any", else EADDRINUSE (Linux, cma_check_port).
// Privileged ports are not special: the device is the process's own.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/prng.hpp"
#include "wire/ip_address.hpp"

namespace mprdma::dataplane {

// True for the all-zero address and the IPv4-mapped zero.
bool is_any(const wire::IpAddress& address);
// True for an IPv4-mapped address. All zero is the "any" of IPv6.
inline bool is_ipv4(const wire::IpAddress& address) {
  return wire::is_mapped_ipv4(address);
}

class CmPortTable {
 public:
  struct Claim {
    uint32_t id = 0;
    wire::IpAddress address{};
    bool reuse = false;
    bool family_only = false;
    bool listening = false;
  };

  static bool is_space(uint32_t space);

  // Errno values. Port 0: a free one of [first, last].
  int bind(uint32_t space, uint16_t port, const Claim& claim);
  int bind_free(uint32_t space, uint16_t first, uint16_t last, const Claim& claim, Prng& prng,
                uint16_t* port);
  // Makes the claim listen, unless another claim on the port conflicts.
  int listen(uint32_t space, uint16_t port, uint32_t id);
  void release(uint32_t space, uint16_t port, uint32_t id);
  void set_reuse(uint32_t space, uint16_t port, uint32_t id, bool reuse);

  // The listener on the port for a request to `destination`; 0: none.
  [[nodiscard]] uint32_t find_listener(uint64_t service_id,
                                       const wire::IpAddress& destination) const;
  [[nodiscard]] bool empty() const { return claims_.empty(); }

 private:
  static uint32_t key_of(uint32_t space, uint16_t port) { return space << 16 | port; }
  Claim* find(uint32_t space, uint16_t port, uint32_t id);

  std::unordered_map<uint32_t, std::vector<Claim>> claims_;
};

}  // namespace mprdma::dataplane
