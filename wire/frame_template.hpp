// The outer headers (Ethernet, IPv4, UDP) of one address, encoded once and not once for each frame.
// Writes byte for byte what encode_frame() writes; over IPv6 it calls that.
//
// Of the outer headers only these bytes differ from one packet of a connection to the next: ECN
// (a packet that is marked), total length, header checksum, UDP source port, UDP length.
#pragma once

#include <array>
#include <cstdint>

#include "wire/frame.hpp"

namespace mprdma::wire {

class FrameTemplate {
 public:
  FrameTemplate() { set({}); }

  void set(const FrameAddress& address);
  void set_dst_mac(const MacAddress& mac) {
    address_.dst_mac = mac;
    set(FrameAddress(address_));
  }
  void set_ecn(Ecn ecn) {
    address_.ecn = ecn;
    set(FrameAddress(address_));
  }
  [[nodiscard]] const FrameAddress& address() const { return address_; }

  // encode_frame(address(), packet, payload_start).
  size_t encode(const Packet& packet, unsigned char* payload_start) const;

 private:
  static constexpr size_t kHeaderBytes = Ethernet::kBytes + Ipv4Header::kBytes + Udp::kBytes;
  // Copied whole, which overwrites bytes of the BTH; those are written afterwards.
  static constexpr size_t kCopied = 48;
  static_assert(kCopied <= kHeaderBytes + Bth::kBytes);

  FrameAddress address_;
  // Lengths and checksum are 0.
  alignas(16) std::array<unsigned char, kCopied> headers_{};
  uint32_t sum_ = 0;  // of the IPv4 header's 16-bit words, as it stands in headers_
};

}  // namespace mprdma::wire
