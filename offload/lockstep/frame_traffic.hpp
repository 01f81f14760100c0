// Packets and frames of any kind, whole and broken, for the lock-step of parser and builder.
#pragma once

#include <cstdint>
#include <vector>

#include "base/prng.hpp"
#include "wire/frame.hpp"

namespace mprdma::offload {

class FrameTraffic {
 public:
  explicit FrameTraffic(uint64_t seed);

  // Any opcode, any fields, a payload where the opcode has one; about the lengths at which a frame
  // needs one beat more.
  wire::Packet packet();
  wire::FrameAddress address(const wire::Packet& packet);
  std::vector<uint8_t> payload(uint32_t bytes);
  // A frame; half of them with something wrong, so that each check has its turn.
  std::vector<uint8_t> frame();

 private:
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(prng_.below(n)); }
  uint32_t bits(uint32_t n) { return static_cast<uint32_t>(prng_.next_u64() >> (64 - n)); }
  uint32_t payload_bytes();
  void damage(std::vector<uint8_t>& frame);
  void damage_network(std::vector<uint8_t>& frame);
  void damage_transport(std::vector<uint8_t>& frame);

  Prng prng_;
  std::vector<wire::Opcode> opcodes_;
};

// The frame of a packet, by the software.
std::vector<uint8_t> frame_of(const wire::FrameAddress& address, const wire::Packet& packet,
                              const std::vector<uint8_t>& payload);

}  // namespace mprdma::offload
