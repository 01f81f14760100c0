"""What the samples of bench/peers share: running programs, and the processor time they take."""

import contextlib
import os
import pathlib
import resource
import subprocess
import time

from hosts import Failure, Process, describe_status, wait_until

LIMIT_SECONDS = 60  # of a sample
PAIRS = (5, 20)  # that run at once
PAIR_SECONDS = 3
SHOWN = 300  # characters of the output of a program that failed


class Cores:
    """Processor time of all processes that ended meanwhile, and of `others`, which run on."""

    def __init__(self, *others):
        self.others = others
        self.wall, self.before = time.monotonic(), self._used()

    def _used(self):
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = usage.ru_utime + usage.ru_stime
        for pid in self.others:
            with contextlib.suppress(OSError):
                stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
                fields = stat.rsplit(")", 1)[1].split()
                used += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return used

    def used(self):
        """What a sample says of it: seconds, and how many cores these were on the average."""
        seconds = self._used() - self.before
        return {"cpu_seconds": seconds, "cores": seconds / (time.monotonic() - self.wall)}


def timed(run):
    """A sample that also has the processor time of its processes."""

    def with_cores(build):
        cores = Cores()
        sample = run(build)
        return {**sample, **cores.used()}

    return with_cores


def busy(run):
    """A sample beside one busy loop for each core. Its processor time is without the loops', which
    end later."""

    def beside_loops(build):
        loops = [Process(["python3", "-c", "while True: pass"])
                 for _ in range(os.cpu_count() or 1)]  # fmt: skip
        try:
            return run(build)
        finally:
            for loop in loops:
                loop.stop()

    return beside_loops


def on_one_core(run):
    """A sample whose processes all run on the same core, as by taskset."""

    def with_one_core(build):
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(allowed)})
        try:
            return run(build)
        finally:
            os.sched_setaffinity(0, allowed)

    return with_one_core


def output(command, environment=None):
    """What a program prints, once it has ended well."""
    command = [str(part) for part in command]
    name = pathlib.Path(command[0]).name
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS,
            env=environment, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as error:
        raise Failure(f"{name}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise Failure(f"{name}: not at its end after {LIMIT_SECONDS} s") from None
    if ran.returncode != 0:
        said = (ran.stderr.strip() or ran.stdout.strip())[-SHOWN:]
        raise Failure(f"{name}: {describe_status(ran.returncode)}: {said}")
    return ran.stdout


@contextlib.contextmanager
def server(command, port, environment=None):
    """A program that listens on a TCP port of its network namespace, ended with the block."""
    process = Process(command, environment)
    try:
        ready = lambda: process.status is not None or process.listens_on(port)  # noqa: E731
        wait_until(ready, time.monotonic() + LIMIT_SECONDS, f"{process.name} listens")
        yield process
    finally:
        process.stop()


def pair(wire, command, port):
    """What a program prints that runs on both hosts of a wire; host 1's has the address, too."""
    deadline = time.monotonic() + LIMIT_SECONDS
    listening = wire.start(0, command)
    ready = lambda: listening.status is not None or listening.listens_on(port)  # noqa: E731
    wait_until(ready, deadline, f"{listening.name} listens")
    client = wire.start(1, [*command, wire.tcp_address])
    for process in (client, listening):
        status = process.wait_status(deadline)
        if status != 0:
            said = process.output().strip()[-SHOWN:]
            raise Failure(f"{process.name}: {describe_status(status)}: {said}")
    return client.output()
