#!/usr/bin/env python3
"""What scripts/demo does after the machine is set up: build, run, print a table, draw."""

import argparse
import dataclasses
import os
import pathlib
import re
import statistics
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "tests/harness")]

import build_progress  # noqa: E402
import demo_cases  # noqa: E402
import demo_plot  # noqa: E402
from fabric_wire import FabricWire  # noqa: E402
from hosts import ROOT, Failure  # noqa: E402
from processors import percent  # noqa: E402
from report import Report  # noqa: E402
from run_tests import RELEASE  # noqa: E402
from screen import Screen  # noqa: E402

NEEDS = "demo-needs"  # of meson: what this and the command lines of README run
TOPOLOGY = ROOT / "switchsim/scenarios/fabric-four-paths.toml"
DEFAULT_RATE = 1e9  # bits per second: what two cores carry, four times over
# Where a machine carries less, paths have less: half of it, and so on. What it carries is measured
# over paths that are faster, and four paths are to take no more than so much of that.
LEAST_RATE = 125e6
PROBE_RATE = 2e9
PROBE_S = 4
SHARE_TAKEN = 0.75
QUEUE_LEAST_KB = 400  # of the sample; a faster path has more, so that it marks before it drops
RED_LEAST_KB = (12, 24)  # three packets: below that a path is not kept busy
CHECK = {"ops": 2000, "qps": 4}  # in each of two directions
START_S, CHECK_S = 2, 5  # roughly, of a case's programs and of that check: for the time left


def share(value, of):
    """perftest says 0 where a busy machine kept it from measuring its own clock."""
    return value / of if of else 0.0


# claim, what it says, target, the case that it is about, from the results by case
CLAIMS = (
    ("demo.ratio", "four paths / one path", ">= 3.6", "four",
     lambda r, unit: share(r["four"].gbps, r["one"].gbps)),
    ("demo.cut", "a path cut and restored in mid-run: share of what is up", ">= 0.9", "cut",
     lambda r, unit: r["cut"].gbps / (r["cut"].case.paths_up() * unit)),
    ("demo.loss", "1 % loss on one path / lossless", ">= 0.9", "loss",
     lambda r, unit: share(r["loss"].gbps, r["four"].gbps)),
    ("demo.slow", "a path at a tenth: share of three good paths and the slow one", ">= 0.9", "slow",
     lambda r, unit: r["slow"].gbps / (r["slow"].case.paths_up() * unit)),
    ("demo.rpc", "8 KB requests and answers with a dead path / with all paths: rate", ">= 0.8",
     "rpc", lambda r, unit: r["rpc"].rate),
)  # fmt: skip
VERIFIED = ("demo.verified", "random operations over the broken paths, verified at both ends",
            f">= {CHECK['ops'] * CHECK['qps'] * 2}")  # fmt: skip


def build(screen):
    """Builds what the demo and README's lines run; warnings are errors."""
    screen.progress("configuring")
    if not RELEASE.setup():
        raise Failure("cannot configure build/: read the message above")
    build_progress.build(screen, RELEASE.directory, NEEDS)
    return RELEASE.directory


def topology(path_rate, port_kind):
    """The sample topology with this demo's rate, marking after the same time, and kind of port."""
    text = TOPOLOGY.read_text()
    text, marks = re.subn(
        r"(?m)^red = \[1.0, (\d+), (\d+)\]",
        lambda found: "red = [1.0, {:g}, {:g}]".format(
            *(max(float(kb) * path_rate / DEFAULT_RATE, least)
              for kb, least in zip(found.groups(), RED_LEAST_KB))),
        text)  # fmt: skip
    longest = f"{max(QUEUE_LEAST_KB, QUEUE_LEAST_KB * path_rate / DEFAULT_RATE):g}"
    text, queues = re.subn(r"(?m)^queue_kb = \d+$", f"queue_kb = {longest}", text)
    text, rates = re.subn(r'(?m)^rate = ".*"$', f'rate = "{path_rate / 1e6:g}Mbps"', text)
    text, hosts = re.subn(r'(?m)^(ip = ".*")$', rf'\1\nport = "{port_kind}"', text)
    if (marks, queues, rates, hosts) != (1, 1, 1, 2):
        raise Failure(f"{TOPOLOGY.name}: not the topology that the demo knows")
    return text


