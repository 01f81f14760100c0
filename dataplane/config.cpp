#include "dataplane/config.hpp"

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "dataplane/port_factory.hpp"

namespace mprdma::dataplane {

bool valid_mtu(uint64_t mtu) {
  return mtu == 1024 || mtu == 2048 || mtu == 4096;
}

bool valid_device_name(const std::string& name) {
  if (name.empty() || name.size() >= 64) return false;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '-') return false;
  }
  return true;
}

bool parse_mode(const std::string& text, transport::Params* params, bool* agree_modes) {
  const transport::PlacementPolicy placement = params->placement;  // the device's, not the mode's
  if (text == "mp") {
    *params = transport::Params::mp();
  } else if (text == "mp-single") {
    *params = transport::Params::mp_single();
  } else if (text == "mp-paper") {
    *params = transport::Params::mp_paper();
  } else if (text == "roce") {
    *params = transport::Params::roce();
  } else {
    return false;
  }
  params->placement = placement;
  *agree_modes = text == "mp";
  return true;
}

bool parse_placement(const std::string& text, transport::Params* params) {
  using transport::PlacementPolicy;
  PlacementPolicy& policy = params->placement;
  if (text == "standard") return policy = PlacementPolicy::kStandard, true;
  if (text == "relaxed") return policy = PlacementPolicy::kRelaxed, true;
  if (text == "ordered") return policy = PlacementPolicy::kOrdered, true;
  return false;
}

bool parse_paths(const std::string& text, transport::Params* params) {
  if (text != "1" && text != "all") return false;
  params->path_policy =
      text == "1" ? transport::PathPolicy::kSingle : transport::PathPolicy::kAckClocked;
  return true;
}

namespace {

// nullptr or empty: not set.
const char* variable(const Environment& environment, const char* name) {
  const char* value = environment(name);
  return value != nullptr && value[0] != '\0' ? value : nullptr;
}

std::string wrong(const char* name, const char* value, const std::string& expected) {
  return std::string(name) + "=" + value + ": " + expected;
}

std::string read_file(const std::string& path, std::string* text) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return path + ": " + std::strerror(errno) + " (named by MPRDMA_CONFIG or --config)";
  }
  try {
    // The buffer throws past the stream, for example when the path is a directory.
    text->assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  } catch (const std::ios_base::failure& failure) {
    return path + ": cannot be read (" + failure.what() + ")";
  }
  return file.bad() ? path + ": cannot be read" : std::string{};
}

}  // namespace

