#!/usr/bin/env python3
"""Asserts that lock-step finds every breakage of the RTL (mutants.py), and nothing in the RTL as it
is. A survivor is an error."""

import argparse
import subprocess
import sys

from mutants import BUILDER_FILES, MUTANTS, PARSER_FILES, SENDER_FILES, WINDOW_FILES

def run(command, number):
    """(exit status, the lines that it says) of a run with a mutant."""
    command = [*command, "--mutant", str(number)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    lines = (ran.stdout + ran.stderr).splitlines() or ["nothing"]
    return ran.returncode, lines


# The programs, with what shows most in little time, and the RTL that each of them runs; receiver
# runs the rest.
PROGRAMS = {
    "receiver": (("--connections", "8", "--events", "300000"), ()),
    "sender": (("--connections", "24", "--events", "300000"), SENDER_FILES),
    "window": (("--events", "300000"), WINDOW_FILES),
    "parser": (("--events", "20000"), PARSER_FILES),
    "builder": (("--events", "20000"), BUILDER_FILES),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in PROGRAMS:
        parser.add_argument(f"--{name}", required=True, help=f"{name}_lockstep with the mutants")
    arguments = vars(parser.parse_args())
    commands = {name: [arguments[name], *options] for name, (options, _) in PROGRAMS.items()}
    for command in commands.values():
        status, said = run(command, 0)
        print(f"none: {said[0]}")
        if status != 0:
            return 1
    survivors = 0
    for number, mutant in enumerate(MUTANTS, 1):
        running = [name for name, (_, files) in PROGRAMS.items() if mutant.file in files]
        command = commands[running[0] if running else "receiver"]
        status, said = run(command, number)
        killed = status == 1 and any(line.startswith("replay:") for line in said)
        survivors += not killed
        print(f"{mutant.name}: {'killed' if killed else 'SURVIVED'}: {said[0]}")
    print(f"{len(MUTANTS) - survivors} of {len(MUTANTS)} mutants killed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
