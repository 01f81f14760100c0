#include "offload/lockstep/frame_ports.hpp"

#include "base/byte_order.hpp"

namespace mprdma::offload {

wire::Packet packet_of(const PacketFields& f, const OpcodeBits& has) {
  const auto u32 = [](uint64_t value) { return static_cast<uint32_t>(value); };
  const auto u8 = [](uint64_t value) { return static_cast<uint8_t>(value); };
  wire::Packet out;
  out.opcode = static_cast<wire::Opcode>(f.opcode);
  out.solicited_event = f.solicited != 0;
  out.mig_req = f.mig_req != 0;
  out.fecn = f.fecn != 0;
  out.becn = f.becn != 0;
  out.ack_req = f.ack_req != 0;
  out.irn = f.irn != 0;
  out.p_key = static_cast<uint16_t>(f.p_key);
  out.dest_qpn = Qpn(u32(f.dest_qpn));
  out.psn = Psn(u32(f.psn));
  out.payload_len = u32(f.payload_bytes);
  if (has.mp_data) {
    out.mp_data = {.flags = u8(f.data_flags),
                   .timestamp = u32(f.timestamp),
                   .message_number = u32(f.message_number),
                   .offset = u32(f.offset)};
  }
  if (has.mp_ack) {
    out.mp_ack.flags = u8(f.ack_flags);
    out.mp_ack.nack = static_cast<wire::NackCode>(f.nack);
    out.mp_ack.detail = u8(f.detail);
    out.mp_ack.run = u8(f.run);
    out.mp_ack.echoed_timestamp = u32(f.echoed);
    out.mp_ack.sack = Psn(u32(f.sack));
    out.mp_ack.msn = u32(f.ack_msn) & kPsnMask;
    out.mp_ack.delay_us = u8(f.delay_us);
  }
  if (has.mp_ack_map) out.mp_ack_map.received = f.ack_map;
  if (has.xrceth) out.xrc_srqn = u32(f.srqn);
  if (has.deth) out.deth = {.q_key = u32(f.q_key), .src_qpn = Qpn(u32(f.src_qpn))};
  if (has.reth || has.atomic_eth) {
    out.reth = {.va = f.va, .rkey = Key(u32(f.rkey)), .dma_len = u32(f.dma_len)};
  }
  if (has.atomic_eth) {
    out.atomic_swap_add = f.swap_add;
    out.atomic_compare = f.compare;
  }
  if (has.aeth) {
    out.aeth.syndrome = u8(f.syndrome);
    out.aeth.msn = u32(f.msn) & kPsnMask;
  }
  if (has.atomic_ack) out.atomic_original = f.original;
  unsigned char immdt[sizeof(out.immdt)];
  store_be32(immdt, u32(f.immdt));
  if (has.immdt) std::memcpy(&out.immdt, immdt, sizeof(immdt));
  if (has.ieth) out.ieth_rkey = Key(u32(f.ieth));
  return out;
}

PacketFields fields_of(const wire::Packet& p) {
  unsigned char immdt[sizeof(p.immdt)];
  std::memcpy(immdt, &p.immdt, sizeof(immdt));
  PacketFields out = {};
  out.opcode = static_cast<uint8_t>(p.opcode);
  out.solicited = p.solicited_event ? 1 : 0;
  out.mig_req = p.mig_req ? 1 : 0;
  out.fecn = p.fecn ? 1 : 0;
  out.becn = p.becn ? 1 : 0;
  out.ack_req = p.ack_req ? 1 : 0;
  out.irn = p.irn ? 1 : 0;
  out.p_key = p.p_key;
  out.dest_qpn = p.dest_qpn.value();
  out.psn = p.psn.value();
  out.payload_bytes = p.payload_len;
  out.data_flags = p.mp_data.flags;
  out.timestamp = p.mp_data.timestamp;
  out.message_number = p.mp_data.message_number;
  out.offset = p.mp_data.offset;
  out.ack_flags = p.mp_ack.flags;
  out.nack = static_cast<uint8_t>(p.mp_ack.nack);
  out.detail = p.mp_ack.detail;
  out.echoed = p.mp_ack.echoed_timestamp;
  out.sack = p.mp_ack.sack.value();
  out.run = p.mp_ack.run;
  out.ack_msn = p.mp_ack.msn;
  out.delay_us = p.mp_ack.delay_us;
  out.ack_map = p.mp_ack_map.received;
  out.srqn = p.xrc_srqn;
  out.q_key = p.deth.q_key;
  out.src_qpn = p.deth.src_qpn.value();
  out.va = p.reth.va;
  out.rkey = p.reth.rkey.value();
  out.dma_len = p.reth.dma_len;
  out.swap_add = p.atomic_swap_add;
  out.compare = p.atomic_compare;
  out.original = p.atomic_original;
  out.syndrome = p.aeth.syndrome;
  out.msn = p.aeth.msn;
  out.immdt = load_be32(immdt);
  out.ieth = p.ieth_rkey.value();
  return out;
}

}  // namespace mprdma::offload
