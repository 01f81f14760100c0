#include "dataplane/engine/config.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "config/text_file.hpp"
#include "dataplane/device_text.hpp"
#include "dataplane/open_port.hpp"
#include "transport/core/param_check.hpp"
#include "transport/stream/offload_context.hpp"

namespace mprdma::dataplane {

using transport::Params;
using transport::Preset;

bool is_mode(std::string_view text) {
  return text == "mp" || text == "mp-single" || text == "mp-paper" || text == "irn" ||
         text == "roce";
}

bool parse_preset(std::string_view text, Params* params, bool* agree_modes) {
  Preset preset{};
  if (!transport::parse_word(text, &preset)) return false;
  const transport::PlacementPolicy placement = params->placement;  // the device's, not the mode's
  *params = Params::of(preset);
  params->placement = placement;
  *agree_modes = preset == Preset::kMp;
  return true;
}

bool parse_placement(const std::string& text, Params* params) {
  return transport::parse_word(text, &params->placement);
}

bool parse_paths(const std::string& text, Params* params) {
  if (text != "1" && text != "all") return false;
  const bool paper = params->recovery == transport::Recovery::kPaper;
  params->path_policy = text == "1" ? transport::PathPolicy::kSingle
                        : paper     ? Params::mp_paper().path_policy
                                    : Params::mp().path_policy;
  params->settle();
  return true;
}

Status check_parameters(const Params& params, std::string_view prefix) {
  const transport::ParamFault fault = find_fault(params);
  if (fault.key.empty()) return {};
  std::array<char, transport::kParamTextBytes> buffer;
  const std::string other(value_text(params, fault.other, buffer));
  std::string out(prefix);
  out += fault.key;
  if (!other.empty()) out += " (" + std::string(value_text(params, fault.key, buffer)) + ")";
  out += " " + std::string(fault.what);
  if (other.empty()) {
    if (!fault.other.empty()) out += " " + std::string(fault.other);
    return {EINVAL, out};
  }
  return {EINVAL, out + " " + std::string(prefix) + std::string(fault.other) + " (" + other + ")"};
}

namespace {

// nullptr or empty: not set.
const char* variable(const Environment& environment, const char* name) {
  const char* value = environment(name);
  return value != nullptr && value[0] != '\0' ? value : nullptr;
}

Status wrong(const char* name, const char* value, const std::string& expected) {
  return {EINVAL, std::string(name) + "=" + value + ": " + expected};
}

// What a connection is like: the variables replace all that the file says, then the paths.
Status apply_transport(const Environment& environment, Config* out) {
  const char* mode = variable(environment, "MPRDMA_MODE");
  if (mode != nullptr && (!is_mode(mode) || !parse_preset(mode, &out->params, &out->agree_modes))) {
    return wrong("MPRDMA_MODE", mode, "expected mp, mp-single, mp-paper, irn or roce");
  }
  if (const char* preset = variable(environment, "MPRDMA_PRESET")) {
    if (!parse_preset(preset, &out->params, &out->agree_modes)) {
      return wrong("MPRDMA_PRESET", preset, "expected " + preset_names());
    }
    if (mode != nullptr && std::string_view(mode) != preset) {
      return wrong("MPRDMA_PRESET", preset,
                   std::string("at odds with MPRDMA_MODE=") + mode + ": one of them is enough");
    }
  }
  if (const char* value = variable(environment, "MPRDMA_OFFLOAD")) {
    if (std::string_view(value) != "rtl") return wrong("MPRDMA_OFFLOAD", value, "expected rtl");
    if (!out->agree_modes) {
      return wrong("MPRDMA_OFFLOAD", value, "the SmartNIC knows the mode mp alone");
    }
    const transport::PlacementPolicy placement = out->params.placement;
    out->params = transport::offload_params();
    out->params.placement = placement;
    out->offload = true;
  }
  if (const char* value = variable(environment, "MPRDMA_PATHS")) {
    if (!parse_paths(value, &out->params)) {
      return wrong("MPRDMA_PATHS", value, "expected 1 or all");
    }
    const Status status = check_parameters(out->params, "");
    if (!status.ok()) return wrong("MPRDMA_PATHS", value, status.text);
  }
  if (out->offload && !transport::fits_offload(out->params)) {
    return wrong("MPRDMA_OFFLOAD", "rtl", "the SmartNIC sends on all paths");
  }
  return {};
}

}  // namespace

std::string preset_names() {
  std::string out;
  for (const std::string_view name : transport::kPresetWords) {
    out += out.empty() ? "" : name == *(transport::kPresetWords.end() - 1) ? " or " : ", ";
    out += name;
  }
  return out;
}

Status apply_environment(const Environment& environment, Config* out) {
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
  Status status = apply_transport(environment, out);
  if (!status.ok()) return status;
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
  if (const char* value = variable(environment, "MPRDMA_TRACE")) out->trace = value;
  if (const char* value = variable(environment, "MPRDMA_FAULT")) {
    out->fault = FaultSpec{};
    const Status fault = parse_fault(value, &out->fault);
    if (!fault.ok()) return wrong("MPRDMA_FAULT", value, fault.text);
  }
  return {};
}

bool is_daemon_port(const std::string& spec) {
  return spec.starts_with(kDaemonPortPrefix);
}

Status adopt_device(const DaemonDevice& device, Config* out) {
  const auto differs = [](const std::string& what, const std::string& ours,
                          const std::string& daemons) -> Status {
    return {EINVAL, what + " is " + ours + ", and that of mprdmad's device is " + daemons +
                        ": leave it to mprdmad, or give mprdmad another one"};
  };
  if (!out->ipv4.unspecified() && out->ipv4 != device.ipv4) {
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

Status load_config_partial(const Environment& environment, Config* out) {
  *out = Config{};
  Status status;
  if (const char* path = variable(environment, "MPRDMA_CONFIG")) {
    std::string text;
    status = config::read_text_file(path, &text);
    if (!status.ok()) status.text += " (named by MPRDMA_CONFIG or --config)";
    if (status.ok()) status = apply_toml(text, path, out);
  }
  if (status.ok()) status = apply_environment(environment, out);
  if (status.ok() && !out->ipv4.unspecified() && !out->mac_set) out->mac = derived_mac(out->ipv4);
  return status;
}

Status load_config(const Environment& environment, Config* out) {
  Status status = load_config_partial(environment, out);
  if (!status.ok()) return status;
  if (out->ipv4.unspecified() && !is_daemon_port(out->port_spec)) {
    return {EINVAL,
            "no address: start the program with `mprdma run -- PROGRAM`, or set MPRDMA_ADDRESS"};
  }
  if (out->port_spec.empty()) {
    return {EINVAL,
            "no port: start the program with `mprdma run -- PROGRAM`, or set MPRDMA_PORT, for "
            "example to local:/tmp/wire.sock"};
  }
  return {};
}

}  // namespace mprdma::dataplane