def choose_rate(directory, options, screen):
    """The rate of a path, and what this machine carries over four faster ones, Gb/s of goodput."""
    screen.progress("what this machine carries")
    probe = demo_cases.Case("probe", "probe", PROBE_S)
    with FabricWire(directory, topology(PROBE_RATE, options.port)) as wire:
        carried = demo_cases.run_case(wire, probe, PROBE_RATE, lambda share: None).gbps
    rate = DEFAULT_RATE
    while rate > LEAST_RATE and goodput_of_four(rate) > SHARE_TAKEN * carried:
        rate /= 2
    return rate, carried


def goodput_of_four(rate):
    """Gb/s, at most."""
    return 4 * rate / 1e9 * demo_cases.PAYLOAD_SHARE


def run_cases(directory, options, screen, round_of):
    """All cases of one round: {case name: Result}, and how many operations were verified."""
    results = {}
    with FabricWire(directory, topology(options.path_rate, options.port)) as wire:
        cases = demo_cases.all_cases(options.path_rate)
        rpc_s = 2 * (demo_cases.RPC_S + START_S)
        total = sum(case.seconds + START_S for case in cases) + rpc_s + CHECK_S
        done = 0
        for case in cases:

            def progress(share, case=case, done=done):
                now = done + share * case.seconds
                screen.progress(round_of + case.title, now / total, total - now)

            progress(0)

            results[case.name] = demo_cases.run_case(wire, case, options.path_rate, progress)
            done += case.seconds + START_S

        def rpc_progress(share, done=done):
            now = done + share * rpc_s
            title = "requests and answers of 8 KB, with and without a dead path"
            screen.progress(round_of + title, now / total, total - now)

        rpc_progress(0)
        results["rpc"] = demo_cases.run_rpc(wire, options.path_rate, rpc_progress)
        done += rpc_s
        screen.progress(round_of + "verbs_check over all of that",
                        done / total, total - done)  # fmt: skip
        verified = demo_cases.check_contents(wire, options.path_rate, CHECK["ops"], CHECK["qps"])
    return results, verified


def streams(results):
    """The cases of ib_write_bw among the results."""
    return {name: r for name, r in results.items() if isinstance(r, demo_cases.Result)}


def run_rounds(directory, options, screen):
    """The results of each round, and the fewest operations that were verified in one."""
    rounds, verified = [], []
    for number in range(1, options.runs + 1):
        round_of = f"round {number} of {options.runs}: " if options.runs > 1 else ""
        results, count = run_cases(directory, options, screen, round_of)
        rounds.append(results)
        verified.append(count)
    return rounds, min(verified)


def add_speeds(report, rounds, unit, strict):
    """Each is the median over the rounds; all values are in the series. Speed depends on what else
    the machine does: a target missed is a failure only if `strict`."""
    judge = report.claim if strict else report.figure
    for name, what, target, case, value_of in CLAIMS:
        values = [value_of(results, unit) for results in rounds]
        if not judge(name, what, target, round(statistics.median(values), 4), "x"):
            median = values.index(statistics.median_low(values))
            result = rounds[median][case]
            report.claims[-1]["reason"] = (
                f"{result.use.reason()}; the network's process took "
                f"{percent(result.network)} of one")
        report.series[name] = {"unit": "x", "values": values}


def add_series(report, rounds):
    report.series["rpc"] = {
        "unit": "us",
        "healthy": [results["rpc"].healthy_us for results in rounds],
        "dead": [results["rpc"].dead_us for results in rounds],
    }
    for name, last in streams(rounds[-1]).items():
        report.series[name] = {
            "unit": "Gb/s",
            "ib_write_bw": [results[name].gbps for results in rounds],
            "processors": [dataclasses.asdict(results[name].use) for results in rounds],
            "network_processors": [results[name].network for results in rounds],
            "paths_up": last.case.paths_up(),
            "seconds": [at for at, _ in last.series],
            "path_goodput": [rates for _, rates in last.series],
        }


