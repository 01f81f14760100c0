#!/usr/bin/env python3
"""`mprdma sim sweep` from outside: what is run, what is not run again, what is written. Prints TAP.

usage: tests/sim/sweep.py MPRDMA

  MPRDMA    the command of the build
"""

import csv
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import outside  # noqa: E402
from outside import DEADLINE_S, SCENARIO, expect  # noqa: E402

SWEEP = """name = "small"
scenario = "small.toml"
seeds = 2
[[vary]]
key = "transport.preset"
values = ["mp", "mp-paper"]
[[vary]]
name = "window"
key = ["transport.initial_window", "transport.window_max"]
values = [[16, 32], [54, 108]]
labels = ["small", "large"]
[measures]
goodput_gbps = "totals.goodput_bps / 1e9"
slowest = "min flows[*].goodput_bps / constants.ceiling_bps"
nacks = "sum flows[*].sender.retransmitted_nack"
"""
RUNS = 8
SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "switchsim/scenarios"


class Directory:
    """A scenario, a sweep, and what came of it."""

    def __init__(self, root, sweep=SWEEP, scenario=SCENARIO):
        self.root = root
        self.sweep = root / "sweep.toml"
        self.write(sweep, scenario)

    def write(self, sweep=SWEEP, scenario=SCENARIO):
        self.sweep.write_text(sweep)
        (self.root / "small.toml").write_text(scenario)

    def arguments(self, *more, out="out"):
        return ["sweep", self.sweep, "--out", self.root / out, *more]

    def run(self, *more, out="out", code=0):
        return outside.run(*self.arguments(*more, out=out), code=code)

    def results(self, out="out"):
        return {p.name: p for p in sorted((self.root / out / "runs").glob("*.json"))}

    def contents(self, out="out"):
        """Every file by its name."""
        base = self.root / out
        return {str(p.relative_to(base)): p.read_bytes() for p in base.rglob("*") if p.is_file()}


def is_of(result, settings):
    """Does a result belong to a row of the table?"""
    overrides = result["constants"]["overrides"]
    preset = f'transport.preset="{settings["transport.preset"]}"'
    return preset in overrides and ("transport.window_max=32" in overrides) == (
        settings["window"] == "small"
    )


def expect_column_of_gnuplot(table, column, values):
    """As docs/simulator.md reads the table: a column by its name."""
    script = ("set datafile separator comma; set datafile columnheaders; set print '-'; "
              f"stats '{table}' using '{column}' nooutput; print STATS_records, STATS_sum")
    ran = subprocess.run(["gnuplot", "-e", script], check=True, capture_output=True, text=True)
    count, total = map(float, ran.stdout.split())
    expect(count == len(values) and abs(total - sum(values)) < 1e-6 * total, ran.stdout)


