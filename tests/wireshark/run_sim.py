#!/usr/bin/env python3
"""What tshark makes of the captures of the simulator, compared with the simulator's own result.

usage: tests/wireshark/run_sim.py MPRDMA

  MPRDMA    the command of the build

Prints TAP.
"""

import functools
import json
import pathlib
import subprocess
import sys
import tempfile
from collections import Counter

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/harness")]

import capture  # noqa: E402
import receivers  # noqa: E402
import tap  # noqa: E402
from hosts import Failure  # noqa: E402

# Two flows into one host, so that packets are marked; odd sizes, so that packets are padded.
SCENARIO = """name = "captured"
duration_us = 20000
end_when_idle = true
[topology]
kind = "testbed"
servers = 2
paths = 2
[transport]
window_slots = 64
loss_trigger = 0
initial_window = 54
[[flow]]
name = "one"
from = "a1"
to = "b1"
message_bytes = 100_001
messages = 4
[[flow]]
name = "two"
operation = "send"
from = "a2"
to = "b1"
message_bytes = 100_001
messages = 4
"""
# One sender asks for maps in acknowledgements, another one does not, as one of an earlier version;
# a third one reads, so that both ends send data. There are fewer frames than packets that come
# before their turn. So many packets and acknowledgements are lost that copies come of packets that
# are here, behind a hole, too, in spite of maps.
WINDOW, BUDGET = 64, 64
SCENARIO_OF_ACKS = f"""name = "acknowledged"
duration_us = 20000
held_frames = {BUDGET}
[topology]
kind = "testbed"
servers = 3
paths = 2
[[link]]
name = "path1"
ab = {{ loss = 0.2 }}
ba = {{ loss = 0.4 }}
[[link]]
name = "path2"
ab = {{ loss = 0.2 }}
ba = {{ loss = 0.4 }}
[transport]
window_slots = {WINDOW}
window_rtt_us = 0
loss_trigger = 0
initial_window = 54
[[flow]]
name = "asks"
operation = "send"
from = "a1"
to = "b1"
message_bytes = 100_001
messages = 8
[[flow]]
name = "asks_not"
operation = "send"
from = "a2"
to = "b1"
message_bytes = 100_001
messages = 8
transport = {{ ack_map = false }}
[[flow]]
name = "reads"
operation = "read"
from = "a3"
to = "b3"
message_bytes = 100_001
messages = 8
"""
SENDERS = ASKS, ASKS_NOT, READS = "10.0.0.1", "10.0.0.2", "10.0.0.3"  # hosts a1 to a3
NAMES = ["frame.time_epoch", "frame.interface_name", "frame.len", "frame.cap_len", "ip.src",
         "ip.dst", "ip.dsfield.ecn", "udp.srcport", "infiniband.bth.opcode", "mprdma.data.version",
         "mprdma.payload_len", "mprdma.icrc", "mprdma.ack.ece"]  # fmt: skip
WIRE_EXTRA = 8 + 4 + 12  # preamble, FCS, gap
CE = 3


def expect(condition, what):
    if not condition:
        raise Failure(what)


class Run:
    """A simulation with its capture, and what tshark shows of that."""

    def __init__(self, command, directory, *options, text=SCENARIO):
        scenario = directory / "captured.toml"
        scenario.write_text(text)
        self.pcap = directory / "captured.pcapng"
        result = directory / "captured.json"
        self.done = subprocess.run(
            [command, "sim", "run", scenario, "--json", result, "--pcap", self.pcap, *options],
            capture_output=True, text=True, check=False, timeout=240,
        )  # fmt: skip
        expect(self.done.returncode == 0, self.done.stderr)
        self.result = json.loads(result.read_text())
        self.frames = capture.fields(self.pcap, NAMES)
        expect(f"{len(self.frames)} packets in" in self.done.stderr, self.done.stderr)

    def port(self, name):
        return next(port for port in self.result["ports"] if port["name"] == name)["counters"]

    def lost(self, port):
        """Packets that left by it, or would have, and did not arrive."""
        return sum(n for name, n in self.port(port).items() if name.startswith("drop_"))

    def check_common(self):
        """What holds wherever it was captured."""
        times = [frame["frame.time_epoch"] for frame in self.frames]
        expect(all(len(t.split(".")[1]) == 9 for t in times), f"not in nanoseconds: {times[:3]}")
        expect(times == sorted(times, key=float), "not in order of time")
        expect(0 < float(times[0]) < 1e-4, f"the first packet came at {times[0]}")
        expect(float(times[-1]) * 1e6 <= self.result["end_us"], f"the last one came at {times[-1]}")
        lines = capture.malformed(self.pcap)
        expect(not lines, "\n".join(lines[:5]))
        for at, frame in enumerate(self.frames, start=1):
            is_ack = receivers.is_ack(frame)
            expect((frame["mprdma.data.version"] == "") == is_ack, f"frame {at}: {frame}")


