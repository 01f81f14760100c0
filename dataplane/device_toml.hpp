// The keys of [device] that the engine's configuration and mprdmad's share.
#pragma once

#include <string>

#include "config/toml_keys.hpp"
#include "dataplane/device_text.hpp"
#include "dataplane/sys/address_text.hpp"

namespace mprdma::dataplane {

template <class Config>
bool set_device_name(const toml::node& node, Config& config) {
  return config::read_string(node, &config.device_name) && valid_device_name(config.device_name);
}

template <class Config>
bool set_device_address(const toml::node& node, Config& config) {
  std::string text;
  return config::read_string(node, &text) && parse_address(text, &config.ipv4, &config.prefix_bits);
}

template <class Config>
bool set_device_mac(const toml::node& node, Config& config) {
  std::string text;
  config.mac_set = config::read_string(node, &text) && parse_mac(text, &config.mac);
  return config.mac_set;
}

template <class Config>
bool set_device_mtu(const toml::node& node, Config& config) {
  const bool good = config::read_integer(node, 1024, 4096, &config.mtu) && valid_mtu(config.mtu);
  if constexpr (requires { config.mtu_set; }) config.mtu_set = good;
  return good;
}

template <class Config>
inline constexpr config::TomlKey<Config> kDeviceKeys[] = {
    {"device", "name", "up to 63 letters, digits, '_' and '-'", set_device_name<Config>},
    {"device", "address", "an IPv4 address with its prefix, like \"10.73.0.1/24\"",
     set_device_address<Config>},
    {"device", "mac", "a unicast Ethernet address, like \"02:4d:52:49:00:01\"",
     set_device_mac<Config>},
    {"device", "mtu", "1024, 2048 or 4096", set_device_mtu<Config>},
};

}  // namespace mprdma::dataplane
