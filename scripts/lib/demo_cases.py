"""The cases of the demo: what happens to the network while ib_write_bw runs over it; messages that
are answered one by one, with and without a dead path; and a check of contents over all of that at
once."""

import dataclasses
import re
import time
from collections.abc import Callable

import perftest
from fabric_wire import Sampler
from hosts import Failure, wait_until
from processors import Use, Watch

PATHS = ("path1", "path2", "path3", "path4")
MESSAGE_BYTES = 65536
MTU_BYTES = 4096
# A WRITE packet on the wire besides its payload: preamble, gap and FCS 24, Ethernet 14, IPv4 20,
# UDP 8, BTH 12, data extension 16, RETH 16, ICRC 4 (docs/wire-format.md).
OVERHEAD_BYTES = 114
PAYLOAD_SHARE = MTU_BYTES / (MTU_BYTES + OVERHEAD_BYTES)
RPC_BYTES = 8192  # of a request, and of its answer
RPC_S = 3  # with all paths, and as long with a dead one
MARGIN_S = 1  # perftest measures from this long after the start until this long before the end


@dataclasses.dataclass
class Event:
    """At a time after the first byte, something happens to a link."""

    at_s: float
    link: str
    change: str
    path_speed: float  # what is left of the path, of its full rate


@dataclasses.dataclass
class Case:
    """One run of ib_write_bw."""

    name: str
    title: str
    seconds: int
    paths: int = 4
    before: tuple = ()  # changes of links before it starts: Event with at_s 0
    events: tuple = ()
    environment: dict = dataclasses.field(default_factory=dict)

    def paths_up(self):
        """How many paths are up on average over the time that perftest measures."""
        if self.paths == 1:
            return 1.0
        total = 0.0
        for path in PATHS:
            changes = sorted((e for e in (*self.before, *self.events) if e.link == path),
                             key=lambda e: e.at_s)  # fmt: skip
            now, speed = MARGIN_S, 1.0
            for change in changes:
                at = min(max(change.at_s, MARGIN_S), self.seconds - MARGIN_S)
                total += speed * (at - now)
                now, speed = at, change.path_speed
            total += speed * (self.seconds - MARGIN_S - now)
        return total / (self.seconds - 2 * MARGIN_S)


@dataclasses.dataclass
class Result:
    case: Case
    gbps: float
    use: Use  # of the processors, while it ran
    network: float  # the network's process, in processors, from the first byte to the last
    series: list  # (seconds since the first byte, [goodput of each path, Gb/s])


def all_cases(path_rate):
    """`path_rate` as `mprdma fabric set` takes it, and a tenth of it for the slow path."""
    tenth = f"{path_rate / 10 / 1e6:g}Mbps"
    return (
        Case("one", "one path", 5, paths=1, environment={"MPRDMA_PATHS": "1"}),
        Case("four", "four paths", 7),
        Case("cut", "path 2 is cut after 3 s, back after 6 s", 9, events=(
            Event(3, "path2", "down", 0.0), Event(6, "path2", "up", 1.0))),
        Case("loss", "1 % loss on path 3", 7, before=(Event(0, "path3", "loss=1%", 1.0),)),
        Case("slow", "path 4 at a tenth of its rate", 9, before=(
            Event(0, "path4", f"rate={tenth}", 0.1),)),
    )  # fmt: skip


def run_case(wire, case, path_rate, progress: Callable[[float], None]):
    """Runs ib_write_bw under the case's changes; the links are as before afterwards."""
    for event in case.before:
        wire.set(event.link, event.change)
    try:
        wire.extra = dict(case.environment)
        for _ in range(perftest.ATTEMPTS):
            sampler = Sampler(wire, PATHS, 0.2)
            row, use, network = _run_write_bw(wire, case, sampler, progress)
            if row.timed:
                break
    except Failure as failure:
        raise Failure(f"{failure}\n{last_words(wire)}") from failure
    finally:
        wire.extra = {}
        wire.stop_processes()
        _mend(wire, (*case.before, *case.events), path_rate)
    return Result(case, row.gbps, use, network, _goodput(sampler.samples))


def _mend(wire, events, path_rate):
    for link in {event.link for event in events}:
        wire.set(link, "up", "loss=0%", f"rate={path_rate / 1e6:g}Mbps")


