#include "dataplane/sys/address_text.hpp"

#include <arpa/inet.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>

namespace mprdma::dataplane {

bool parse_address(const std::string& text, Ipv4* ipv4, uint32_t* prefix_bits) {
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
  const Ipv4 parsed(ntohl(address.s_addr));
  const uint32_t first_byte = parsed.value() >> 24;
  // Excludes "this host", loopback, multicast and reserved addresses.
  if (first_byte == 0 || first_byte == 127 || first_byte >= 224) return false;
  // Excludes the network's own address and its broadcast (RFC 3021 leaves /31 without either).
  if (bits < 31) {
    const uint32_t all_hosts = UINT32_MAX >> bits;
    const uint32_t host = parsed.value() & all_hosts;
    if (host == 0 || host == all_hosts) return false;
  }
  *ipv4 = parsed;
  *prefix_bits = bits;
  return true;
}

bool parse_mac(const std::string& text, wire::MacAddress* mac) {
  unsigned int byte[6];
  int used = 0;
  const int found = std::sscanf(text.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%n", &byte[0], &byte[1],
                                &byte[2], &byte[3], &byte[4], &byte[5], &used);
  if (found != 6 || static_cast<size_t>(used) != text.size()) return false;
  wire::MacAddress parsed;
  for (size_t i = 0; i < parsed.size(); ++i) parsed[i] = static_cast<uint8_t>(byte[i]);
  if (wire::is_multicast(parsed)) return false;
  *mac = parsed;
  return true;
}

std::string address_text(Ipv4 ipv4) {
  std::array<char, INET_ADDRSTRLEN> text{};
  const in_addr address{htonl(ipv4.value())};
  inet_ntop(AF_INET, &address, text.data(), text.size());
  return text.data();
}

std::string mac_text(const wire::MacAddress& mac) {
  std::array<char, 18> text{};
  std::snprintf(text.data(), text.size(), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2],
                mac[3], mac[4], mac[5]);
  return text.data();
}

wire::MacAddress derived_mac(Ipv4 ipv4) {
  return {0x02,
          0x4d,
          0x52,
          static_cast<uint8_t>(ipv4.value() >> 16),
          static_cast<uint8_t>(ipv4.value() >> 8),
          static_cast<uint8_t>(ipv4.value())};
}

}  // namespace mprdma::dataplane
