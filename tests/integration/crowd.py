"""Processes that share a device, each with connections to several others: some are killed, or the
daemon is, and the others go on (tests/integration/crowd, which looks at contents and statuses)."""

import contextlib
import random
import re
import time

import direct
import perftest
import service
from daemon import descriptors, expect, mapped_ports, memory_kib
from hosts import wait_until

PROCESSES, KILLED, PEERS = 64, 8, 3
HELD_IDS = 4  # of each process, beside one for each end of a connection
MESSAGES = 20

# What the daemon loses grows in each of so many rounds. What the C library keeps for the next
# thread (a stack, an arena: dataplane/sys/async_close starts one when another is still busy) grows
# only in a round with more of these threads at once than in all before.
SPARE_KIB, ROUNDS = 1024, 5


class Crowd:
    """The crowd of one wire; `address(number)` is that of a process's device."""

    def __init__(self, wire, deadline, address=lambda _: "10.73.0.1", host=lambda _: 0):
        self.wire = wire
        self.deadline = deadline
        self.address = address
        self.host = host
        self.members = {}
        self.directory = wire.new_path("crowd")
        self.directory.mkdir()
        self.step_number = 0
        self.program = wire.build / "tests/integration/crowd"

    def start(self, number, peers=(), incoming=0, port=0):
        command = [
            self.program, "--address", self.address(number), "--directory", self.directory,
            "--number", number, "--peers", ",".join(map(str, peers)), "--incoming", incoming,
            "--port", port,
        ]  # fmt: skip
        self.members[number] = self.wire.start(self.host(number), command)

    def tell(self, messages=MESSAGES, dead=()):
        """The next step: so many messages each way on every connection but those to the dead, which
        have to end."""
        self.step_number += 1
        self._write(self.step_number, messages, *dead)

    def _write(self, *words):
        unfinished = self.directory / "step.new"
        unfinished.write_text(" ".join(map(str, words)))
        unfinished.rename(self.directory / "step")

    def step(self, messages=MESSAGES, dead=()):
        self.tell(messages, dead)
        self.wait()

    def wait(self):
        """Until all have done it."""
        wait_until(self.done, self.deadline, f"step {self.step_number} of the crowd")

    def done(self):
        left = [n for n in self.members if not self._mark(n).exists()]
        ended = [self.members[n] for n in left if self.members[n].status is not None]
        expect(not ended, f"step {self.step_number}: {len(ended)} ended, {first_words(ended)}")
        return not left

    def _mark(self, number):
        return self.directory / f"done.{number}.{self.step_number}"

    def ports(self, number):
        """Those that it holds, as in tcp:4711; the first is where it listens for others."""
        return (self.directory / f"port.{number}").read_text().split()[1:]

    def kill(self, number):
        process = self.members.pop(number)
        process.stop()  # SIGKILL to all of its group
        self.wire.processes.remove(process)

    def stop(self):
        self._write(0, 0)
        for process in self.members.values():
            process.wait(self.deadline)

    def taken(self, ports):
        """Which of these somebody else cannot have."""
        address = self.address(0)
        process = self.wire.start(0, [self.program, "--address", address, "--claim",
                                      ",".join(ports)])  # fmt: skip
        process.wait(self.deadline)
        found = re.findall(r"^taken: (\S+)$", process.output(), re.MULTILINE)
        expect(f"claimed {len(ports) - len(found)}\n" in process.output(), "no ports were asked of")
        return found


def first_words(processes):
    """What the one said that failed first: those that lost it as a peer fail, too."""
    said = [(float(at), line) for process in processes for line, at in
            re.findall(r"^(crowd \d+, at ([\d.]+) s: .*)$", process.output(), re.MULTILINE)]
    return f"first {min(said)[1]}" if said else f"statuses {[p.status for p in processes]}"


def drawn(generator, processes, peers):
    """To whom each process connects, and who comes to it."""
    to = {n: generator.sample([m for m in range(processes) if m != n], peers)
          for n in range(processes)}  # fmt: skip
    coming = {n: sum(n in of for of in to.values()) for n in to}
    return to, coming


def ids_of(to, dead):
    """How many ids the agent has of those who live, once all is settled."""
    ends = sum(2 for n, peers in to.items() for m in peers if n not in dead and m not in dead)
    return HELD_IDS * (len(to) - len(dead)) + ends


def answers(port):
    with contextlib.suppress(OSError):
        return ids(port) == 0
    return False


def ids(port):
    return int(service.scrape(port)["mprdma_cm_ids"])


def nothing_left(wire, daemon, before, metrics, deadline):
    """Descriptors, mapped memory, ids, blocks of queue pair numbers; also not of those who come."""
    wait_until(lambda: descriptors(daemon.pid) <= before, deadline, "its descriptors back")
    left = mapped_ports(daemon.pid)
    expect(left == 0, f"{left} mappings of the memory of the dead")
    sizes = [memory_kib(daemon.pid)]
    while len(sizes) == 1 or sizes[-1] > sizes[-2] + SPARE_KIB:
        expect(len(sizes) <= ROUNDS, f"each three programs left something: {sizes} KiB")
        for _ in range(3):
            perftest.run(wire, "ib_write_bw", ["-n", "100"], 100)
        wait_until(lambda: descriptors(daemon.pid) <= before, deadline, "its descriptors back")
        sizes.append(memory_kib(daemon.pid))
    in_use = wire.info(wire.socket)[0]
    expect(in_use == 0, f"{in_use} blocks of queue pair numbers are still in use")
    wait_until(lambda: ids(metrics) == 0, deadline, "no id of rdma_cm")