def _run_write_bw(wire, case, sampler, progress):
    options = ["-s", MESSAGE_BYTES, "-m", MTU_BYTES, "-D", case.seconds, "-f", MARGIN_S]
    deadline = time.monotonic() + case.seconds + 25
    port = perftest.free_tcp_port()
    command = ["ib_write_bw", "-F", "-p", port, *options]
    server = wire.start(0, command)
    wait_until(lambda: server.status is not None or server.listens_on(port), deadline,
               "ib_write_bw listens")  # fmt: skip
    before = sum(sampler.bytes_now().values())
    client = wire.start(1, [*command, wire.tcp_address])
    wait_until(lambda: client.status is not None or
               sum(sampler.bytes_now().values()) > before + 20 * MTU_BYTES, deadline,
               "the first bytes pass")  # fmt: skip
    start = time.monotonic()
    network = wire.show()["processor_s"]
    sampler.start()
    watch = Watch()

    def meanwhile():
        progress((time.monotonic() - start) / case.seconds)
        watch.look()

    try:
        for event in sorted(case.events, key=lambda e: e.at_s):
            _wait(start + event.at_s, client, meanwhile)
            wire.set(event.link, event.change)
        _wait(start + case.seconds, client, meanwhile)
        use = watch.use()
        network = (wire.show()["processor_s"] - network) / (time.monotonic() - start)
        client.wait(deadline)
        server.wait(deadline)
    finally:
        sampler.stop()
    rows = perftest.parse(client.output())
    if not rows:
        raise Failure("ib_write_bw printed no result")
    return rows[-1], use, network


@dataclasses.dataclass
class RpcResult:
    """Messages that are answered, one after the other: the mean time of half a round trip, us."""

    healthy_us: float
    dead_us: float  # one path of four loses every packet, and nobody says so
    use: Use  # of the processors, of the second run
    network: float  # the network's process, in processors, of the second run
    healthy_network: float  # the same of the first run

    @property
    def rate(self):
        """With the dead path / with all."""
        return self.healthy_us / self.dead_us if self.dead_us else 0.0


def run_rpc(wire, path_rate, progress: Callable[[float], None]):
    """Runs ib_send_lat over four paths, and over three and a dead one."""
    dead = Event(0, PATHS[3], "loss=100%", 0.0)
    try:
        healthy, _, healthy_network = _timed_send_lat(wire)
        progress(0.5)
        wire.set(dead.link, dead.change)
        return RpcResult(healthy, *_timed_send_lat(wire), healthy_network)
    except Failure as failure:
        raise Failure(f"{failure}\n{last_words(wire)}") from failure
    finally:
        wire.stop_processes()
        _mend(wire, (dead,), path_rate)


def _timed_send_lat(wire):
    """Half a round trip in us; processors; the network's process."""
    options = ["-s", RPC_BYTES, "-m", MTU_BYTES, "-D", RPC_S, "-f", MARGIN_S]
    start, before, watch = time.monotonic(), wire.show()["processor_s"], Watch()
    rows = perftest.run(wire, "ib_send_lat", options)
    watch.look()
    network = (wire.show()["processor_s"] - before) / (time.monotonic() - start)
    return rows[-1].usec, watch.use(), network


def _wait(until, client, meanwhile):
    while time.monotonic() < until and client.status is None:
        meanwhile()
        time.sleep(0.05)


def _goodput(samples):
    """Payload per path in Gb/s between one sample and the next."""
    series = []
    for (t0, b0), (t1, b1) in zip(samples, samples[1:]):
        rates = [(b1[p] - b0[p]) * 8 / (t1 - t0) / 1e9 * PAYLOAD_SHARE for p in PATHS]
        series.append(((t0 + t1) / 2 - samples[0][0], rates))
    return series


def last_words(wire):
    """The end of what each process of the wire printed."""
    text = []
    for process in (*wire.processes, wire.fabric):
        text += [f"---- {process.name}", *process.output().splitlines()[-40:]]
    return "\n".join(text)


def broken(path_rate):
    """All at once what the cases do to the network, except that the path stays cut."""
    return [event for case in all_cases(path_rate) for event in (*case.before, *case.events[:1])]


def check_contents(wire, path_rate, operations, queue_pairs, seconds=120):
    """Random operations in both directions over the broken paths; how many were verified at both
    ends."""
    events = broken(path_rate)
    for event in events:
        wire.set(event.link, event.change)
    try:
        return _run_verbs_check(wire, operations, queue_pairs, time.monotonic() + seconds)
    except Failure as failure:
        raise Failure(f"{failure}\n{last_words(wire)}") from failure
    finally:
        wire.stop_processes()
        _mend(wire, events, path_rate)


def _run_verbs_check(wire, operations, queue_pairs, deadline):
    path = wire.new_path("check")
    program = wire.build / "tests/integration/verbs_check"
    options = ["--ops", operations, "--qps", queue_pairs]
    sides = [wire.start(0, [program, "--server", path, *options])]
    sides.append(wire.start(1, [program, "--client", path, *options]))
    verified = 0
    for side in reversed(sides):
        side.wait(deadline)
        found = re.search(r"ok: .* (\d+) QPs, (\d+) operations each", side.output())
        if found is None:
            raise Failure(f"{side.name}: no result")
        verified += int(found.group(1)) * int(found.group(2))
    return verified
