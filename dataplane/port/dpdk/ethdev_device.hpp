// A DPDK device described by text: the user's arguments, our defaults, checks for mistakes that
// DPDK would report obscurely, and the drivers' differences.
//
//   DEVARGS[;mem=MB][;hugepages=1][;vlan=VID][;pcp=PRIORITY]
// DEVARGS is a virtual device as --vdev takes it, or a PCI address with its arguments. vlan, pcp:
// each frame has a VLAN tag (wire/vlan_tag.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "dataplane/port/dpdk/eal_start.hpp"
#include "wire/vlan_tag.hpp"

namespace mprdma::dataplane {

struct EthdevSpec {
  std::string name;    // net_virtio_user0, 0000:03:00.0
  std::string driver;  // net_virtio_user; empty for a PCI device
  std::string args;    // path=...,server=1 with our defaults added
  EalOptions eal;
  std::optional<wire::VlanTag> vlan;  // of every frame

  // Socket that a killed process may have left behind, and that two processes may not share.
  std::string socket_path;  // empty: the device has none
  bool listens = false;     // whether this end creates it

  [[nodiscard]] bool is_pci() const { return driver.empty(); }
  // DPDK waits for the peer when it creates such a device, for as long as it takes.
  [[nodiscard]] bool waits_for_peer() const { return driver == "net_virtio_user" && listens; }
  // Our Ethernet address is random, because the driver gives every device the same one, or has none
  // yet.
  [[nodiscard]] bool needs_random_mac() const { return driver == "net_vhost" || waits_for_peer(); }
  // True if the driver can signal received frames by a descriptor.
  [[nodiscard]] bool can_interrupt() const {
    return driver == "net_vhost" || driver == "net_virtio_user";
  }
  // True if the driver requires adjacent buffers of exactly one page each.
  [[nodiscard]] bool needs_pages() const { return driver == "net_af_xdp"; }
  // Bytes that a buffer must hold, and of the largest frame, which may be less.
  [[nodiscard]] uint32_t buffer_bytes() const;
  [[nodiscard]] uint32_t frame_bytes_max() const;
  // Likely reason when the driver cannot create a queue; empty if none is known.
  [[nodiscard]] std::string queue_hint() const;
};

// Of an interface of the kernel's; 0: unknown.
uint32_t interface_mtu(const char* name);

Status parse_ethdev_spec(std::string_view text, EthdevSpec* spec);

// Checks for mistakes that DPDK reports obscurely: missing interface, no permission, missing peer.
Status check_ethdev_spec(const EthdevSpec& spec);

// Takes the end of the wire for this process: *lock_fd is the descriptor of a lock, to be kept
// open. An error when another process has it. Removes a socket that a dead process left.
Status lock_ethdev_socket(const EthdevSpec& spec, int* lock_fd);
// Releases the end of the wire, and removes its files.
void unlock_ethdev_socket(const EthdevSpec& spec, int lock_fd);

}  // namespace mprdma::dataplane
