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
//   MPRDMA_MODE     "mp", "mp-single", "mp-paper", "roce", "irn"  [transport], all of it
//   MPRDMA_PRESET   those, "mp-figures", "dcqcn-paper",
//                   "dcqcn-tuned", "roce-gb0", "spray-nscc",
//                   "swift-plb"                                 [transport], all of it
//   MPRDMA_OFFLOAD  "rtl": the verilated SmartNIC                  [transport], all of it
//   MPRDMA_PATHS    "1" or "all"                                [transport] paths
//   MPRDMA_PLACEMENT "standard", "relaxed" or "ordered"         [device] placement
//   MPRDMA_FAULT    "seed=7,loss=0.01,..."                      [test] fault
//
// The engine reads two more, which no file sets: MPRDMA_TRACE (trace_ring.hpp) and
// MPRDMA_REAL_TIME (dataplane/sys/thread_class.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/ipv4.hpp"
#include "base/status.hpp"
#include "dataplane/client/daemon.hpp"
#include "dataplane/port/fault_spec.hpp"
#include "dataplane/sys/address_text.hpp"
#include "dataplane/sys/environment.hpp"
#include "transport/core/params.hpp"
#include "wire/ethernet.hpp"

namespace mprdma::dataplane {

struct Config {
  std::string device_name = "mprdma0";
  Ipv4 ipv4{};
  uint32_t prefix_bits = 32;
  wire::MacAddress mac{};
  bool mac_set = false;  // else 02:4d:52 and the low three bytes of the address
  uint32_t mtu = 4096;
  bool mtu_set = false;  // else the largest that the device has
  std::string port_spec;
  // Longest time that the transport's timers stand still while mprdmad is away.
  Duration away_max = Duration::s(60);
  // The engine's thread may be in a real-time class (sys/thread_class.hpp).
  bool real_time = true;
  uint32_t held_frames = 1024;  // most frames that wait for their turn, all queue pairs together
  // Data waits while the port's peer pauses its priority (PFC). Off: what it says is counted. Of a
  // port of mprdmad, what the daemon passes on counts, and not these.
  bool pfc = false;
  std::optional<uint8_t> pfc_priority;  // of all data; none: by the traffic class
  transport::Params params;
  // A device keeps the sending halves of the mode mp (engine/hardware_module.hpp), whose parameters
  // are then those of offload_params().
  bool offload = false;
  // Mode mp: a queue pair speaks roce with a peer that is not an mprdma device. Any other mode is
  // pinned.
  bool agree_modes = true;
  FaultSpec fault;
  std::string trace;  // file for the transport's events (engine/trace_ring.hpp); empty: none
};

// True if the port is a part of mprdmad's device: address, MAC and largest MTU are the daemon's.
bool is_daemon_port(const std::string& spec);
// Fills in the daemon's address, MAC and MTU. An error says which of them was configured
// differently.
Status adopt_device(const DaemonDevice& device, Config* out);

// Reads the configuration.
Status load_config(const Environment& environment, Config* out);

// Reads the configuration, but does not require an address and a port: for `mprdma run`.
Status load_config_partial(const Environment& environment, Config* out);

// Parts of the reading functions, also for tests.
Status apply_toml(const std::string& text, const std::string& path, Config* out);
Status apply_environment(const Environment& environment, Config* out);

// A preset by its name (transport/core/param_list.hpp); every mode but mp is pinned.
bool parse_preset(std::string_view text, transport::Params* params, bool* agree_modes);
// True if the preset is also the name of a mode: "mp", "mp-single", "mp-paper", "irn", "roce".
bool is_mode(std::string_view text);
// "mp, mp-single, .. or irn".
std::string preset_names();
// An error names the parameters that contradict one another, each with `prefix` before its key.
Status check_parameters(const transport::Params& params, std::string_view prefix);
// "1" or "all".
bool parse_paths(const std::string& text, transport::Params* params);
// "standard", "relaxed" or "ordered".
bool parse_placement(const std::string& text, transport::Params* params);

}  // namespace mprdma::dataplane
