// The configuration of a device: from the environment that `mprdma run` sets, and from the TOML
// file that MPRDMA_CONFIG names. The environment wins, so that one file serves several hosts.
// Page: docs/man/mprdma.1. Any thread; no state.
//
//   MPRDMA_CONFIG   path of a TOML file
//   MPRDMA_PORT     "local:PATH[,slots=N]", "ethdev:DEVARGS" or
//                   "daemon:PATH"                               [port] spec
//   MPRDMA_ADDRESS  "10.73.0.1/24"                              [device] address
//   MPRDMA_MAC      "02:4d:52:49:00:01"                         [device] mac
//   MPRDMA_MTU      1024, 2048 or 4096                          [device] mtu
//   MPRDMA_DEVICE   name of the device                          [device] name
//   MPRDMA_MODE     "mp", "mp-single", "mp-paper" or "roce"     [transport], all of it
//   MPRDMA_PATHS    "1" or "all"                                [transport] paths
//   MPRDMA_PLACEMENT "standard", "relaxed" or "ordered"         [device] placement
//   MPRDMA_FAULT    "seed=7,loss=0.01,..."                      [test] fault
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "dataplane/address.hpp"
#include "dataplane/fault_spec.hpp"
#include "dataplane/nic_link.hpp"
#include "transport/params.hpp"
#include "wire/ethernet.hpp"

namespace mprdma::dataplane {

struct Config {
  std::string device_name = "mprdma0";
  uint32_t ipv4 = 0;  // host order; 0: not set
  uint32_t prefix_bits = 32;
  wire::MacAddress mac{};
  bool mac_set = false;  // else 02:4d:52 and the low three bytes of the address
  uint32_t mtu = 4096;
  bool mtu_set = false;  // else the largest that the device has
  std::string port_spec;
  // While mprdmad is away the transport's timers stand still for so long at most.
  Duration away_max = Duration::s(60);
  // The engine's thread may be in a real-time class (prompt_thread.hpp).
  bool real_time = true;
  uint32_t held_frames = 1024;  // most frames that wait for their turn, all queue pairs together
  transport::Params params;
  // Mode mp: with a peer that is none of ours a queue pair speaks roce. Another mode is pinned.
  bool agree_modes = true;
  FaultSpec fault;
};

using Environment = std::function<const char*(const char*)>;

// The port is a part of mprdmad's device: address, MAC and largest MTU are the daemon's.
bool is_daemon_port(const std::string& spec);
// Fills them in. Empty, or which of them was configured and is another one.
std::string take_device(const NicDevice& device, Config* out);

// Empty, or one line that says what is wrong, where, and what would be right.
std::string load_config(const Environment& environment, Config* out);

// The same without the demand that an address and a port are set, for `mprdma run`.
std::string load_config_partial(const Environment& environment, Config* out);

// The parts, for those two and their tests.
std::string apply_toml(const std::string& text, const std::string& path, Config* out);
std::string apply_environment(const Environment& environment, Config* out);

// "mp", "mp-single", "mp-paper", "roce": a preset of transport/params.hpp, pinned but for mp.
bool parse_mode(const std::string& text, transport::Params* params, bool* agree_modes);
// "1" or "all".
bool parse_paths(const std::string& text, transport::Params* params);
// "standard", "relaxed" or "ordered".
bool parse_placement(const std::string& text, transport::Params* params);
bool valid_mtu(uint64_t mtu);
bool valid_device_name(const std::string& name);

}  // namespace mprdma::dataplane
