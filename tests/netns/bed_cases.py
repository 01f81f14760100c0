"""What is done between two hosts behind kernel routers. A case is a function of bed and options."""

import dataclasses
import statistics
import time
from collections.abc import Callable

import perftest
import rdma_cm
from bed import HOSTS, PATHS, host_address
from hosts import Failure, wait_until

MESSAGE_BYTES = 65536
MOVES = 200_000  # bytes over a path that are traffic, not its neighbours' questions
PINGS = 5000
ALL_LINKS = range(1, PATHS + 1)
SECONDS = 120  # that a case takes at most on a busy machine, beside what it measures


@dataclasses.dataclass
class Case:
    """`name` is that of the claim; `target` and `unit` are those of its figure, if it has one."""

    name: str
    title: str
    function: Callable
    target: str = ">= 1"
    unit: str = "cases"


def expect(condition, what):
    if not condition:
        raise Failure(what)


# ---- Traffic that is watched


class Traffic:
    """ib_write_bw from host 1 to host 0 while something happens to the network."""

    def __init__(self, wire, seconds):
        self.wire = wire
        self.deadline = time.monotonic() + SECONDS + seconds
        port = str(perftest.free_tcp_port())
        # With -D perftest's client ends by its clock; nothing else tells how long it is to run.
        options = ["-F", "-p", port, "-s", str(MESSAGE_BYTES), "-D", str(seconds)]
        self.server = wire.start(0, ["ib_write_bw", *options])
        listens = lambda: self.server.status is not None or self.server.listens_on(  # noqa: E731
            int(port)
        )
        wait_until(listens, self.deadline, "ib_write_bw listens")
        self.client = wire.start(1, ["ib_write_bw", *options, wire.tcp_address])

    def wait_for(self, paths):
        """Until each of these has carried something from now on."""
        before = self.wire.sent_bytes()
        moved = lambda: all(  # noqa: E731
            self.wire.sent_bytes()[path - 1] > before[path - 1] + MOVES for path in paths
        )
        ended = lambda: self.client.status is not None  # noqa: E731
        wait_until(lambda: moved() or ended(), self.deadline, f"traffic over {paths}")
        expect(moved(), f"ib_write_bw ended before there was traffic over {paths}")

    def end(self):
        """Both ends without an error; gigabits per second."""
        self.client.wait(self.deadline)
        self.server.wait(self.deadline)
        rows = perftest.parse(self.client.output())
        expect(len(rows) == 1, f"{len(rows)} lines of results, not 1")
        expect(rows[0].gbps > 0, "nothing moved")
        return rows[0].gbps


# ---- Cases


def all_paths(wire, _options):
    """ib_write_bw uses every link that there is."""
    traffic = Traffic(wire, 2)
    traffic.wait_for(ALL_LINKS)
    traffic.end()


def pings(wire, _options):
    """mprdmad answers every one: more of them than the device has buffers."""
    ran = wire.router_runs(0, ["ping", "-f", "-q", "-c", PINGS, "-s", 1000, host_address(0)])
    expect(f" {PINGS} received" in ran, ran.strip())


def contents(wire, _options):
    """Random operations in both directions, every byte compared."""
    deadline = time.monotonic() + SECONDS
    program = wire.build / "tests/integration/verbs_check"
    path = wire.new_path("check")
    command = [program, "--ops", "500", "--qps", "2", "--seed", "1", "--size-max", "100000"]
    server = wire.start(0, [*command, "--server", path])
    client = wire.start(1, [*command, "--client", path])
    client.wait(deadline)
    server.wait(deadline)


def link_down(wire, options):
    """Links go down at either router, and come up again, under ib_write_bw.

    A path that came back is found by probes, one round trip in a hundred: the connection may end
    before. The next one uses it.
    """
    traffic = Traffic(wire, 12)
    traffic.wait_for(ALL_LINKS)
    for path, router in ((2, 1), (3, 0)):
        wire.set_path(path, "down", router)
        traffic.wait_for([1, 4])
        wire.set_path(path, "up", router)
        traffic.wait_for([1, 4])
    traffic.end()
    all_paths(wire, options)


def gateway_mac(wire, _options):
    """A router is replaced by one with another Ethernet address, at either host."""
    traffic = Traffic(wire, 12)
    for host in HOSTS:
        traffic.wait_for(ALL_LINKS)
        wire.set_gateway_mac(host, f"02:00:5e:00:01:0{host + 1}")
        traffic.wait_for(ALL_LINKS)
    traffic.end()


def rping(wire, _options):
    rdma_cm.rping(100, address=host_address(0))(wire)


def daemon_restarted(wire, _options):
    """mprdmad is killed under ib_write_bw, and another one takes the device."""
    traffic = Traffic(wire, 12)
    for host in HOSTS:
        traffic.wait_for(ALL_LINKS)
        wire.daemons[host].kill()
        wire.start_daemon(host)
    traffic.wait_for(ALL_LINKS)
    traffic.end()


def compare(wire, options):
    """Four paths against one, by turns: the machine is not equally busy all the time."""
    four, one = [], []
    for _ in range(options.rounds):
        for paths, found in (("all", four), ("1", one)):
            wire.extra["MPRDMA_PATHS"] = paths
            arguments = ["-s", MESSAGE_BYTES, "-D", options.seconds]
            rows = perftest.run(wire, "ib_write_bw", arguments, SECONDS + 4 * options.seconds)
            found.append(rows[0].gbps)
            wire.stop_processes()
    ratio = statistics.median(four) / statistics.median(one)
    share = statistics.median(four) / (PATHS * wire.device.goodput(wire.rate) / 1e9)
    series = {"unit": "Gb/s", "four": four, "one": one, "share_of_links": round(share, 3)}
    options.figures[(wire.device.name, "paths")] = (round(ratio, 3), series)
    print(f"# {ratio:.2f}: four {shown(four)}, one {shown(one)} Gb/s, {share:.0%} of the links")
    expect(ratio > 1, "four paths carry no more than one")


def shown(rates):
    return "/".join(f"{rate:.3f}" for rate in rates)


RPING = Case("rping", "rping through the routers", rping)
ALL_PATHS = Case("all_paths", "ib_write_bw uses all links", all_paths)
QUICK = [RPING, ALL_PATHS]
ALL = [
    RPING,
    ALL_PATHS,
    Case("pings", "ping of a host by its router", pings),
    Case("contents", "verbs_check", contents),
    Case("link_down", "links set down and up under ib_write_bw", link_down),
    Case("gateway_mac", "a gateway's address changes under ib_write_bw", gateway_mac),
    Case("restart", "mprdmad killed and restarted under ib_write_bw", daemon_restarted),
    Case("paths", "ib_write_bw, four paths / one path", compare, ">= 3", "x"),
]