def arrivals_at_hosts(command, directory):
    run = Run(command, directory)
    run.check_common()
    by_host = Counter(frame["frame.interface_name"] for frame in run.frames)
    hosts = {"a1": "a1.ba", "a2": "a2.ba", "b1": "b1.ba"}
    expect(set(by_host) == set(hosts), f"packets at {by_host}")
    for host, port in hosts.items():
        arrived = run.port(port)["packets"]
        expect(by_host[host] == arrived, f"{by_host[host]} packets at {host}, not {arrived}")
        mine = [frame for frame in run.frames if frame["frame.interface_name"] == host]
        bytes_of_wire = sum(int(f["frame.len"]) + WIRE_EXTRA for f in mine)
        expect(bytes_of_wire == run.port(port)["bytes"], f"{bytes_of_wire} bytes at {host}")
    payload = sum(int(f["mprdma.payload_len"] or 0) for f in run.frames)
    expect(payload == 2 * 4 * 100_001, f"{payload} bytes of payload")
    at_b1 = [frame for frame in run.frames if frame["frame.interface_name"] == "b1"]
    ports = {frame["udp.srcport"] for frame in at_b1}
    expect(len(ports) > 50, f"{len(ports)} virtual paths")
    marked = sum(int(frame["ip.dsfield.ecn"]) == CE for frame in at_b1)
    by_counters = sum(
        port["counters"].get("marked", 0)
        for port in run.result["ports"]
        if port["name"] in ("b1.ba", "path1.ab", "path2.ab", "a1.ab", "a2.ab")
    )
    expect(marked == by_counters > 0, f"{marked} packets are marked, {by_counters} were")
    # A snap length of 128 cuts the large ones off, and nothing pretends to be whole.
    kept = {min(int(f["frame.len"]), 128) == int(f["frame.cap_len"]) for f in run.frames}
    expect(kept == {True}, "captured lengths are wrong")
    for frame in run.frames:
        whole = frame["frame.len"] == frame["frame.cap_len"]
        expect((frame["mprdma.icrc"] != "") == whole, f"ICRC of {frame}")
    expect({f["ip.dst"] for f in at_b1} == {"10.0.0.3"}, "another address of b1")


def whole_packets(command, directory):
    run = Run(command, directory, "--pcap-snaplen", "0")
    run.check_common()
    expect(all(f["frame.len"] == f["frame.cap_len"] for f in run.frames), "cut off")
    shown = capture.fields(run.pcap, ["infiniband.invariant.crc", "mprdma.icrc"])
    expect(all(f["mprdma.icrc"] for f in shown), "no ICRC")
    # The classic form of the same, which the reader of this tree checks the ICRC of.
    classic = directory / "classic.pcap"
    subprocess.run(
        ["tshark", "-n", "-r", run.pcap, "-F", "nsecpcap", "-w", classic],
        check=True, capture_output=True, timeout=240,
    )  # fmt: skip
    packets = [capture.roce(frame) for frame in capture.frames(classic)]
    expect(len(packets) == len(run.frames), f"{len(packets)} packets")
    expect(all(packet.icrc_good for packet in packets), "a wrong ICRC")


def departures_at_a_link(command, directory):
    run = Run(command, directory, "--pcap-link", "path2")
    run.check_common()
    by_port = Counter(frame["frame.interface_name"] for frame in run.frames)
    expect(by_port == {p: run.port(p)["packets"] for p in ("path2.ab", "path2.ba")}, by_port)


def of(ack, name):
    return ack[receivers.ACK.index(name)]


def explain(ack, wanted):
    """In what fields an acknowledgement differs from the one that it is most like."""
    nearest = max(wanted, key=lambda other: sum(a == b for a, b in zip(ack, other)))
    differ = [
        f"{name} is {got}, not {value}"
        for name, got, value in zip(receivers.ACK, ack, nearest)
        if got != value
    ]
    return f"an acknowledgement that answers no packet: {', '.join(differ)}"


