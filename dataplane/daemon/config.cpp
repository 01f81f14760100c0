#include "dataplane/daemon/config.hpp"

#include <arpa/inet.h>
#include <toml++/toml.h>

#include <cerrno>
#include <cstring>

#include "config/text_file.hpp"
#include "config/toml_keys.hpp"
#include "dataplane/client/protocol.hpp"
#include "dataplane/daemon/kernel_tap.hpp"
#include "dataplane/device_toml.hpp"
#include "dataplane/sys/address_text.hpp"
#include "dataplane/sys/runtime_directory.hpp"

namespace mprdma::dataplane::mprdmad {

namespace {

constexpr size_t kUidsMax = 1024;
constexpr uint32_t kLinkMbpsMax = 1'000'000;

using config::read_flag;
using config::read_integer;
using config::read_string;

bool set_spec(const toml::node& node, DaemonConfig& config) {
  return read_string(node, &config.port_spec) && !config.port_spec.empty();
}

bool set_link_mbps(const toml::node& node, DaemonConfig& config) {
  return read_integer(node, 1, kLinkMbpsMax, &config.link_mbps);
}

bool set_pfc(const toml::node& node, DaemonConfig& config) {
  return read_flag(node, &config.pfc);
}

bool set_pfc_priority(const toml::node& node, DaemonConfig& config) {
  return read_integer(node, 0, 7, &config.pfc_priority.emplace());
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

bool set_rings(const toml::node& node, DaemonConfig& config) {
  std::string text;
  return read_string(node, &text) && parse_ring_policy(text, &config.rings);
}

bool set_metrics(const toml::node& node, DaemonConfig& config) {
  return read_string(node, &config.metrics) && valid_listen_address(config.metrics);
}

bool set_tap(const toml::node& node, DaemonConfig& config) {
  return read_string(node, &config.tap) && valid_tap_name(config.tap);
}

bool set_shared_address(const toml::node& node, DaemonConfig& config) {
  return read_flag(node, &config.shared_address);
}

constexpr config::TomlKey<DaemonConfig> kKeys[] = {
    {"port", "spec", "\"ethdev:DEVARGS\", \"local:PATH\" or \"none\"", set_spec},
    {"port", "link_mbps", "a whole number in 1..1000000", set_link_mbps},
    {"port", "pfc", "true or false", set_pfc},
    {"port", "pfc_priority", "a whole number in 0..7", set_pfc_priority},
    {"daemon", "socket", "an absolute path", set_socket},
    {"daemon", "gateway", "an IPv4 address, like \"10.73.0.254\"", set_gateway},
    {"daemon", "allowed_uids", "a list of user ids, like [1000, 1001]", set_uids},
    {"daemon", "slots", "a power of two in 256..4096", set_slots},
    {"daemon", "direct_rings", "\"off\", \"same-user\" or \"all\"", set_rings},
    {"metrics", "listen", "an IPv4 address and a port, like \"127.0.0.1:9473\"", set_metrics},
    {"kernel", "tap", "the name of an interface, up to 15 characters", set_tap},
    {"kernel", "shared_address", "true or false", set_shared_address},
};

}  // namespace

bool parse_ring_policy(std::string_view text, RingPolicy* policy) {
  if (text == "off")
    *policy = RingPolicy::kOff;
  else if (text == "same-user")
    *policy = RingPolicy::kSameUser;
  else if (text == "all")
    *policy = RingPolicy::kAll;
  else
    return false;
  return true;
}

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
    return config::toml_error(path, parsed.error().source(),
                              std::string(parsed.error().description()));
  }
  const config::TomlKeys<DaemonConfig> keys({kDeviceKeys<DaemonConfig>, kKeys});
  return keys.apply(parsed.table(), path, out);
}

Status load_daemon_file(const std::string& path, DaemonConfig* out) {
  std::string text;
  const Status status = config::read_text_file(path, &text);
  return status.ok() ? apply_daemon_toml(text, path, out) : status;
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
    config->socket = runtime_directory(environment, uid) + "/" + client::kSocketName;
  }
  return {};
}

}  // namespace mprdma::dataplane::mprdmad
