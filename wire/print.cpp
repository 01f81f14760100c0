#include "wire/print.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "wire/arp.hpp"
#include "wire/atomic_ack_eth.hpp"
#include "wire/bth.hpp"
#include "wire/ieth.hpp"
#include "wire/immdt.hpp"
#include "wire/ipv4.hpp"
#include "wire/ipv6.hpp"
#include "wire/pause_frame.hpp"
#include "wire/xrceth.hpp"

namespace mprdma::wire {

namespace {

constexpr std::array<std::string_view, static_cast<size_t>(NackCode::kCount)> kNackCodeNames = {
    "NONE",           "WINDOW_OVERFLOW", "BUDGET_EXHAUSTED",    "SYNC_TOO_EARLY",           "RNR",
    "SEQUENCE_ERROR", "INVALID_REQUEST", "REMOTE_ACCESS_ERROR", "REMOTE_OPERATIONAL_ERROR",
};
static_assert(!kNackCodeNames.back().empty());

constexpr std::array<std::string_view, 4> kEcnNames = {"NOT_ECT", "ECT1", "ECT0", "CE"};
constexpr std::array<std::string_view, 4> kAethKindNames = {"ACK", "RNR_NAK", "RESERVED", "NAK"};

std::string_view ecn_name(Ecn ecn) {
  return kEcnNames[static_cast<size_t>(ecn) & 0x3];
}

// The headers between BTH and payload.
void write_extensions(const Packet& packet, TextWriter& writer) {
  const OpcodeInfo& info = packet.info();
  if (info.has_mp_data) writer.text(" ").value(packet.mp_data);
  if (info.has_mp_ack) writer.text(" ").value(packet.mp_ack);
  if (info.has_mp_ack_map) writer.text(" ").value(packet.mp_ack_map);
  if (info.has_xrceth) writer.text(" ").value(Xrceth{.srqn = packet.xrc_srqn});
  if (info.has_deth) writer.text(" ").value(packet.deth);
  if (info.has_reth) writer.text(" ").value(packet.reth);
  if (info.has_atomic_eth) {
    writer.text(" ").value(AtomicEth{.va = packet.reth.va,
                                     .rkey = packet.reth.rkey,
                                     .swap_add = packet.atomic_swap_add,
                                     .compare = packet.atomic_compare});
  }
  if (info.has_aeth) writer.text(" ").value(packet.aeth);
  if (info.has_atomic_ack_eth) {
    writer.text(" ").value(AtomicAckEth{.original = packet.atomic_original});
  }
  if (info.has_immdt) writer.text(" ").value(ImmDt{.data_be = packet.immdt});
  if (info.has_ieth) writer.text(" ").value(Ieth{.rkey = packet.ieth_rkey});
}

}  // namespace

TextWriter& TextWriter::text(std::string_view text) {
  const size_t count = std::min(text.size(), out_.size() - used_);
  if (count > 0) std::memcpy(out_.data() + used_, text.data(), count);
  used_ += count;
  return *this;
}

TextWriter& TextWriter::dec(uint64_t value) {
  char digits[20];
  const auto result = std::to_chars(digits, digits + sizeof(digits), value);
  return text({digits, static_cast<size_t>(result.ptr - digits)});
}

TextWriter& TextWriter::hex(uint64_t value, int digits) {
  char buffer[16];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value, 16);
  const auto count = static_cast<int>(result.ptr - buffer);
  text("0x");
  for (int i = count; i < digits; ++i) text("0");
  return text({buffer, static_cast<size_t>(count)});
}

TextWriter& TextWriter::hex_bytes(std::span<const uint8_t> bytes, char separator) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  bool separate = false;
  for (const uint8_t byte : bytes) {
    if (separate) text({&separator, 1});
    separate = true;
    text(kDigits.substr(byte >> 4, 1)).text(kDigits.substr(byte & 0xf, 1));
  }
  return *this;
}

TextWriter& TextWriter::flag(bool set, std::string_view word) {
  if (set) text(" ").text(word);
  return *this;
}

std::string_view nack_code_name(NackCode code) {
  const auto index = static_cast<size_t>(code);
  return index < kNackCodeNames.size() ? kNackCodeNames[index] : "?";
}

std::string_view to_string(const MacAddress& mac, std::span<char> out) {
  return TextWriter(out).hex_bytes(mac, ':').view();
}