def print_table(screen, report, rounds, unit):
    """The last column is the processor time of the network's process, as a share of one."""
    screen.clear()
    print("\n" + screen.bold(f"{'case':<42}{'goodput Gb/s':>14}{'paths up':>10}{'of these':>10}"
                             f"{'network, of a CPU':>19}"))  # fmt: skip
    for name, result in streams(rounds[-1]).items():
        gbps = statistics.median(results[name].gbps for results in rounds)
        network = statistics.median(results[name].network for results in rounds)
        up = result.case.paths_up()
        print(f"{result.case.title:<42}{gbps:>14.3f}{up:>10.2f}{gbps / (up * unit):>10.1%}"
              f"{percent(network):>19}")  # fmt: skip
    print(screen.bold(f"\n{'8 KB there and back, ib_send_lat':<42}{'half, us':>14}{'':>20}"
                      f"{'network, of a CPU':>19}"))  # fmt: skip
    rpc = [results["rpc"] for results in rounds]
    for title, taken in (
        ("four paths", [(r.healthy_us, r.healthy_network) for r in rpc]),
        ("path 4 loses everything", [(r.dead_us, r.network) for r in rpc]),
    ):
        half_us, network = map(statistics.median, zip(*taken))
        print(f"{title:<42}{half_us:>14.1f}{percent(network):>39}")
    print()
    for claim in report.claims:
        print_claim(screen, claim)


def print_claim(screen, claim):
    verdict = screen.bad("FAILED")
    if claim["ok"]:
        verdict = screen.good("ok    ")
    elif "met" in claim:
        verdict = screen.paint("MISSED", "33")
    value = f"{claim['value']:.4g}" if claim["unit"] == "x" else claim["value"]
    found = f"{claim['what']}: {value} {claim['unit']} (target {claim['target']})"
    print(f"{verdict} {claim['id']}: {found}")
    if "reason" in claim:
        print(f"       {claim['reason']}")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/demo")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--png", type=pathlib.Path, default=None)
    parser.add_argument("--runs", type=parse_rounds, default=1)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--path-rate", type=parse_rate)
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
    report = Report("scripts/demo", {
        "paths": 4, "port": options.port, "message_bytes": demo_cases.MESSAGE_BYTES,
        "mtu_bytes": demo_cases.MTU_BYTES, "overhead_bytes": demo_cases.OVERHEAD_BYTES,
        "runs": options.runs, "check": CHECK,
    })  # fmt: skip
    try:
        directory = options.build.resolve() if options.build else build(screen)
        carried = None
        if options.path_rate is None:
            options.path_rate, carried = choose_rate(directory, options, screen)
            screen.clear()
            print(f"this machine carries {carried:.1f} Gb/s: each of the four paths has "
                  f"{options.path_rate / 1e6:g} Mb/s")
        unit = options.path_rate / 1e9 * demo_cases.PAYLOAD_SHARE
        report.constants.update(path_rate_bps=options.path_rate, path_goodput_max_gbps=unit,
                                 carried_gbps=carried)
        rounds, verified = run_rounds(directory, options, screen)
    except Failure as failure:
        screen.clear()
        for name, what, target, *_ in CLAIMS:
            report.missing(name, what, target, "x", str(failure))
        report.missing(*VERIFIED, "operations", str(failure))
        if options.json:
            report.write(options.json)
        sys.exit(f"demo: {failure}")
    add_speeds(report, rounds, unit, options.strict)
    report.claim(*VERIFIED, verified, "operations")
    add_series(report, rounds)
    print_table(screen, report, rounds, unit)
    png = options.png or directory / "demo.png"
    not_drawn = demo_plot.draw(list(streams(rounds[-1]).values()), unit, png)
    print(f"\npicture: {not_drawn or os.path.relpath(png)}")
    if options.json:
        report.write(options.json)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
