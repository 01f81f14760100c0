"""Suites beside this one that write claims of their own, where the tree has them."""

import json
import os
import pathlib
import signal
import subprocess
import sys

from hosts import ROOT

# The start of its claims, its program, and a limit of time in seconds.
RUNNERS = [
    ("netns", ROOT / "tests/netns/run.py", 1800),
    ("container", ROOT / "tests/container/run.py", 600),
]


def chosen(wanted):
    """Those that are there."""
    return [r for r in RUNNERS if r[1].exists() and wanted.search(r[0])]


def run(runner, build, directory):
    """What is wrong, or None; and its claims."""
    name, program, seconds = runner
    path = pathlib.Path(directory) / f"{name}.json"
    command = [sys.executable, "-B", program, "--build", build, "--json", path]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)  # it removes its namespaces
            process.wait()
            return f"still running after {seconds} s", []
    claims = json.loads(path.read_text())["claims"] if path.exists() else []
    if status == 0 and not claims:
        return "no claims", []
    return (f"exit status {status}" if status != 0 else None), claims
