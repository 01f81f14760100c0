#include "dataplane/daemon/config.hpp"

#include <arpa/inet.h>
#include <toml++/toml.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "dataplane/client/protocol.hpp"
#include "dataplane/daemon/kernel_tap.hpp"
#include "dataplane/device_text.hpp"
#include "dataplane/sys/address_text.hpp"
#include "dataplane/sys/runtime_directory.hpp"

namespace mprdma::dataplane::mprdmad {

namespace {

constexpr size_t kUidsMax = 1024;

Status at(const std::string& path, const toml::source_region& where, const std::string& what) {
  return {EINVAL, path + ":" + std::to_string(where.begin.line) + ":" +
                      std::to_string(where.begin.column) + ": " + what};
}

struct Knob {
  std::string_view section;
  std::string_view key;
  std::string_view expected;
  bool (*set)(const toml::node& node, DaemonConfig& config);
};

bool read_string(const toml::node& node, std::string* out) {
  const auto* value = node.as_string();
  if (value != nullptr) *out = value->get();
  return value != nullptr;
}

bool read_integer(const toml::node& node, int64_t low, int64_t high, uint32_t* out) {
  const auto* value = node.as_integer();
  if (value == nullptr || value->get() < low || value->get() > high) return false;
  *out = static_cast<uint32_t>(value->get());
  return true;
}

bool set_name(const toml::node& node, DaemonConfig& config) {
  return read_string(node, &config.device_name) && valid_device_name(config.device_name);
}

bool set_address(const toml::node& node, DaemonConfig& config) {
  std::string text;
  return read_string(node, &text) && parse_address(text, &config.ipv4, &config.prefix_bits);
}

bool set_mac(const toml::node& node, DaemonConfig& config) {
  std::string text;
  config.mac_set = read_string(node, &text) && parse_mac(text, &config.mac);
  return config.mac_set;
}

bool set_mtu(const toml::node& node, DaemonConfig& config) {
  return read_integer(node, 1024, 4096, &config.mtu) && valid_mtu(config.mtu);
}

bool set_spec(const toml::node& node, DaemonConfig& config) {
  return read_string(node, &config.port_spec) && !config.port_spec.empty();
}

bool set_socket(const toml::node& node, DaemonConfig& config) {
  return read_string(node, &config.socket) && config.socket.starts_with('/');
}

bool set_gateway(const toml::node& node, DaemonConfig& config) {
  std::string text;
  return read_string(node, &text) && parse_gateway(text, &config.gateway);
}

bool set_uids(const toml::node& node, DaemonConfig& config) {
  const toml::array* list = node.as_array();
  if (list == nullptr || list->size() > kUidsMax) return false;
  config.uids.clear();
  for (const toml::node& item : *list) {
    uint32_t uid = 0;
    if (!read_integer(item, 0, kUidMax, &uid)) return false;
    config.uids.push_back(uid);
  }
  return true;
}

bool set_slots(const toml::node& node, DaemonConfig& config) {
  return read_integer(node, 256, 4096, &config.slots) && (config.slots & (config.slots - 1)) == 0;
}

bool set_metrics(const toml::node& node, DaemonConfig& config) {
  return read_string(node, &config.metrics) && valid_listen_address(config.metrics);
}

bool set_tap(const toml::node& node, DaemonConfig& config) {
  return read_string(node, &config.tap) && valid_tap_name(config.tap);
}

bool set_shared_address(const toml::node& node, DaemonConfig& config) {
  const auto* value = node.as_boolean();
  if (value != nullptr) config.shared_address = value->get();
  return value != nullptr;
}

constexpr Knob kKnobs[] = {
    {"device", "name", "up to 63 letters, digits, '_' and '-'", set_name},
    {"device", "address", "an IPv4 address with its prefix, like \"10.73.0.1/24\"", set_address},
    {"device", "mac", "a unicast Ethernet address, like \"02:4d:52:49:00:01\"", set_mac},
    {"device", "mtu", "1024, 2048 or 4096", set_mtu},
    {"port", "spec", "\"ethdev:DEVARGS\", \"local:PATH\" or \"none\"", set_spec},
    {"daemon", "socket", "an absolute path", set_socket},
    {"daemon", "gateway", "an IPv4 address, like \"10.73.0.254\"", set_gateway},
    {"daemon", "allowed_uids", "a list of user ids, like [1000, 1001]", set_uids},
    {"daemon", "slots", "a power of two in 256..4096", set_slots},
    {"metrics", "listen", "an IPv4 address and a port, like \"127.0.0.1:9473\"", set_metrics},
    {"kernel", "tap", "the name of an interface, up to 15 characters", set_tap},
    {"kernel", "shared_address", "true or false", set_shared_address},
};

std::string known_keys(std::string_view section) {
  std::string out;
  for (const Knob& knob : kKnobs) {
    if (knob.section == section) out += (out.empty() ? "" : ", ") + std::string(knob.key);
  }
  return out;
}

Status apply_key(const std::string& section, const toml::key& key, const toml::node& node,
                 const std::string& path, DaemonConfig* out) {
  for (const Knob& knob : kKnobs) {
    if (knob.section != section || knob.key != key.str()) continue;
    if (knob.set(node, *out)) return {};
    return at(path, node.source(),
              section + "." + std::string(knob.key) + ": expected " + std::string(knob.expected));
  }
  return at(path, key.source(),
            "unknown key '" + std::string(key.str()) + "' in [" + section +
                "]; known: " + known_keys(section));
}

}  // namespace

bool parse_gateway(const std::string& text, Ipv4* ipv4) {
  uint32_t prefix_bits = 0;
  return text.find('/') == std::string::npos && parse_address(text, ipv4, &prefix_bits);
}

bool valid_listen_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return false;
  const std::string host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  in_addr address{};
  if (inet_pton(AF_INET, host.c_str(), &address) != 1) return false;
  if (port.empty() || port.size() > 5 ||
      port.find_first_not_of("0123456789") != std::string::npos) {
    return false;
  }
  const int number = std::stoi(port);
  return number > 0 && number <= UINT16_MAX;
}

