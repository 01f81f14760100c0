#!/usr/bin/env python3
"""What tshark makes of packets that this code encodes, and of the reference capture. Prints TAP.

usage: tests/wireshark/run.py WRITE_CAPTURE [SEED]

Wireshark's own InfiniBand dissector reads the standard's packets, tools/wireshark/mprdma.lua the
extended mode's. Every field of every packet is compared with what the encoder was given.

  WRITE_CAPTURE    the program of the build, tests/wireshark/write_capture
  SEED             of what it draws (default: 1)
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/harness")]

import capture  # noqa: E402
import tap  # noqa: E402
from hosts import Failure  # noqa: E402

REFERENCE = ROOT / "tests/data/rxe-reference.pcap"
REFERENCE_PACKETS = 330


def expect(condition, what):
    if not condition:
        raise Failure(what)


def parse(text):
    """Parses the output of write_capture: a dictionary for each frame."""
    return [
        {name: int(value) for name, value in (pair.split("=") for pair in line.split("\t"))}
        for line in text.splitlines()
    ]


def every_field(path, wanted):
    names = sorted({name for frame in wanted for name in frame})
    seen = capture.fields(path, names)
    expect(len(seen) == len(wanted), f"tshark shows {len(seen)} of {len(wanted)} frames")
    for at, (shown, expected) in enumerate(zip(seen, wanted), start=1):
        for name, value in expected.items():
            got = capture.number(shown[name])
            expect(got == value, f"frame {at}: {name} is {got}, not {value}")
        for name in names:
            strange = name.startswith("mprdma.") and name not in expected and shown[name]
            expect(not strange, f"frame {at}: {name} = {shown[name]}, which it does not carry")


def nothing_malformed(path):
    lines = capture.malformed(path)
    expect(not lines, "\n".join(lines[:10]))


def every_icrc_is_good(path, count):
    packets = [capture.roce(frame) for frame in capture.frames(path)]
    expect(len(packets) == count and None not in packets, f"{len(packets)} packets, not {count}")
    bad = [at for at, packet in enumerate(packets, start=1) if not packet.icrc_good]
    expect(not bad, f"wrong ICRC in frames {bad}")


def names_of_the_codes(path):
    """Opcodes and NACK codes are shown by name, as docs/wire-format.md has them."""
    page = (ROOT / "docs/wire-format.md").read_text()
    shown = "\n".join(capture.summary(path, "mprdma"))
    for line in page.splitlines():
        if line.startswith(("| 0xc", "| 0xd")):
            name = line.split("|")[2].strip()
            expect(f"{name} QP=" in shown, f"{name} is not shown")
    expect("PAIR_QUESTION from=" in shown and "PAIR_ANSWER from=" in shown, "no agreement is shown")
    for name in ("WINDOW_OVERFLOW", "BUDGET_EXHAUSTED", "SYNC_TOO_EARLY", "RNR", "SEQUENCE_ERROR",
                 "INVALID_REQUEST", "REMOTE_ACCESS_ERROR", "REMOTE_OPERATIONAL_ERROR"):
        expect(f"NACK {name}" in shown, f"NACK {name} is not shown")


# The acknowledgement of the page's worked example: of a sender without runs, delays and segments.
EARLIER_ACK = """
02 00 00 00 00 01 02 00 00 00 00 02 08 00
45 02 00 3c 00 00 40 00 40 11 26 ab 0a 01 00 02 0a 01 00 01
c3 50 12 b7 00 28 00 00 d1 40 ff ff 00 00 02 01 00 00 00 fd
10 1c 00 00 12 34 56 78 00 00 ff 00 00 00 07 00 b0 19 92 ef
"""


def a_packet_of_an_earlier_sender_is_read(path, directory):
    """Fields that were reserved then are zero, and the summary names none of them."""
    frame = bytes.fromhex(EARLIER_ACK)
    earlier = directory / "earlier.pcap"
    record = (0).to_bytes(8, "little") + len(frame).to_bytes(4, "little") * 2 + frame
    earlier.write_bytes(path.read_bytes()[:24] + record)
    nothing_malformed(earlier)
    names = ["mprdma.ack.sack", "mprdma.ack.run", "mprdma.ack.msn", "mprdma.ack.delay"]
    shown = capture.fields(earlier, names)
    expect(len(shown) == 1, f"tshark shows {len(shown)} packets")
    values = [capture.number(shown[0][name]) for name in names]
    expect(values == [255, 0, 7, 0], f"{names} are {values}")
    summary = capture.summary(earlier, "mprdma")[0]
    expect("AACK=253 SACK=255" in summary and "Run=" not in summary, summary)


def names_of_the_messages(path):
    """Wireshark's own names of the messages of communication management, in their order."""
    shown = capture.summary(path, "infiniband.mad.mgmtclass == 7")
    names = ("ConnectRequest", "MsgRcptAck", "ConnectReject", "ConnectReply", "ReadyToUse",
             "DisconnectRequest", "DisconnectReply", "ServiceIDResReq", "ServiceIDResReqResp")
    seen = [line.split("CM: ")[-1].strip() for line in shown]
    expect(seen == list(names), f"tshark shows {seen}")


