#!/usr/bin/env python3
"""The programs of bench/e2e come to their end between two processes and print a result. TAP.

usage: tests/bench/programs.py --build DIR
"""

import argparse
import pathlib
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / name) for name in ("tests/harness", "tests/integration", "bench")]

import peers_mprdma  # noqa: E402
import tap  # noqa: E402
from daemon import DaemonWire  # noqa: E402
from hosts import Failure, LocalWire  # noqa: E402

COMMANDS = {
    "silent_latency": ["silent_reader", "-d", 10],
    "rate_1_qp": ["many_qps", "-d", 10],
    "rate_10000_qps": ["many_qps", "-d", 10, "-q", 300],  # more than are outstanding
}


def ends(build, wire_class, figure):
    with wire_class(build) as wire:
        sample = peers_mprdma.run_ours(figure, COMMANDS[figure])(build, wire)
    if sample["value"] <= 0:
        raise Failure(f"{sample}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    build = parser.parse_args().build.resolve()
    return tap.run([
        (f"{wire_class.name}: {' '.join(map(str, command))}",
         lambda wire_class=wire_class, figure=figure: ends(build, wire_class, figure))
        for wire_class in (LocalWire, DaemonWire)
        for figure, command in COMMANDS.items()
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
