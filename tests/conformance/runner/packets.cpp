#include "tests/conformance/runner/packets.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "tests/conformance/runner/pattern.hpp"
#include "tests/conformance/runner/vocabulary.hpp"
#include "wire/print.hpp"

namespace mprdma::conformance {

namespace {

using transport::QpService;
using wire::Packet;
using wire::PacketStream;

struct PacketField {
  std::string_view key;
  uint64_t (*get)(const Packet&);
  void (*set)(Packet&, uint64_t);
};

#define FIELD(key, place)                                                                         \
  {                                                                                               \
    key, [](const Packet& p) -> uint64_t { return static_cast<uint64_t>(p.place); },              \
        [](Packet& p, uint64_t value) { p.place = static_cast<decltype(Packet{}.place)>(value); } \
  }
// Of a number with a type of its own.
#define NUMBER_FIELD(key, place)                                            \
  {                                                                         \
    key, [](const Packet& p) -> uint64_t { return p.place.value(); },       \
        [](Packet& p, uint64_t value) {                                     \
          p.place = decltype(Packet{}.place)(static_cast<uint32_t>(value)); \
        }                                                                   \
  }
#define FLAG_FIELD(key, place, flag)                                                         \
  {                                                                                          \
    key, [](const Packet& p) -> uint64_t { return (p.place & (flag)) != 0 ? 1 : 0; },        \
        [](Packet& p, uint64_t value) {                                                      \
          p.place = static_cast<uint8_t>(value != 0 ? p.place | (flag) : p.place & ~(flag)); \
        }                                                                                    \
  }

constexpr PacketField kFields[] = {
    FIELD("len", payload_len),
    FIELD("ackreq", ack_req),
    FIELD("irn", irn),
    FIELD("se", solicited_event),
    FIELD("fecn", fecn),
    FIELD("becn", becn),
    FIELD("mig", mig_req),
    FIELD("ce", ce),
    FIELD("pkey", p_key),
    FIELD("vp", vp),
    NUMBER_FIELD("dest", dest_qpn),
    FIELD("va", reth.va),
    NUMBER_FIELD("rkey", reth.rkey),
    FIELD("dmalen", reth.dma_len),
    FIELD("swap", atomic_swap_add),
    FIELD("add", atomic_swap_add),
    FIELD("compare", atomic_compare),
    FIELD("original", atomic_original),
    FIELD("syndrome", aeth.syndrome),
    FIELD("qkey", deth.q_key),
    NUMBER_FIELD("src", deth.src_qpn),
    FIELD("imm", immdt),
    NUMBER_FIELD("inv", ieth_rkey),
    FIELD("srqn", xrc_srqn),
    FIELD("msg", mp_data.message_number),
    FIELD("off", mp_data.offset),
    FIELD("ts", mp_data.timestamp),
    FIELD("nack", mp_ack.nack),
    FIELD("detail", mp_ack.detail),
    NUMBER_FIELD("sack", mp_ack.sack),
    FLAG_FIELD("retx", mp_data.flags, wire::kMpDataReTx),
    FLAG_FIELD("sync", mp_data.flags, wire::kMpDataSync),
    FLAG_FIELD("probe", mp_data.flags, wire::kMpDataTailProbe),
    FLAG_FIELD("ece", mp_ack.flags, wire::kMpAckEce),
    FLAG_FIELD("ordered", mp_ack.flags, wire::kMpAckOrderedPlacement),
    FLAG_FIELD("held", mp_ack.flags, wire::kMpAckHeld),
    FLAG_FIELD("sack_valid", mp_ack.flags, wire::kMpAckSackValid),
    FLAG_FIELD("stream", mp_ack.flags, wire::kMpAckResponseStream),
};

struct NakWord {
  std::string_view word;
  uint8_t syndrome;
  wire::NackCode nack;
};
constexpr NakWord kNaks[] = {
    {"sequence", wire::nak_syndrome(wire::NakCode::kPsnSequenceError),
     wire::NackCode::kSequenceError},
    {"invalid_request", wire::nak_syndrome(wire::NakCode::kInvalidRequest),
     wire::NackCode::kInvalidRequest},
    {"access", wire::nak_syndrome(wire::NakCode::kRemoteAccessError),
     wire::NackCode::kRemoteAccessError},
    {"operational", wire::nak_syndrome(wire::NakCode::kRemoteOperationalError),
     wire::NackCode::kRemoteOperationalError},
    {"rnr", wire::rnr_nak_syndrome(0), wire::NackCode::kRnr},
};

const NakWord& nak_of(const Step& step) {
  const auto* const nak = std::ranges::find(kNaks, step.text("code"), &NakWord::word);
  if (nak == std::end(kNaks)) {
    step.fail("expected one of: sequence invalid_request access operational rnr; got '" +
              step.text("code") + "'");
  }
  return *nak;
}

// The mode irn has RC's data, and the acknowledgements of mp.
std::string_view prefix_of(const Dialect& dialect, bool ack) {
  switch (dialect.service) {
    case QpService::kUc:
      return "UC_";
    case QpService::kUd:
      return "UD_";
    case QpService::kRc:
      return dialect.mode == Mode::kMp || (dialect.mode == Mode::kIrn && ack) ? "MP_" : "RC_";
    default:
      return dialect.mode == Mode::kMp ? "MP_" : "XRC_";
  }
}

bool is_ack(const Step& step) {
  return step.subject == "ACK" || step.subject == "NAK";
}

wire::Opcode opcode_of(const Step& step, const Dialect& dialect) {
  const std::string& word = step.subject;
  const std::string_view base = word == "NAK" ? std::string_view("ACK") : word;
  const std::string prefixed = std::string(prefix_of(dialect, is_ack(step))).append(base);
  for (unsigned i = 0; i < 256; ++i) {
    const auto opcode = static_cast<wire::Opcode>(i);
    if (!wire::opcode_info(opcode).valid) continue;
    const std::string_view name = wire::opcode_name(opcode);
    if (name == prefixed || name == word) return opcode;
  }
  step.fail("no such opcode here: '" + word + "' (nor '" + prefixed + "')");
}

// Fills the fields that carry the meaning of an ACK or a NAK in the packets of the mode.
void set_ack(const Step& step, const Dialect& dialect, Packet& packet) {
  const Psn psn(static_cast<uint32_t>(step.number("psn")));
  const NakWord* nak = step.subject == "NAK" ? &nak_of(step) : nullptr;
  const bool rnr = nak != nullptr && nak->nack == wire::NackCode::kRnr;
  const auto timer = static_cast<uint8_t>(rnr ? step.number_or("timer", 0) : 0);
  if (dialect.mode == Mode::kRoce) {
    packet.psn = psn;
    packet.aeth.syndrome =
        nak == nullptr ? wire::kAckSyndrome : static_cast<uint8_t>(nak->syndrome | timer);
    return;
  }
  packet.psn = nak == nullptr ? psn + 1 : psn;
  packet.mp_ack.sack = psn;
  packet.mp_ack.nack = nak == nullptr ? wire::NackCode::kNone : nak->nack;
  packet.mp_ack.detail = timer;
  packet.mp_ack.flags |= wire::kMpAckSackValid | wire::kMpAckOrderedPlacement;
}

uint64_t msn_of(const Packet& packet) {
  return packet.info().has_mp_ack ? packet.mp_ack.msn : packet.aeth.msn;
}

bool is_key(std::string_view field) {
  return field == "rkey" || field == "inv";
}

[[noreturn]] void differs(const Step& step, std::string_view key, const std::string& expected,
                          const std::string& got, const WirePacket& packet) {
  step.fail("expected " + std::string(key) + "=" + expected + ", got " + got + " in " +
            describe(packet));
}

void check_ack(const Step& step, const Dialect& dialect, const WirePacket& got) {
  Packet expected;
  set_ack(step, dialect, expected);
  const Packet& header = got.header;
  if (header.psn != expected.psn) {
    const bool plus_one = dialect.mode != Mode::kRoce && step.subject == "ACK";
    differs(step, "psn", step.text("psn"),
            std::to_string((header.psn - (plus_one ? 1 : 0)).value()), got);
  }
  if (dialect.mode != Mode::kRoce) {
    const bool same = header.mp_ack.nack == expected.mp_ack.nack &&
                      header.mp_ack.detail == expected.mp_ack.detail;
    if (!same) step.fail("expected another NACK code, got " + describe(got));
    return;
  }
  // Credits are left to the responder.
  const bool any_ack = step.subject == "ACK" && header.aeth.kind() == wire::AethKind::kAck;
  if (!any_ack && header.aeth.syndrome != expected.aeth.syndrome) {
    step.fail("expected another syndrome, got " + describe(got));
  }
}

bool has_irn_bit(const Dialect& dialect, const Packet& packet) {
  return dialect.mode == Mode::kIrn && packet.info().transport == wire::TransportService::kRc;
}

}  // namespace

std::string describe(const WirePacket& packet) {
  std::array<char, wire::kTextBytes> text;
  return std::string(wire::to_string(packet.header, text));
}

void check_packet(const Step& step, const Dialect& dialect, const KeyOf& key_of,
                  const WirePacket& got) {
  const Packet& header = got.header;
  const wire::Opcode opcode = opcode_of(step, dialect);
  if (header.opcode != opcode) {
    step.fail("expected " + std::string(wire::opcode_name(opcode)) + ", got " + describe(got));
  }
  if (header.irn != has_irn_bit(dialect, header) && !step.has("irn")) {
    step.fail("expected the bit of irn in packets of that mode alone, got " + describe(got));
  }
  if (is_ack(step)) {
    check_ack(step, dialect, got);
  } else if (step.has("psn") && header.psn.value() != step.number("psn")) {
    differs(step, "psn", step.text("psn"), std::to_string(header.psn.value()), got);
  }
  if (step.has("msn") && msn_of(header) != step.number("msn")) {
    differs(step, "msn", step.text("msn"), std::to_string(msn_of(header)), got);
  }
  if (step.has("ah") && got.ah != step.number("ah")) {
    differs(step, "ah", step.text("ah"), std::to_string(got.ah), got);
  }
  for (const PacketField& field : kFields) {
    if (!step.has(field.key)) continue;
    const uint64_t expected =
        is_key(field.key) ? key_of(step, step.text(field.key)).value() : step.number(field.key);
    if (field.get(header) != expected) {
      differs(step, field.key, step.text(field.key), std::to_string(field.get(header)), got);
    }
  }
  if (!step.has("data")) return;
  const std::string wrong =
      difference(pattern_of(step, step.text("data")), got.payload.data(), got.payload.size());
  if (!wrong.empty())
    step.fail("data=" + step.text("data") + ": " + wrong + " in " + describe(got));
}

bool Peer::fill_place(const Step& step, const Dialect& dialect, Packet& packet, uint32_t& offset) {
  const wire::OpcodeInfo& info = packet.info();
  if (info.stream == PacketStream::kAck) return false;
  const bool response = info.stream == PacketStream::kResponse;
  Stream& stream = response ? responses_ : requests_;
  const auto before = stream.sent.find(packet.psn.value());
  const bool seen = before != stream.sent.end();
  if (info.starts_message() && !seen) stream.offset = 0;
  Place place{
      .message_number = stream.message_number, .offset = stream.offset, .reth = stream.reth};
  const bool is_read = !info.has_payload;
  if (is_read && !response) place.message_number = stream.read_number;
  if (seen) {
    place = before->second;
  } else {
    stream.offset += packet.payload_len;
    if (info.ends_message()) {
      const bool counts = response || info.operation == wire::Operation::kSend || info.has_immdt;
      if (counts) ++stream.message_number;
      if (is_read && !response) ++stream.read_number;
    }
  }
  offset = place.offset;
  const bool again = !info.starts_message() || seen;
  if (again && info.has_reth) packet.reth = place.reth;
  if (info.operation == wire::Operation::kWrite && info.only)
    packet.reth.dma_len = packet.payload_len;
  if (info.operation == wire::Operation::kWrite && info.first && !again && !step.has("dmalen")) {
    step.fail("'" + step.subject + "' needs dmalen=");
  }
  if (dialect.mode == Mode::kMp) {
    packet.mp_data.message_number = place.message_number;
    packet.mp_data.offset = place.offset;
  }
  stream.sent[packet.psn.value()] = place;
  return seen;
}

WirePacket Peer::make(const Step& step, const Dialect& dialect, const KeyOf& key_of,
                      const Packet& defaults) {
  WirePacket made{.header = defaults, .payload = {}};
  Packet& packet = made.header;
  packet.opcode = opcode_of(step, dialect);
  packet.irn = has_irn_bit(dialect, packet);
  const wire::OpcodeInfo& info = packet.info();
  if (is_ack(step)) {
    set_ack(step, dialect, packet);
  } else {
    packet.psn = Psn(static_cast<uint32_t>(step.number_or("psn", 0)));
  }
  packet.payload_len = static_cast<uint32_t>(step.number_or("len", 0));
  if (info.has_atomic_eth) packet.reth.dma_len = wire::kAtomicBytes;
  if (info.has_aeth && !is_ack(step)) packet.aeth.syndrome = wire::kAckSyndrome;
  uint32_t offset = 0;
  const bool seen = fill_place(step, dialect, packet, offset);
  for (const PacketField& field : kFields) {
    if (!step.has(field.key)) continue;
    field.set(packet, is_key(field.key) ? key_of(step, step.text(field.key)).value()
                                        : step.number(field.key));
  }
  if (step.has("msn")) {
    packet.aeth.msn = packet.mp_ack.msn = static_cast<uint32_t>(step.number("msn"));
  }
  Stream& stream = info.stream == PacketStream::kResponse ? responses_ : requests_;
  if (info.has_reth) {
    stream.sent[packet.psn.value()].reth = packet.reth;
    if (info.starts_message() && !seen) stream.reth = packet.reth;
  }
  const Pattern standard{.letter = 'P', .offset = offset};
  const Pattern data = step.has("data") ? pattern_of(step, step.text("data")) : standard;
  made.payload = data.bytes(packet.payload_len);
  return made;
}

}  // namespace mprdma::conformance
