#!/usr/bin/env python3
"""Unmodified applications over our device against a Linux kernel's Soft-RoCE. Prints TAP.

usage: tests/interop/run.py [--build DIR] [--iterations N] [--cases REGEX,...] [--short]
                            [--mode MODE] [--fault SPEC] [--keep DIR] [--list]

  --build DIR      a build directory in which everything is built (default: build-test)
  --iterations N   runs the cases so often (default: 1)
  --cases A,B      only cases whose title matches one of these, as in --cases ib_read,verbs_pair
  --short          of these only one of each kind, as a look before a commit
  --mode MODE      the transport mode of our side (default: what it agrees on with the peer)
  --fault SPEC     MPRDMA_FAULT of our side, as in seed=1,loss=0.02; then retransmissions are fine
  --keep DIR       leaves the capture of each failed case there
  --list           prints the titles and runs nothing

The peer is a guest that `shared/peerlab/run-peerlab`, beside the checkout, boots once for all cases
(PEERLAB_DIR in the environment: where it keeps its files; setting up takes some minutes, once).
Needs root. Exit status 77, with the reason, where there is no such guest.
"""

import argparse
import contextlib
import functools
import pathlib
import re
import signal
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/harness")]

from bench import Bench  # noqa: E402
from cases import CASES, is_short  # noqa: E402
from guest import Guest  # noqa: E402
from hosts import Failure, Unavailable  # noqa: E402

PEERLAB = ROOT.parent / "shared/peerlab"
SKIPPED = 77
TRACE_PACKETS = 40
MODES = ("mp", "mp-single", "mp-paper", "roce")
PROGRAMS = (
    "tools/mprdma", "tools/mprdmad", "providers/mprdma/libmprdma-rdmav34.so",
    "dataplane/libmprdma-engine.so", "tests/interop/libpatient.so", "tests/interop/verbs_pair",
    "tests/interop/verbs_errors", "tests/interop/cm_pair",
)  # fmt: skip
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
    with contextlib.suppress(Failure, KeyError):
        moved = {name: by for name, by in bench.guest_counted().items() if by}
        show([f"---- the guest counts {moved}"])
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
                if not bench.guest.answers():
                    print("# the guest does not answer: another one is started", flush=True)
                    bench.guest.restart()
    return failed


def title_of_any(text):
    """What --cases says, as a regular expression."""
    try:
        return re.compile("|".join(text.split(",")))
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from None


def parse_arguments():
    """All that can be said before a guest is booted."""
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1])
    add = functools.partial(parser.add_argument, help=argparse.SUPPRESS)
    add("--build", type=pathlib.Path, default=ROOT / "build-test")
    add("--iterations", type=int, default=1)
    add("--cases", type=title_of_any, default="")
    add("--short", action="store_true")
    add("--mode", choices=MODES)
    add("--fault", default="")
    add("--keep", type=pathlib.Path)
    add("--list", action="store_true")
    arguments = parser.parse_args()
    arguments.chosen = [
        (title, function) for title, function in CASES
        if arguments.cases.search(title) and (not arguments.short or is_short(title))
    ]  # fmt: skip
    if not arguments.chosen:
        parser.error("no case has such a title: --list prints them")
    if arguments.iterations < 1:
        parser.error("--iterations is 1 or more")
    if not arguments.list:
        missing = [name for name in PROGRAMS if not (arguments.build / name).is_file()]
        if missing:
            parser.error(f"{arguments.build} is no build directory: {missing[0]} is not there")
    return arguments


def main():
    arguments = parse_arguments()
    chosen = arguments.chosen
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
    except Failure as failure:
        show(str(failure).splitlines())
        print("Bail out! there is no guest")
        return 1
    print(f"# {len(chosen) * arguments.iterations - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
