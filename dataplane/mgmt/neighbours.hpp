// Neighbours on the wire: ARP (RFC 826) for the device's IPv4 address and neighbour discovery
// (RFC 4861) for its link-local IPv6 address. Questions for these addresses are answered, messages
// of others are learnt from, and addresses that the table wants are asked for.
//
// A message in the name of our own address teaches nothing: it comes from another host that claims
// the address (a conflict, which is counted), or is our own.
//
// Pure: frames in, frames out by the host. Called by the worker and by mprdmad's switch.
#pragma once

#include <cstdint>
#include <span>

#include "base/ipv4.hpp"
#include "base/units.hpp"
#include "dataplane/mgmt/neighbour_table.hpp"
#include "dataplane/mgmt/nic_host.hpp"
#include "wire/ethernet.hpp"
#include "wire/frame.hpp"
#include "wire/ipv6.hpp"
#include "wire/neighbour.hpp"

namespace mprdma::dataplane {

class Neighbours {
 public:
  // Longest message of neighbour discovery, with options that we skip.
  static constexpr size_t kMessageBytesMax = 1024;

  // A frame of neighbour discovery.
  struct Discovery {
    wire::Ethernet ethernet;
    wire::Ipv6 ip;
    wire::NeighbourMessage message;
  };

  // `secret`: key of the table's hash.
  Neighbours(const wire::MacAddress& mac, Ipv4 ipv4, uint64_t secret)
      : mac_(mac), ipv4_(ipv4), link_local_(wire::link_local_of(mac)), table_(secret) {}

  void set_ipv4(Ipv4 ipv4) { ipv4_ = ipv4; }
  [[nodiscard]] const wire::IpAddress& link_local() const { return link_local_; }
  [[nodiscard]] bool is_own(const wire::IpAddress& ip) const {
    return ip == link_local_ || ip == wire::map_ipv4(ipv4_);
  }
  // The headers of a frame from us to `ip` by way of `mac`.
  [[nodiscard]] wire::FrameAddress address_of(const wire::IpAddress& ip,
                                              const wire::MacAddress& mac) const;
  [[nodiscard]] NeighbourTable& table() { return table_; }
  [[nodiscard]] const NeighbourTable& table() const { return table_; }

  // Take a frame, chosen by its EtherType or its IPv6 next header; both require an Ethernet header.
  // The bytes may change meanwhile, so they are copied once. True: the frame is malformed, or asked
  // for our address, so that a kernel that shares the wire need not see it.
  bool on_arp(std::span<const unsigned char> frame, NicHost& host);
  bool on_discovery(std::span<const unsigned char> frame, NicHost& host);
  // Learns the way back to the sender of a datagram, so that its answer needs no question first: a
  // missing neighbour is added, a known one never changed.
  void learn_sender(const wire::FrameAddress& from, NicHost& host);
  // Copies and parses a frame of neighbour discovery. False: the frame is malformed.
  static bool load(std::span<const unsigned char> frame, Discovery* out);

  // Tells all hosts that our IPv4 address is here (RFC 5227, 2.3): a request for it.
  void announce(NicHost& host) { send_arp_request(ipv4_, host); }
  // Asks for the addresses that are due. True: there were some.
  bool on_deadline(Time now, NicHost& host);

 private:
  void send_arp_request(Ipv4 ip, NicHost& host) const;
  void send_arp_reply(const wire::MacAddress& to_mac, Ipv4 to_ip, NicHost& host) const;
  void send_solicitation(const wire::IpAddress& ip, NicHost& host) const;
  void send_advertisement(const wire::MacAddress& to_mac, const wire::IpAddress& to_ip,
                          NicHost& host) const;

  wire::MacAddress mac_;
  Ipv4 ipv4_;
  wire::IpAddress link_local_;
  NeighbourTable table_;
};

}  // namespace mprdma::dataplane
