#!/usr/bin/env python3
"""docs/extending.md holds: its code is that of the files that it names, its commands run.

usage: tests/sim/extending_page.py MPRDMA

  MPRDMA    the command of the build
"""

import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def check_code(block):
    """The first line names the file, the others stand in it as they are."""
    head, _, code = block.partition("\n")
    path = ROOT / head.removeprefix("// ")
    if not path.is_file():
        return [f"{head}: names no file"]
    if code not in path.read_text():
        return [f"{path}: does not hold\n{code}"]
    return []


def check_command(block, command):
    wrong = []
    for line in block.splitlines():
        words = shlex.split(line)
        assert words[0] == "mprdma", line
        done = subprocess.run(
            [command, *words[1:]],
            cwd=ROOT, capture_output=True, text=True, timeout=150, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            wrong.append(f"{line}\n{done.stdout}{done.stderr}")
    return wrong


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    command = pathlib.Path(sys.argv[1]).resolve()
    wrong = []
    kinds = []
    for kind, block in BLOCK.findall((ROOT / "docs/extending.md").read_text()):
        kinds.append(kind)
        if kind == "cpp":
            wrong += check_code(block)
        elif kind == "sh":
            wrong += check_command(block, command)
    if kinds.count("cpp") < 5 or kinds.count("sh") < 2:
        wrong.append(f"blocks of the page: {kinds}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
