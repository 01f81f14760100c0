#!/usr/bin/env python3
"""The steps of scripts/test, which sets the machine up and then runs this."""

import argparse
import fnmatch
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/harness")]

from results import Tally, read_meson_results  # noqa: E402

# A clone in another folder finds what was compiled for the first.
os.environ.setdefault("CCACHE_BASEDIR", str(ROOT))
os.environ.setdefault("CCACHE_NOHASHDIR", "1")

STEPS = ("sanitize", "tsan", "clang-tidy")
# Their builds take minutes: scripts/nightly has them.
NAMED_STEPS = ("sanitize-gcc", "tsan-gcc")
# From here on clang-tidy looks at what changed unless it is named; scripts/nightly looks at all.
RECENT = "HEAD~30"
QUICK = ("tidy", "unit", "conformance", "swarm")
SANITIZED = ("unit", "conformance", "swarm", "fuzz")
# The builds of `sanitize` and `tsan` take as long as all else. Unless they are named, a commit runs
# a part of them, whose turn the commit's name says: the suites and tests of one line here, or all
# that stand in none.
TURNS = (
    ("swarm", "conformance", "unit_base", "unit_wire", "unit_cc", "unit_transport"),
    ("fuzz", "unit_dataplane*"),
)
TURN_OF_TSAN = 0  # the part that takes the least time


def is_family(command, compiler):
    """Whether a command, "ccache clang++-16" say, runs a compiler of this name."""
    words = command.split()
    program = pathlib.PurePath(words[-1]).name if words else ""
    return re.fullmatch(re.escape(compiler) + r"(-[0-9.]+)?", program) is not None


