// What a sending half in hardware is told, and what it lets leave (offload_sender.hpp).
#pragma once

#include <cstdint>

#include "base/psn.hpp"
#include "wire/mp_ack_ext.hpp"

namespace mprdma::transport {

struct OffloadAck {
  Psn aack;
  bool sack_valid = false;
  Psn sack;
  wire::NackCode nack = wire::NackCode::kNone;
  bool ece = false;
  bool copy = false;    // of a packet that was sent again
  bool sample = false;  // the round trip counts
  uint32_t echoed_timestamp = 0;
  uint32_t delay_us = 0;
  uint16_t vp = 0;
};

struct OffloadPacketOut {
  enum class Kind : uint8_t { kNew, kCopy, kProbe };
  Kind kind = Kind::kNew;
  Psn psn;
  uint16_t vp = 0;
};

}  // namespace mprdma::transport
