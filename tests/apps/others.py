"""Suites beside this one that write claims of their own, where the tree has them."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

from hosts import ROOT
from report import compare

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


# ---- A guest whose kernel's Soft-RoCE is the peer: slow to start, and only for who asks for it

INTEROP = ROOT / "tests/interop/run.py"
KERNEL_RPING = "rping -C 100. we are"  # a comma would part two expressions
KERNEL_RPING_SECONDS = 2400  # with a guest to set up first


def kernel_rping(report, build, peerlab):
    """rping with Linux, in both directions; whether it works."""
    command = [sys.executable, "-B", INTEROP, "--build", build, "--cases", KERNEL_RPING]
    environment = dict(os.environ, PEERLAB_DIR=str(peerlab))
    facts = ("apps.kernel_rping", "rping -C 100 with Linux Soft-RoCE: directions that work", ">= 2")
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True,
                          start_new_session=True) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=KERNEL_RPING_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)  # it ends its guest
            output, _ = process.communicate()
    print(output, end="")
    works = len(re.findall(r"^ok \d+ - rping", output, re.MULTILINE))
    if process.returncode == 0 and compare(works, facts[2]):
        report.claim(*facts, works, "directions")
        return True
    last = (output.strip().splitlines() or ["no output"])[-1]
    report.missing(*facts, "directions", f"exit status {process.returncode}: {last}")
    return False
