#include "dataplane/config.hpp"

#include <arpa/inet.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

namespace mprdma::dataplane {

bool parse_address(const std::string& text, uint32_t* ipv4, uint32_t* prefix_bits) {
  const size_t slash = text.find('/');
  in_addr address{};
  if (inet_pton(AF_INET, text.substr(0, slash).c_str(), &address) != 1) return false;
  uint32_t bits = 32;
  if (slash != std::string::npos) {
    const std::string tail = text.substr(slash + 1);
    char* end = nullptr;
    const unsigned long value = std::strtoul(tail.c_str(), &end, 10);
    if (tail.empty() || !std::isdigit(static_cast<unsigned char>(tail[0])) || *end != '\0') {
      return false;
    }
    if (value > 32) return false;
    bits = static_cast<uint32_t>(value);
  }
  const uint32_t host_order = ntohl(address.s_addr);
  const uint32_t first_byte = host_order >> 24;
  // Not "this host", not loopback, not multicast or reserved.
  if (first_byte == 0 || first_byte == 127 || first_byte >= 224) return false;
  // Nor the network's own address or its broadcast (RFC 3021 leaves /31 without either).
  if (bits < 31) {
    const uint32_t all_hosts = UINT32_MAX >> bits;
    const uint32_t host = host_order & all_hosts;
    if (host == 0 || host == all_hosts) return false;
  }
  *ipv4 = host_order;
  *prefix_bits = bits;
  return true;
}

bool parse_mac(const std::string& text, wire::MacAddress* mac) {
  unsigned int byte[6];
  int used = 0;
  const int found = std::sscanf(text.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%n", &byte[0], &byte[1],
                                &byte[2], &byte[3], &byte[4], &byte[5], &used);
  if (found != 6 || static_cast<size_t>(used) != text.size() || (byte[0] & 1u) != 0) return false;
  for (size_t i = 0; i < mac->size(); ++i) (*mac)[i] = static_cast<uint8_t>(byte[i]);
  return true;
}

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

wire::MacAddress derived_mac(uint32_t ipv4) {
  return {0x02,
          0x4d,
          0x52,
          static_cast<uint8_t>(ipv4 >> 16),
          static_cast<uint8_t>(ipv4 >> 8),
          static_cast<uint8_t>(ipv4)};
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
  }
  if (const char* value = variable(environment, "MPRDMA_DEVICE")) {
    if (!valid_device_name(value)) {
      return wrong("MPRDMA_DEVICE", value, "expected up to 63 letters, digits, '_' and '-'");
    }
    out->device_name = value;
  }
  if (const char* value = variable(environment, "MPRDMA_PORT")) out->port_spec = value;
  if (const char* value = variable(environment, "MPRDMA_FAULT")) {
    out->fault = FaultSpec{};
    const std::string error = parse_fault(value, &out->fault);
    if (!error.empty()) return wrong("MPRDMA_FAULT", value, error);
  }
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
  if (out->ipv4 == 0) {
    return "no address: start the program with `mprdma run -- PROGRAM`, or set MPRDMA_ADDRESS";
  }
  if (out->port_spec.empty()) {
    return "no port: start the program with `mprdma run -- PROGRAM`, or set MPRDMA_PORT, for "
           "example to local:/tmp/wire.sock";
  }
  return {};
}

}  // namespace mprdma::dataplane
