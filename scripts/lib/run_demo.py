#!/usr/bin/env python3
"""What scripts/demo does after the machine is set up: build, run, print a table, draw."""

import argparse
import os
import pathlib
import re
import statistics
import sys

import demo_cases
import demo_plot
from fabric_wire import FabricWire
from hosts import ROOT, Failure
from report import Report
from run_tests import GCC, run

TARGETS = (
    "tools/mprdma", "dataplane/libmprdma-engine.so", "dataplane/libmprdma-eal.so",
    "providers/mprdma/libmprdma-rdmav34.so", "providers/mprdma/libmprdma-preload.so",
    "tests/integration/verbs_check",
)  # fmt: skip
TOPOLOGY = ROOT / "switchsim/scenarios/fabric-four-paths.toml"
DEFAULT_RATE = 200e6  # bits per second: what two cores carry with a margin, four times over
CHECK = {"ops": 2000, "qps": 4}  # in each of two directions
# claim, what it says, target, from the results by case
CLAIMS = (
    ("demo.ratio", "four paths / one path", ">= 3.6",
     lambda r, unit: r["four"].gbps / r["one"].gbps),
    ("demo.cut", "a path cut and restored in mid-run: share of what is up", ">= 0.9",
     lambda r, unit: r["cut"].gbps / (r["cut"].case.paths_up() * unit)),
    ("demo.loss", "1 % loss on one path / lossless", ">= 0.9",
     lambda r, unit: r["loss"].gbps / r["four"].gbps),
    ("demo.slow", "a path at a tenth: share of three good paths and the slow one", ">= 0.9",
     lambda r, unit: r["slow"].gbps / (r["slow"].case.paths_up() * unit)),
)  # fmt: skip


class Screen:
    """A bar of progress that is overwritten on a terminal; colours only there."""

    WIDTH = 24

    def __init__(self):
        self.terminal = sys.stdout.isatty()
        self.colours = self.terminal and "NO_COLOR" not in os.environ
        self._last = ""

    def progress(self, text, share=None):
        if self.terminal:
            bar = ""
            if share is not None:
                full = min(self.WIDTH, int(share * self.WIDTH))
                bar = f"[{'#' * full}{'.' * (self.WIDTH - full)}] "
            print(f"\r\x1b[K{bar}{text} ...", end="", flush=True)
        elif text != self._last:
            print(f"{text} ...", flush=True)
        self._last = text

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


def topology(path_rate, port_kind):
    """The sample topology with this demo's rate and kind of port."""
    text = TOPOLOGY.read_text()
    text, rates = re.subn(r'(?m)^rate = ".*"$', f'rate = "{path_rate / 1e6:g}Mbps"', text)
    text, hosts = re.subn(r'(?m)^(ip = ".*")$', rf'\1\nport = "{port_kind}"', text)
    if (rates, hosts) != (1, 2):
        raise Failure(f"{TOPOLOGY.name}: not the topology that the demo knows")
    return text


def run_cases(directory, options, screen, round_of):
    """All cases of one round: {case name: Result}, and how many operations were verified."""
    results = {}
    with FabricWire(directory, topology(options.path_rate, options.port)) as wire:
        cases = demo_cases.all_cases(options.path_rate)
        total = sum(case.seconds + 2 for case in cases) + 5
        done = 0
        for case in cases:
            text = f"round {round_of}: {case.title}"
            screen.progress(text, done / total)

            def progress(share, text=text, done=done, case=case):
                screen.progress(text, (done + share * case.seconds) / total)

            results[case.name] = demo_cases.run_case(wire, case, options.path_rate, progress)
            done += case.seconds + 2
        screen.progress("verbs_check: contents and order, both directions", done / total)
        verified = demo_cases.check_contents(wire, CHECK["ops"], CHECK["qps"])
    return results, verified


def missed(results, unit):
    """Whether a claim misses its target, which is ">= x" of each, in a round."""
    return any(value_of(results, unit) < float(target.split()[1])
               for _, _, target, value_of in CLAIMS)  # fmt: skip


