// Packets of a simulation as a capture file (pcapng), for Wireshark and whatever else reads one: at
// the hosts that they arrive at, or as they leave the two ports of one link.
//
// The headers are what the engine would send, from the functions that its frames are made with;
// host number n (from 0) is 10.x.y.z = 10.0.0.0 + n + 1 with the Ethernet address 02:4d:52 and its
// low three bytes, the same on all links, and the TTL is not counted down. Payload is zeros. A
// packet is cut off at the snap length, and its real length stands beside it, without preamble and
// FCS; the ICRC, right for that payload, is there where the snap length reaches it. Times are
// virtual, in nanoseconds since the beginning of the simulation: when the last bit has arrived at a
// host, or when the first one leaves a port.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "switchsim/sim/hosts/output_file.hpp"
#include "switchsim/sim/scenario/scenario.hpp"
#include "wire/packet.hpp"

namespace mprdma::switchsim {

class Capture {
 public:
  static constexpr uint32_t kSnapDefault = 128;  // all headers
  static constexpr uint32_t kSnapMax = 65'535;

  // Opens a capture of all hosts, with one interface for each; with `link`, of that link, with
  // interfaces "NAME.ab" and "NAME.ba". `snap_bytes` 0: whole packets.
  Status open(const std::string& path, uint32_t snap_bytes, const Scenario& scenario,
              std::optional<LinkId> link);
  // Writes the rest of the packets. An error may be of any write since open().
  Status close() { return file_.close(); }

  [[nodiscard]] std::optional<LinkId> link() const { return link_; }
  [[nodiscard]] uint64_t packets() const { return packets_; }

  // Writes a packet. Packets come in the order of time.
  void packet(uint32_t interface, SimTime at, NodeId from, NodeId to, const wire::Packet& packet);

 private:
  void put32(uint32_t value);
  void put_option(uint16_t code, const std::string& value);
  void begin_block(uint32_t type);
  void end_block();

  uint32_t snap_bytes_ = 0;
  std::optional<LinkId> link_;
  uint64_t packets_ = 0;
  OutputFile file_;
  std::vector<unsigned char> block_;  // that is being made
  std::vector<unsigned char> frame_;
};

}  // namespace mprdma::switchsim
