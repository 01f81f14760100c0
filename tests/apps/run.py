#!/usr/bin/env python3
"""What scripts/apps does after the build: unmodified applications, one claim for each.

usage: scripts/apps [--json FILE] [--only REGEX] [--list] [--build DIR] [--peerlab DIR]
                    [--seed N]
"""

import argparse
import pathlib
import re
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/harness"), str(ROOT / "tests/integration")]

import others  # noqa: E402
import programs  # noqa: E402
import stuck  # noqa: E402
from hosts import DEFAULT_SEED, Failure, Unavailable  # noqa: E402
from places import PLACES  # noqa: E402
from report import Report, compare  # noqa: E402

OUTPUT_LINES = 40


class Outcome:
    """The outcome of one case."""

    def __init__(self, case, reason, seconds, value=None):
        self.case = case
        self.value = value  # what it measured, if it does
        self.reason = reason  # None: it works
        self.seconds = seconds


def show_outputs(place):
    """What the processes of a failed case have printed, and where those stand that still run."""
    processes = [*place.processes, *getattr(place, "daemons", [])]
    for process in processes:
        print(f"    ---- {process.name}: {' '.join(process.command)}")
        state = "still running" if process.status is None else f"status {process.status}"
        print(f"    ---- {state}")
        for line in process.output().splitlines()[-OUTPUT_LINES:]:
            print(f"    {line}")
    for line in stuck.look(place, processes):
        print(f"    {line}")


def run_case(case, place):
    start = time.monotonic()
    reason = value = None
    try:
        value = case.function(place)
    except Failure as failure:
        reason = str(failure)
    except Exception:  # a case with a bug is a failed case
        reason = traceback.format_exc()
    finally:
        place.extra.clear()
        for note in place.notes:
            print(f"       {note}", flush=True)
        place.notes.clear()
    outcome = Outcome(case, reason, time.monotonic() - start, value)
    tell(outcome)
    if reason:
        show_outputs(place)
    place.stop_processes()
    return outcome


def tell(outcome):
    case = outcome.case
    missed = case.target and not outcome.reason and not compare(outcome.value, case.target)
    # How fast depends on how busy the machine is: a miss is said, and no failure.
    verdict = "FAILED" if outcome.reason else "MISSED" if missed else "ok    "
    tail = f": {outcome.reason}" if outcome.reason else ""
    if outcome.value is not None and not tail:
        tail = f": {outcome.value} {case.unit}" + (f", target {case.target}" if missed else "")
    title = f"apps.{outcome.case.title}"
    print(f"{verdict} {title:<32}{outcome.seconds:7.1f} s{tail}", flush=True)


def run_place(name, chosen, build, seed):
    """All cases of one place."""
    outcomes = []
    try:
        with PLACES[name](build) as place:
            place.seed = seed
            for case in chosen:
                outcomes.append(run_case(case, place))
    except (Unavailable, Failure, OSError) as reason:
        for case in chosen[len(outcomes):]:
            outcomes.append(Outcome(case, f"{name}: {reason}", 0.0))
            tell(outcomes[-1])
    return outcomes


def add_claims(report, outcomes):
    """One for each program, of the cases in which it works, and one for each case."""
    by_name = {}
    for outcome in outcomes:
        by_name.setdefault(outcome.case.name, []).append(outcome)
    for name, cases in by_name.items():
        what = cases[0].case.what
        if cases[0].case.target:
            add_measured_claim(report, cases[0])
            continue
        works = sum(not outcome.reason for outcome in cases)
        report.claim(f"apps.{name}", f"{what}: cases that work", f">= {len(cases)}", works, "cases")
        for outcome in cases if len(cases) > 1 else []:
            add_case_claim(report, outcome)
    report.series["cases"] = [
        {"case": o.case.title, "ok": o.reason is None, "seconds": round(o.seconds, 2),
         "reason": o.reason}
        for o in outcomes
    ]  # fmt: skip


def add_measured_claim(report, outcome):
    case = outcome.case
    facts = (f"apps.{case.name}", case.what, case.target)
    if outcome.value is None:
        report.missing(*facts, case.unit, outcome.reason)
    else:
        report.figure(*facts, outcome.value, case.unit)


def add_case_claim(report, outcome):
    case = outcome.case
    where = PLACES[case.place].what
    report.claim(f"apps.{case.title}", f"{case.what}: {where}", ">= 1", int(not outcome.reason),
                 "works")  # fmt: skip


def run_others(report, wanted, build):
    """Appends the claims of other suites; how many of these work, and how many do not."""
    counts = [0, 0]
    for runner in others.chosen(wanted):
        with tempfile.TemporaryDirectory(prefix="mprdma-apps-") as directory:
            reason, claims = others.run(runner, build, directory)
        known = {claim["id"] for claim in report.claims}
        report.claims += [claim for claim in claims if claim["id"] not in known]
        # A figure has `met`: that it is missed is said, and no failure.
        failed = [claim["id"] for claim in claims if not claim["ok"] and "met" not in claim]
        if reason and not failed:
            report.missing(f"apps.{runner[0]}", f"{runner[0]}: runs", ">= 1", "works", reason)
        bad = bool(reason or failed)
        counts[bad] += 1
        text = reason or ", ".join(failed) or f"{len(claims)} claims"
        print(f"{'FAILED' if bad else 'ok    '} apps.{runner[0]}: {text}")
        tell_figures(claims)
    return counts


def tell_figures(claims):
    for claim in claims:
        if "met" in claim:
            verdict = "met   " if claim["met"] else "MISSED"
            print(f"{verdict} {claim['id']}: {claim['value']} {claim['unit']}, target "
                  f"{claim['target']}")  # fmt: skip


def run_kernel_rping(report, wanted, options):
    """Runs rping with the guest's kernel, if the caller names the guest."""
    if not options.peerlab or not wanted.search("kernel_rping"):
        return [0, 0]
    works = others.kernel_rping(report, options.build.resolve(), options.peerlab.resolve())
    print(f"{'ok    ' if works else 'FAILED'} apps.kernel_rping")
    return [int(works), int(not works)]


def parse_arguments():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--peerlab", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    return parser.parse_args()


def main():
    options = parse_arguments()
    wanted = re.compile(options.only)
    cases = [case for case in programs.all_cases() if wanted.search(case.title)]
    if options.list:
        lines = [f"{case.title:<32}{case.what}" for case in cases]
        lines += [f"{name:<32}{path.relative_to(ROOT)}" for name, path, _ in others.chosen(wanted)]
        if options.peerlab and wanted.search("kernel_rping"):
            lines.append(f"{'kernel_rping':<32}{others.KERNEL_RPING}..")
        print("\n".join(lines))
        return 0
    report = Report("scripts/apps", {"only": options.only})
    outcomes = []
    for name in PLACES:
        chosen = [case for case in cases if case.place == name]
        if chosen:
            outcomes += run_place(name, chosen, options.build.resolve(), options.seed)
    add_claims(report, outcomes)
    counts = [run_others(report, wanted, options.build.resolve()),
              run_kernel_rping(report, wanted, options)]
    passed, failed = map(sum, zip(*counts))
    if options.json:
        report.write(options.json)
    failed += sum(o.reason is not None for o in outcomes)
    passed += sum(o.reason is None for o in outcomes)
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
