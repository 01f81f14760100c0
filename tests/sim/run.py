#!/usr/bin/env python3
"""`mprdma sim run` from outside: what is written, what is kept, what is refused. Prints TAP.

usage: tests/sim/run.py MPRDMA

  MPRDMA    the command of the build
"""

import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True
import outside  # noqa: E402
from outside import SCENARIO, expect  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(here, *arguments, code=0, scenario=None):
    (here / "small.toml").write_text(SCENARIO)
    return outside.run("run", scenario or here / "small.toml", *arguments, code=code)


def a_failing_capture_costs_no_result(here):
    done = run(here, "--pcap", "/dev/full", "--json", here / "r.json", "--out", here, code=1)
    expect("/dev/full: not all could be written" in done.stderr, done.stderr)
    expect("total " in done.stdout, done.stdout)
    expect(json.loads((here / "r.json").read_text())["complete"], "not complete")
    for name in ("small.json", "small-flows.csv", "small-ports.csv"):
        expect((here / name).stat().st_size > 0, name)


def what_cannot_be_written_is_said_before_the_run(here):
    (here / "file").write_text("")
    (here / "small.json").mkdir()
    for arguments in (
        ("--json", here),
        ("--json", here / "no/such.json"),
        ("--out", here / "file"),
        ("--out", here / "file/deeper"),
        ("--out", here),
    ):
        done = run(here, *arguments, code=1)
        expect(str(arguments[1]) in done.stderr, done.stderr)
        expect(done.stdout == "", f"it was run: {done.stdout}")


def the_check_leaves_an_older_result_alone(here):
    old = here / "r.json"
    old.write_text("old")
    run(here, "--json", old, "--out", here / "file.toml/x", "--set", "name=a/b", code=2)
    run(here, "--json", old, "--out", here / "small.toml", code=1)
    expect(old.read_text() == "old", "it is gone")


def a_name_does_not_lead_out_of_the_directory(here):
    out = here / "out"
    done = run(here, "--out", out, "--set", 'name="../evil"', code=2)
    expect("name: expected a name that a file can have" in done.stderr, done.stderr)
    expect(not out.exists() and not list(here.glob("evil*")), "something was made")


def what_is_no_file_is_refused(here):
    for path in ("/dev/zero", "/dev/null", here):
        done = run(here, scenario=path, code=2)
        expect(f"{path}: cannot be read: " in done.stderr, done.stderr)
    (here / "empty.toml").write_text("")
    done = run(here, scenario=here / "empty.toml", code=2)
    expect("empty.toml:1:1: the scenario topology: expected" in done.stderr, done.stderr)
    with (here / "large.toml").open("wb") as file:
        file.truncate(1 << 40)
    done = run(here, scenario=here / "large.toml", code=2)
    expect("large.toml: cannot be read: larger than" in done.stderr, done.stderr)


def a_deadlock_is_named(here):
    scenario = ROOT / "evaluation/commodity_ethernet/deadlock.toml"
    done = run(here, "--set", "duration_us=3_000", scenario=scenario)
    named = re.search(r"^deadlock, seen at \d+ us: (\S+)( -> \S+)+ waits for the first$",
                      done.stdout, re.M)  # fmt: skip
    expect(named is not None, done.stdout)
    cured = run(here, "--set", "topology.flood=false", "--set", "duration_us=3_000",
                scenario=scenario)  # fmt: skip
    expect("deadlock," not in cured.stdout, cured.stdout)


CASES = [
    a_failing_capture_costs_no_result,
    what_cannot_be_written_is_said_before_the_run,
    the_check_leaves_an_older_result_alone,
    a_name_does_not_lead_out_of_the_directory,
    what_is_no_file_is_refused,
    a_deadlock_is_named,
]


if __name__ == "__main__":
    sys.exit(outside.run_cases(__doc__, CASES))
