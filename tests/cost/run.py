#!/usr/bin/env python3
"""Instructions of the dataplane stay within their budget (budget.json).

usage: run.py PROGRAM

PROGRAM is packet_cost of a debugoptimized build. Its counts are exact, so a figure above its budget
is a change of the code, never of the machine: either find what became dearer (bench/packet_cost
--top 60), or raise the budget in the same commit and say why. A figure far below its budget fails,
too, so that the budget follows what was gained.
"""

import json
import pathlib
import sys
from importlib.machinery import SourceFileLoader

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/harness")]

import tap  # noqa: E402
from hosts import Failure  # noqa: E402

packet_cost = SourceFileLoader("packet_cost", str(ROOT / "bench/packet_cost")).load_module()

# Of a figure that is below its budget: more calls for a new budget.
SLACK = 0.1


def check(program, name, budget):
    case, mode = name.split(", ")
    value = packet_cost.measure(program, case, mode)["packet"]
    if value > budget:
        raise Failure(f"{value:.0f} instructions a packet, the budget is {budget}")
    if value < budget * (1 - SLACK):
        raise Failure(f"{value:.0f} instructions a packet: lower the budget of {budget}")


def main():
    if len(sys.argv) != 2 or not pathlib.Path(sys.argv[1]).is_file():
        print(__doc__, file=sys.stderr)
        return 2
    budgets = json.loads((pathlib.Path(__file__).parent / "budget.json").read_text())
    program = sys.argv[1]
    return tap.run([
        (name, lambda name=name, budget=budget: check(program, name, budget))
        for name, budget in budgets.items()
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
