"""Cases of direct rings: what two processes of mprdmad's device exchange without it."""

import os
import pathlib
import random
import re
import signal
import time

import crowd
import direct
import perftest
import service
from daemon import descriptors
from hosts import Failure, Unavailable, wait_until
from service import NOBODY


SYS_PTRACE = 19  # the capability, of linux/capability.h
TRAFFIC = ("--qps", "3", "--size-max", "20000", "--seed", "5")  # of verbs_check
# A client that is stopped and continued: how often, how long it runs before, and is stopped.
STOPS, RUNS_S, STOPPED_S = 4, 0.03, 0.1


def expect(condition, what):
    if not condition:
        raise Failure(what)


def counters_of(daemon, deadline):
    """The daemon's counters, which it prints at its end."""
    daemon.signal(signal.SIGTERM)
    daemon.wait(deadline)
    return {n: int(v) for n, v in re.findall(r"mprdmad: (\w+) (\d+)", daemon.output())}


def expect_rings(counted, used=True):
    """From the counters of a daemon: whether its processes moved their data by rings."""
    frames, made = counted.get("nic_frames_in", 0), counted.get("nic_rings_made", 0)
    expect((made > 0) == used, f"{made} rings were made")
    # Before the rings are there hundreds may: an engine looks at offers every 10 ms. Without rings
    # thousands do.
    expect(frames < 1500 if used else frames >= 200, f"{frames} frames passed the daemon")


def start_pair(wire, as_user=None, ops=2000, options=TRAFFIC):
    traffic = ["--ops", ops, *options]
    program = wire.build / "tests/integration/verbs_check"
    path = wire.new_path("pair")
    prefix = [] if as_user is None else ["setpriv", f"--reuid={as_user}", "--clear-groups"]
    return [wire.start(0, [*prefix, program, "--server", path, *traffic]),
            wire.start(1, [program, "--client", path, *traffic])]  # fmt: skip


def pulled(pair):
    """Bytes that the two have read in each other's memory."""
    text = "".join(process.output() for process in pair)
    expect(len(re.findall(r"payload_bytes_in \d", text)) == 2, "no counters were printed")
    return sum(map(int, re.findall(r"payload_bytes_pulled (\d+)", text)))


def may_pull():
    """Processes of one user may read each other's memory here."""
    scope = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")
    restricted = int(scope.read_text()) if scope.exists() else 0
    status = pathlib.Path("/proc/self/status").read_text()
    capable = int(re.search(r"CapEff:\s*(\w+)", status)[1], 16) >> SYS_PTRACE & 1
    return restricted == 0 or (restricted < 3 and capable == 1)


def rings(policy, *, used, **variables):
    """Contents are checked, and who carried the frames and the long payloads."""

    def run(wire):
        deadline = time.monotonic() + 120
        wire.extra.update(variables, MPRDMA_COUNTERS="1")
        daemon = wire.start_daemon(deadline, *policy)
        pair = start_pair(wire)
        for process in pair:
            process.wait(deadline)
        expect((pulled(pair) > 0) == (used and may_pull()), f"{pulled(pair)} bytes were read")
        expect_rings(counters_of(daemon, deadline), used)

    return run


def latency(wire):
    """Without a ring each message takes a wake-up of the daemon: the counters tell."""
    deadline = time.monotonic() + 120
    wire.extra["MPRDMA_COUNTERS"] = "1"
    daemon = wire.start_daemon(deadline)
    perftest.run(wire, "ib_send_lat", ["-n", "2000"], 100)
    counted = counters_of(daemon, deadline)
    expect(counted.get("nic_frames_in", 0) < 100, f"{counted} with 2000 messages each way")


def stopped_peer(wire):
    """A process that is stopped holds back those that talk to it, and nobody else."""
    deadline = time.monotonic() + 150
    wire.start_daemon(deadline)
    stopped = start_pair(wire, ops=1_000_000)
    time.sleep(0.3)
    stopped[0].signal(signal.SIGSTOP)
    expect(stopped[1].status is None, "the pair has ended already")
    for process in start_pair(wire):
        process.wait(deadline)
    for process in stopped:
        process.stop()


