"""Reads captures: classic pcap files, the ICRC of RoCEv2 packets, and what tshark makes of them."""

import pathlib
import shutil
import struct
import subprocess
import zlib
from dataclasses import dataclass

from hosts import Failure

ROOT = pathlib.Path(__file__).resolve().parents[2]
DISSECTOR = ROOT / "tools/wireshark/mprdma.lua"

_ROCE_PORT = 4791
_UDP = 17
_ICRC_BYTES = 4
# Wireshark guesses what SEND payloads hold, and calls malformed what it guessed wrong: a payload of
# zeros passes for RPC over RDMA.
_GUESSES = (
    "eth_over_ib", "fc_infiniband", "iser_infiniband", "lnet_ib", "nvme_rdma", "rpcrdma_infiniband",
    "sdp_infiniband", "smb_direct_infiniband", "smcr_infiniband",
)  # fmt: skip


# ---- Files


def frames(path):
    """The frames of a capture; one that is cut off at the end of the file is left out."""
    raw = pathlib.Path(path).read_bytes()
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">"}
    if len(raw) < 24 or raw[:4] not in order:
        raise Failure(f"{path}: not a pcap file")
    at = 24
    while at + 16 <= len(raw):
        length, original = struct.unpack(order[raw[:4]] + "II", raw[at + 8 : at + 16])
        at += 16
        if length != original:
            raise Failure(f"{path}: a frame was not captured whole")
        if at + length > len(raw):
            return
        yield raw[at : at + length]
        at += length


# ---- RoCEv2


@dataclass
class Roce:
    """What is looked at of a RoCEv2 packet."""

    source: bytes  # IP address, 4 or 16 bytes
    opcode: int
    dest_qpn: int
    psn: int
    syndrome: int  # of an ACK's AETH; else -1
    icrc_good: bool


def _masked_icrc(ip, udp, rest):
    """The ICRC of a packet; fields that may change on its way are read as ones (annex A17)."""
    ip, udp, rest = bytearray(ip), bytearray(udp), bytearray(rest)
    if ip[0] >> 4 == 4:
        ip[1] = ip[8] = 0xFF  # TOS, TTL
        ip[10:12] = b"\xff\xff"  # header checksum
    else:
        ip[0] |= 0x0F  # traffic class, flow label
        ip[1:4] = b"\xff\xff\xff"
        ip[7] = 0xFF  # hop limit
    udp[6:8] = b"\xff\xff"
    rest[4] = 0xFF  # FECN, BECN
    return zlib.crc32(b"\xff" * 8 + ip + udp + rest)


def roce(frame):
    """The RoCEv2 packet in a frame, or None."""
    ether_type = frame[12:14]
    if ether_type == b"\x08\x00" and frame[23] == _UDP:
        udp_at, source = 14 + (frame[14] & 15) * 4, frame[26:30]
    elif ether_type == b"\x86\xdd" and frame[20] == _UDP:
        udp_at, source = 14 + 40, frame[22:38]
    else:
        return None
    _, port, length = struct.unpack(">HHH", frame[udp_at : udp_at + 6])
    if port != _ROCE_PORT:
        return None
    bth, end = udp_at + 8, udp_at + length
    wanted = _masked_icrc(frame[14:udp_at], frame[udp_at:bth], frame[bth : end - _ICRC_BYTES])
    opcode = frame[bth]
    return Roce(
        source, opcode, int.from_bytes(frame[bth + 5 : bth + 8], "big"),
        int.from_bytes(frame[bth + 9 : bth + 12], "big"), frame[bth + 12] if opcode == 0x11 else -1,
        wanted == int.from_bytes(frame[end - _ICRC_BYTES : end], "little"),
    )  # fmt: skip


# ---- tshark


def tshark_is_there():
    return shutil.which("tshark") is not None


def _tshark(path, *arguments):
    guesses = [word for name in _GUESSES for word in ("--disable-heuristic", name)]
    ran = subprocess.run(
        ["tshark", "-n", "-X", f"lua_script:{DISSECTOR}", *guesses, "-r", str(path), *arguments],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    if ran.returncode != 0 or "Lua" in ran.stderr:
        raise Failure(f"tshark -r {path}: {ran.stderr.strip()}")
    return ran.stdout.splitlines()


def malformed(path):
    """The packets in which tshark or our dissector finds an error, a line each."""
    return _tshark(path, "-Y", "_ws.malformed || _ws.lua.error || _ws.expert.group == malformed")


def summary(path, display_filter):
    """The line of the packet list for each packet that passes the filter."""
    return _tshark(path, "-Y", display_filter)


def fields(path, names):
    """A dictionary for each frame: field name to what tshark prints for it, first occurrence."""
    asked = [word for name in names for word in ("-e", name)]
    lines = _tshark(path, "-T", "fields", "-E", "occurrence=f", "-E", "separator=/t", *asked)
    return [dict(zip(names, line.split("\t"))) for line in lines]


def number(text):
    """Such a value, decimal or hexadecimal with 0x. None if the frame has no such field."""
    return int(text, 0) if text else None