def killed(wire):
    """64 processes with connections to 3 others each and those who come; 8 are killed."""
    deadline = time.monotonic() + 400
    generator = random.Random(wire.seed)
    to, coming = drawn(generator, PROCESSES, PEERS)
    dead = sorted(generator.sample(range(PROCESSES), KILLED))
    wire.note(f"seed {wire.seed}: {', '.join(map(str, dead))} are killed")
    metrics = service.free_port()
    daemon = wire.start_daemon(deadline, "--metrics", f"127.0.0.1:{metrics}")
    wait_until(lambda: answers(metrics), deadline, "metrics")
    before = descriptors(daemon.pid)  # or one more, of who has just asked whether it is there
    crowd = Crowd(wire, deadline)
    for number, peers in to.items():
        crowd.start(number, peers, coming[number])
    crowd.step()
    wait_until(lambda: ids(metrics) == ids_of(to, ()), deadline, "an id for each end")
    crowd.tell(dead=dead)
    for number in dead:
        crowd.kill(number)
    crowd.wait()
    wait_until(lambda: ids(metrics) == ids_of(to, dead), deadline, "the ids of the dead are gone")
    of_dead = [port for number in dead for port in crowd.ports(number)]
    of_others = [port for number in crowd.members for port in crowd.ports(number)]
    expect(crowd.taken(of_dead) == [], "ports of the dead are still in use")
    expect(crowd.taken(of_others) == of_others, "ports of those who live can be had")
    expect(mapped_ports(daemon.pid) >= PROCESSES - KILLED, "the memory of clients is not found")
    # One in the place of a dead one, at its port.
    old, somebody = dead[0], list(crowd.members)[:PEERS]
    crowd.start(PROCESSES, somebody, 1, crowd.ports(old)[0].removeprefix("tcp:"))
    crowd.start(PROCESSES + 1, [PROCESSES])
    crowd.step(dead=dead)
    crowd.stop()
    expect(daemon.status is None, "the daemon ended")
    nothing_left(wire, daemon, before, metrics, deadline)


OLD = 4  # processes with connections and listeners from before
# What passes a daemon before the rings are there is less; the pair moves a hundred times that.
FRAMES_MAX = 5000


def rides_over(crowd, restart, deadline):
    """Restarts a daemon, three times, under connections of rdma_cm and of plain verbs; after
    each of them a new process connects to the listeners from before."""
    wire, earlier = crowd.wire, direct.sockets(crowd.wire)
    for number in range(OLD):
        crowd.start(number, [(number + 1) % OLD], 1)
    crowd.step()
    path = wire.new_path("pair")
    options = ["--ops", "45000", "--qps", "2", "--seed", str(wire.seed), "--size-max", "20000"]
    program = wire.build / "tests/integration/verbs_check"
    pair = [wire.start(host, [program, role, path, *options])
            for host, role in ((0, "--server"), (1, "--client"))]
    there = lambda: len(direct.sockets(wire) - earlier) == OLD + len(pair)  # noqa: E731
    # A program that finds no daemon when it starts has a private one.
    wait_until(there, deadline, "all of them")
    for number in range(OLD, OLD + 3):
        expect(all(process.status is None for process in pair), "the traffic ended too early")
        restart(number)
        crowd.step()
        crowd.start(number, range(number))
        crowd.step()
    for process in pair:
        process.wait(deadline)
    crowd.stop()


def expect_rings(metrics, least, deadline):
    """The daemon has made so many direct rings, which carry what its processes exchange."""
    made = lambda: service.scrape(metrics)["mprdma_rings_made_total"]  # noqa: E731
    wait_until(lambda: made() >= least, deadline, f"{least} rings")
    frames = sum(value for name, value in service.scrape(metrics).items()
                 if name.startswith("mprdma_port_frames_in_total"))  # fmt: skip
    expect(frames < FRAMES_MAX, f"{frames} frames passed the daemon")


def restarted(wire):
    """mprdmad is killed, and another one started, under traffic that is checked. The first one and
    the last one, whose newest process has a connection to each other one, make direct rings."""
    deadline = time.monotonic() + 240
    daemons, metrics = [], []

    def start():
        metrics.append(service.free_port())
        daemons.append(wire.start_daemon(deadline, "--metrics", f"127.0.0.1:{metrics[-1]}"))

    def restart(number):
        if number == OLD:
            expect_rings(metrics[-1], OLD + 1, deadline)  # the pair has one, too
        daemons[-1].kill()
        start()

    start()
    rides_over(Crowd(wire, deadline), restart, deadline)
    expect_rings(metrics[-1], OLD + 2, deadline)


def restarted_by_turns(wire):
    """Restarts the two daemons of two hosts in turn, as restarted() does with one."""
    deadline = time.monotonic() + 240
    crowd = Crowd(wire, deadline, lambda n: wire.ADDRESSES[n % 2], lambda n: n % 2)
    rides_over(crowd, lambda n: wire.restart_daemon(n % 2), deadline)


CASES = [
    ("64 processes, some killed", killed),
    ("daemon killed and restarted under traffic", restarted),
]
