#!/usr/bin/env python3
"""What scripts/demo does after the machine is set up: build, run, print a table."""

import argparse
import os
import pathlib
import re
import sys
import time

import perftest
from hosts import WIRES, Failure, Unavailable
from report import Report
from run_tests import GCC, run

TARGETS = (
    "tools/mprdma", "dataplane/libmprdma-engine.so", "dataplane/libmprdma-eal.so",
    "providers/mprdma/libmprdma-rdmav34.so", "providers/mprdma/libmprdma-preload.so",
    "tests/integration/verbs_check",
)  # fmt: skip
PROGRAMS = {"ib_write_bw": "demo.write_bw", "ib_read_bw": "demo.read_bw"}
SIZES = {64: 20000, 4096: 20000, 65536: 4000, 1 << 20: 300}  # bytes: messages
CLAIMED_BYTES = 65536
CHECK = {"ops": 2000, "qps": 4}  # in each of two directions
CHECK_TARGET = f">= {CHECK['ops'] * CHECK['qps'] * 2}"
WIRE_TEXT = {
    "local": "LocalPort (shared memory)",
    "virtio": "ethdev: virtio-user / vhost-user",
    "af_packet": "ethdev: AF_PACKET over veth",
}


class Screen:
    """A line of progress that is overwritten on a terminal; colours only there."""

    def __init__(self):
        self.terminal = sys.stdout.isatty()
        self.colours = self.terminal and "NO_COLOR" not in os.environ

    def progress(self, text):
        if self.terminal:
            print(f"\r\x1b[K{text} ...", end="", flush=True)
        else:
            print(f"{text} ...", flush=True)

    def clear(self):
        if self.terminal:
            print("\r\x1b[K", end="", flush=True)

    def paint(self, text, code):
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours else text

    def good(self, text):
        return self.paint(text, "32")

    def bad(self, text):
        return self.paint(text, "31")

    def bold(self, text):
        return self.paint(text, "1")


def build(screen):
    """Builds what the demo runs; warnings are errors."""
    screen.progress("configuring")
    if not GCC.setup():
        raise Failure("cannot configure build/: read the message above")
    screen.progress("building (a few minutes the first time)")
    if not run(["ninja", "-C", str(GCC.directory), *TARGETS], quiet=True):
        raise Failure("cannot build: read the message above")
    return GCC.directory


def size_text(count):
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count // size} {unit}"
    return f"{count} B"


def measure_wire(wire, screen, report, table):
    """Both programs, all sizes; then the check of contents."""
    prefix = "" if wire.name == "local" else f"{wire.name}."
    for program, claim in PROGRAMS.items():
        claim = claim.replace("demo.", f"demo.{prefix}")
        series = report.series.setdefault(f"{prefix}{program}", {"unit": "Gb/s", "points": []})
        for size, count in SIZES.items():
            screen.progress(f"{program}, {size_text(size)}, {WIRE_TEXT[wire.name]}")
            row = perftest.run(wire, program, ["-s", size, "-n", count], 40)[-1]
            wire.stop_processes()
            table.append((wire.name, program, size, row.gbps, row.mpps * 1000))
            series["points"].append(
                {"message_bytes": size, "messages": count, "gbps": row.gbps, "mpps": row.mpps}
            )
            if size == CLAIMED_BYTES:
                report.claim(claim, claim_text(program, wire.name), "> 0", row.gbps, "Gb/s")
    screen.progress(f"verbs_check (contents, order), {WIRE_TEXT[wire.name]}")
    verified = check_contents(wire)
    report.claim(
        f"demo.{prefix}verified", verified_text(wire.name), CHECK_TARGET, verified, "operations"
    )
    return verified


def claim_text(program, wire):
    return f"{program}, unmodified, {size_text(CLAIMED_BYTES)} messages, {WIRE_TEXT[wire]}"


def verified_text(wire):
    return f"random operations whose contents were verified at both ends, {WIRE_TEXT[wire]}"


def check_contents(wire):
    """How many operations both ends verified."""
    deadline = time.monotonic() + 40
    path = wire.new_path("check")
    options = ["--ops", CHECK["ops"], "--qps", CHECK["qps"]]
    program = wire.build / "tests/integration/verbs_check"
    sides = [wire.start(0, [program, "--server", path, *options])]
    sides.append(wire.start(1, [program, "--client", path, *options]))
    verified = 0
    for side in reversed(sides):
        side.wait(deadline)
        found = re.search(r"ok: .* (\d+) QPs, (\d+) operations each", side.output())
        if found is None:
            raise Failure(f"{side.name}: no result")
        verified += int(found.group(1)) * int(found.group(2))
    return verified


def claims_not_reached(wire, report, reason):
    """Lists what this wire should have shown and did not."""
    prefix = "" if wire == "local" else f"{wire}."
    present = {claim["id"] for claim in report.claims}
    wanted = [
        (claim.replace("demo.", f"demo.{prefix}"), claim_text(program, wire), "> 0", "Gb/s")
        for program, claim in PROGRAMS.items()
    ]
    wanted.append((f"demo.{prefix}verified", verified_text(wire), CHECK_TARGET, "operations"))
    for name, what, target, unit in wanted:
        if name not in present:
            report.missing(name, what, target, unit, reason)


def try_wire(name, directory, screen, report, table):
    """Measures one wire; a failure is reported with what both sides printed."""
    try:
        with WIRES[name](directory) as wire:
            try:
                measure_wire(wire, screen, report, table)
            except Failure as failure:
                screen.clear()
                print(screen.bad(f"{WIRE_TEXT[name]}: {failure}"))
                for process in wire.processes:
                    print(f"---- {process.name}")
                    print("\n".join(process.output().splitlines()[-15:]))
                claims_not_reached(name, report, str(failure))
    except Unavailable as reason:
        screen.clear()
        print(f"{WIRE_TEXT[name]}: not on this machine: {reason}")
        claims_not_reached(name, report, str(reason))


def print_table(screen, table, report):
    screen.clear()
    heading = f"{'wire':<12}{'program':<14}{'message':>10}{'goodput Gb/s':>15}{'rate k/s':>12}"
    print("\n" + screen.bold(heading))
    for wire, program, size, gbps, rate in table:
        print(f"{wire:<12}{program:<14}{size_text(size):>10}{gbps:>15.2f}{rate:>12.1f}")
    print()
    for claim in report.claims:
        verdict = screen.good("ok    ") if claim["ok"] else screen.bad("FAILED")
        value = claim.get("reason") or f"{claim['value']:.6g} {claim['unit']}"
        print(f"{verdict} {claim['what']}: {value}")


def main():
    parser = argparse.ArgumentParser(prog="scripts/demo")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--wire", action="append", choices=WIRES, default=[])
    parser.add_argument("--build", type=pathlib.Path)
    arguments = parser.parse_args()
    screen = Screen()
    report = Report("scripts/demo", {"messages": SIZES, "check": CHECK})
    table = []
    try:
        directory = arguments.build.resolve() if arguments.build else build(screen)
    except Failure as failure:
        screen.clear()
        sys.exit(f"demo: {failure}")
    for name in arguments.wire or ("local", "virtio"):
        try_wire(name, directory, screen, report, table)
    print_table(screen, table, report)
    if arguments.json:
        report.write(arguments.json)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
