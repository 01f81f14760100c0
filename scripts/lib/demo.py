#!/usr/bin/env python3
"""scripts/demo, once the machine is set up: builds, runs perftest between two hosts, verifies."""

import argparse
import itertools
import pathlib
import sys
import time

import perftest
import result_file
from hosts import WIRES, Failure, Unavailable
from run_tests import GCC, run

# What an application needs at run time, and the program that verifies.
TARGETS = (
    "tools/mprdma", "dataplane/libmprdma-engine.so", "dataplane/libmprdma-eal.so",
    "providers/mprdma/libmprdma-rdmav34.so", "providers/mprdma/libmprdma-preload.so",
    "tests/integration/verbs_check",
)  # fmt: skip
PROGRAMS = ("ib_write_bw", "ib_read_bw")
# Message bytes, and how many of them: each run moves a GiB or less.
SIZES = ((4096, 100000), (65536, 16000), (1048576, 1000))
SECONDS = 60
WIRE_NAMES = ("local", "virtio")
COLUMNS = "{:<9} {:<12} {:>9} {:>11} {:>12} {:>11}"


class Progress:
    """One line that is rewritten on a terminal, and lines elsewhere."""

    def __init__(self, total):
        self.total, self.done = total, 0
        self.tty = sys.stdout.isatty()

    def step(self, text):
        self.done += 1
        line = f"[{self.done}/{self.total}] {text}"
        print(f"\r\033[K{line}" if self.tty else line, end="" if self.tty else "\n", flush=True)

    def clear(self):
        if self.tty:
            print("\r\033[K", end="", flush=True)


def build():
    """True if everything that the demo runs is there and new."""
    print("building ..", flush=True)
    return GCC.setup() and run(["ninja", "-C", str(GCC.directory), *TARGETS], quiet=True)


def measure(wire, program, size, iterations):
    row = perftest.run(wire, program, ["-s", size, "-n", iterations], SECONDS)[-1]
    if row.bytes != size or row.iterations != iterations:
        raise Failure(f"{program}: did not complete {iterations} messages of {size} bytes")
    return row


def verify(wire):
    """Random operations both ways; ends with an error unless every byte and completion is right."""
    deadline = time.monotonic() + SECONDS
    path = wire.new_path("check")
    program = wire.build / "tests/integration/verbs_check"
    options = ["--ops", "1000", "--qps", "2", "--seed", "1"]
    server = wire.start(0, [program, "--server", path, *options])
    client = wire.start(1, [program, "--client", path, *options])
    client.wait(deadline)
    server.wait(deadline)


def show_sides(wire):
    for process in wire.processes:
        text = process.output().strip().splitlines()[-15:]
        print("\n".join([f"---- {process.name}", *text]))


def run_wire(name, progress, results):
    """Fills results: rows of the table, or reasons why there are none."""
    with WIRES[name](GCC.directory) as wire:
        for program, (size, iterations) in itertools.product(PROGRAMS, SIZES):
            progress.step(f"{name}: {program}, {iterations} messages of {size} bytes")
            try:
                results.rows[name, program, size] = measure(wire, program, size, iterations)
            except Failure as failure:
                progress.clear()
                results.failures[name, program, size] = str(failure)
                show_sides(wire)
            wire.stop_processes()
        progress.step(f"{name}: verbs_check, every byte of random operations")
        try:
            verify(wire)
            results.verified[name] = True
        except Failure as failure:
            progress.clear()
            results.verified[name] = False
            results.failures[name, "verbs_check", 0] = str(failure)
            show_sides(wire)


class Results:
    def __init__(self):
        self.rows, self.failures, self.verified, self.unavailable = {}, {}, {}, {}

    @property
    def ok(self):
        return bool(self.rows) and not self.failures and not self.unavailable

    def print(self):
        print(COLUMNS.format("wire", "program", "bytes", "messages", "Gb/s", "Mmsg/s"))
        for (wire, program, size), row in self.rows.items():
            print(COLUMNS.format(
                wire, program, size, row.iterations, f"{row.gbps:.2f}", f"{row.mpps:.4f}",
            ))  # fmt: skip
        for wire, verified in self.verified.items():
            print(f"{wire}: verbs_check: {'every byte verified' if verified else 'FAILED'}")
        for wire, reason in self.unavailable.items():
            print(f"{wire}: not available here: {reason}")
        for (wire, program, size), reason in self.failures.items():
            print(f"{wire}: {program}{f', {size} bytes' if size else ''}: FAILED: {reason}")

    def claims(self, wires):
        for wire, program in itertools.product(wires, PROGRAMS):
            missing = [s for s, _ in SIZES if (wire, program, s) not in self.rows]
            reason = self.unavailable.get(wire) or f"failed at {missing} bytes"
            row = self.rows.get((wire, program, 65536))
            yield result_file.claim(
                f"demo.{wire}.{program.removeprefix('ib_')}",
                f"{program} over the {wire} wire, 64 KiB messages, all sizes completed",
                "completes", None if missing else row.gbps, "Gb/s", not missing,
                reason if missing else None,
            )  # fmt: skip
        for wire in wires:
            reason = self.unavailable.get(wire) or self.failures.get((wire, "verbs_check", 0))
            yield result_file.claim(
                f"demo.{wire}.verified", "random operations both ways, every byte verified",
                "1", 1 if self.verified.get(wire) else None, "bool",
                bool(self.verified.get(wire)), reason,
            )  # fmt: skip

    def series(self):
        return {
            "perftest": [
                {"wire": w, "program": p, "bytes": s, "messages": r.iterations,
                 "gbps": r.gbps, "mpps": r.mpps}
                for (w, p, s), r in self.rows.items()
            ],
        }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(prog="scripts/demo")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--wire", action="append", choices=WIRE_NAMES)
    arguments = parser.parse_args()
    wires = arguments.wire or list(WIRE_NAMES)
    if not build():
        return 1
    results = Results()
    progress = Progress(len(wires) * (len(PROGRAMS) * len(SIZES) + 1))
    for name in wires:
        try:
            run_wire(name, progress, results)
        except Unavailable as reason:
            results.unavailable[name] = str(reason)
    progress.clear()
    results.print()
    if arguments.json:
        result_file.write(arguments.json, "scripts/demo", results.claims(wires), results.series())
    return 0 if results.ok else 1


if __name__ == "__main__":
    sys.exit(main())
