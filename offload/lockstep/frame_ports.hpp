// The structs of mp_wire.sv in a verilated module's ports, and the software's: one list of fields
// for both ways.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/byte_order.hpp"
#include "offload/lockstep/wide_port.hpp"
#include "wire/frame.hpp"

namespace mprdma::offload {

// As opcode_t, the lowest field first.
struct OpcodeBits {
  explicit OpcodeBits(uint32_t bits) : rest(bits) {
    header_bytes = take(6);
    ieth = take(1) != 0;
    immdt = take(1) != 0;
    atomic_ack = take(1) != 0;
    aeth = take(1) != 0;
    atomic_eth = take(1) != 0;
    reth = take(1) != 0;
    deth = take(1) != 0;
    xrceth = take(1) != 0;
    mp_ack_map = take(1) != 0;
    mp_ack = take(1) != 0;
    mp_data = take(1) != 0;
    payload = take(1) != 0;
    ends = take(1) != 0;
    starts = take(1) != 0;
    cnp = take(1) != 0;
    rc = take(1) != 0;
    valid = take(1) != 0;
  }
  uint32_t take(uint32_t bits) {
    const uint32_t value = rest & ((1U << bits) - 1);
    rest >>= bits;
    return value;
  }

  uint32_t rest;
  uint32_t header_bytes;
  bool ieth, immdt, atomic_ack, aeth, atomic_eth, reth, deth, xrceth, mp_ack_map, mp_ack, mp_data,
      payload, ends, starts, cnp, rc, valid;
};

// Visits the fields of packet_t, the lowest first, as visit(field, bits); each is an unsigned
// number.
struct PacketFields {
  uint64_t ieth, immdt, msn, syndrome, original, compare, swap_add, dma_len, rkey, va, src_qpn,
      q_key, srqn, ack_map, delay_us, ack_msn, run, sack, echoed, detail, nack, ack_flags, offset,
      message_number, timestamp, data_flags, payload_bytes, psn, dest_qpn, p_key, irn, ack_req,
      becn, fecn, mig_req, solicited, opcode;

  template <class Visit>
  void each(Visit&& visit) {
    visit(ieth, 32), visit(immdt, 32), visit(msn, 24), visit(syndrome, 8);
    visit(original, 64), visit(compare, 64), visit(swap_add, 64);
    visit(dma_len, 32), visit(rkey, 32), visit(va, 64);
    visit(src_qpn, 24), visit(q_key, 32), visit(srqn, 24);
    visit(ack_map, 64), visit(delay_us, 8), visit(ack_msn, 24), visit(run, 8), visit(sack, 24);
    visit(echoed, 32), visit(detail, 8), visit(nack, 4), visit(ack_flags, 7);
    visit(offset, 32), visit(message_number, 24), visit(timestamp, 32), visit(data_flags, 4);
    visit(payload_bytes, 16), visit(psn, 24), visit(dest_qpn, 24), visit(p_key, 16);
    visit(irn, 1), visit(ack_req, 1), visit(becn, 1), visit(fecn, 1), visit(mig_req, 1);
    visit(solicited, 1), visit(opcode, 8);
  }
};

template <size_t kWords>
PacketFields get_packet(const VlWide<kWords>& words) {
  PacketFields out;
  Reader in(words);
  out.each([&](uint64_t& field, uint32_t bits) { field = in.get(bits); });
  return out;
}

template <size_t kWords>
void put_packet(PacketFields fields, VlWide<kWords>& words) {
  Writer out(words);
  fields.each([&](uint64_t& field, uint32_t bits) { out.put(field, bits); });
}

// What the RTL says of a packet: the fields that it says are there.
wire::Packet packet_of(const PacketFields& f, const OpcodeBits& has);
PacketFields fields_of(const wire::Packet& packet);

namespace internal {

// Bytes as they are on the wire, the first one highest.
template <class Port, size_t kBytes>
void put_bytes(Port& out, const std::array<uint8_t, kBytes>& bytes) {
  for (size_t i = kBytes; i > 0; --i) out.put(bytes[i - 1], 8);
}
template <class Port, size_t kBytes>
void get_bytes(Port& in, std::array<uint8_t, kBytes>* bytes) {
  for (size_t i = kBytes; i > 0; --i) (*bytes)[i - 1] = static_cast<uint8_t>(in.get(8));
}

}  // namespace internal

// As address_t; the virtual path is the packet's in software.
template <size_t kWords>
wire::FrameAddress get_address(const VlWide<kWords>& words, uint16_t* vp) {
  wire::FrameAddress out;
  Reader in(words);
  *vp = static_cast<uint16_t>(in.get(16));
  out.ip_identification = static_cast<uint16_t>(in.get(16));
  out.ttl = static_cast<uint8_t>(in.get(8));
  out.ecn = static_cast<wire::Ecn>(in.get(2));
  out.dscp = static_cast<uint8_t>(in.get(6));
  internal::get_bytes(in, &out.dst_ip);
  internal::get_bytes(in, &out.src_ip);
  out.is_ipv6 = in.get(1) != 0;
  internal::get_bytes(in, &out.src_mac);
  internal::get_bytes(in, &out.dst_mac);
  return out;
}

template <size_t kWords>
void put_address(const wire::FrameAddress& address, const wire::Packet& packet,
                 VlWide<kWords>& words) {
  Writer out(words);
  out.put(packet.vp, 16);
  out.put(address.ip_identification, 16);
  out.put(address.ttl, 8);
  out.put(static_cast<uint8_t>(packet.ce ? wire::Ecn::kCe : address.ecn), 2);
  out.put(address.dscp, 6);
  internal::put_bytes(out, address.dst_ip);
  internal::put_bytes(out, address.src_ip);
  out.put(address.is_ipv6 ? 1 : 0, 1);
  internal::put_bytes(out, address.src_mac);
  internal::put_bytes(out, address.dst_mac);
}

}  // namespace mprdma::offload
