#!/usr/bin/env python3
"""What scripts/compare-presets does after the machine is set up: build, run, print a table."""

import argparse
import pathlib
import statistics
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "tests/harness")]

import demo_cases  # noqa: E402
import perftest  # noqa: E402
import run_demo  # noqa: E402
from fabric_wire import FabricWire  # noqa: E402
from hosts import Failure  # noqa: E402
from processors import Watch  # noqa: E402
from report import Report  # noqa: E402
from screen import Screen  # noqa: E402

PRESETS = ("mp", "mp-single", "irn", "roce")
SECONDS = 4  # of each program
# name, unit, program, options, from its last row
SAMPLES = (
    ("goodput", "Gb/s", "ib_write_bw", ["-s", demo_cases.MESSAGE_BYTES], lambda row: row.gbps),
    ("small", "us", "ib_send_lat", ["-s", 8], lambda row: row.usec),
    ("rpc", "us", "ib_send_lat", ["-s", demo_cases.RPC_BYTES], lambda row: row.usec),
)  # fmt: skip
# claim, what it says, target; the ratio of two values, each of (preset, lossy, sample)
CLAIMS = (
    ("compare.irn-roce", "with loss: goodput of irn / roce", ">= 2",
     ("irn", True, "goodput"), ("roce", True, "goodput")),
    ("compare.irn-clean", "irn with loss / without: goodput", ">= 0.9",
     ("irn", True, "goodput"), ("irn", False, "goodput")),
    ("compare.mp-irn", "with loss: goodput of mp (four paths) / irn (one)", ">= 3",
     ("mp", True, "goodput"), ("irn", True, "goodput")),
    ("compare.rpc-irn", "with loss: 8 KiB there and back, time with irn / roce", "<= 1",
     ("irn", True, "rpc"), ("roce", True, "rpc")),
    ("compare.rpc-mp", "with loss: 8 KiB there and back, time with mp / irn", "<= 1.1",
     ("mp", True, "rpc"), ("irn", True, "rpc")),
)  # fmt: skip


def measure(wire, preset, sample):
    """One program with one preset: its value, and what the processors did."""
    _, _, program, options, value_of = sample
    wire.extra = {"MPRDMA_PRESET": preset}
    watch = Watch()
    try:
        rows = perftest.run(
            wire, program, [*options, "-m", demo_cases.MTU_BYTES, "-D", SECONDS, "-f", 1]
        )
    except Failure as failure:
        raise Failure(f"{preset}: {failure}\n{demo_cases.last_words(wire)}") from failure
    finally:
        wire.extra = {}
        wire.stop_processes()
    watch.look()
    return value_of(rows[-1]), watch.use()


def run_round(wire, options, screen, title):
    """{(preset, lossy, sample name): (value, use)}."""
    values = {}
    total, done = 2 * len(SAMPLES) * len(PRESETS), 0
    for lossy in (False, True):
        for path in demo_cases.PATHS:
            wire.set(path, f"loss={options.loss if lossy else 0:.6f}%")
        for sample in SAMPLES:
            for preset in PRESETS:
                left = (total - done) * (SECONDS + run_demo.START_S)
                what = f"{title}{preset}, {sample[2]}{', with loss' if lossy else ''}"
                screen.progress(what, done / total, left)
                values[preset, lossy, sample[0]] = measure(wire, preset, sample)
                done += 1
    return values


def add_claims(report, rounds):
    def value(of):
        return statistics.median(values[of][0] for values in rounds)

    for name, what, target, over, under in CLAIMS:
        ratio = run_demo.share(value(over), value(under))
        if not report.figure(name, what, target, round(ratio, 4), "x"):
            uses = [values[of][1] for values in rounds for of in (over, under)]
            report.claims[-1]["reason"] = max(uses, key=lambda use: use.busy).reason()
    for preset, lossy, sample in rounds[0]:
        name = f"{preset}.{'loss' if lossy else 'clean'}.{sample}"
        unit = next(unit for known, unit, *_ in SAMPLES if known == sample)
        report.series[name] = {
            "unit": unit, "values": [values[preset, lossy, sample][0] for values in rounds]
        }  # fmt: skip


def print_table(screen, report, loss):
    screen.clear()
    columns = [(name, unit) for name, unit, *_ in SAMPLES]
    titles = {"goodput": "64 KiB WRITE", "small": "8 B SEND", "rpc": "8 KiB SEND"}
    print("\n" + screen.bold(f"{'preset':<12}{'':<14}" + "".join(
        f"{titles[name] + ', ' + unit:>22}" for name, unit in columns)))  # fmt: skip
    for preset in PRESETS:
        for kind, text in (("clean", "no loss"), ("loss", f"{loss:g} % loss")):
            print(f"{preset:<12}{text:<14}" + "".join(
                f"{statistics.median(report.series[f'{preset}.{kind}.{name}']['values']):>22.4g}"
                for name, _ in columns))  # fmt: skip
    print()
    for claim in report.claims:
        run_demo.print_claim(screen, claim)


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/compare-presets")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--runs", type=run_demo.parse_rounds, default=1)
    parser.add_argument("--loss", type=float, default=1.0)
    parser.add_argument("--path-rate", type=run_demo.parse_rate, default=run_demo.DEFAULT_RATE)
    parser.add_argument("--build", type=pathlib.Path)
    options = parser.parse_args()
    if not 0 <= options.loss < 100:
        parser.error(f"--loss {options.loss:g}: a share from 0 percent on, below 100")
    return options


def main():
    options = parse_arguments()
    screen = Screen()
    report = Report("scripts/compare-presets", {
        "path_rate_bps": options.path_rate, "paths": len(demo_cases.PATHS),
        "loss_percent": options.loss, "seconds": SECONDS, "mtu_bytes": demo_cases.MTU_BYTES,
        "runs": options.runs,
    })  # fmt: skip
    try:
        directory = options.build.resolve() if options.build else run_demo.build(screen)
        rounds = []
        for number in range(1, options.runs + 1):
            title = f"round {number} of {options.runs}: " if options.runs > 1 else ""
            with FabricWire(directory, run_demo.topology(options.path_rate, "vhost")) as wire:
                rounds.append(run_round(wire, options, screen, title))
    except Failure as failure:
        screen.clear()
        for name, what, target, *_ in CLAIMS:
            report.missing(name, what, target, "x", str(failure))
        if options.json:
            report.write(options.json)
        sys.exit(f"compare-presets: {failure}")
    add_claims(report, rounds)
    print_table(screen, report, options.loss)
    if options.json:
        report.write(options.json)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
