#!/usr/bin/env python3
"""Two hosts behind kernel routers with four shaped links (bed.py): prints TAP.

usage: tests/netns/run.py [--build DIR] [--port NAME]... [--quick] [--rate MBITS] [--rounds N]
                          [--seconds N] [--only REGEX] [--json FILE]

  --build DIR   a build directory in which everything is built (default: build-test)
  --port NAME   af_packet or af_xdp; may be repeated (default: both)
  --quick       a few seconds, without figures: what CI runs
  --rate MBITS  of each of the four links, in Mbit/s (default: 20)
  --rounds N    comparisons of four paths with one (default: 5)
  --seconds N   of each run of ib_write_bw in a comparison (default: 4)
  --only REGEX  only cases whose name matches
  --json FILE   claims and figures; compares, too

What cannot run here (no root, no namespaces, no AF_XDP) is skipped, with the reason; in FILE it is
missing. A figure below its target is `MISSED`, `"met": false` in FILE, and no failure. Whatever was
started is ended and namespaces are removed, after SIGTERM, too.
"""

import argparse
import pathlib
import re
import signal
import sys
import time
import traceback

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/harness"), str(ROOT / "tests/integration")]

import bed  # noqa: E402
import bed_cases  # noqa: E402
from hosts import Failure, Unavailable  # noqa: E402
from report import Report, compare  # noqa: E402


def diagnose(wire, error):
    """The reason, and what everybody printed, as comments of TAP."""
    lines = [str(error)]
    for process in [*wire.processes, *(d for d in wire.daemons if d is not None)]:
        lines.append(f"---- {process.name}: {' '.join(process.command)}")
        status = process.status
        lines.append(f"---- {'still running' if status is None else f'status {status}'}")
        lines += process.output().splitlines()[-40:]
    for line in lines:
        print(f"# {line}")


def run_case(case, wire, options):
    """None if it passed, else the exception."""
    try:
        case.function(wire, options)
        return None
    except Failure as failure:
        return failure
    except Exception:  # a case with a bug is a failed case
        return Failure(traceback.format_exc())
    finally:
        wire.extra.clear()


def verdict(case, figure):
    """What a line of TAP says of the case's figure."""
    if figure is None:
        return ""
    met = "met" if compare(figure[0], case.target) else "MISSED"
    return f": {figure[0]} {case.unit}, target {case.target}: {met}"


def run_port(port, chosen, options, number):
    """Runs the cases over one kind of port; {name: None, Failure or Unavailable}."""
    results = {}
    try:
        with bed.RoutedBed(options.build, port, options.rate * 1e6) as wire:
            for case in chosen:
                start = time.monotonic()
                error = run_case(case, wire, options)
                results[case.name] = error
                seconds = time.monotonic() - start
                judged = verdict(case, options.figures.get((port, case.name)))
                print(f"{'not ok' if error else 'ok'} {number} - {port}: {case.title}{judged}")
                print(f"# {seconds:.1f} s", flush=True)
                if error:
                    diagnose(wire, error)
                wire.stop_processes()
                number += 1
    except (Unavailable, Failure) as reason:  # of the bed itself
        skipped = isinstance(reason, Unavailable)
        for case in chosen[len(results) :]:
            results[case.name] = reason
            title = f"{number} - {port}: {case.title}"
            lines = str(reason).replace("\n", "\n# ")
            print(f"ok {title} # SKIP {reason}" if skipped else f"not ok {title}\n# {lines}")
            number += 1
    return results


def add_claims(report, port, chosen, results, options):
    """A claim for each case; those of AF_PACKET have the plain names."""
    suffix = "" if port == "af_packet" else f"_{port}"
    for case in chosen:
        name, error = f"apps.netns_{case.name}{suffix}", results[case.name]
        what = f"{case.title}, by kernel routers, {port}"
        figure = options.figures.get((port, case.name))
        if error is not None:
            report.missing(name, what, case.target, case.unit, str(error).splitlines()[0])
        elif figure is None:
            report.claim(name, what, case.target, 1, case.unit)
        else:
            report.figure(name, what, case.target, figure[0], case.unit)
            report.series[name] = figure[1]


def parse():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-test")
    parser.add_argument("--port", action="append", choices=bed.PORTS, default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.figures = {}
    return options


def main():
    options = parse()
    # As an exception: the namespaces' `with` removes them. Others end a suite by it (tests/apps).
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    wanted = re.compile(options.only)
    chosen = [
        case for case in (bed_cases.QUICK if options.quick else bed_cases.ALL)
        if wanted.search(case.title)
    ]
    ports = options.port or list(bed.PORTS)
    print(f"1..{len(chosen) * len(ports)}", flush=True)
    report = Report("tests/netns/run.py", {"rate_mbps": options.rate, "paths": bed.PATHS,
                                           "seconds": options.seconds})  # fmt: skip
    failed = 0
    for i, port in enumerate(ports):
        results = run_port(port, chosen, options, 1 + i * len(chosen))
        failed += sum(isinstance(error, Failure) for error in results.values())
        add_claims(report, port, chosen, results, options)
    if options.json:
        report.write(options.json)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
