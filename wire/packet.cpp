#include "wire/packet.hpp"

#include <cstring>

#include "wire/atomic_ack_eth.hpp"
#include "wire/bth.hpp"
#include "wire/ieth.hpp"
#include "wire/immdt.hpp"
#include "wire/xrceth.hpp"

namespace mprdma::wire {

namespace {

// A congestion notification packet carries this many reserved bytes after its BTH (annex A17).
constexpr size_t kCnpReservedBytes = 16;

static_assert(Bth::kBytes + MpDataExt::kBytes + Reth::kBytes + ImmDt::kBytes ==
              opcode_info(Opcode::kMpWriteOnlyImm).header_bytes);
static_assert(Bth::kBytes + MpDataExt::kBytes + AtomicEth::kBytes ==
              opcode_info(Opcode::kMpCompareSwap).header_bytes);
static_assert(Bth::kBytes + MpAckExt::kBytes == opcode_info(Opcode::kMpAck).header_bytes);
static_assert(Bth::kBytes + MpAckExt::kBytes + MpAckMap::kBytes ==
              opcode_info(Opcode::kMpAckMap).header_bytes);
static_assert(Bth::kBytes + Aeth::kBytes + AtomicAckEth::kBytes ==
              opcode_info(Opcode::kRcAtomicAck).header_bytes);
static_assert(Bth::kBytes + Ieth::kBytes ==
              opcode_info(Opcode::kRcSendOnlyInvalidate).header_bytes);
static_assert(Bth::kBytes + Deth::kBytes == opcode_info(Opcode::kUdSendOnly).header_bytes);
static_assert(Bth::kBytes + Xrceth::kBytes == opcode_info(Opcode::kXrcSendOnly).header_bytes);
static_assert(Bth::kBytes + kCnpReservedBytes == opcode_info(Opcode::kCnp).header_bytes);

// Walks a run of headers; knows each one's length so that no caller adds offsets by hand.
template <typename Header>
void append(unsigned char*& cursor, const Header& header) {
  header.store(cursor);
  cursor += Header::kBytes;
}

template <typename Header>
Header take(const unsigned char*& cursor) {
  const Header header = Header::load(cursor);
  cursor += Header::kBytes;
  return header;
}

void load_extensions(const OpcodeInfo& info, const unsigned char* cursor, Packet& out) {
  if (info.has_mp_data) out.mp_data = take<MpDataExt>(cursor);
  if (info.has_mp_ack) out.mp_ack = take<MpAckExt>(cursor);
  if (!info.has_others) [[likely]] {
    if (info.has_reth) out.reth = take<Reth>(cursor);
    return;
  }
  if (info.has_mp_ack_map) out.mp_ack_map = take<MpAckMap>(cursor);
  if (info.has_xrceth) out.xrc_srqn = take<Xrceth>(cursor).srqn;
  if (info.has_deth) out.deth = take<Deth>(cursor);
  if (info.has_reth) out.reth = take<Reth>(cursor);
  if (info.has_atomic_eth) {
    const auto atomic = take<AtomicEth>(cursor);
    out.reth = {.va = atomic.va, .rkey = atomic.rkey, .dma_len = kAtomicBytes};
    out.atomic_swap_add = atomic.swap_add;
    out.atomic_compare = atomic.compare;
  }
  if (info.has_aeth) out.aeth = take<Aeth>(cursor);
  if (info.has_atomic_ack_eth) out.atomic_original = take<AtomicAckEth>(cursor).original;
  if (info.has_immdt) out.immdt = take<ImmDt>(cursor).data_be;
  if (info.has_ieth) out.ieth_rkey = take<Ieth>(cursor).rkey;
}

// What the extension at `in` must hold before load() gives it a meaning.
DropReason check_mp_extension(const OpcodeInfo& info, const unsigned char* in) {
  if (info.has_mp_data && MpDataExt::version(in) != kMpVersion) {
    return DropReason::kBadExtensionVersion;
  }
  if (info.has_mp_ack) {
    if (MpAckExt::version(in) != kMpVersion) return DropReason::kBadExtensionVersion;
    if (MpAckExt::nack_code(in) >= static_cast<uint8_t>(NackCode::kCount)) {
      return DropReason::kUnknownNackCode;
    }
  }
  return DropReason::kNone;
}

}  // namespace

const Packet kBlankPacket;

size_t encode_transport(const Packet& packet, unsigned char* out) {
  const OpcodeInfo& info = packet.info();
  unsigned char* cursor = out;
  append(cursor, Bth{.opcode = packet.opcode,
                     .solicited_event = packet.solicited_event,
                     .mig_req = packet.mig_req,
                     .pad_count = static_cast<uint8_t>(pad_bytes(packet.payload_len)),
                     .transport_version = 0,
                     .p_key = packet.p_key,
                     .fecn = packet.fecn,
                     .becn = packet.becn,
                     .dest_qpn = packet.dest_qpn,
                     .ack_req = packet.ack_req,
                     .irn = packet.irn && info.transport == TransportService::kRc,
                     .psn = packet.psn});
  if (info.has_mp_data) append(cursor, packet.mp_data);
  if (info.has_mp_ack) append(cursor, packet.mp_ack);
  if (!info.has_others) [[likely]] {
    if (info.has_reth) append(cursor, packet.reth);
    return static_cast<size_t>(cursor - out);
  }
  if (info.has_mp_ack_map) append(cursor, packet.mp_ack_map);
  if (info.has_xrceth) append(cursor, Xrceth{.srqn = packet.xrc_srqn});
  if (info.has_deth) append(cursor, packet.deth);
  if (info.has_reth) append(cursor, packet.reth);
  if (info.has_atomic_eth) {
    append(cursor, AtomicEth{.va = packet.reth.va,
                             .rkey = packet.reth.rkey,
                             .swap_add = packet.atomic_swap_add,
                             .compare = packet.atomic_compare});
  }
  if (info.has_aeth) append(cursor, packet.aeth);
  if (info.has_atomic_ack_eth) append(cursor, AtomicAckEth{.original = packet.atomic_original});
  if (info.has_immdt) append(cursor, ImmDt{.data_be = packet.immdt});
  if (info.has_ieth) append(cursor, Ieth{.rkey = packet.ieth_rkey});
  if (info.operation == Operation::kCnp) {
    std::memset(cursor, 0, kCnpReservedBytes);
    cursor += kCnpReservedBytes;
  }
  return static_cast<size_t>(cursor - out);
}

DropReason decode_transport(std::span<const unsigned char> headers, size_t transport_len,
                            Packet& out) {
  if (transport_len < Bth::kBytes || headers.size() < Bth::kBytes) return DropReason::kTruncatedBth;
  const unsigned char* const bth = headers.data();
  const uint32_t flags = bth[Bth::kFlagsOffset];
  const OpcodeInfo& info = opcode_info(bth[0]);
  if ((flags & Bth::kVersionMask) != 0) return DropReason::kBadTransportVersion;
  if (!info.valid) return DropReason::kUnknownOpcode;
  if (transport_len < info.header_bytes || headers.size() < info.header_bytes) {
    return DropReason::kTruncatedExtension;
  }

  const auto body_bytes = static_cast<uint32_t>(transport_len - info.header_bytes);
  const uint32_t pad_count = flags >> Bth::kPadShift & Bth::kPadMask;
  if (pad_count > body_bytes) return DropReason::kBadPad;
  if (body_bytes % kPayloadAlign != 0) return DropReason::kBadLength;
  if (body_bytes != 0 && !info.has_payload) return DropReason::kUnexpectedPayload;

  const unsigned char* extensions = bth + Bth::kBytes;
  const DropReason reason = check_mp_extension(info, extensions);
  if (reason != DropReason::kNone) return reason;

  const uint32_t qpn_word = load_be32(bth + 4);
  const uint32_t psn_word = load_be32(bth + 8);
  out = kBlankPacket;
  out.opcode = static_cast<Opcode>(bth[0]);
  out.solicited_event = (flags & Bth::kSolicitedEvent) != 0;
  out.mig_req = (flags & Bth::kMigReq) != 0;
  out.p_key = load_be16(bth + 2);
  if ((qpn_word & Bth::kCongestion) != 0) [[unlikely]] {
    out.fecn = (qpn_word & Bth::kFecn) != 0;
    out.becn = (qpn_word & Bth::kBecn) != 0;
  }
  out.ack_req = (psn_word & Bth::kAckReq) != 0;
  out.irn = (psn_word & Bth::kIrn) != 0 && info.transport == TransportService::kRc;
  out.psn = Psn(psn_word);
  out.dest_qpn = Qpn(qpn_word & kQpnMask);
  out.payload_len = body_bytes - pad_count;
  load_extensions(info, extensions, out);
  return DropReason::kNone;
}

}  // namespace mprdma::wire
