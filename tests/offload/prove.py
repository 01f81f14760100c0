#!/usr/bin/env python3
"""Proves what offload/formal says of the RTL, by temporal induction with Yosys's own solver, and
asserts that the proof fails for each breakage of what is proved (mutants.py).

The proof is of the RTL's files themselves. Yosys's own solver works on bits, and takes seconds for
what cvc4 (by yosys-smtbmc) does not end within five minutes."""

import argparse
import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile

from mutants import MUTANTS, broken

# The induction's length: the step holds if one before it did.
STEPS = 2
SECONDS_MAX = 200

SCRIPT = """read_verilog -formal -sv {sources}
prep -top {top} -flatten
opt -full
memory_map
techmap
opt -full
sat -tempinduct -maxsteps {steps} -prove-asserts -set-assumes {top}
"""


def prove(yosys, top, sources):
    """(proved, the last words of the solver)."""
    script = SCRIPT.format(sources=" ".join(map(str, sources)), top=top, steps=STEPS)
    command = [yosys, "-p", script]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    lines = [line for line in ran.stdout.splitlines() if "SUCCESS" in line or "fail" in line]
    if ran.returncode != 0 or not lines:
        sys.exit(f"{top}: {ran.stdout[-2000:]}{ran.stderr}")
    return lines[-1] == "Induction step proven: SUCCESS!", lines[-1]


def turn_of_commit(root, one_of):
    """Which one of each N mutants is tried: the commit's name says, so that all have a turn."""
    git = ["git", "-C", str(root), "rev-parse", "HEAD"]
    named = subprocess.run(git, capture_output=True, text=True, check=False)
    return int(named.stdout, 16) % one_of if named.returncode == 0 else 0


# Module of the properties, and the modules that they are about.
PROOFS = (
    ("receive_properties", ("mp_receive_judge.sv", "mp_receive_advance.sv")),
    ("window_properties", ("mp_window_shrink.sv", "mp_window_step.sv")),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--yosys", required=True)
    parser.add_argument("--root", required=True, type=pathlib.Path)
    parser.add_argument("--one-of", type=int, default=1, help="only one of each N mutants")
    arguments = parser.parse_args()
    rtl = arguments.root / "offload/rtl"
    turn = turn_of_commit(arguments.root, arguments.one_of)
    attempts = []
    for top, names in PROOFS:
        mutants = [mutant for mutant in MUTANTS if mutant.file in names]
        attempts += [(top, names, m) for m in [None, *mutants[turn :: arguments.one_of]]]
    wrong = []

    def attempt(top, names, mutant, directory):
        sources = [rtl / name for name in names]
        if mutant:
            at = names.index(mutant.file)
            sources[at] = pathlib.Path(directory) / f"{mutant.name}.sv"
            sources[at].write_text(broken((rtl / mutant.file).read_text(), mutant))
        properties = arguments.root / "offload/formal" / f"{top}.sv"
        proved, said = prove(arguments.yosys, top, [*sources, properties])
        print(f"{top}, {mutant.name if mutant else 'as it is'}: {said}", flush=True)
        if proved == bool(mutant):
            wrong.append(mutant)

    with tempfile.TemporaryDirectory() as directory:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda which: attempt(*which, directory), attempts))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
