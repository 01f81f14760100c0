"""The schema of results that programs read (design: one for whatever measures)."""

import json
import os
import pathlib
import platform
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def machine():
    """What the figures depend on."""
    model = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {"cpu": model, "cpus": os.cpu_count(), "kernel": platform.release()}


def revision():
    described = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return described.stdout.strip() or "unknown"


class Report:
    """Claims and series of one run of a command."""

    def __init__(self, command, constants):
        self.command = command
        self.constants = constants
        self.claims = []
        self.series = {}

    def claim(self, name, what, target, value, unit):
        """`target` is a comparison with a number: "> 0", ">= 0.8", "<= 2"."""
        good = compare(value, target)
        self.claims.append(
            {"id": name, "what": what, "target": target, "value": value, "unit": unit, "ok": good}
        )
        return good

    def figure(self, name, what, target, value, unit):
        """A claim that depends on how busy the machine is: `met` says that a miss is no failure."""
        good = self.claim(name, what, target, value, unit)
        self.claims[-1]["met"] = good
        return good

    def missing(self, name, what, target, unit, reason):
        """A claim that could not be measured."""
        self.claims.append(
            {"id": name, "what": what, "target": target, "value": None, "unit": unit, "ok": False,
             "reason": reason}
        )  # fmt: skip

    @property
    def good(self):
        """A figure that is missed is no failure."""
        return all(claim["ok"] or "met" in claim for claim in self.claims)

    def write(self, path):
        content = {
            "schema": 1,
            "command": self.command,
            "revision": revision(),
            "machine": machine(),
            "constants": self.constants,
            "claims": self.claims,
            "series": self.series,
        }
        pathlib.Path(path).write_text(json.dumps(content, indent=2) + "\n")


def compare(value, target):
    operator, number = target.split()
    number = float(number)
    return {
        ">": value > number, ">=": value >= number, "<": value < number, "<=": value <= number,
    }[operator]  # fmt: skip
