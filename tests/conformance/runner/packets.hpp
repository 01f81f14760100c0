// Between the lines of a script that name a packet and the packet itself.
//
// Opcodes go without their prefix (SEND_FIRST), so that one script serves every mode; with it
// (MP_SEND_FIRST) they stand for themselves. ACK and NAK mean what the standard's do, in every
// mode: `ACK psn=N` acknowledges everything up to and including N, `NAK psn=N code=..` refuses N.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/conformance/runner/script.hpp"
#include "transport/core/qp_config.hpp"
#include "wire/packet.hpp"

namespace mprdma::conformance {

enum class Mode : uint8_t { kRoce, kMp, kIrn };

struct Dialect {
  Mode mode = Mode::kRoce;
  transport::QpService service = transport::QpService::kRc;
};

// Resolves the value of a field as a key of memory: a name or a number.
using KeyOf = std::function<Key(const Step& step, std::string_view text)>;

struct WirePacket {
  wire::Packet header;
  std::vector<uint8_t> payload;
  uint32_t ah = 0;
};

std::string describe(const WirePacket& packet);

// Throws ScriptFailure where the packet is not what the step expects.
void check_packet(const Step& step, const Dialect& dialect, const KeyOf& key_of,
                  const WirePacket& got);

// The peer of one queue pair, as far as the fields need it that a script leaves out: message
// numbers and offsets of mp, RETHs that every packet of a WRITE repeats there, the place in the
// payload. What was sent before under the same PSN is a duplicate, with the same fields.
class Peer {
 public:
  // `defaults` has what every packet to the queue pair starts with.
  WirePacket make(const Step& step, const Dialect& dialect, const KeyOf& key_of,
                  const wire::Packet& defaults);

 private:
  struct Place {
    uint32_t message_number = 0;
    uint32_t offset = 0;
    wire::Reth reth;
  };
  struct Stream {
    uint32_t message_number = 0;  // of what consumes receives; responses: of READs and atomics
    uint32_t read_number = 0;
    uint32_t offset = 0;
    wire::Reth reth;
    std::map<uint32_t, Place> sent;  // by PSN
  };

  // True: a packet with this PSN was sent before.
  bool fill_place(const Step& step, const Dialect& dialect, wire::Packet& packet, uint32_t& offset);

  Stream requests_;
  Stream responses_;
};

}  // namespace mprdma::conformance