def a_broken_packet_is_said_to_be_broken(path, directory):
    """Another version of the extension, and a packet that ends early."""
    whole = path.read_bytes()
    frames = list(capture.frames(path))
    mp = next(f for f in frames if f[12:14] == b"\x08\x00" and capture.roce(f).opcode == 0xC0)
    version = bytearray(mp)
    version[14 + 20 + 8 + 12] = 0x20
    short = bytearray(mp[: 14 + 20 + 8 + 12 + 8])
    short[16:18] = (len(short) - 14).to_bytes(2, "big")
    short[38:40] = (len(short) - 34).to_bytes(2, "big")
    broken = directory / "broken.pcap"
    records = [
        (0).to_bytes(8, "little") + len(f).to_bytes(4, "little") * 2 + bytes(f)
        for f in (version, short)
    ]
    broken.write_bytes(whole[:24] + b"".join(records))
    expect(len(capture.malformed(broken)) == 2, "tshark finds nothing wrong")


def parse_arguments():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1])
    parser.add_argument("write_capture", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("seed", type=int, nargs="?", default=1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.write_capture.is_file():
        parser.error(f"there is no program {arguments.write_capture}")
    return arguments.write_capture.resolve(), str(arguments.seed)


def main():
    program, seed = parse_arguments()
    if not capture.tshark_is_there():
        print("1..0 # SKIP tshark is not installed")
        return 0
    with tempfile.TemporaryDirectory(prefix="mprdma-wireshark-") as name:
        directory = pathlib.Path(name)
        ours = directory / "ours.pcap"
        text = subprocess.run(
            [program, ours, seed], capture_output=True, text=True, check=True
        ).stdout
        wanted = parse(text)
        cases = [
            ("every field of every opcode", lambda: every_field(ours, wanted)),
            ("no packet of ours is malformed", lambda: nothing_malformed(ours)),
            ("every ICRC of ours is good", lambda: every_icrc_is_good(ours, len(wanted))),
            ("codes are shown by name", lambda: names_of_the_codes(ours)),
            ("messages of CM are shown by name", lambda: names_of_the_messages(ours)),
            (
                "a broken packet is said to be broken",
                lambda: a_broken_packet_is_said_to_be_broken(ours, directory),
            ),
            (
                "a packet of an earlier sender is read",
                lambda: a_packet_of_an_earlier_sender_is_read(ours, directory),
            ),
            ("no packet of Soft-RoCE is malformed", lambda: nothing_malformed(REFERENCE)),
            (
                "every ICRC of Soft-RoCE is good",
                lambda: every_icrc_is_good(REFERENCE, REFERENCE_PACKETS),
            ),
        ]
        return tap.run(cases)


if __name__ == "__main__":
    sys.exit(main())
