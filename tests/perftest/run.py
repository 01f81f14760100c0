#!/usr/bin/env python3
"""The patched perftest: the series, what its options do and refuse, and that it is upstream's else.

usage: run.py --build DIR [--series] [--only REGEX]

  --build DIR   a build directory in which everything is built; perftest is built there, three times
                (scripts/build-perftest), as far as it is not up to date
  --series      only the cases of the series, which need no perftest
  --only REGEX  only cases whose title matches

Prints TAP. Exit status 77: the machine cannot build perftest, for the reason that is printed.
"""

import argparse
import functools
import pathlib
import re
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / directory) for directory in ("tests/harness", "tests/integration", "tests/perftest")
]

import effects  # noqa: E402
import like_upstream  # noqa: E402
import refusals  # noqa: E402
import series  # noqa: E402
import tap  # noqa: E402

VARIANTS = ([], ["--upstream"], ["--without-mprdma"])


def build_all(build):
    """0, or the exit status and the reason of a build that failed."""
    for options in VARIANTS:
        status, said = series.script(ROOT, "--build", build, *options)
        if status != 0:
            print("\n".join(f"# {line}" for line in said.splitlines()))
            return status
    return 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--series", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    cases = list(series.CASES)
    if not arguments.series:
        status = build_all(build)
        if status != 0:
            print("1..0 # SKIP perftest cannot be built here" if status == series.SKIPPED else
                  "1..1\nnot ok 1 - scripts/build-perftest")  # fmt: skip
            return status
        cases += refusals.CASES + effects.CASES + like_upstream.CASES
    chosen = [(title, functools.partial(function, build)) for title, function in cases
              if re.search(arguments.only, title)]  # fmt: skip
    return tap.run(chosen)


if __name__ == "__main__":
    sys.exit(main())