def every_run_and_a_table(here):
    done = here.run()
    expect("4 points, 8 runs; 0 are there, 8 to do" in done.stderr, done.stderr)
    expect(len(here.results()) == RUNS, f"{len(here.results())} results")
    rows = (here.root / "out/summary.csv").read_text().splitlines()
    head = "transport.preset,window,runs,unsound,goodput_gbps,goodput_gbps.sd,slowest,slowest.sd"
    expect(rows[0] == head + ",nacks,nacks.sd", rows[0])
    expect([r.split(",")[:4] for r in rows[1:]] == [
        ["mp", "small", "2", "0"], ["mp", "large", "2", "0"],
        ["mp-paper", "small", "2", "0"], ["mp-paper", "large", "2", "0"],
    ], rows)  # fmt: skip
    runs = list(csv.DictReader((here.root / "out/runs.csv").open()))
    expect(len(runs) == RUNS, runs)
    for run in runs:
        result = json.loads((here.root / "out/runs" / run["result"]).read_text())
        expect(is_of(result, run) and result["seed"] == int(run["seed"]), run)
        rate = result["totals"]["goodput_bps"] / 1e9
        expect(abs(float(run["goodput_gbps"]) - rate) < 1e-4 * rate, f"{run}: {rate}")
    expect_column_of_gnuplot(here.root / "out/runs.csv", "goodput_gbps",
                             [float(run["goodput_gbps"]) for run in runs])  # fmt: skip
    table = json.loads((here.root / "out/summary.json").read_text())
    expect(table["complete"] and len(table["points"]) == 4, table)
    for point in table["points"]:
        mine = [
            json.loads(p.read_text())
            for p in here.results().values()
            if is_of(json.loads(p.read_text()), point["settings"])
        ]
        values = [r["totals"]["goodput_bps"] / 1e9 for r in mine]
        mean = sum(values) / len(values)
        deviation = (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5
        shown = point["measures"]["goodput_gbps"]
        expect(len(values) == 2 and shown["runs"] == 2, values)
        expect(abs(shown["mean"] - mean) < 1e-4 * mean, f"{shown} is not the mean of {values}")
        expect(abs(shown["deviation"] - deviation) < 1e-3, f"{shown}: deviation {deviation}")


def a_result_says_where_it_comes_from(here):
    here.run()
    result = json.loads(next(iter(here.results().values())).read_text())
    constants = result["constants"]
    expect(constants["scenario_text"] == SCENARIO, "another scenario")
    expect(len(constants["overrides"]) == 3 and result["seed"] in (1, 2), result["seed"])
    expect(result["revision"] and constants["transport"][0]["flows"] == 2, constants)
    names = {"sync_alpha", "rto_floor_us", "path_mtu"}
    expect(names <= constants["transport"][0].keys(), constants)


def what_is_there_is_not_run_again(here):
    here.run()
    before = here.contents()
    results = list(here.results().values())
    for path in results[:3]:
        path.unlink()
    results[3].write_text(results[3].read_text()[:100])  # no result
    untouched = {p: p.stat().st_ino for p in results[4:]}
    done = here.run()
    expect("4 are there, 4 to do here" in done.stderr, done.stderr)
    expect(all(p.stat().st_ino == i for p, i in untouched.items()), "a result was made again")
    expect(here.contents() == before, "other bytes the second time")
    expect("8 are there, 0 to do here" in here.run().stderr, "it runs everything again")


def shards_part_the_runs_among_them(here):
    here.run(out="whole")
    seen = []
    for number in (1, 2, 3):
        here.run("--shard", f"{number}/3", out=f"shard{number}")
        seen += here.results(f"shard{number}")
    expect(len(seen) == RUNS and set(seen) == set(here.results("whole")), f"shards made {seen}")
    for number in (1, 2, 3):
        here.run("--shard", f"{number}/3", out="shared")
    expect(here.contents("shared") == here.contents("whole"), "shards make other bytes")


def the_number_of_jobs_changes_no_byte(here):
    for jobs in ("1", "3", "8"):
        here.run("--jobs", jobs, out=jobs)
    expect(here.contents("1") == here.contents("3") == here.contents("8"), "other bytes")


def another_revision_is_refused(here):
    here.run()
    path = next(iter(here.results().values()))
    result = json.loads(path.read_text())
    good = result["revision"]
    path.write_text(path.read_text().replace(f'"revision": "{good}"', '"revision": "older"'))
    done = here.run(code=1)
    expect("1 of 8 results" in done.stderr and "--redo" in done.stderr, done.stderr)
    expect(json.loads(path.read_text())["revision"] == "older", "it was run nevertheless")
    expect("7 are there, 1 to do" in here.run("--redo").stderr, "not run again")
    expect(json.loads(path.read_text())["revision"] == good, "still of the older revision")


def another_scenario_is_run_anew(here):
    here.run()
    here.write(scenario=SCENARIO.replace("65536", "4096"))
    done = here.run()
    expect("8 results in" in done.stderr and "left alone" in done.stderr, done.stderr)
    expect("0 are there, 8 to do" in done.stderr, done.stderr)
    expect(len(here.results()) == 2 * RUNS, "the old results are gone")
    here.write()
    expect("8 are there, 0 to do" in here.run().stderr, "the first scenario's are not found again")


def another_distribution_of_sizes_is_run_anew(here):
    traffic = '[[traffic]]\nkind = "poisson"\nload = 0.2\ncdf = "sizes.cdf"\n'
    here.write(scenario=SCENARIO + traffic)
    sizes = here.root / "sizes.cdf"
    sizes.write_text("1000 0\n9000 1\n")
    here.run()
    before = here.contents()
    result = json.loads(next(iter(here.results().values())).read_text())
    rows = result["constants"]["sizes"]["poisson"]
    expect(rows == [[1000, 0.0], [9000, 1.0]], rows)
    expect("8 are there, 0 to do" in here.run().stderr, "it runs everything again")
    sizes.write_text("1000 0\n8000 1\n")
    expect("0 are there, 8 to do" in here.run().stderr, "the other sizes' results are taken")
    expect(here.contents() != before, "the same bytes")


def an_interrupted_sweep_can_be_used_and_goes_on(here):
    here.write(SWEEP.replace("seeds = 2", "seeds = 100"))
    with subprocess.Popen(
        outside.sim(*here.arguments("--jobs", "2")), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:
        end = time.monotonic() + DEADLINE_S
        while not here.results() and time.monotonic() < end and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE_S)
    expect(process.returncode == 130, f"exit code {process.returncode}: {out}{err}")
    made = len(here.results())
    expect(0 < made < 400, f"{made} of 400 runs were made")
    expect(all(json.loads(p.read_text())["complete"] for p in here.results().values()), "cut off")
    table = json.loads((here.root / "out/summary.json").read_text())
    expect(not table["complete"] and table["runs"] == made, f"{table['runs']} runs of {made}")
    expect(not [p for p in here.contents() if not p.endswith((".json", ".csv"))], "leftovers")
    done = here.run("--shard", "1/400")
    expect(f"{made} are there" in done.stderr, done.stderr)


MISTAKES = [
    ("seeds = 2", "seeds = 0", "sweep.toml:3:9: seeds: expected how many, or a list of seeds"),
    ("seeds = 2", "sed = 2", "sweep.toml:3:1: unknown key 'sed'; known: name, scenario, set,"),
    ('"small.toml"', '"none.toml"', "sweep.toml:2:12: scenario: expected a file; "),
    ('"mp-paper"]', '"paper"]', 'sweep.toml:6:17: transport.preset="paper": '),
    ('key = "transport.preset"', 'key = "transport.preste"', "unknown key 'preste' in [transport]"),
    ("[54, 108]]", "[54]]", "sweep.toml:10:10: [[vary]] values: expected a list of lists"),
    ("[54, 108]]", "[16, 32]]", "point 2 is there already"),
    ("totals.goodput_bps", "totals.goodput", "sweep.toml:13:16: [measures] goodput_gbps: "
     "totals.goodput: there is no goodput in totals; known: goodput_bps, jain"),
    ("min flows", "least flows", "sweep.toml:14:11: [measures] slowest: 'least flows[*]"),
    ("min flows", "flows", "are 2 values: say min, max, mean or sum"),
    ("retransmitted_nack", "retransmitted_knack", "there is no retransmitted_knack in sender"),
    ("[measures]", "[measures", "sweep.toml:12:"),
]  # fmt: skip


def a_mistake_is_named_with_its_place(here):
    for old, new, message in MISTAKES:
        expect(old in SWEEP, old)
        here.write(SWEEP.replace(old, new))
        done = here.run(code=2)
        expect(message in done.stderr, f"{new}: {done.stderr}")
    for shard in ("0/2", "3/2", "1", "1/0", "a/b"):
        done = here.run("--shard", shard, code=2)
        expect("expected i/n" in done.stderr, done.stderr)
    expect(not (here.root / "out").exists(), "something was made")


def the_samples_run(here):
    """What docs/simulator.md and the man page start with: one run of each."""
    samples = sorted(SAMPLES.glob("sweep-*.toml"))
    expect(samples, "there is none")
    for sample in samples:
        out = here.root / sample.stem
        outside.run("sweep", sample, "--out", out, "--shard", "1/1000000")
        expect(len(list((out / "runs").glob("*.json"))) == 1, sample.name)


def progress_is_shown_on_a_terminal_only(here):
    expect("M events/s" not in here.run().stderr, "a progress bar in a pipe")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        outside.sim(*here.arguments(out="seen")), stdout=subprocess.DEVNULL, stderr=slave,
        close_fds=True,
    )
    os.close(slave)
    shown = b""
    try:
        while chunk := os.read(master, 65536):
            shown += chunk
    except OSError:  # the other end is closed
        pass
    os.close(master)
    expect(process.wait(timeout=DEADLINE_S) == 0, "failed")
    expect(b"of 8 runs" in shown and b"M events/s" in shown, shown)


CASES = [
    every_run_and_a_table,
    a_result_says_where_it_comes_from,
    what_is_there_is_not_run_again,
    shards_part_the_runs_among_them,
    the_number_of_jobs_changes_no_byte,
    another_revision_is_refused,
    another_scenario_is_run_anew,
    another_distribution_of_sizes_is_run_anew,
    an_interrupted_sweep_can_be_used_and_goes_on,
    a_mistake_is_named_with_its_place,
    the_samples_run,
    progress_is_shown_on_a_terminal_only,
]


if __name__ == "__main__":
    sys.exit(outside.run_cases(__doc__, CASES, Directory))
