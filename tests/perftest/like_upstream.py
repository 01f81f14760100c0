"""Cases of the patched perftest without its options: it is upstream's, of the same version."""

import re
import subprocess

import patched_perftest
import perftest
from hosts import Failure, LocalWire

SECONDS = 60
NAMES = [f"ib_{verb}_{kind}" for verb in ("send", "write", "read", "atomic")
         for kind in ("bw", "lat")]  # fmt: skip
# What the patches add to the help.
ADDED = re.compile(r"mprdma devices:|--(mode|preset|synchronise|report-paths|report-rates)\b")


def expect(condition, what):
    if not condition:
        raise Failure(what)


def both(build, name):
    return (patched_perftest.program(build, name),
            patched_perftest.program(build, name, patched_perftest.UPSTREAM))  # fmt: skip


def says(program, *options):
    """Status and lines, without the program's directory."""
    ran = subprocess.run([program, *options], text=True, check=False, capture_output=True,
                         timeout=SECONDS)  # fmt: skip
    return ran.returncode, (ran.stdout + ran.stderr).replace(program, "PROGRAM").splitlines()


def same_help(build):
    for name in NAMES:
        (status, ours), (its_status, upstream) = [says(p, "--help") for p in both(build, name)]
        expect(status == its_status, f"{name} --help: status {status}, upstream's {its_status}")
        rest = [line for line in ours if not ADDED.search(line)]
        # Before the options for mprdma devices there is an empty line.
        expect([x for x in rest if x] == [x for x in upstream if x], f"{name} --help differs")
        expect(len(ours) - len(rest) >= 4, f"{name} --help does not name the options")


def same_errors(build):
    for options in (["--foo"], ["-s"], ["-n", "1"], ["-q", "x"], ["-c", "XX"], ["-d", "none"]):
        (status, ours), (its_status, upstream) = [
            says(program, *options) for program in both(build, "ib_write_bw")
        ]
        ours = [line for line in ours if line and not ADDED.search(line)]
        upstream = [line for line in upstream if line]
        expect(status == its_status, f"{options}: status {status}, upstream's {its_status}")
        expect(ours == upstream, f"{options}: {set(ours) ^ set(upstream)}")


def shape(output):
    """What a run prints, without its figures and the remarks of a busy machine."""
    lines = []
    for line in output.splitlines():
        if not re.search(r"Correlation|Conflicting|WARNING", line):
            lines.append(" ".join(re.sub(r"0x[0-9a-fA-F]+|\d[\d.:]*|inf|nan", "N", line).split()))
    return lines


def same_runs(build):
    """Each with itself prints the same; and each understands the other."""
    for name in ("ib_write_bw", "ib_send_lat"):
        ours, upstream = both(build, name)
        shapes = []
        for server, client in ((ours, ours), (upstream, upstream), (ours, upstream),
                               (upstream, ours)):  # fmt: skip
            with LocalWire(build) as wire:
                outputs = perftest.outputs(wire, server, ("-n", 200), SECONDS, client)
            expect(perftest.parse(outputs[1]), f"no results: {outputs[1][-600:]}")
            shapes.append([line for output in outputs for line in shape(output)])
        for other in shapes[1:]:
            expect(shapes[0] == other, f"{name}: {set(shapes[0]) ^ set(other)}")


CASES = [
    ("the help is upstream's, and names the options", same_help),
    ("errors are upstream's", same_errors),
    ("runs print what upstream's print, and both talk to each other", same_runs),
]
