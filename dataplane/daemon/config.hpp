// The configuration of mprdmad: a TOML file, and options of the command line that win over it.
// Page: docs/man/mprdmad.8. No state; any thread.
//
//   [device]  name, address, mac, mtu       as everywhere (dataplane/engine/config.hpp)
//   [port]    spec                          the wire: "ethdev:...", "local:..." or "none"
//             link_mbps, pfc, pfc_priority  of the wire
//   [daemon]  socket, gateway, allowed_uids, slots, direct_rings
//   [metrics] listen                        ADDRESS:PORT for Prometheus
//   [kernel]  tap, shared_address           the host beside us on the port
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ipv4.hpp"
#include "base/status.hpp"
#include "dataplane/sys/environment.hpp"
#include "wire/ethernet.hpp"

namespace mprdma::dataplane::mprdmad {

inline constexpr const char* kNoWire = "none";
inline constexpr uint32_t kUidMax = UINT32_MAX - 1;  // UINT32_MAX means "no user"

// Between which processes the daemon makes direct rings (client/protocol.hpp).
enum class RingPolicy : uint8_t { kOff, kSameUser, kAll };

struct DaemonConfig {
  std::string device_name = "mprdma0";
  Ipv4 ipv4{};
  uint32_t prefix_bits = 32;
  wire::MacAddress mac{};
  bool mac_set = false;  // else 02:4d:52 and the low three bytes of the address
  uint32_t mtu = 4096;
  std::string port_spec = kNoWire;
  uint32_t link_mbps = 0;  // of the wire; 0: as its port knows it
  // The wire's peer pauses what the processes send (PFC), each priority, or all by this one.
  bool pfc = false;
  std::optional<uint8_t> pfc_priority;
  std::string socket;  // empty: mprdmad.sock in the runtime directory
  Ipv4 gateway{};      // unspecified: none
  std::vector<uid_t> uids;
  uint32_t slots = 512;
  RingPolicy rings = RingPolicy::kSameUser;
  std::string metrics;          // ADDRESS:PORT; empty: none
  std::string tap;              // empty: none
  bool shared_address = false;  // the kernel has the address on the tap, too
};

// Errors begin with file:line:column.
Status apply_daemon_toml(const std::string& text, const std::string& path, DaemonConfig* out);
Status load_daemon_file(const std::string& path, DaemonConfig* out);

// Checks the keys against one another and fills in derived values: call it last.
Status complete_daemon_config(const Environment& environment, unsigned uid, DaemonConfig* config);

// "127.0.0.1:9473": IPv4, and a port that is not 0.
bool valid_listen_address(const std::string& text);

// "off", "same-user" or "all".
bool parse_ring_policy(std::string_view text, RingPolicy* policy);

// "192.168.7.1".
bool parse_gateway(const std::string& text, Ipv4* ipv4);

}  // namespace mprdma::dataplane::mprdmad