std::string apply_environment(const Environment& environment, Config* out) {
  if (const char* value = variable(environment, "MPRDMA_ADDRESS")) {
    if (!parse_address(value, &out->ipv4, &out->prefix_bits)) {
      return wrong("MPRDMA_ADDRESS", value, "expected a unicast IPv4 address, like 10.73.0.1/24");
    }
  }
  if (const char* value = variable(environment, "MPRDMA_MAC")) {
    if (!parse_mac(value, &out->mac)) {
      return wrong("MPRDMA_MAC", value,
                   "expected a unicast Ethernet address, like 02:4d:52:49:00:01");
    }
    out->mac_set = true;
  }
  if (const char* value = variable(environment, "MPRDMA_MTU")) {
    char* end = nullptr;
    const unsigned long mtu = std::strtoul(value, &end, 10);
    if (*end != '\0' || !valid_mtu(mtu)) {
      return wrong("MPRDMA_MTU", value, "expected 1024, 2048 or 4096");
    }
    out->mtu = static_cast<uint32_t>(mtu);
    out->mtu_set = true;
  }
  if (const char* value = variable(environment, "MPRDMA_DEVICE")) {
    if (!valid_device_name(value)) {
      return wrong("MPRDMA_DEVICE", value, "expected up to 63 letters, digits, '_' and '-'");
    }
    out->device_name = value;
  }
  if (const char* value = variable(environment, "MPRDMA_MODE")) {
    if (!parse_mode(value, &out->params, &out->agree_modes)) {
      return wrong("MPRDMA_MODE", value, "expected mp, mp-single, mp-paper or roce");
    }
  }
  if (const char* value = variable(environment, "MPRDMA_PATHS")) {
    if (!parse_paths(value, &out->params)) {
      return wrong("MPRDMA_PATHS", value, "expected 1 or all");
    }
    if (out->params.protocol == transport::Protocol::kRoce && value[0] != '1') {
      return wrong("MPRDMA_PATHS", value, "mode roce has one path");
    }
    if (!out->params.sack_map && out->params.path_policy == transport::PathPolicy::kSingle) {
      return wrong("MPRDMA_PATHS", value, "mode mp-paper needs all paths");
    }
  }
  if (const char* value = variable(environment, "MPRDMA_PLACEMENT")) {
    if (!parse_placement(value, &out->params)) {
      return wrong("MPRDMA_PLACEMENT", value, "expected standard, relaxed or ordered");
    }
  }
  if (const char* value = variable(environment, "MPRDMA_REAL_TIME")) {
    const std::string_view wish = value;
    if (wish != "0" && wish != "1") return wrong("MPRDMA_REAL_TIME", value, "expected 0 or 1");
    out->real_time = wish == "1";
  }
  if (const char* value = variable(environment, "MPRDMA_PORT")) out->port_spec = value;
  if (const char* value = variable(environment, "MPRDMA_FAULT")) {
    out->fault = FaultSpec{};
    const std::string error = parse_fault(value, &out->fault);
    if (!error.empty()) return wrong("MPRDMA_FAULT", value, error);
  }
  return {};
}

bool is_daemon_port(const std::string& spec) {
  return spec.starts_with(kDaemonPortPrefix);
}

std::string take_device(const NicDevice& device, Config* out) {
  const auto differs = [](const std::string& what, const std::string& ours,
                          const std::string& daemons) {
    return what + " is " + ours + ", and that of mprdmad's device is " + daemons +
           ": leave it to mprdmad, or give mprdmad another one";
  };
  if (out->ipv4 != 0 && out->ipv4 != device.ipv4) {
    return differs("the address (MPRDMA_ADDRESS, [device] address)", address_text(out->ipv4),
                   address_text(device.ipv4));
  }
  if (out->mac_set && out->mac != device.mac) {
    return differs("the MAC (MPRDMA_MAC, [device] mac)", mac_text(out->mac), mac_text(device.mac));
  }
  if (out->mtu_set && out->mtu > device.mtu) {
    return differs("the MTU (MPRDMA_MTU, [device] mtu)", std::to_string(out->mtu),
                   std::to_string(device.mtu));
  }
  out->ipv4 = device.ipv4;
  out->prefix_bits = device.prefix_bits;
  out->mac = device.mac;
  if (!out->mtu_set) out->mtu = device.mtu;
  return {};
}

std::string load_config_partial(const Environment& environment, Config* out) {
  *out = Config{};
  std::string error;
  if (const char* path = variable(environment, "MPRDMA_CONFIG")) {
    std::string text;
    error = read_file(path, &text);
    if (error.empty()) error = apply_toml(text, path, out);
  }
  if (error.empty()) error = apply_environment(environment, out);
  if (error.empty() && out->ipv4 != 0 && !out->mac_set) out->mac = derived_mac(out->ipv4);
  return error;
}

std::string load_config(const Environment& environment, Config* out) {
  std::string error = load_config_partial(environment, out);
  if (!error.empty()) return error;
  if (out->ipv4 == 0 && !is_daemon_port(out->port_spec)) {
    return "no address: start the program with `mprdma run -- PROGRAM`, or set MPRDMA_ADDRESS";
  }
  if (out->port_spec.empty()) {
    return "no port: start the program with `mprdma run -- PROGRAM`, or set MPRDMA_PORT, for "
           "example to local:/tmp/wire.sock";
  }
  return {};
}

}  // namespace mprdma::dataplane
