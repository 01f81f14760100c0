// A DPDK device by its text: what the user wrote, what is added to it, what can be known to fail
// before DPDK is asked, and how the driver's habits differ.
//
//   DEVARGS[;mem=MB][;hugepages=1]
// DEVARGS is a virtual device as --vdev takes it, or a PCI address with its arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dataplane/eal_start.hpp"

namespace mprdma::dataplane {

struct EthdevSpec {
  std::string name;    // net_virtio_user0, 0000:03:00.0
  std::string driver;  // net_virtio_user; empty for a PCI device
  std::string args;    // path=...,server=1 with our defaults added
  EalOptions eal;

  // Sockets of ours that a killed process may have left, and that two processes may not share.
  std::string socket_path;  // empty: the device has none
  bool listens = false;     // whether this end creates it

  [[nodiscard]] bool is_pci() const { return driver.empty(); }
  // DPDK waits for the peer when it creates such a device, for as long as it takes.
  [[nodiscard]] bool waits_for_peer() const { return driver == "net_virtio_user" && listens; }
  // Our address is drawn, because the driver gives every device the same one, or has none yet.
  [[nodiscard]] bool needs_random_mac() const { return driver == "net_vhost" || waits_for_peer(); }
  // Whether it can say by a descriptor that frames came.
  [[nodiscard]] bool can_interrupt() const {
    return driver == "net_vhost" || driver == "net_virtio_user";
  }
  // The driver counts on buffers of exactly a page each, one behind the other.
  [[nodiscard]] bool needs_pages() const { return driver == "net_af_xdp"; }
  // Bytes that a buffer must hold, and of the largest frame, which may be less.
  [[nodiscard]] uint32_t buffer_bytes() const;
  [[nodiscard]] uint32_t frame_bytes_max() const;
  // What the driver does not say when it cannot make a queue; empty if nothing is known.
  [[nodiscard]] std::string queue_hint() const;
};

// Of an interface of the kernel's; 0: unknown.
uint32_t interface_mtu(const char* name);

// 0, or errno and a sentence that names the mistake.
int parse_ethdev_spec(std::string_view text, EthdevSpec* spec, std::string* message);

// What DPDK would answer with an obscure line: missing interface, no permission, missing peer.
int check_ethdev_spec(const EthdevSpec& spec, std::string* message);

// Takes the end of the wire for this process: the descriptor of a lock, to be kept open; -1 with
// errno and a sentence when another process has it. Removes a socket that a dead process left.
int lock_ethdev_socket(const EthdevSpec& spec, std::string* message);
// Gives it up, and removes its files.
void unlock_ethdev_socket(const EthdevSpec& spec, int lock_fd);

}  // namespace mprdma::dataplane
