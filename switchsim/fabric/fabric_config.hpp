// A fabric as a file describes it: hosts with their ports, switches, links. TOML; unknown keys are
// errors, and every error names file, line and column. Page: docs/operations.md.
//
//   paths = 4                  # preset: two switches, tor1 and tor2, and path1 .. path4 between
//   them [path]                     # of each of these: rate, delay_us, queue_kb, red, loss rate =
//   "200Mbps"
//   [[hosts]]
//   name = "h0"
//   ip = "10.73.0.1/24"
//   port = "local"             # or "vhost"
//
// or, in the place of `paths` and [path]: switches = ["a", "b"], and [[links]] between them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ipv4.hpp"
#include "base/status.hpp"
#include "switchsim/model/topology.hpp"
#include "wire/ethernet.hpp"

namespace mprdma::switchsim {

enum class PortKind : uint8_t {
  kLocal,  // LocalPort: shared memory
  kVhost,  // vhost-user; the application has a net_virtio_user device
};

struct HostConfig {
  std::string name;
  PortKind kind = PortKind::kLocal;
  std::string path;  // of the socket; empty: NAME.sock in the fabric's directory
  Ipv4 ipv4{};
  uint32_t prefix_bits = 24;
  wire::MacAddress mac{};
  uint32_t mtu = 4096;
  uint32_t switch_index = 0;

  // What the two ends of the wire open (dataplane/open_port.hpp). `index`: of the host.
  [[nodiscard]] std::string fabric_port(size_t index) const;
  [[nodiscard]] std::string application_port() const;
};

struct FabricConfig {
  std::string name;  // empty: the file does not say
  std::vector<HostConfig> hosts;
  std::vector<std::string> switches;
  Topology topology;  // host i's own link is link i and has its name
  uint64_t seed = 1;  // of ECMP, loss and RED
  bool reroute = false;
  SimSpan reroute_after;
  // With topology.pfc: bit p, packets of priority p (by DSCP) are paused and not dropped.
  uint8_t lossless_priorities = 0xff;
  // Patience with a host that pauses without end, of its NIC and of its switch; 0: endless.
  SimSpan nic_watchdog;
  SimSpan switch_watchdog;
};

// Letters, digits, '-' and '_', up to 32: it becomes part of a path.
bool valid_fabric_name(const std::string& name);

Status parse_fabric(const std::string& text, const std::string& path, FabricConfig* out);
Status load_fabric(const std::string& path, FabricConfig* out);

}  // namespace mprdma::switchsim
