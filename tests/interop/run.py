#!/usr/bin/env python3
"""Unmodified applications over our device against a Linux kernel's Soft-RoCE. Prints TAP.

usage: tests/interop/run.py [--build DIR] [--iterations N] [--cases REGEX,...] [--mode MODE]
                            [--fault SPEC] [--keep DIR] [--list]

  --build DIR      a build directory in which everything is built (default: build)
  --iterations N   runs the cases so often (default: 1)
  --cases A,B      only cases whose title matches one of these, as in --cases ib_read,verbs_pair
  --mode MODE      the transport mode of our side (default: what it agrees on with the peer)
  --fault SPEC     MPRDMA_FAULT of our side, as in seed=1,loss=0.02; then retransmissions are fine
  --keep DIR       leaves the capture of each failed case there
  --list           prints the titles and runs nothing

The peer is a guest that `shared/peerlab/run-peerlab`, beside the checkout, boots once for all cases
(PEERLAB_DIR in the environment: where it keeps its files; setting up takes some minutes, once).
Needs root. Exit status 77, with the reason, where there is no such guest.
"""

import argparse
import pathlib
import re
import signal
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts/lib")]

from bench import Bench  # noqa: E402
from cases import CASES  # noqa: E402
from guest import Guest  # noqa: E402
from hosts import Failure, Unavailable  # noqa: E402

PEERLAB = ROOT.parent / "shared/peerlab"
SKIPPED = 77
TRACE_PACKETS = 40
LIFE_SECONDS, LIFE_SECONDS_PER_CASE = 600, 30


def show(lines):
    for line in lines:
        print(f"# {line}")


def diagnose(bench, failure):
    """The reason, what both sides printed, and the first packets."""
    show(str(failure).splitlines())
    for process in bench.processes:
        show([f"---- {process.name}: {' '.join(process.command)}", f"---- status {process.status}"])
        show(process.output().splitlines()[-60:])
    show(["---- our stderr", *bench.errors.read_text().splitlines()[-60:]])
    show(["---- packets", *bench.trace(TRACE_PACKETS)])


def run_case(bench, function, thorough):
    """None if it passed, else why not."""
    try:
        with bench.watched(thorough):
            function(bench)
        return None
    except Failure as failure:
        return failure
    except Exception:  # a case with a bug is a failed case
        return Failure(traceback.format_exc())
    finally:
        bench.stop_processes()


def run_all(bench, chosen, iterations, keep):
    """Returns how many failed."""
    print(f"1..{len(chosen) * iterations}", flush=True)
    number, failed = 0, 0
    for iteration in range(1, iterations + 1):
        for title, function in chosen:
            number += 1
            start = time.monotonic()
            failure = run_case(bench, function, thorough=iteration == 1)
            word = "not ok" if failure else "ok"
            round_ = f" (round {iteration})" if iterations > 1 else ""
            elapsed = f"# {time.monotonic() - start:.1f} s"
            print(f"{word} {number} - {title}{round_} {elapsed}", flush=True)
            if failure:
                failed += 1
                diagnose(bench, failure)
                if keep and bench.pcap.exists():
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / f"{number}.pcap").write_bytes(bench.pcap.read_bytes())
    return failed


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--iterations", type=int, default=1)
    parser.add_argument("--cases", default="")
    parser.add_argument("--mode", default="")
    parser.add_argument("--fault", default="")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    wanted = re.compile("|".join(arguments.cases.split(",")))
    chosen = [case for case in CASES if wanted.search(case[0])]
    if arguments.list:
        print("\n".join(title for title, _ in chosen))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends what was started
    life = LIFE_SECONDS + LIFE_SECONDS_PER_CASE * len(chosen) * arguments.iterations
    try:
        with tempfile.TemporaryDirectory(prefix="mprdma-interop-") as directory:
            with Guest(PEERLAB, life) as guest:
                print(f"# the guest is up after {guest.boot_seconds:.0f} s", flush=True)
                build, path = arguments.build.resolve(), pathlib.Path(directory)
                bench = Bench(guest, build, path, arguments.mode, arguments.fault)
                failed = run_all(bench, chosen, arguments.iterations, arguments.keep)
    except Unavailable as reason:
        print(f"1..0 # SKIP {reason}")
        return SKIPPED
    print(f"# {len(chosen) * arguments.iterations - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
