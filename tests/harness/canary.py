#!/usr/bin/env python3
"""Runs a search that has to find something, because it is broken on purpose, and then the line that
replays what it found.

usage: canary.py PROGRAM ARGUMENT...

Exits 0 if the program ended with 1, printed a finding with a line "replay: ...", and what that line
says ends with 1 and the same finding. A crash and a run without end are no findings: the search
says so of itself.
"""

import shlex
import subprocess
import sys

REPLAY = "replay: "
NO_FINDINGS = ("crashed", "a run without end")


def run(command):
    """(exit status, lines of the output)."""
    ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return ran.returncode, ran.stdout.splitlines()


def first_after(prefix, lines):
    return next((line[len(prefix) :] for line in lines if line.startswith(prefix)), None)


def main():
    program, arguments = sys.argv[1], sys.argv[2:]
    name = program.rsplit("/", 1)[-1] + ": "
    status, lines = run([program, *arguments])
    finding, replay = first_after(name, lines), first_after(REPLAY, lines)
    print(f"status {status}, finding: {finding}, replay: {replay}")
    if status != 1 or finding is None or replay is None or finding in NO_FINDINGS:
        sys.exit("canary: the search has to end with 1, a finding and its replay line")
    words = shlex.split(replay)
    if words and not words[0].startswith("-"):
        words = words[1:]  # the program, as it was called
    status, lines = run([program, *words])
    again = first_after(name, lines)
    print(f"replay: status {status}, finding: {again}")
    if status != 1 or again is None or not finding.startswith(again):
        sys.exit("canary: the replay line has to find the same again")


if __name__ == "__main__":
    main()
