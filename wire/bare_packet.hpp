// A packet of a connection as two engines of one host exchange it in shared memory: the fields of
// its headers in the host's byte order, without Ethernet, IP, UDP, pad and ICRC, which such a wire
// has no use for. Only a port whose other end says that it reads them takes bare packets
// (dataplane/port/local_port_region.hpp); everything else there, and everything on a network, is a
// frame (frame.hpp). The payload follows at once.
//
//   byte  0      opcode
//         1      flags, kBare*
//         2..3   virtual path
//         4..7   PSN
//         8..11  destination queue pair
//         12..15 payload bytes
//                with the mp data extension, or none            with the mp ACK extension
//         16..19 timestamp                                      echoed timestamp
//         20..23 message number (bits 0..23), flags (24..31)    SACK PSN (0..23), run (24..31)
//         24..27 offset                                         MSN (0..23), delay (24..31)
//         28..31 immediate; rkey to invalidate; or AETH: MSN    flags (0..7), NACK code (8..15),
//                (0..23), syndrome (24..31)                     detail (16..23)
//         32..47 RETH: address, rkey, length                    0
//
// Atomics, datagrams, XRC, CNPs, packets of another partition and maps of acknowledgements are not
// carried, and no bare packet asks for a map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "wire/packet.hpp"

namespace mprdma::wire {

struct BarePacket {
  static constexpr size_t kBytes = 48;
  static constexpr uint8_t kSolicitedEvent = 1 << 0;
  static constexpr uint8_t kAckReq = 1 << 1;
  static constexpr uint8_t kFecn = 1 << 2;
  static constexpr uint8_t kBecn = 1 << 3;
  static constexpr uint8_t kCe = 1 << 4;
  static constexpr uint8_t kIrn = 1 << 5;

  uint8_t opcode;
  uint8_t flags;
  uint16_t vp;
  uint32_t psn;
  uint32_t dest_qpn;
  uint32_t payload_len;
  uint32_t time;
  uint32_t number;
  uint32_t offset;
  uint32_t extra;
  uint64_t va;
  uint32_t rkey;
  uint32_t dma_len;

  [[nodiscard]] static bool carries(const Packet& packet) {
    return packet.info().fits_bare && packet.mig_req && packet.p_key == kDefaultPKey;
  }

  // Requires carries(), and room for kBytes bytes at `out`.
  static void store(const Packet& packet, unsigned char* out) {
    BarePacket bare;
    bare.opcode = static_cast<uint8_t>(packet.opcode);
    bare.flags = static_cast<uint8_t>((packet.solicited_event ? kSolicitedEvent : 0) |
                                      (packet.ack_req ? kAckReq : 0) | (packet.fecn ? kFecn : 0) |
                                      (packet.becn ? kBecn : 0) | (packet.ce ? kCe : 0) |
                                      (packet.irn ? kIrn : 0));
    bare.vp = packet.vp;
    bare.psn = packet.psn.value();
    bare.dest_qpn = packet.dest_qpn.value();
    bare.payload_len = packet.payload_len;
    const OpcodeInfo& info = packet.info();
    if (info.has_mp_ack) {
      const MpAckExt& ack = packet.mp_ack;
      bare.time = ack.echoed_timestamp;
      bare.number = ack.sack.value() | uint32_t{ack.run} << 24;
      bare.offset = uint32_t{ack.msn} | uint32_t{ack.delay_us} << 24;
      bare.extra = uint32_t{ack.flags} | uint32_t{static_cast<uint8_t>(ack.nack)} << 8 |
                   uint32_t{ack.detail} << 16;
    } else {
      bare.time = packet.mp_data.timestamp;
      bare.number = packet.mp_data.message_number | uint32_t{packet.mp_data.flags & kFlags} << 24;
      bare.offset = packet.mp_data.offset;
      bare.extra = info.has_aeth   ? packet.aeth.msn | uint32_t{packet.aeth.syndrome} << 24
                   : info.has_ieth ? packet.ieth_rkey.value()
                                   : packet.immdt;
    }
    bare.va = packet.reth.va;
    bare.rkey = packet.reth.rkey.value();
    bare.dma_len = packet.reth.dma_len;
    std::memcpy(out, &bare, kBytes);
  }

  // Whatever the fields hold, the packet is one, or false: it is none of `bytes` bytes in all, and
  // `out` holds nothing of use. Requires a private copy.
  bool load(size_t bytes, Packet& out) const {
    const BarePacket& bare = *this;
    const OpcodeInfo& info = opcode_info(bare.opcode);
    if (!info.fits_bare || bytes != kBytes + size_t{bare.payload_len} ||
        (bare.payload_len != 0 && !info.has_payload)) {
      return false;
    }
    out = kBlankPacket;
    out.opcode = static_cast<Opcode>(bare.opcode);
    out.solicited_event = (bare.flags & kSolicitedEvent) != 0;
    out.ce = (bare.flags & kCe) != 0;
    out.vp = bare.vp;
    out.psn = Psn(bare.psn);
    out.dest_qpn = Qpn(bare.dest_qpn & kQpnMask);
    out.payload_len = bare.payload_len;
    if (info.has_mp_ack) {
      const uint32_t nack = bare.extra >> 8 & 0xff;
      if (nack >= static_cast<uint32_t>(NackCode::kCount)) return false;
      out.mp_ack.flags = static_cast<uint8_t>(bare.extra & kMpAckFlagsMask);
      out.mp_ack.nack = static_cast<NackCode>(nack);
      out.mp_ack.detail = static_cast<uint8_t>(bare.extra >> 16);
      out.mp_ack.run = static_cast<uint8_t>(bare.number >> 24);
      out.mp_ack.echoed_timestamp = bare.time;
      out.mp_ack.sack = Psn(bare.number);
      out.mp_ack.msn = bare.offset & kMessageNumberMask;
      out.mp_ack.delay_us = bare.offset >> 24;
      return true;
    }
    if (info.has_mp_data) {
      out.mp_data.flags = static_cast<uint8_t>(bare.number >> 24 & kFlags);
      out.mp_data.timestamp = bare.time;
      out.mp_data.message_number = bare.number & kMessageNumberMask;
      out.mp_data.offset = bare.offset;
    } else {
      load_standard(bare, info, out);
    }
    if (info.has_reth) {
      out.reth = {.va = bare.va, .rkey = Key(bare.rkey), .dma_len = bare.dma_len};
    }
    if (info.has_immdt) out.immdt = bare.extra;
    if (info.has_ieth) out.ieth_rkey = Key(bare.extra);
    return true;
  }

 private:
  // Of the mp data extension.
  static constexpr uint32_t kFlags = kMpDataFlagsMask & ~uint32_t{kMpDataTakesMaps};

  // What only packets of the standard's opcodes have.
  static void load_standard(const BarePacket& bare, const OpcodeInfo& info, Packet& out) {
    out.ack_req = (bare.flags & kAckReq) != 0;
    out.fecn = (bare.flags & kFecn) != 0;
    out.becn = (bare.flags & kBecn) != 0;
    out.irn = (bare.flags & kIrn) != 0 && info.transport == TransportService::kRc;
    if (!info.has_aeth) return;
    out.aeth.syndrome = static_cast<uint8_t>(bare.extra >> 24);
    out.aeth.msn = bare.extra & kMessageNumberMask;
  }
};

static_assert(sizeof(BarePacket) == BarePacket::kBytes);
static_assert(std::is_trivially_copyable_v<BarePacket>);

}  // namespace mprdma::wire
