#!/usr/bin/env python3
"""Unmodified programs over four lossy paths, between a host whose sending halves the verilated RTL
keeps (mprdma run --offload rtl) and one in software, and between two of the former. Prints TAP."""

import argparse
import pathlib
import re
import sys
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/harness")]

import perftest  # noqa: E402
import tap  # noqa: E402
from fabric_wire import FabricWire  # noqa: E402
from hosts import Failure, wait_until  # noqa: E402

PATHS = ("path1", "path2", "path3", "path4")
TOPOLOGY = """
paths = 4
[path]
rate = "50Mbps"
delay_us = 20
queue_kb = 400
red = [1.0, 12, 24]
[[hosts]]
name = "h0"
ip = "10.73.0.1/24"
port = "local"
[[hosts]]
name = "h1"
ip = "10.73.0.2/24"
port = "local"
"""
# perftest's server is host 0.
BANDWIDTH = ["-s", "16384", "-n", "200"]
SECONDS = 60


class MixedWire(FabricWire):
    """The hosts that are named have hardware."""

    def __init__(self, build):
        super().__init__(build, TOPOLOGY, "rtl")
        self.hardware = ()

    def set_up(self):
        super().set_up()
        for path in PATHS:
            self.set(path, "loss=1%")

    def environment(self, host):
        environment = super().environment(host)
        environment["MPRDMA_COUNTERS"] = "1"
        if host in self.hardware:
            environment["MPRDMA_OFFLOAD"] = "rtl"
        return environment


def expect_hardware(wire, outputs):
    """Each host with hardware has used it, and no other."""
    for host, text in enumerate(outputs):
        found = re.search(r"hardware_events\s+(\d+)", text)
        events = int(found.group(1)) if found else 0
        if (events > 0) != (host in wire.hardware):
            raise Failure(f"host {host}: {events} events of hardware")


def lost(wire):
    """Packets that the paths have lost so far."""
    links = {link["name"]: link for link in wire.show()["links"]}
    return sum(way["drop_loss"] for path in PATHS for way in links[path]["directions"])


def bandwidth(program):
    def run(wire):
        outputs = perftest.outputs(wire, program, BANDWIDTH, SECONDS)
        if not perftest.parse(outputs[1]):
            raise Failure(f"{program} printed no result")
        return outputs

    return run


def pingpong(wire):
    """-c compares the contents."""
    deadline = time.monotonic() + SECONDS
    port = perftest.free_tcp_port()
    command = ["ibv_rc_pingpong", "-c", "-d", "mprdma0", "-g", "1", "-p", str(port), "-n", "300"]
    server = wire.start(0, command)
    wait_until(lambda: server.status is not None or server.listens_on(port), deadline, "a server")
    client = wire.start(1, [*command, wire.tcp_address])
    client.wait(deadline)
    server.wait(deadline)
    return server.output(), client.output()


def verbs_check(wire):
    """Random operations, whose contents both ends compare."""
    deadline = time.monotonic() + SECONDS
    program = wire.build / "tests/integration/verbs_check"
    path = wire.new_path("check")
    options = ["--active", "--ops", "300", "--qps", "2", "--seed", "41"]
    server = wire.start(0, [program, "--server", path, *options])
    client = wire.start(1, [program, "--client", path, *options])
    client.wait(deadline)
    server.wait(deadline)
    return server.output(), client.output()


PROGRAMS = {
    "ib_write_bw": bandwidth("ib_write_bw"),
    "ib_send_bw": bandwidth("ib_send_bw"),
    "ib_read_bw": bandwidth("ib_read_bw"),
    "ibv_rc_pingpong -c": pingpong,
    "verbs_check": verbs_check,
}
HOSTS = {"client": (1,), "server": (0,), "both": (0, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-test")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    arguments = parser.parse_args()
    with MixedWire(arguments.build.resolve()) as wire:

        def case(program, hosts):
            def run():
                wire.hardware = hosts
                # Who only answers WRITEs sends no stream of its own.
                before = lost(wire)
                outputs = PROGRAMS[program](wire)
                if lost(wire) == before:
                    raise Failure("nothing was lost")
                silent = (0,) if program in ("ib_write_bw", "ib_send_bw") else ()
                wire.hardware = tuple(host for host in hosts if host not in silent)
                try:
                    expect_hardware(wire, outputs)
                finally:
                    wire.stop_processes()

            return run

        cases = [
            (f"{program}, hardware at {where}", case(program, hosts))
            for program in PROGRAMS
            for where, hosts in HOSTS.items()
            if arguments.only in f"{program}, hardware at {where}"
        ]
        return tap.run(cases)


if __name__ == "__main__":
    sys.exit(main())
