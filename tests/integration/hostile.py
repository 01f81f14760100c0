"""Cases of mprdmad with a process that misbehaves beside two that move data and check it."""

import os
import pathlib
import re
import signal
import sys
import time

from hosts import Failure, Process, describe_status, wait_until

CLIENT = pathlib.Path(__file__).with_name("hostile_client.py")
# What the daemon has to have seen, and said when it is asked for its counters.
COUNTED = ("nic_clients_misbehaved", "nic_clients_refused", "nic_drop_forged", "nic_drop_ring",
           "nic_drop_malformed", "nic_drop_full", "nic_cm_forged")  # fmt: skip


def expect(condition, what):
    if not condition:
        raise Failure(what)


def counters(output):
    return {name: int(value) for name, value in re.findall(r"mprdmad: (\w+) (\d+)", output)}


def pairs_until(wire, done, deadline):
    """Pairs that check all that they move, one after another; none of them fails."""
    program = wire.build / "tests/integration/verbs_check"
    count = 0
    while not done():
        count += 1
        options = ["--ops", "3000", "--qps", "2", "--seed", str(count), "--size-max", "20000"]
        path = wire.new_path("pair")
        pair = [wire.start(host, [program, role, path, *options])
                for host, role in ((0, "--server"), (1, "--client"))]
        for process in pair:
            process.wait(deadline)
    return count


def everything(wire):
    """All that a process can do to the daemon, while others use it; then nothing is left of it."""
    deadline = time.monotonic() + 240
    wire.extra["MPRDMA_COUNTERS"] = "1"
    daemon = wire.start_daemon(deadline)
    before = descriptors(daemon.pid)
    hostile = Process([sys.executable, "-B", CLIENT, wire.socket], wire.environment(0), "hostile")
    wire.processes.append(hostile)

    def done():
        expect(hostile.status is None, "the hostile process was not let be hostile to its end")
        return "round 1\n" in hostile.output()

    pairs_until(wire, done, deadline)
    hostile.kill()
    expect(daemon.status is None, "the daemon has ended")
    wait_until(lambda: descriptors(daemon.pid) <= before, deadline, "its descriptors back")
    os.kill(daemon.pid, signal.SIGTERM)
    status = daemon.wait_status(deadline)
    expect(status == 0, f"the daemon: {describe_status(status)}\n{daemon.output()}")
    counted = counters(daemon.output())
    missing = [name for name in COUNTED if counted.get(name, 0) == 0]
    expect(not missing, f"not counted: {missing} of {counted}")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


CASES = [("a hostile process beside others", everything)]
