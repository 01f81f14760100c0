#include "offload/lockstep/parser_device.hpp"

#include <Vmp_parser.h>
#include <fmt/format.h>

#include <algorithm>

#include "offload/lockstep/frame_ports.hpp"
#include "offload/lockstep/verilated_module.hpp"
#include "wire/print.hpp"
#ifdef MPRDMA_RTL_MUTANTS
#include <Vmp_parser_mp_mutant.h>
#endif

namespace mprdma::offload {

std::string ParserRequest::text() const {
  std::string out = fmt::format("{} bytes", frame.size());
  for (size_t i = 0; i < std::min<size_t>(frame.size(), 2 * kBeatBytes); ++i) {
    out += fmt::format("{}{:02x}", i % 16 == 0 ? " " : "", frame[i]);
  }
  return out;
}

bool ParserReply::operator==(const ParserReply& other) const {
  if (reason != other.reason || reason != wire::DropReason::kNone) return reason == other.reason;
  return frame.packet == other.frame.packet && frame.address == other.frame.address &&
         frame.payload_offset == other.frame.payload_offset && starts == other.starts &&
         ends == other.ends;
}

std::string ParserReply::text() const {
  char line[1024];
  if (reason != wire::DropReason::kNone) return std::string(wire::drop_reason_name(reason));
  return fmt::format("{} payload at {}{}{}", wire::to_string(frame, line), frame.payload_offset,
                     starts ? " starts" : "", ends ? " ends" : "");
}

ParserDevice::ParserDevice(int seed, uint32_t mutant)
    : module_(std::make_unique<VerilatedModule<Vmp_parser>>(seed, mutant)) {}

ParserDevice::~ParserDevice() = default;

void ParserDevice::record(const std::string& path) {
  module_->record(path);
}

std::optional<ParserReply> ParserDevice::step(const FrameBeat* beat) {
  VerilatedModule<Vmp_parser>& top = *module_;
  top->in_valid = beat != nullptr ? 1 : 0;
  if (beat != nullptr) {
    Writer out(top->in_data);
    for (const uint8_t byte : beat->data) out.put(byte, 8);
    top->in_last = beat->last ? 1 : 0;
    top->in_bytes = static_cast<uint8_t>(beat->bytes);
  }
  top.begin();
  std::optional<ParserReply> reply;
  if (top->out_valid != 0) {
    const OpcodeBits has(top->out_info);
    uint16_t vp = 0;
    reply.emplace();
    reply->reason = static_cast<wire::DropReason>(top->out_reason);
    reply->frame.address = get_address(top->out_address, &vp);
    reply->frame.packet = packet_of(get_packet(top->out_packet), has);
    reply->frame.packet.vp = vp;
    reply->frame.packet.ipv4 = !reply->frame.address.is_ipv6;
    reply->frame.packet.ce = reply->frame.address.ecn == wire::Ecn::kCe;
    reply->frame.payload_offset = top->out_payload_offset;
    reply->starts = has.starts;
    reply->ends = has.ends;
  }
  top.end();
  return reply;
}

void ParserDevice::reset(const FrameBeat& beat) {
  (*module_)->reset = 1;
  step(&beat);
  (*module_)->reset = 0;
}

}  // namespace mprdma::offload
