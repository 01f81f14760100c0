"""Builds targets with ninja, and says how far that is and how long it will take."""

import os
import re
import subprocess
import time

from hosts import Failure

# Relative cost of a build step, by its description; the first match counts. From the log of a
# build: sources of the command include CLI11, JSON and TOML, those of the provider nothing.
COSTS = (
    (r"object tools/mprdma", 9.0),
    (r"object tools/", 5.0),
    (r"object switchsim/", 3.5),
    (r"object (providers|base)/", 0.2),
    (r"object ", 2.0),
    (r"Linking target ", 1.0),
    (r"", 0.1),
)
STATUS = re.compile(r"\[(\d+)/(\d+)\] (.*)")
SHOWN = 8000  # characters of what a build that failed had to say
NO_ESTIMATE_S = 5  # a rate that was measured for a shorter time says nothing


def cost(description):
    return next(value for pattern, value in COSTS if re.search(pattern, description))


def described(lines):
    """What ninja says of each step."""
    return [match[3] for match in map(STATUS.match, lines) if match]


class Estimate:
    """Time left, from the cost of what is left and the rate so far."""

    def __init__(self, total):
        self.total = total
        self.done = 0.0

    def left(self, elapsed_s):
        """None as long as nobody can know."""
        if elapsed_s < NO_ESTIMATE_S or self.done == 0:
            return None
        return max(0.0, self.total - self.done) * elapsed_s / self.done

    @property
    def share(self):
        return min(1.0, self.done / self.total) if self.total else 0.0


def build(screen, directory, target):
    """Builds the target; Failure, after what the compiler said, if it cannot."""
    command = ["ninja", "-C", str(directory), target]
    environment = {**os.environ, "NINJA_STATUS": "[%f/%t] "}
    planned = subprocess.run([*command, "-n"], env=environment, capture_output=True, text=True,
                             errors="replace", check=False)  # fmt: skip
    estimate = Estimate(sum(map(cost, described(planned.stdout.splitlines()))))
    start = time.monotonic()
    said = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, errors="replace") as ninja:  # fmt: skip
        for line in ninja.stdout:
            step = STATUS.match(line)
            if step is None:
                said.append(line)
                continue
            estimate.done += cost(step[3])
            screen.progress("building", estimate.share, estimate.left(time.monotonic() - start),
                            f"{step[1]} of {step[2]}")  # fmt: skip
    screen.clear()
    if ninja.returncode != 0:
        print(f"$ {' '.join(command)}\n{''.join(said)[-SHOWN:]}")
        raise Failure("cannot build: read the message above")
