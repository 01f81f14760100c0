// A switch with ports in memory: what clients and the wire send is put in by hand, what they get is
// taken out and looked at.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/ipv4.hpp"
#include "base/qpn.hpp"
#include "dataplane/daemon/switch.hpp"
#include "tests/support/print.hpp"
#include "tests/unit/dataplane/port/memory_port.hpp"
#include "wire/frame.hpp"

namespace mprdma::dataplane::mprdmad {

using dataplane::testing::Bytes;
using dataplane::testing::MemoryPort;
using dataplane::testing::MemoryWire;

inline constexpr Ipv4 kOurIp{0x0a490001};
inline constexpr Ipv4 kPeerIp{0x0a490002};
inline constexpr Ipv4 kGateway{0x0a4900fe};
inline constexpr Ipv4 kFarIp{0xc0a80105};
inline constexpr wire::MacAddress kOurMac = {2, 0x4d, 0x52, 0x49, 0, 1};
inline constexpr wire::MacAddress kPeerMac = {2, 0x4d, 0x52, 0x49, 0, 2};
inline constexpr wire::MacAddress kGroupMac = {1, 0, 0x5e, 1, 2, 3};

constexpr Qpn qpn_in(uint32_t block, uint32_t slot = 77) {
  return make_qpn(block * client::kBlockGenerations, slot);
}

struct FakeManagement final : Management {
  void on_mad(std::span<const unsigned char> bytes, const wire::IpAddress& from, Time) override {
    mads.emplace_back(bytes.begin(), bytes.end());
    last_from = from;
  }
  void on_resolved(const wire::IpAddress& to, const wire::MacAddress* mac, Time) override {
    resolved[to] = mac != nullptr ? *mac : wire::MacAddress{};
  }
  std::vector<Bytes> mads;
  wire::IpAddress last_from{};
  std::map<wire::IpAddress, wire::MacAddress> resolved;
};

// From us to the peer unless told otherwise.
struct FrameSpec {
  Qpn dest_qpn{2};
  wire::Opcode opcode = wire::Opcode::kMpSendOnly;
  Qpn src_qpn{};  // of a datagram
  Ipv4 src_ip = kOurIp;
  Ipv4 dst_ip = kPeerIp;
  wire::MacAddress src_mac = kOurMac;
  wire::MacAddress dst_mac = kPeerMac;
  uint32_t payload_bytes = 100;
  Bytes payload{};  // instead of a pattern
};

inline Bytes make_frame(const FrameSpec& spec) {
  Bytes buffer(256 + 4096 + 64);
  unsigned char* const payload = buffer.data() + 256;
  wire::Packet packet;
  packet.opcode = spec.opcode;
  packet.dest_qpn = spec.dest_qpn;
  packet.payload_len =
      spec.payload.empty() ? spec.payload_bytes : static_cast<uint32_t>(spec.payload.size());
  packet.deth = {.q_key = wire::kGeneralServicesQKey, .src_qpn = spec.src_qpn};
  for (uint32_t i = 0; i < packet.payload_len; ++i) {
    payload[i] = spec.payload.empty() ? static_cast<unsigned char>(i * 7) : spec.payload[i];
  }
  const wire::FrameAddress address{.dst_mac = spec.dst_mac,
                                   .src_mac = spec.src_mac,
                                   .src_ip = wire::map_ipv4(spec.src_ip),
                                   .dst_ip = wire::map_ipv4(spec.dst_ip)};
  const size_t headers = wire::encode_frame(address, packet, payload);
  const size_t length = wire::finish_frame(payload - headers, headers, packet.payload_len, true);
  return {payload - headers, payload - headers + length};
}

// The frame in the other direction: from the peer to us.
inline FrameSpec from_peer(FrameSpec spec) {
  spec.src_ip = kPeerIp;
  spec.dst_ip = kOurIp;
  spec.src_mac = kPeerMac;
  spec.dst_mac = kOurMac;
  return spec;
}

inline Bytes pair_mad(Qpn sender_qpn, Qpn receiver_qpn, bool response = false,
                      uint64_t transaction = 0) {
  Bytes bytes(wire::kMadBytes);
  wire::PairMad mad;
  mad.response = response;
  mad.transaction = transaction;
  mad.info.sender_qpn = sender_qpn;
  mad.info.receiver_qpn = receiver_qpn;
  mad.info.window_slots = 64;
  wire::encode_pair_mad(mad, std::span<unsigned char, wire::kMadBytes>(bytes));
  return bytes;
}

inline FrameSpec management(Bytes mad) {
  return {.dest_qpn = wire::kGeneralServicesQpn,
          .opcode = wire::Opcode::kUdSendOnly,
          .src_qpn = wire::kGeneralServicesQpn,
          .payload = std::move(mad)};
}

inline Bytes arp_frame(wire::ArpOperation operation, const wire::MacAddress& sender_mac,
                       Ipv4 sender_ip, Ipv4 target_ip,
                       const wire::MacAddress& to = wire::kBroadcastMac) {
  Bytes bytes(wire::kMinFrameBytes);
  wire::encode_arp_frame(to, sender_mac,
                         {.operation = operation,
                          .sender_mac = sender_mac,
                          .sender_ip = sender_ip,
                          .target_mac = {},
                          .target_ip = target_ip},
                         bytes.data());
  return bytes;
}

class SwitchBed {
 public:
  explicit SwitchBed(bool with_wire = true, Ipv4 gateway = {})
      : sw({.ipv4 = kOurIp, .prefix_bits = 24, .gateway = gateway, .mac = kOurMac, .seed = 3},
           with_wire ? std::make_unique<MemoryPort>(wire, 0, kOurMac) : nullptr, &management, now) {
  }

  void add(uint32_t block) {
    auto& line = clients[block] = std::make_shared<MemoryWire>();
    sw.add_client(block, std::make_unique<MemoryPort>(line, 0, kOurMac), now);
  }
  // The block's client, or the wire, sends.
  void client_sends(uint32_t block, Bytes frame) { clients[block]->inject(0, std::move(frame)); }
  void wire_sends(Bytes frame) { wire->inject(0, std::move(frame)); }
  // Turns until nothing moves.
  void run() {
    while (sw.turn(now)) {
    }
  }
  static std::vector<Bytes> take(MemoryWire& line) {
    std::vector<Bytes> out(line.side[1].incoming.begin(), line.side[1].incoming.end());
    line.side[1].incoming.clear();
    return out;
  }
  std::vector<Bytes> client_gets(uint32_t block) { return take(*clients[block]); }
  std::vector<Bytes> wire_gets() { return take(*wire); }
  [[nodiscard]] const StationCounters& of(uint32_t block) { return *sw.client_counters(block); }

  Time now = Time::from_ns(1'000'000'000);
  FakeManagement management;
  std::shared_ptr<MemoryWire> wire = std::make_shared<MemoryWire>();
  std::map<uint32_t, std::shared_ptr<MemoryWire>> clients;
  Switch sw;
};

}  // namespace mprdma::dataplane::mprdmad