std::string_view to_string(const IpAddress& address, std::span<char> out) {
  TextWriter writer(out);
  const std::span<const uint8_t> bytes(address);
  if (is_mapped_ipv4(address)) {
    for (size_t i = 12; i < 16; ++i) writer.text(i == 12 ? "" : ".").dec(bytes[i]);
    return writer.view();
  }
  for (size_t i = 0; i < 16; i += 2) {
    if (i > 0) writer.text(":");
    writer.hex_bytes(bytes.subspan(i, 2), ':');
  }
  return writer.view();
}

std::string_view to_string(const Ethernet& ethernet, std::span<char> out) {
  return TextWriter(out)
      .value(ethernet.src)
      .text(" > ")
      .value(ethernet.dst)
      .text(" type=")
      .hex(ethernet.ether_type, 4)
      .view();
}

std::string_view to_string(const Ipv4Header& ip, std::span<char> out) {
  return TextWriter(out)
      .value(map_ipv4(ip.src))
      .text(" > ")
      .value(map_ipv4(ip.dst))
      .text(" dscp=")
      .dec(ip.dscp)
      .text(" ecn=")
      .text(ecn_name(ip.ecn))
      .text(" ttl=")
      .dec(ip.ttl)
      .text(" proto=")
      .dec(ip.protocol)
      .text(" len=")
      .dec(ip.total_length)
      .flag(ip.dont_fragment, "DF")
      .flag(ip.is_fragment(), "FRAGMENT")
      .view();
}

std::string_view to_string(const Ipv6& ip, std::span<char> out) {
  return TextWriter(out)
      .value(ip.src)
      .text(" > ")
      .value(ip.dst)
      .text(" dscp=")
      .dec(ip.dscp)
      .text(" ecn=")
      .text(ecn_name(ip.ecn))
      .text(" hops=")
      .dec(ip.hop_limit)
      .text(" next=")
      .dec(ip.next_header)
      .text(" flow=")
      .hex(ip.flow_label, 5)
      .text(" len=")
      .dec(ip.payload_length)
      .view();
}

std::string_view to_string(const Udp& udp, std::span<char> out) {
  return TextWriter(out)
      .text("udp ")
      .dec(udp.src_port)
      .text(" > ")
      .dec(udp.dst_port)
      .text(" len=")
      .dec(udp.length)
      .view();
}

std::string_view to_string(const PauseFrame& pause, std::span<char> out) {
  TextWriter writer(out);
  if (pause.whole_link) return writer.text("pause ").dec(pause.quanta[0]).view();
  writer.text("pfc");
  for (unsigned p = 0; p < PauseFrame::kPriorities; ++p) {
    if (!pause.concerns(static_cast<uint8_t>(1U << p))) continue;
    writer.text(" p").dec(p).text("=").dec(pause.quanta[p]);
  }
  return writer.view();
}

std::string_view to_string(const Arp& arp, std::span<char> out) {
  TextWriter writer(out);
  if (arp.operation == ArpOperation::kRequest) {
    return writer.text("arp who has ")
        .value(map_ipv4(arp.target_ip))
        .text(", tell ")
        .value(map_ipv4(arp.sender_ip))
        .view();
  }
  return writer.text("arp ")
      .value(map_ipv4(arp.sender_ip))
      .text(" is at ")
      .value(arp.sender_mac)
      .view();
}

std::string_view to_string(const Bth& bth, std::span<char> out) {
  return TextWriter(out)
      .text(opcode_name(bth.opcode))
      .text(" psn=")
      .dec(bth.psn.value())
      .text(" dest=")
      .hex(bth.dest_qpn.value(), 6)
      .text(" pkey=")
      .hex(bth.p_key, 4)
      .text(" pad=")
      .dec(bth.pad_count)
      .flag(bth.solicited_event, "SE")
      .flag(bth.mig_req, "M")
      .flag(bth.ack_req, "ACKREQ")
      .flag(bth.irn, "IRN")
      .flag(bth.fecn, "FECN")
      .flag(bth.becn, "BECN")
      .view();
}

std::string_view to_string(const MpDataExt& ext, std::span<char> out) {
  return TextWriter(out)
      .text("ts=")
      .dec(ext.timestamp)
      .text(" msg=")
      .dec(ext.message_number)
      .text(" off=")
      .dec(ext.offset)
      .flag((ext.flags & kMpDataReTx) != 0, "RETX")
      .flag((ext.flags & kMpDataSync) != 0, "SYNC")
      .flag((ext.flags & kMpDataTailProbe) != 0, "PROBE")
      .flag((ext.flags & kMpDataTakesMaps) != 0, "MAPS")
      .view();
}