Status apply_daemon_toml(const std::string& text, const std::string& path, DaemonConfig* out) {
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    return at(path, parsed.error().source(), std::string(parsed.error().description()));
  }
  for (auto&& [key, node] : parsed.table()) {
    const std::string section(key.str());
    if (known_keys(section).empty()) {
      return at(path, key.source(),
                "unknown table or key '" + section +
                    "'; known tables: device, port, daemon, metrics, kernel");
    }
    const toml::table* table = node.as_table();
    if (table == nullptr) return at(path, node.source(), "'" + section + "' has to be a table");
    for (auto&& [inner_key, inner] : *table) {
      Status status = apply_key(section, inner_key, inner, path, out);
      if (!status.ok()) return status;
    }
  }
  return {};
}

Status load_daemon_file(const std::string& path, DaemonConfig* out) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_status(path, errno);
  std::string text;
  try {
    // The buffer throws past the stream, for example when the path is a directory.
    text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  } catch (const std::ios_base::failure& failure) {
    return {EINVAL, path + ": cannot be read (" + failure.what() + ")"};
  }
  if (file.bad()) return {EIO, path + ": cannot be read"};
  return apply_daemon_toml(text, path, out);
}

Status complete_daemon_config(const Environment& environment, unsigned uid, DaemonConfig* config) {
  if (config->ipv4.unspecified()) {
    return {EINVAL, "no address: give --address 10.73.0.1/24, or [device] address in the file"};
  }
  if (!config->mac_set) config->mac = derived_mac(config->ipv4);
  if (!config->gateway.unspecified() &&
      !same_subnet(config->gateway, config->ipv4, netmask(config->prefix_bits))) {
    return {
        EINVAL,
        "the gateway is not on the subnet of the address: give the address its prefix, like /24"};
  }
  if (config->gateway == config->ipv4) return {EINVAL, "the gateway is the device's own address"};
  if (!config->tap.empty() && config->port_spec == kNoWire) {
    return {EINVAL, "a tap needs a port that the kernel is to share: give --port, or [port] spec"};
  }
  if (config->shared_address && config->tap.empty()) {
    return {EINVAL, "shared_address needs a tap that has the address: give --tap, or [kernel] tap"};
  }
  if (config->socket.empty()) {
    config->socket = runtime_directory(environment, uid) + "/" + kSocketName;
  }
  return {};
}

}  // namespace mprdma::dataplane::mprdmad
