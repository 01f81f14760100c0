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
SECONDS_MAX = 900  # where other work shares the machine

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


def number_of_commit(root):
    """A number that the commit's name says: which proof and which mutants have their turn."""
    git = ["git", "-C", str(root), "rev-parse", "HEAD"]
    named = subprocess.run(git, capture_output=True, text=True, check=False)
    return int(named.stdout, 16) if named.returncode == 0 else 0


PARSE = "parse_properties"
# Module of the properties, and the modules that they are about.
PROOFS = (
    ("receive_properties", ("mp_receive_judge.sv", "mp_receive_advance.sv")),
    ("window_properties", ("mp_window_shrink.sv", "mp_window_step.sv")),
    (
        "send_properties",
        (
            "mp_send_judge.sv",
            "mp_send_maps.sv",
            "mp_send_losses.sv",
            "mp_lowest.sv",
            "mp_highest.sv",
        ),
    ),
    ("credit_properties", ("mp_send_credits.sv",)),
    (
        PARSE,
        ("mp_wire.sv", "mp_opcode.sv", "mp_parse_network.sv", "mp_parse_transport.sv"),
    ),
)
# What the parser's properties speak of, and mutants of the other modules that change nothing that
# theirs speak of. Lock-step finds all mutants.
BREAKS_PARSE = {
    "a-packet-may-be-longer-than-its-frame",
    "an-ipv6-packet-may-be-longer",
    "headers-may-end-early",
    "pad-may-be-more-than-there-is",
    "lengths-in-pairs",
    "acks-may-have-payload",
    "one-nack-code-more",
    "pad-is-payload",
}
UNPROVED = {
    "a-nack-is-news",
    "what-arrived-twice-is-news",
    "what-is-passed-is-no-news",
    "a-path-may-lag-one-less",
    "copies-show-slow-paths",
    "epochs-of-the-maps-mix",
    "the-head-never-asks",
    "a-drop-is-lost-twice",
    "what-had-no-room-costs",
    "an-epoch-keeps-its-copies",
    "the-last-try-is-the-head",
}


def breaks(top, mutant):
    """Whether it breaks what the properties say."""
    if top == PARSE:
        return mutant.name in BREAKS_PARSE
    return mutant.name not in UNPROVED


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--yosys", required=True)
    parser.add_argument("--root", required=True, type=pathlib.Path)
    what = "only one of each N mutants, and one proof"
    parser.add_argument("--one-of", type=int, default=1, metavar="N", help=what)
    arguments = parser.parse_args()
    rtl = arguments.root / "offload/rtl"
    which, turn = divmod(number_of_commit(arguments.root), arguments.one_of)
    tops = [top for top, _ in PROOFS]
    chosen = tops if arguments.one_of == 1 else [tops[which % len(tops)]]
    attempts = []
    for top, names in PROOFS:
        if top in chosen:
            mutants = [m for m in MUTANTS if m.file in names and breaks(top, m)]
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