class Build:
    """One build directory, of one compiler: CC and CXX choose among its versions."""

    def __init__(self, name, compilers, *options):
        self.directory = ROOT / name
        self.compilers = compilers
        self.options = options

    def setup(self):
        """Configures, also anew: a directory that appeared is noticed only then."""
        environment = dict(os.environ)
        for variable, compiler in zip(("CC", "CXX"), self.compilers):
            cached = f"ccache {compiler}" if shutil.which("ccache") else compiler
            if not is_family(environment.get(variable, ""), compiler):
                environment[variable] = cached
        command = ["meson", "setup", str(self.directory), str(ROOT), *self.options]
        if (self.directory / "build.ninja").exists():
            command.insert(2, "--reconfigure")
        return run(command, environment, quiet=True)

    def compile(self):
        """Builds everything; warnings are errors."""
        return run(["ninja", "-C", str(self.directory)], quiet=True)

    def test(self, tally, suites, names=()):
        """Runs tests, or suites (all of them if none is named), and adds up what they say."""
        command = ["meson", "test", "-C", str(self.directory), "--print-errorlogs"]
        # The limits are those of an idle machine; a test that hangs may take longer to be told.
        command += ["--timeout-multiplier", "3"]
        for suite in suites if not names else ():
            command += ["--suite", suite]
        command += names
        log = self.directory / "meson-logs" / "testlog.json"
        log.unlink(missing_ok=True)
        started = run(command)
        if log.exists():
            read_meson_results(log, tally)
        elif not started:
            tally.fail(f"{self.directory.name}: meson test")

    def tests(self):
        """{name: its suites} of all tests."""
        listed = subprocess.run(
            ["meson", "introspect", "--tests", str(self.directory)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        tests = json.loads(listed.stdout) if listed.returncode == 0 else []
        return {test["name"]: {s.split(":", 1)[-1] for s in test["suite"]} for test in tests}


def run(command, environment=None, quiet=False):
    """Runs a command in the root of the tree; a quiet one shows its output only when it fails."""
    sys.stdout.flush()
    ran = subprocess.run(
        command, cwd=ROOT, env=environment, check=False, text=True, errors="replace",
        stdout=subprocess.PIPE if quiet else None, stderr=subprocess.STDOUT if quiet else None,
    )  # fmt: skip
    if quiet and ran.returncode != 0:
        print(f"$ {' '.join(command)}\n{ran.stdout[-8000:]}")
    return ran.returncode == 0


# Line numbers for stack traces. Whole debug information would take a fifth of the compiler's time.
LINES = "-Dcpp_args=-g1"
# What is installed, measured and shown; and the tests, with checks (DCHECK).
RELEASE = Build("build", ("gcc", "g++"), "--buildtype=release")
GCC = Build(
    "build-test", ("gcc", "g++"), "--buildtype=debugoptimized", "-Doffload=enabled", LINES
)
SANITIZE = Build(
    "build-sanitize", ("clang", "clang++"), "-Db_sanitize=address,undefined", "-Db_lundef=false",
    "-Doptimization=1", "-Ddebug=true", "-Ddcheck=enabled", LINES,
)  # fmt: skip
# Suites that clang's build cannot run: its sanitizer is in the executable, and hides the preload.
SANITIZE_PROVIDER = Build(
    "build-asan-gcc", ("gcc", "g++"), "-Db_sanitize=address,undefined", "-Db_lundef=false",
    "-Doptimization=1", "-Ddebug=true", "-Ddcheck=enabled", LINES,
)  # fmt: skip
TSAN = Build(
    "build-tsan", ("clang", "clang++"), "-Db_sanitize=thread", "-Db_lundef=false",
    "-Doptimization=1", "-Ddebug=true", "-Ddcheck=enabled", LINES,
)
# Provider and preload: clang's sanitizer would hide the preload. gcc warns that its own does not
# know fences; those of ours order a wake-up, or bytes that nobody reads before their completion.
TSAN_PROVIDER = Build(
    "build-tsan-gcc", ("gcc", "g++"), "-Db_sanitize=thread", "-Db_lundef=false",
    "-Doptimization=1", "-Ddebug=true", "-Ddcheck=enabled", LINES + ",-Wno-tsan",
)  # fmt: skip


def turn_of(name, suites):
    """The turn of a test."""
    for turn, patterns in enumerate(TURNS):
        if any(fnmatch.fnmatch(word, p) for p in patterns for word in (name, *suites)):
            return turn
    return len(TURNS)


def build_and_test(tally, build, suites, whole=True, asked_for=False, turn=None):
    """A step: configure, build (all of it, or what the tests need) and test: suites, or those of
    their tests that have their turn."""
    name = build.directory.name
    if not build.setup():
        tally.fail(f"{name}: configure")
        return
    if whole and not tally.check(f"{name}: build", build.compile()):
        return
    tests = build.tests()
    present = set().union(*tests.values())
    wanted = [s for s in suites if s in present]
    for suite in sorted(set(suites) - present):
        if asked_for:
            tally.fail(f"{name}: no test in suite {suite}")
        else:
            print(f"{name}: no test in suite {suite}")
    names = []
    if turn is not None:
        chosen = {n: of for n, of in tests.items() if of.intersection(suites)}
        names = sorted(n for n, of in chosen.items() if turn_of(n, of) == turn)
    if wanted or not suites:
        build.test(tally, wanted, names)


def turn_of_commit():
    """Whose turn it is."""
    named = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return int(named.stdout, 16) % (len(TURNS) + 1) if named.returncode == 0 else 0


def steps(only, quick, turn):
    """What is to be done: (name, function of the tally)."""
    suites = [s for s in only if s not in STEPS + NAMED_STEPS]
    if quick and not only:
        suites = list(QUICK)
    if suites or not only:
        yield "gcc", lambda tally: build_and_test(tally, GCC, suites, asked_for=bool(only))
    wanted = [s for s in STEPS if s in only or not (only or quick)]
    wanted += [s for s in NAMED_STEPS if s in only]
    if "tsan" in wanted and "tsan" not in only and turn != TURN_OF_TSAN:
        wanted.remove("tsan")
    for name, build, tested in (
        ("sanitize", SANITIZE, SANITIZED),
        ("sanitize-gcc", SANITIZE_PROVIDER, ["provider"]),
        ("tsan", TSAN, ["tsan"]),
        ("tsan-gcc", TSAN_PROVIDER, ["tsan-provider"]),
    ):
        part = turn if name == "sanitize" and name not in only else None
        if name in wanted:
            yield name, functools.partial(sanitized, build, tested, name in only, part)
    if "clang-tidy" in wanted:
        options = [] if "clang-tidy" in only else ["--since", RECENT]
        yield "clang-tidy", functools.partial(clang_tidy, options)


def sanitized(build, suites, asked_for, turn, tally):
    """A step under a sanitizer: builds only what its tests need."""
    build_and_test(tally, build, suites, False, asked_for, turn)


def clang_tidy(options, tally):
    """Static analysis."""
    tally.check("clang-tidy", run([str(ROOT / "scripts/clang-tidy"), *options]))


def main():
    parser = argparse.ArgumentParser(prog="scripts/test")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", default=[], metavar="SUITE")
    parser.add_argument("--turn", type=int, choices=range(len(TURNS) + 1))
    arguments = parser.parse_args()
    tally = Tally()
    turn = turn_of_commit() if arguments.turn is None else arguments.turn
    if not arguments.only and not arguments.quick:
        print(f"== the sanitizers' turn: --turn {turn}")
    for name, step in steps(arguments.only, arguments.quick, turn):
        print(f"== {name}", flush=True)
        start = time.monotonic()
        step(tally)
        print(f"== {name}: {time.monotonic() - start:.0f} s", flush=True)
    if tally.total() == 0:
        tally.fail("nothing ran")
    tally.report()
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
