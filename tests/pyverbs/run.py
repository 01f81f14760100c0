#!/usr/bin/env python3
"""rdma-core's own suite for pyverbs (package python3-pyverbs) against our device and engine.

usage: tests/pyverbs/run.py [--build DIR] [--only REGEX] [--limit SECONDS] [--together]
                            [--seed N] [--sanitizer LIBRARY] [--list]

  --build DIR      a build directory in which provider, preload, engine, mprdmad and
                   libpyverbs-dmabuf are built (default: build)
  --only REGEX     only tests whose name, module.Class.method, matches
  --limit SECONDS  a test that takes longer hangs, and has failed (default: 120)
  --together       all tests in one process, not each class of tests in its own; on the device of
                   mprdmad
  --seed N         what the tests draw starts from it (default: another each time; it is printed)
  --sanitizer LIBRARY  the build is instrumented, and this the sanitizers' shared runtime
  --list           prints the names of the tests and runs none

In each process the device talks to itself; tests of rdma_cm fork, and share the device of mprdmad.
A test may be skipped only if skips.toml says so, and must be if it does. The last line counts; the
exit status is 0 only if nothing failed.
"""

import argparse
import pathlib
import random
import re
import sys
import tempfile

sys.dont_write_bytecode = True

import device  # noqa: E402
import huge_pages  # noqa: E402
import suite  # noqa: E402
from skips import Skips  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS = {"passed": "ok", "skipped": "skipped", "failed": "FAILED"}


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/pyverbs", description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--limit", type=float, default=120, metavar="SECONDS")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), metavar="N")
    parser.add_argument("--sanitizer", metavar="LIBRARY")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def show(result):
    print(f"{WORDS[result.outcome]:8}{result.test}  {result.seconds:.1f} s", flush=True)
    if result.outcome != "passed":
        for line in result.why.strip().splitlines():
            print(f"        {line}", flush=True)


def run(runner, groups, skips, shared, together):
    """Runs the tests and returns how many came out how. `shared`: the port by which processes have
    one device."""
    count = dict.fromkeys(WORDS, 0)
    for group in groups:
        on_daemon = together or suite.needs_daemon(group)
        variables = {"MPRDMA_PORT": shared} if on_daemon else {}
        for result in runner.run(group, **variables):
            result = skips.judge(result)
            count[result.outcome] += 1
            show(result)
    return count


def main():
    asked = arguments()
    skips = Skips.read(pathlib.Path(__file__).with_name("skips.toml"))
    with tempfile.TemporaryDirectory(prefix="mprdma-pyverbs-") as directory:
        build, directory = asked.build.resolve(), pathlib.Path(directory)
        environment = suite.environment(build, directory)
        runner = suite.Runner(
            environment, directory, asked.limit, asked.seed, runtime=asked.sanitizer
        )
        everything = runner.names()
        names = [name for name in everything if asked.only.search(name)]
        if asked.list:
            print("\n".join(names))
            return 0
        groups = [names] if asked.together else suite.by_class(names)
        for files, why in suite.LEFT_OUT.items():
            print(f"left out: {files}*.py, {why}")
        print(f"--seed {asked.seed}", flush=True)
        complaints = list(skips.check(everything))
        for complaint in complaints:
            print(f"FAILED  skips.toml: {complaint}")
        if why := device.make_interface():
            print(f"no interface with the device's address: {why}", flush=True)
        with huge_pages.reserved(), device.daemon(build, directory) as shared:
            count = run(runner, groups, skips, shared, asked.together)
    failed = count["failed"] + len(complaints)
    print(f"{count['passed']} passed, {failed} failed, {count['skipped']} skipped")
    return 0 if failed == 0 and count["passed"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
