// Parsing and printing of addresses, and a host's default Ethernet address. Shared by the
// configuration of a device and by the fabric, which must expect the same default. Any thread; no
// state.
#pragma once

#include <cstdint>
#include <string>

#include "base/ipv4.hpp"
#include "wire/ethernet.hpp"

namespace mprdma::dataplane {

// "10.73.0.1" or "10.73.0.1/24", the address of a host.
bool parse_address(const std::string& text, Ipv4* ipv4, uint32_t* prefix_bits);
// "02:4d:52:49:00:01", unicast.
bool parse_mac(const std::string& text, wire::MacAddress* mac);
std::string address_text(Ipv4 ipv4);
std::string mac_text(const wire::MacAddress& mac);
// 02:4d:52 and the low three bytes of the address.
wire::MacAddress derived_mac(Ipv4 ipv4);

}  // namespace mprdma::dataplane