std::string_view to_string(const MpAckExt& ext, std::span<char> out) {
  TextWriter writer(out);
  writer.text((ext.flags & kMpAckResponseStream) != 0 ? "stream=response" : "stream=request");
  if ((ext.flags & kMpAckSackValid) != 0) writer.text(" sack=").dec(ext.sack.value());
  if (ext.run != 0) writer.text(" run=").dec(ext.run);
  if (ext.nack != NackCode::kNone) writer.text(" nack=").text(nack_code_name(ext.nack));
  if (ext.nack == NackCode::kRnr) writer.text(" timer=").dec(ext.detail);
  writer.text(" msn=").dec(ext.msn).text(" echo=").dec(ext.echoed_timestamp);
  if (ext.delay_us != 0) writer.text(" delay=").dec(ext.delay_us);
  return writer.flag((ext.flags & kMpAckEce) != 0, "ECE")
      .flag((ext.flags & kMpAckReTx) != 0, "RETX")
      .flag((ext.flags & kMpAckOrderedPlacement) != 0, "ORDERED")
      .flag((ext.flags & kMpAckHeld) != 0, "HELD")
      .flag((ext.flags & kMpAckDuplicate) != 0, "DUPLICATE")
      .view();
}

std::string_view to_string(const MpAckMap& map, std::span<char> out) {
  return TextWriter(out).text("map=").hex(map.received, 16).view();
}

std::string_view to_string(const Reth& reth, std::span<char> out) {
  return TextWriter(out)
      .text("va=")
      .hex(reth.va)
      .text(" rkey=")
      .hex(reth.rkey.value(), 8)
      .text(" dmalen=")
      .dec(reth.dma_len)
      .view();
}

std::string_view to_string(const Aeth& aeth, std::span<char> out) {
  return TextWriter(out)
      .text("aeth=")
      .text(kAethKindNames[static_cast<size_t>(aeth.kind()) & 0x3])
      .text("/")
      .dec(aeth.value())
      .text(" msn=")
      .dec(aeth.msn)
      .view();
}

std::string_view to_string(const Deth& deth, std::span<char> out) {
  return TextWriter(out)
      .text("qkey=")
      .hex(deth.q_key, 8)
      .text(" src=")
      .hex(deth.src_qpn.value(), 6)
      .view();
}

std::string_view to_string(const Xrceth& xrceth, std::span<char> out) {
  return TextWriter(out).text("xrcsrq=").hex(xrceth.srqn, 6).view();
}

std::string_view to_string(const AtomicEth& atomic, std::span<char> out) {
  return TextWriter(out)
      .text("va=")
      .hex(atomic.va)
      .text(" rkey=")
      .hex(atomic.rkey.value(), 8)
      .text(" swapadd=")
      .hex(atomic.swap_add)
      .text(" compare=")
      .hex(atomic.compare)
      .view();
}

std::string_view to_string(const AtomicAckEth& ack, std::span<char> out) {
  return TextWriter(out).text("original=").hex(ack.original).view();
}

std::string_view to_string(const ImmDt& immdt, std::span<char> out) {
  unsigned char bytes[ImmDt::kBytes];
  immdt.store(bytes);
  return TextWriter(out).text("imm=").hex(load_be32(bytes), 8).view();
}

std::string_view to_string(const Ieth& ieth, std::span<char> out) {
  return TextWriter(out).text("invalidate=").hex(ieth.rkey.value(), 8).view();
}

std::string_view to_string(const Packet& packet, std::span<char> out) {
  TextWriter writer(out);
  writer.text(opcode_name(packet.opcode))
      .text(" psn=")
      .dec(packet.psn.value())
      .text(" dest=")
      .hex(packet.dest_qpn.value(), 6)
      .text(" vp=")
      .dec(packet.vp)
      .text(" len=")
      .dec(packet.payload_len)
      .flag(packet.ce, "CE")
      .flag(packet.solicited_event, "SE")
      .flag(packet.ack_req, "ACKREQ")
      .flag(packet.irn, "IRN")
      .flag(packet.fecn, "FECN")
      .flag(packet.becn, "BECN");
  write_extensions(packet, writer);
  return writer.view();
}

std::string_view to_string(const DecodedFrame& frame, std::span<char> out) {
  return TextWriter(out)
      .value(frame.address.src_ip)
      .text(" > ")
      .value(frame.address.dst_ip)
      .text(" ")
      .value(frame.packet)
      .view();
}

}  // namespace mprdma::wire
