#!/usr/bin/env python3
"""Unmodified applications between two processes, over every kind of wire. Prints TAP.

usage: tests/integration/run.py [--build DIR] [--wire NAME]... [--only REGEX] [--list]

  --build DIR   a build directory in which everything is built (default: build-test)
  --wire NAME   local, virtio, af_packet, fabric, fabric-vhost, fabric-pfc, fabric-pfc-vhost,
                daemon, daemon-virtio, beside or beside-xdp; may be repeated (default: all)
  --only REGEX  only cases whose name matches, as in --only 'local: ib_write_bw'
  --list        prints the names of the cases and runs none

A case has a limit of time. When it fails, the output of both sides is shown. Whatever was started
is ended; namespaces are removed.
"""

import argparse
import pathlib
import re
import sys
import time
import traceback

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/harness")]

import beside  # noqa: E402
import cases  # noqa: E402
import daemon  # noqa: E402
import daemon_virtio  # noqa: E402
import fabric  # noqa: E402
import pause  # noqa: E402
import stuck  # noqa: E402
from hosts import WIRES, Failure, Unavailable  # noqa: E402

WIRES = {**WIRES, **fabric.WIRES, **pause.WIRES, "daemon": daemon.DaemonWire,
         "daemon-virtio": daemon_virtio.DaemonVirtioWire,
         "beside": beside.BesideWire, "beside-xdp": beside.BesideXdpWire}


def diagnose(wire, error):
    """The reason, what both sides printed and where they stand, as comments of TAP."""
    lines = [str(error)]
    for process in wire.processes:
        status = process.status
        lines.append(f"---- {process.name}: {' '.join(process.command)}")
        lines.append(f"---- {'still running' if status is None else f'status {status}'}")
        lines += process.output().splitlines()[-40:]
    lines += stuck.look(wire, wire.processes)
    for line in lines:
        print(f"# {line}")


def run_case(case, wire):
    """None if it passed, else the exception: Unavailable where the machine cannot run it."""
    try:
        case.function(wire)
        return None
    except (Failure, Unavailable) as failure:
        return failure
    except Exception:  # a case with a bug is a failed case
        return Failure(traceback.format_exc())
    finally:
        wire.extra.clear()
        for note in wire.notes:
            print(f"# {note}")
        wire.notes.clear()


def run_wire(name, chosen, build, number):
    """Runs the cases of one wire; returns how many failed."""
    failed = 0
    try:
        with WIRES[name](build) as wire:
            for case in chosen:
                start = time.monotonic()
                error = run_case(case, wire)
                elapsed = f"# {time.monotonic() - start:.1f} s"
                skipped = isinstance(error, Unavailable)
                print(f"{'not ok' if error and not skipped else 'ok'} {number} - {case.title}"
                      + (f" # SKIP {error}" if skipped else ""), flush=True)
                print(elapsed)
                if error and not skipped:
                    failed += 1
                    diagnose(wire, error)
                wire.stop_processes()
                number += 1
    except Unavailable as reason:
        for case in chosen:
            print(f"ok {number} - {case.title} # SKIP {reason}")
            number += 1
    return failed


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-test")
    parser.add_argument("--wire", action="append", choices=WIRES, default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    wanted = re.compile(arguments.only)
    plan = {
        name: [c for c in cases.of_wire(name) if wanted.search(c.title)]
        for name in arguments.wire or WIRES
    }
    if arguments.list:
        print("\n".join(case.title for chosen in plan.values() for case in chosen))
        return 0
    print(f"1..{sum(map(len, plan.values()))}", flush=True)
    number, failed = 1, 0
    for name, chosen in plan.items():
        if chosen:
            failed += run_wire(name, chosen, arguments.build.resolve(), number)
            number += len(chosen)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
