#include "tools/run/run_plan.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/ipv4.hpp"
#include "dataplane/open_port.hpp"
#include "tools/running_fabrics.hpp"

namespace mprdma::tools {

namespace {

using dataplane::address_text;
using dataplane::Config;
using dataplane::Environment;
using dataplane::mac_text;

struct Host {
  const char* name;
  Ipv4 ipv4;
};

// The built-in pair: two hosts on one wire, for a machine without any configuration.
constexpr Host kHosts[] = {{"h0", Ipv4(0x0a490001)}, {"h1", Ipv4(0x0a490002)}};
constexpr uint32_t kHostPrefixBits = 24;

// Command line options, and the environment variables with the same meaning.
struct Knob {
  const char* option;
  const char* variable;
  std::string RunOptions::*value;
};
constexpr Knob kKnobs[] = {
    {"--port", "MPRDMA_PORT", &RunOptions::port},
    {"--address", "MPRDMA_ADDRESS", &RunOptions::address},
    {"--mac", "MPRDMA_MAC", &RunOptions::mac},
    {"--mtu", "MPRDMA_MTU", &RunOptions::mtu},
    {"--device", "MPRDMA_DEVICE", &RunOptions::device},
    {"--config", "MPRDMA_CONFIG", &RunOptions::config},
    {"--fault", "MPRDMA_FAULT", &RunOptions::fault},
    {"--mode", "MPRDMA_MODE", &RunOptions::mode},
    {"--preset", "MPRDMA_PRESET", &RunOptions::preset},
    {"--offload", "MPRDMA_OFFLOAD", &RunOptions::offload},
    {"--paths", "MPRDMA_PATHS", &RunOptions::paths},
};

// Adds the option to an error about an environment variable that the command line has set.
Status with_option(const RunOptions& options, Status status) {
  for (const Knob& knob : kKnobs) {
    const bool given = !(options.*knob.value).empty();
    if (given && status.text.starts_with(std::string(knob.variable) + "=")) {
      return {status.error,
              fmt::format("{} {} ({})", knob.option, options.*knob.value, status.text)};
    }
  }
  return status;
}

// Command line options, as the environment variables that they stand for.
Environment overlaid(const RunOptions& options, const Environment& below,
                     std::map<std::string, std::string>* overlay) {
  for (const Knob& knob : kKnobs) {
    const std::string& value = options.*knob.value;
    if (!value.empty()) (*overlay)[knob.variable] = value;
  }
  // Mode and preset set the same parameters: the one of the command line hides the other one of the
  // environment.
  if (!options.preset.empty()) overlay->try_emplace("MPRDMA_MODE");
  if (!options.mode.empty()) overlay->try_emplace("MPRDMA_PRESET");
  return [overlay, below](const char* name) {
    const auto it = overlay->find(name);
    return it != overlay->end() ? it->second.c_str() : below(name);
  };
}

const Host* find_host(const std::string& name) {
  for (const Host& host : kHosts) {
    if (name == host.name) return &host;
  }
  return nullptr;
}

// Sets what the fabric says about its host, except where the command line says otherwise.
void apply_fabric(const RunOptions& options, std::map<std::string, std::string>* overlay) {
  const FabricHost& host = *options.fabric_host;
  const std::pair<const char*, const std::string*> given[] = {
      {"MPRDMA_PORT", &host.port},
      {"MPRDMA_ADDRESS", &host.address},
      {"MPRDMA_MAC", &host.mac},
      {"MPRDMA_MTU", &host.mtu},
  };
  for (const auto& [name, value] : given) overlay->try_emplace(name, *value);
}

// Fills values that nobody set from the built-in pair.
Status apply_host(const RunOptions& options, Config* config, const Host** chosen) {
  if (options.fabric_host || options.daemon) return {};
  if (options.host.empty() && !config->ipv4.unspecified()) return {};
  const Host* host = find_host(options.host.empty() ? "h0" : options.host);
  if (host == nullptr) {
    return {EINVAL,
            fmt::format("--host {}: the built-in hosts are h0 and h1; for others use --address",
                        options.host)};
  }
  *chosen = host;
  config->ipv4 = host->ipv4;
  config->prefix_bits = kHostPrefixBits;
  if (!config->mac_set) config->mac = dataplane::derived_mac(host->ipv4);
  return {};
}

std::string prepended(const std::string& first, const char* rest) {
  if (rest == nullptr || rest[0] == '\0' || first == rest) return first;
  return first + ":" + rest;
}

std::string make_note(const RunOptions& options, const Config& config, const Host* host) {
  if (options.fabric_host) {
    return fmt::format("host {} of the fabric {} is {}", options.host, options.fabric_host->fabric,
                       address_text(config.ipv4));
  }
  if (options.daemon) {
    return fmt::format("{} is {} of mprdmad at {}", config.device_name, address_text(config.ipv4),
                       options.daemon->socket);
  }
  if (host == nullptr) {
    return fmt::format("{} is {} on {}", config.device_name, address_text(config.ipv4),
                       config.port_spec);
  }
  const Host& other = host == &kHosts[0] ? kHosts[1] : kHosts[0];
  return fmt::format("host {} is {} on {}; the other side: mprdma run --host {} -- PROGRAM",
                     host->name, address_text(config.ipv4), config.port_spec, other.name);
}

// True if the built-in pair is meant although the environment names a port: an outer `mprdma run`
// has left it there.
bool names_pair(const RunOptions& options, const Config& config) {
  return !options.host.empty() && !options.fabric_host && options.port.empty() &&
         dataplane::is_daemon_port(config.port_spec);
}

}  // namespace

Status wants_daemon(const RunOptions& options, const Environment& environment, DaemonWish* out) {
  *out = {};
  std::map<std::string, std::string> overlay;
  const Environment merged = overlaid(options, environment, &overlay);
  Config config;
  Status status = with_option(options, load_config_partial(merged, &config));
  if (!status.ok() || options.fabric_host || names_pair(options, config)) return status;
  if (dataplane::is_daemon_port(config.port_spec)) {
    out->wanted = true;
    out->socket = config.port_spec.substr(dataplane::kDaemonPortPrefix.size());
    return {};
  }
  // A program with an address or a host of its own is one end of a wire.
  const bool named = !options.host.empty() || !config.ipv4.unspecified() || config.mac_set;
  out->wanted = config.port_spec.empty() && !named;
  return {};
}

Status plan_run(const RunOptions& options, const Locations& locations,
                const Environment& environment, unsigned uid, RunPlan* out) {
  if (!options.host.empty() && !options.address.empty()) {
    return {EINVAL, "--host and --address exclude each other: a host is an address"};
  }
  std::map<std::string, std::string> overlay;
  const Environment merged = overlaid(options, environment, &overlay);
  if (options.fabric_host) apply_fabric(options, &overlay);
  Config config;
  Status status = with_option(options, load_config_partial(merged, &config));
  const Host* host = nullptr;
  if (status.ok()) status = apply_host(options, &config, &host);
  if (!status.ok()) return status;
  if (names_pair(options, config)) config.port_spec.clear();
  if (options.daemon) {
    status = adopt_device(options.daemon->device, &config);
    if (!status.ok()) return status;
    config.port_spec = std::string(dataplane::kDaemonPortPrefix) + options.daemon->socket;
    config.mac_set = true;
    if (config.device_name == Config{}.device_name) config.device_name = options.daemon->name;
  }
  if (config.port_spec.empty()) {
    out->wire_directory = runtime_directory(environment, uid);
    config.port_spec = "local:" + out->wire_directory + "/wire.sock";
  }
  auto& variables = out->variables;
  variables = overlay;
  if (!options.config.empty()) {
    // The program may change its directory before the engine starts.
    std::error_code ignored;
    variables["MPRDMA_CONFIG"] = std::filesystem::absolute(options.config, ignored).string();
  }
  variables["MPRDMA_ADDRESS"] = fmt::format("{}/{}", address_text(config.ipv4), config.prefix_bits);
  // A MAC that nobody chose follows from the address, also inside an `mprdma run` with another one.
  if (config.mac_set) variables["MPRDMA_MAC"] = mac_text(config.mac);
  variables["MPRDMA_MTU"] = std::to_string(config.mtu);
  variables["MPRDMA_DEVICE"] = config.device_name;
  variables["MPRDMA_PORT"] = config.port_spec;
  variables["MPRDMA_ENGINE_LIBRARY"] = locations.engine;
  variables["LD_PRELOAD"] = prepended(locations.preload, environment("LD_PRELOAD"));
  variables["IBV_DRIVERS"] = prepended(locations.provider_driver, environment("IBV_DRIVERS"));
  variables["RDMAV_DRIVERS"] = prepended(locations.provider_driver, environment("RDMAV_DRIVERS"));
  out->note = make_note(options, config, host);
  return {};
}

}  // namespace mprdma::tools
