"""What the tests of `mprdma sim` from outside have in common: the command, cases, a scenario."""

import functools
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "tests/harness")]

import tap  # noqa: E402
from hosts import Failure  # noqa: E402

SCENARIO = """name = "small"
duration_us = 300
[topology]
kind = "testbed"
servers = 2
[[flow]]
from = "a1..a2"
to = "b1..b2"
message_bytes = 65536
"""
DEADLINE_S = 240

_command = []  # of the build; run_cases() fills it


def expect(condition, what):
    if not condition:
        raise Failure(what)


def sim(*arguments):
    """The words of `mprdma sim ARGUMENTS`."""
    return [*_command, "sim", *map(str, arguments)]


def run(*arguments, code=0, **more):
    """Runs it to its end."""
    done = subprocess.run(
        sim(*arguments), capture_output=True, text=True, timeout=DEADLINE_S, check=False, **more
    )
    expect(done.returncode == code, f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done


def run_cases(usage, cases, here=pathlib.Path):
    """The program: each case gets here(a directory of its own), and is named for its function.
    Returns the exit code."""
    if len(sys.argv) != 2 or not pathlib.Path(sys.argv[1]).is_file():
        print(usage, file=sys.stderr)
        return 2
    _command[:] = [str(pathlib.Path(sys.argv[1]).resolve())]

    def in_its_directory(case):
        with tempfile.TemporaryDirectory(prefix="mprdma-sim-") as name:
            case(here(pathlib.Path(name)))

    return tap.run(
        [(c.__name__.replace("_", " "), functools.partial(in_its_directory, c)) for c in cases]
    )
