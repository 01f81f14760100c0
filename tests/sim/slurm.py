#!/usr/bin/env python3
"""scripts/sweep-array: a sweep as a job array of a Slurm of one node, and with GNU parallel. Prints
TAP; skips what is not installed.

usage: tests/sim/slurm.py MPRDMA

  MPRDMA    the command of the build
"""

import pathlib
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import outside  # noqa: E402
from outside import DEADLINE_S, SCENARIO, expect  # noqa: E402
from hosts import Unavailable  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SWEEP = """name = "small"
scenario = "small.toml"
seeds = 2
set = ["duration_us=100_000"]
[[vary]]
key = "transport.preset"
values = ["mp", "mp-paper", "irn"]
[measures]
goodput_gbps = "totals.goodput_bps / 1e9"
"""
RUNS = 6
MISSING = 77


class Directory:
    def __init__(self, root):
        self.root = root
        (root / "sweep.toml").write_text(SWEEP)
        (root / "small.toml").write_text(SCENARIO)
        build = pathlib.Path(outside.sim()[0]).resolve().parents[1]
        self.array = [ROOT / "scripts/sweep-array", "--build", build, "--tasks", 3]

    def run(self, *command):
        ran = subprocess.run(
            list(map(str, command)),
            cwd=self.root, timeout=DEADLINE_S, check=False, capture_output=True, text=True,
        )  # fmt: skip
        if ran.returncode == MISSING:
            raise Unavailable(ran.stderr.strip())
        expect(ran.returncode == 0, f"exit {ran.returncode}: {ran.stdout}{ran.stderr}")
        return ran.stdout

    def table(self, out):
        return (self.root / out / "summary.csv").read_bytes()

    def results(self, out):
        runs = (self.root / out / "runs").glob("*.json")
        return {path.name: path.stat().st_mtime_ns for path in runs}


def slurm(directory, *command):
    return directory.run(ROOT / "scripts/slurm-node", *command)


def a_job_array_makes_the_table_of_one_machine(directory):
    outside.run("sweep", directory.root / "sweep.toml", "--out", directory.root / "here")
    slurm(directory, *directory.array, "--engine", "slurm", "--out", "there", "sweep.toml")
    expect(directory.table("there") == directory.table("here"), "another table")
    expect(len(directory.results("there")) == RUNS, "not all runs")


def a_killed_array_goes_on_where_it_was(directory):
    command = [*directory.array, "--engine", "slurm", "--out", "out", "sweep.toml"]
    # Each task is killed as it begins its second run, or before; the rest is the next array's.
    directory.run(ROOT / "scripts/slurm-node", "bash", "-c",
                  f"{' '.join(map(str, command[:-1]))} --submit sweep.toml && "
                  "until ls out/runs/*.json > /dev/null 2>&1; do sleep 0.05; done; "
                  "scancel --signal=KILL --user=root; scancel --user=root; sleep 1")  # fmt: skip
    before = directory.results("out")
    expect(0 < len(before) < RUNS, f"{len(before)} of {RUNS} runs were done when it was killed")
    slurm(directory, *command)
    after = directory.results("out")
    expect(len(after) == RUNS, "not all runs")
    expect(all(after[name] == made for name, made in before.items()), "a result was made twice")
    outside.run("sweep", directory.root / "sweep.toml", "--out", directory.root / "here")
    expect(directory.table("out") == directory.table("here"), "another table")


def gnu_parallel_makes_the_same_table(directory):
    if shutil.which("parallel") is None:
        raise Unavailable("no parallel (apt-get install parallel)")
    outside.run("sweep", directory.root / "sweep.toml", "--out", directory.root / "here")
    directory.run(*directory.array, "--engine", "parallel", "--out", "over there", "sweep.toml")
    expect(directory.table("over there") == directory.table("here"), "another table")


CASES = [
    a_job_array_makes_the_table_of_one_machine,
    a_killed_array_goes_on_where_it_was,
    gnu_parallel_makes_the_same_table,
]


if __name__ == "__main__":
    sys.exit(outside.run_cases(__doc__, CASES, Directory))
