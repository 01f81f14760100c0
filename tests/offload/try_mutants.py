#!/usr/bin/env python3
"""Asserts that lock-step finds every breakage of the RTL (mutants.py), and nothing in the RTL as it
is. A survivor is an error."""

import argparse
import subprocess
import sys

from mutants import MUTANTS, WINDOW_FILES

EVENTS = 300_000


def run(command, number):
    """(exit status, the lines that it says) of a run with a mutant."""
    command = [*command, "--mutant", str(number), "--events", str(EVENTS)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    lines = (ran.stdout + ran.stderr).splitlines() or ["nothing"]
    return ran.returncode, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--receiver", required=True, help="receiver_lockstep with the mutants")
    parser.add_argument("--window", required=True, help="window_lockstep with the mutants")
    arguments = parser.parse_args()
    receiver = [arguments.receiver, "--connections", "8"]
    window = [arguments.window]
    for command in (receiver, window):
        status, said = run(command, 0)
        print(f"none: {said[0]}")
        if status != 0:
            return 1
    survivors = 0
    for number, mutant in enumerate(MUTANTS, 1):
        status, said = run(window if mutant.file in WINDOW_FILES else receiver, number)
        killed = status == 1 and any(line.startswith("replay:") for line in said)
        survivors += not killed
        print(f"{mutant.name}: {'killed' if killed else 'SURVIVED'}: {said[0]}")
    print(f"{len(MUTANTS) - survivors} of {len(MUTANTS)} mutants killed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
