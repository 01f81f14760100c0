#!/usr/bin/env python3
"""Asserts that lock-step finds every breakage of the RTL (mutants.py), and nothing in the RTL as it
is. A survivor is an error."""

import argparse
import subprocess
import sys

from mutants import MUTANTS

EVENTS = 300_000


def run(lockstep, number):
    """(exit status, the lines that it says) of a run with a mutant."""
    command = [lockstep, "--mutant", str(number), "--connections", "8", "--events", str(EVENTS)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    lines = (ran.stdout + ran.stderr).splitlines() or ["nothing"]
    return ran.returncode, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lockstep", required=True, help="receiver_lockstep with the mutants")
    arguments = parser.parse_args()
    status, said = run(arguments.lockstep, 0)
    print(f"none: {said[0]}")
    if status != 0:
        return 1
    survivors = 0
    for number, mutant in enumerate(MUTANTS, 1):
        status, said = run(arguments.lockstep, number)
        killed = status == 1 and any(line.startswith("replay:") for line in said)
        survivors += not killed
        print(f"{mutant.name}: {'killed' if killed else 'SURVIVED'}: {said[0]}")
    print(f"{len(MUTANTS) - survivors} of {len(MUTANTS)} mutants killed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