def run_rounds(directory, options, screen, unit):
    """So many as are asked for. Unasked one, and two more if that misses a target: what else the
    machine does moves a case by several percent, and the median of three judges."""
    wanted = options.runs or 1
    rounds = []
    while len(rounds) < wanted:
        rounds.append(run_cases(directory, options, screen, f"{len(rounds) + 1} of {wanted}"))
        if options.runs is None and len(rounds) == 1 and missed(rounds[0][0], unit):
            wanted = 3
    return rounds


def add_claims(report, rounds, unit):
    """Each claim is the median over the rounds; all values are in the series."""
    for name, what, target, value_of in CLAIMS:
        values = [value_of(results, unit) for results, _ in rounds]
        report.claim(name, what, target, round(statistics.median(values), 4), "x")
        report.series[name] = {"unit": "x", "values": values}
    verified = min(count for _, count in rounds)
    report.claim("demo.verified", "random operations verified at both ends",
                 f">= {CHECK['ops'] * CHECK['qps'] * 2}", verified, "operations")  # fmt: skip


def add_series(report, rounds):
    for name in rounds[-1][0]:
        last = rounds[-1][0][name]
        report.series[name] = {
            "unit": "Gb/s",
            "ib_write_bw": [results[name].gbps for results, _ in rounds],
            "paths_up": last.case.paths_up(),
            "seconds": [at for at, _ in last.series],
            "path_goodput": [rates for _, rates in last.series],
        }


def print_table(screen, report, rounds, unit):
    screen.clear()
    print("\n" + screen.bold(f"{'case':<42}{'goodput Gb/s':>14}{'paths up':>10}{'of these':>10}"))
    for name, result in rounds[-1][0].items():
        gbps = statistics.median(results[name].gbps for results, _ in rounds)
        up = result.case.paths_up()
        print(f"{result.case.title:<42}{gbps:>14.3f}{up:>10.2f}{gbps / (up * unit):>9.1%}")
    print()
    for claim in report.claims:
        verdict = screen.good("ok    ") if claim["ok"] else screen.bad("FAILED")
        value = claim.get("reason") or f"{claim['value']:.4g} {claim['unit']}"
        print(f"{verdict} {claim['id']}: {claim['what']}: {value} (target {claim['target']})")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/demo")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--png", type=pathlib.Path, default=None)
    parser.add_argument("--runs", type=parse_rounds)
    parser.add_argument("--path-rate", type=parse_rate, default=DEFAULT_RATE)
    parser.add_argument("--port", choices=("vhost", "local"), default="vhost")
    parser.add_argument("--build", type=pathlib.Path)
    return parser.parse_args()


def parse_rounds(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}': a number of rounds is 1 or more")
    return int(text)


def parse_rate(text):
    """Bits per second of "200Mbps" or "1Gbps"."""
    for unit, factor in (("Mbps", 1e6), ("Gbps", 1e9)):
        if text.endswith(unit):
            return float(text[: -len(unit)]) * factor
    raise argparse.ArgumentTypeError(f"'{text}': a rate is like 200Mbps or 1Gbps")


def main():
    options = parse_arguments()
    screen = Screen()
    unit = options.path_rate / 1e9 * demo_cases.PAYLOAD_SHARE
    report = Report("scripts/demo", {
        "path_rate_bps": options.path_rate, "paths": 4, "port": options.port,
        "message_bytes": demo_cases.MESSAGE_BYTES, "mtu_bytes": demo_cases.MTU_BYTES,
        "overhead_bytes": demo_cases.OVERHEAD_BYTES, "path_goodput_max_gbps": unit,
        "runs": options.runs or 1, "check": CHECK,
    })  # fmt: skip
    try:
        directory = options.build.resolve() if options.build else build(screen)
        rounds = run_rounds(directory, options, screen, unit)
    except Failure as failure:
        screen.clear()
        reason = str(failure)
        for name, what, target, _ in CLAIMS:
            report.missing(name, what, target, "x", reason)
        if options.json:
            report.write(options.json)
        sys.exit(f"demo: {reason}")
    report.constants["runs"] = len(rounds)
    add_claims(report, rounds, unit)
    add_series(report, rounds)
    print_table(screen, report, rounds, unit)
    png = options.png or directory / "demo.png"
    not_drawn = demo_plot.draw(list(rounds[-1][0].values()), unit, png)
    print(f"\npicture: {not_drawn or os.path.relpath(png)}")
    if options.json:
        report.write(options.json)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