def continued(*options, ready=None):
    """Each end of a pair in turn is stopped and continued under traffic, which both ends verify;
    the client first, once `ready` says so."""

    def run(wire):
        deadline = time.monotonic() + 60
        earlier = direct.sockets(wire)
        pair = start_pair(wire, ops=20000, options=[*options, "--seed", "6", "--timeout", "16"])
        engines = lambda: len(direct.sockets(wire) - earlier)  # noqa: E731
        wait_until(lambda: engines() == len(pair) or pair[1].status is not None, deadline,
                   "an engine in each")  # fmt: skip
        if ready is not None:
            wait_until(ready, deadline, "a ring")
        for turn in range(STOPS):
            end = pair[1 - turn % 2]
            time.sleep(RUNS_S)
            expect(end.status is None, "it ended before it was stopped")
            end.signal(signal.SIGSTOP)
            time.sleep(STOPPED_S)
            end.signal(signal.SIGCONT)
        for process in pair:
            process.wait(deadline)

    return run


def continued_on_ring(*options):
    def run(wire):
        deadline = time.monotonic() + 60
        wire.extra["MPRDMA_COUNTERS"] = "1"
        metrics = service.free_port()
        daemon = wire.start_daemon(deadline, "--metrics", f"127.0.0.1:{metrics}")
        has_ring = lambda: service.scrape(metrics)["mprdma_rings_made_total"] > 0  # noqa: E731
        continued(*options, ready=has_ring)(wire)
        expect_rings(counters_of(daemon, deadline))

    return run


def killed(wire):
    """Pairs of processes are killed, each process at any time of its life, beside a pair whose
    traffic is checked. Nothing of the dead is left."""
    pairs = int(os.environ.get("MPRDMA_KILLED_PAIRS", "12"))
    deadline = time.monotonic() + 60 + 5 * pairs
    generator = random.Random(wire.seed)
    metrics = service.free_port()
    daemon = wire.start_daemon(deadline, "--metrics", f"127.0.0.1:{metrics}")
    wait_until(lambda: crowd.answers(metrics), deadline, "metrics")
    before = descriptors(daemon.pid)
    wire.note(f"seed {wire.seed}, {2 * pairs} kills")
    checked, rounds = start_pair(wire), 0
    for _ in range(pairs):
        pair = start_pair(wire, ops=1_000_000)
        generator.shuffle(pair)
        time.sleep(generator.uniform(0, 0.5))
        expect(pair[0].status is None, "it has ended by itself")
        for process in pair:
            process.kill()
            wire.processes.remove(process)
            time.sleep(generator.choice((0, 0, generator.uniform(0, 0.1))))
        if all(process.status == 0 for process in checked):
            for process in checked:
                wire.processes.remove(process)
            checked, rounds = start_pair(wire), rounds + 1
        expect(all(process.status in (None, 0) for process in checked), "the others have failed")
    for process in checked:
        process.wait(deadline)
    wire.note(f"{rounds + 1} runs of the others")
    crowd.nothing_left(wire, daemon, before, metrics, deadline)


def other_user(policy, *, used):
    def run(wire):
        if os.geteuid() != 0:
            raise Unavailable("only root can become another user")
        for directory in (wire.build / "tools").resolve().parents:
            if directory.stat().st_mode & 0o005 != 0o005:
                raise Unavailable(f"another user may not read {directory}")
        deadline = time.monotonic() + 120
        wire.extra["MPRDMA_COUNTERS"] = "1"
        daemon = wire.start_daemon(deadline, "--allow-uid", NOBODY, *policy)
        wire.directory.chmod(0o777)
        wire.socket.parent.chmod(0o711)
        pair = start_pair(wire, NOBODY)
        for process in pair:
            process.wait(deadline)
        wait_until(lambda: all(p.status == 0 for p in pair), deadline, "their end")
        counted = counters_of(daemon, deadline)
        expect((counted.get("nic_rings_made", 0) > 0) == used, f"rings: {counted}")
        expect(pulled(pair) == 0, "memory of another user was read")

    return run


# (title, options of verbs_check). With --last-byte the client has eight WRITEs of up to 64 KiB in
# flight, nearly always; the server reads the payloads in its memory, be it stopped or not.
CONTINUED = (
    ("each end stopped and continued", ("--qps", "2")),
    ("each end stopped and continued, WRITEs of 64 KiB",
     ("--last-byte", "--size-max", "65536")),
)  # fmt: skip

CASES = [
    ("frames of a pair do not pass mprdmad", rings([], used=True)),
    ("--direct-rings off", rings(["--direct-rings", "off"], used=False)),
    ("no ring where faults are to be met",
     rings([], used=False, MPRDMA_FAULT="seed=7,loss=0.01")),
    ("ping-pong over a ring", latency),
    ("stopped peer", stopped_peer),
    *((title, continued_on_ring(*options)) for title, options in CONTINUED),
    ("killed at any time", killed),
    ("no ring to another user", other_user([], used=False)),
    ("ring to another user", other_user(["--direct-rings", "all"], used=True)),
]  # fmt: skip
