// A fabric with two hosts, or more, on memory wires, and frames between them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "switchsim/fabric/fabric.hpp"
#include "tests/unit/dataplane/port/memory_port.hpp"
#include "wire/arp.hpp"
#include "wire/frame.hpp"

namespace mprdma::switchsim::testing {

using dataplane::testing::Bytes;
using dataplane::testing::MemoryPort;
using dataplane::testing::MemoryWire;

// Two hosts, so many paths of 1 Gb/s and 10 us.
inline std::string topology_text(int paths, const std::string& path_keys = "") {
  return "paths = " + std::to_string(paths) +
         "\n[path]\nrate = \"1Gbps\"\ndelay_us = 10\nqueue_kb = 100\n" + path_keys +
         "[[hosts]]\nname = \"h0\"\nip = \"10.73.0.1/24\"\n"
         "[[hosts]]\nname = \"h1\"\nip = \"10.73.0.2/24\"\n";
}

struct TwoHosts {
  explicit TwoHosts(const std::string& topology = topology_text(4)) {
    EXPECT_EQ(parse_fabric(topology, "test.toml", &config).text, "");
    std::vector<std::unique_ptr<dataplane::Port>> ports;
    for (size_t i = 0; i < config.hosts.size(); ++i) {
      wires.push_back(std::make_shared<MemoryWire>());
      ports.push_back(std::make_unique<MemoryPort>(wires[i], 1, config.hosts[i].mac));
      fabric_ports.push_back(static_cast<MemoryPort*>(ports.back().get()));
    }
    fabric = std::make_unique<Fabric>(config, std::move(ports), Time());
  }

  // From host to host, as a RoCE packet of that virtual path.
  [[nodiscard]] Bytes frame(size_t from, uint16_t vp, bool with_icrc = true) const {
    return frame_to(1 - from, from, vp, 1000, with_icrc);
  }
  [[nodiscard]] Bytes frame_to(size_t to, size_t from, uint16_t vp, uint32_t payload_len,
                               bool with_icrc = true) const {
    wire::Packet packet;
    packet.opcode = wire::Opcode::kMpSendOnly;
    packet.vp = vp;
    packet.payload_len = payload_len;
    wire::FrameAddress address;
    address.src_mac = config.hosts[from].mac;
    address.dst_mac = config.hosts[to].mac;
    address.src_ip = wire::map_ipv4(config.hosts[from].ipv4);
    address.dst_ip = wire::map_ipv4(config.hosts[to].ipv4);
    Bytes bytes(1400, 0x11);
    unsigned char* payload = bytes.data() + 200;
    const size_t headers = wire::encode_frame(address, packet, payload);
    const size_t length = wire::finish_frame(payload - headers, headers, payload_len, with_icrc);
    return {payload - headers, payload - headers + length};
  }
  [[nodiscard]] Bytes arp_request(size_t from) const {
    Bytes bytes(wire::kMinFrameBytes);
    wire::Arp arp;
    arp.sender_mac = config.hosts[from].mac;
    arp.sender_ip = config.hosts[from].ipv4;
    wire::encode_arp_frame(wire::kBroadcastMac, arp.sender_mac, arp, bytes.data());
    return bytes;
  }

  void send(size_t host, Bytes bytes) { wires[host]->inject(1, std::move(bytes)); }
  void run(Duration span) {
    const Time end = now + span;
    for (; now < end; now += Duration::us(5)) fabric->turn(now);
  }
  // What the host has been handed.
  std::deque<MemoryWire::Arrival>& inbox(size_t host) { return wires[host]->side[0].incoming; }

  FabricConfig config;
  std::vector<std::shared_ptr<MemoryWire>> wires;
  std::vector<MemoryPort*> fabric_ports;
  std::unique_ptr<Fabric> fabric;
  Time now;
};

}  // namespace mprdma::switchsim::testing
