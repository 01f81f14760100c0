"""Small breakages of the wire formats, which the unit tests of wire/ must find: lengths and checks
of what comes from a network, bytes in their places, and what the ICRC leaves out.

Fields: see mutants.py; files are of wire/. Of a header that no source of wire/ needs, what is
compiled again is the test.

The multiplication of icrc_clmul.cpp is not here: not every processor has it.
"""

from mutants import maker

_mutant = maker("wire-", "wire")


def _header(name, file, test, old, new, why):
    return _mutant(name, file, old, new, why, rebuild=[f"../tests/unit/wire/{test}"])


MUTANTS = [
    # ---- BTH and its extensions
    _mutant(
        "pad-of-more-than-there-is",
        "packet.cpp",
        "  if (pad_count > body_bytes) return DropReason::kBadPad;\n",
        "",
        "three bytes from anybody are a payload of four gigabytes",
    ),
    _mutant(
        "pad-is-payload",
        "packet.cpp",
        "body_bytes - pad_count;",
        "body_bytes;",
        "every message of an odd length gets zeros at its end",
    ),
    _mutant(
        "acknowledgement-with-payload",
        "packet.cpp",
        "  if (body_bytes != 0 && !info.has_payload) return DropReason::kUnexpectedPayload;\n",
        "",
        "what no other implementation takes counts as an acknowledgement",
    ),
    _mutant(
        "one-nack-code-too-many",
        "packet.cpp",
        "MpAckExt::nack_code(in) >= static_cast",
        "MpAckExt::nack_code(in) > static_cast",
        "a code of a later version is one that nobody handles",
    ),
    _mutant(
        "headers-beyond-the-private-copy",
        "packet.cpp",
        "transport_len < info.header_bytes || headers.size() < info.header_bytes",
        "transport_len < info.header_bytes",
        "a process reads what lies behind its copy of the headers",
    ),
    _mutant(
        "the-packet-before-shows",
        "packet.cpp",
        "  out = kBlankPacket;\n",
        "",
        "a packet has the address, the key or the immediate of another one",
    ),
    _mutant(
        "notification-shows-memory",
        "packet.cpp",
        "    std::memset(cursor, 0, kCnpReservedBytes);\n",
        "",
        "what a process had in memory leaves with every CNP",
    ),
    _mutant(
        "nobody-asks-for-an-acknowledgement",
        "bth.hpp",
        "store_be32(out + 8, (ack_req ? kAckReq : 0) | (irn ? kIrn : 0) | psn.value());",
        "store_be32(out + 8, (irn ? kIrn : 0) | psn.value());",
        "a peer of the standard acknowledges nothing until a timer expires",
        rebuild=["packet.cpp"],
    ),
    _mutant(
        "message-number-of-four-bytes",
        "mp_ack_ext.hpp",
        ".msn = load_be24(in + 12),",
        ".msn = load_be32(in + 12) & 0xffffff,",
        "the delay of an acknowledgement counts as messages",
        rebuild=["packet.cpp"],
    ),
    # ---- Frames
    _mutant(
        "pad-shows-memory",
        "frame.cpp",
        "  std::memset(end, 0, pad);\n",
        "",
        "bytes behind a payload leave the host",
    ),
    _mutant(
        "packet-longer-than-its-frame",
        "frame_decode.cpp",
        "ip.total_length > ip_bytes",
        "ip.total_length > frame_bytes",
        "up to fourteen bytes behind a frame become payload",
    ),
    _mutant(
        "fragment-is-a-packet",
        "frame_decode.cpp",
        "  if (ip.is_fragment()) return DropReason::kIpFragment;\n",
        "",
        "the first part of a packet is written into memory as all of it",
    ),
    _mutant(
        "known-sender-may-claim-any-length",
        "frame_decode.cpp",
        "total_length > frame_bytes - kIp ||",
        "",
        "a short frame of a known sender is read beyond its end",
    ),
    _mutant(
        "reader-knows-whom-it-never-saw",
        "frame_decode.cpp",
        "uint64_t differs = entry.valid ? 0 : 1;",
        "uint64_t differs = 0;",
        "headers of zeros pass without a check",
    ),
    _mutant(
        "reader-keeps-the-address-of-another",
        "frame_decode.cpp",
        "  last_ = nullptr;\n",
        "",
        "answers go to whoever sent the packet before",
    ),
    _mutant(
        "mark-without-its-checksum",
        "frame_template.cpp",
        "    sum += static_cast<uint32_t>(Ecn::kCe) - static_cast<uint32_t>(address_.ecn);\n",
        "",
        "every marked packet is dropped as damaged",
    ),
    # ---- ICRC
    _mutant(
        "icrc-covers-the-hop-count",
        "icrc.cpp",
        "    network_header[8] = 0xff;                   // TTL\n",
        "",
        "no packet survives a router",
    ),
    _mutant(
        "icrc-covers-the-congestion-bits",
        "icrc.cpp",
        "  udp[Udp::kBytes + Bth::kResv8aOffset] = 0xff;\n",
        "",
        "a packet that a switch gave FECN is dropped as damaged",
    ),
    _mutant(
        "icrc-covers-half-of-a-traffic-class",
        "icrc.cpp",
        "    network_header[0] |= 0x0f;                 // traffic class, high half\n",
        "",
        "over IPv6 no packet survives a router that sets the DSCP",
    ),
    # ---- IP, ARP, VLAN
    _header(
        "checksum-carries-once",
        "ipv4.hpp",
        "outer_headers_test.cpp",
        "    sum = (sum & 0xffff) + (sum >> 16);\n" * 2,
        "    sum = (sum & 0xffff) + (sum >> 16);\n",
        "one address pair in some thousands has no connection",
    ),
    _header(
        "arp-of-any-operation",
        "arp.hpp",
        "outer_headers_test.cpp",
        "in[5] == 4 && (operation == 1 || operation == 2);",
        "in[5] == 4;",
        "a reverse ARP changes the table of neighbours",
    ),
    _header(
        "priority-is-part-of-the-vlan",
        "vlan_tag.hpp",
        "vlan_tag_test.cpp",
        "load_be16(frame + kTypeOffset + 2) & 0x0fff;",
        "load_be16(frame + kTypeOffset + 2);",
        "frames that have a priority are of no VLAN",
    ),
    # ---- Packets in shared memory
    _header(
        "bare-packet-longer-than-its-frame",
        "bare_packet.hpp",
        "bare_packet_test.cpp",
        "bytes != kBytes + size_t{bare.payload_len}",
        "bytes < kBytes",
        "another process of the host has what lies behind its frame sent to it",
    ),
    # ---- Neighbours and management
    _mutant(
        "neighbour-behind-a-router",
        "neighbour.cpp",
        "ip.hop_limit != kNeighbourHopLimit ||",
        "",
        "anybody on the internet takes the address of a neighbour",
    ),
    _mutant(
        "window-of-any-size",
        "mad.cpp",
        "std::has_single_bit(info.window_slots) && ",
        "",
        "two hosts agree on a window whose slots are not where a mask looks for them",
    ),
    _mutant(
        "window-without-a-bound",
        "mad.cpp",
        "info.window_slots >= kWindowSlotsMin &&\n         info.window_slots <= kWindowSlotsMax;",
        "info.window_slots >= kWindowSlotsMin;",
        "a peer makes a host reserve sixteen times the memory",
    ),
    _mutant(
        "probe-amplifies",
        "probe_mad.cpp",
        "return out.answer_bytes <= bytes ? MadDrop::kNone : MadDrop::kBadField;",
        "return MadDrop::kNone;",
        "a forged question of 256 bytes sends 4096 to a victim",
    ),
    _mutant(
        "private-data-beyond-the-message",
        "cm_mad.cpp",
        "std::min<size_t>(data.bytes, room.bytes)",
        "data.bytes",
        "an application's private data overwrite what lies behind the message",
    ),
    _mutant(
        "rejection-reads-more-than-it-has",
        "cm_mad.cpp",
        "std::min(get(body[9], 7, 1), static_cast<uint8_t>(kRejInfoRoom.bytes))",
        "get(body[9], 7, 1)",
        "any host writes over the memory behind a rejection's information",
    ),
    _mutant(
        "rd-is-xrc",
        "cm_mad.cpp",
        "return extended == kExtendedXrc ? CmService::kXrc : CmService::kCount;",
        "return CmService::kXrc;",
        "a request for a service that is not offered is not refused",
    ),
]