def nothing_is_missing_but_what_was_lost(run, frames, missing):
    """On the way back, of acknowledgements and of data that is read."""
    lost = sum(run.lost(port) for port in ("path1.ba", "path2.ba"))
    acks = sum(count for ack, count in missing.items() if of(ack, "ip.dst") in SENDERS)
    reads = next(flow for flow in run.result["flows"] if flow["name"] == "reads")
    data = [f for f in frames if not receivers.is_ack(f) and f["ip.dst"] in SENDERS]
    data_missing = reads["packets_sent"] - len(data)
    what = f"{acks} acknowledgements and {data_missing} packets are missing"
    expect(acks + data_missing == lost > 0, f"{what}, {lost} were lost")


def every_kind_occurs(acks):
    opcodes = {ip: {of(ack, "mprdma.opcode") for ack in acks if of(ack, "ip.dst") == ip}
               for ip in (ASKS, ASKS_NOT)}  # fmt: skip
    expect(opcodes == {ASKS: {receivers.MP_ACK, receivers.MP_ACK_MAP},
                       ASKS_NOT: {receivers.MP_ACK}}, f"opcodes by sender: {opcodes}")  # fmt: skip
    maps = {of(ack, "mprdma.ack.map") for ack in acks} - {None}
    expect(len(maps) > 100, f"{len(maps)} different maps")
    for what, fields in (
        ("plain answer to a duplicate", {"opcode": receivers.MP_ACK, "ack.duplicate": 1}),
        ("map for a duplicate", {"opcode": receivers.MP_ACK_MAP, "ack.duplicate": 1}),
        ("map for a packet that was sent again", {"opcode": receivers.MP_ACK_MAP, "ack.retx": 1}),
        ("refusal for want of a frame", {"ack.nack_code": receivers.BUDGET_EXHAUSTED}),
        ("echo of a mark", {"ack.ece": 1}),
        ("acknowledgement of a response", {"ack.stream": 1}),
    ):
        there = any(
            all(of(ack, f"mprdma.{name}") == value for name, value in fields.items())
            for ack in acks
        )
        expect(there, f"no {what}")


def acknowledgements_with_and_without_a_map(command, directory):
    """Every field of each, by the packets that came to its receiver."""
    run = Run(command, directory, text=SCENARIO_OF_ACKS)
    run.check_common()
    frames = capture.fields(run.pcap, list(dict.fromkeys(receivers.DATA + receivers.ACK)))
    wanted = Counter(receivers.answers(frames, WINDOW, BUDGET))
    seen = Counter(receivers.shown(frame) for frame in frames if receivers.is_ack(frame))
    for ack in seen - wanted:
        raise Failure(explain(ack, wanted))
    nothing_is_missing_but_what_was_lost(run, frames, wanted - seen)
    every_kind_occurs(seen)


def mistakes(command, directory):
    scenario = directory / "captured.toml"
    scenario.write_text(SCENARIO)
    for options, message in (
        (["--pcap", directory / "x", "--pcap-link", "path9"], "expected the name of a link: a1 a2"),
        (["--pcap", directory / "no/x"], "No such file"),
        (["--pcap", directory / "x", "--trace", directory / "x"], "name the same file"),
        (["--pcap", directory / "x", "--trace", directory / "y", "--trace-flow", "z"], "of a flow"),
        (["--pcap-link", "path1"], "--pcap"),
        (["--pcap", directory / "x", "--pcap-snaplen", "70000"], "expected a number of bytes in"),
    ):
        done = subprocess.run(
            [command, "sim", "run", scenario, *options],
            capture_output=True, text=True, check=False, timeout=240,
        )  # fmt: skip
        expect(done.returncode == 2 and message in done.stderr, f"{options}: {done.stderr}")


CASES = [
    ("packets that arrive at hosts", arrivals_at_hosts),
    ("whole packets with their ICRC", whole_packets),
    ("packets that leave by a link", departures_at_a_link),
    ("acknowledgements with and without a map", acknowledgements_with_and_without_a_map),
    ("mistakes are named", mistakes),
]


def main():
    if len(sys.argv) != 2 or not pathlib.Path(sys.argv[1]).is_file():
        print(__doc__, file=sys.stderr)
        return 2
    if not capture.tshark_is_there():
        print("1..0 # SKIP tshark is not installed")
        return 0
    command = str(pathlib.Path(sys.argv[1]).resolve())

    def in_its_directory(case):
        with tempfile.TemporaryDirectory(prefix="mprdma-capture-") as name:
            case(command, pathlib.Path(name))

    return tap.run([(title, functools.partial(in_its_directory, case)) for title, case in CASES])


if __name__ == "__main__":
    sys.exit(main())
