"""The one schema in which everything that measures writes its results."""

import json
import os
import platform
import subprocess
import sys

from hosts import ROOT

SCHEMA = 1


def claim(identity, what, target, value, unit, ok, reason=None):
    """One claim. What could not be measured has the value None, is not ok, and has a reason."""
    entry = {"id": identity, "what": what, "target": target, "value": value, "unit": unit, "ok": ok}
    if reason:
        entry["reason"] = reason
    return entry


def revision():
    ran = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    return ran.stdout.strip() or "unknown"


def machine():
    return {"system": platform.platform(), "processors": os.cpu_count()}


def write(path, command, claims, series, constants=None):
    document = {
        "schema": SCHEMA,
        "command": " ".join([command, *sys.argv[1:]]),
        "revision": revision(),
        "machine": machine(),
        "constants": constants or {},
        "claims": list(claims),
        "series": series,
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
