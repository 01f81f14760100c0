"""The cases: a name, what runs, the place, and a function of the place that raises Failure."""

import re
import time

import crowd
import fabtests
import fio
import iser
import libfabric
import mpi
import qemu
import qperf
import rdma_cm
import rsockets
import ucx
from hosts import Failure

EVERYWHERE = ("one_host", "two_hosts", "two_daemons")


class Case:
    """The claim `apps.NAME` is about all cases of the name, `apps.NAME.PLACE` about one."""

    def __init__(self, name, what, place, function, target=None, unit=None):
        """With a target the function returns what it measured, and the claim is about that."""
        self.target = target
        self.unit = unit
        self.name = name
        self.what = what
        self.place = place
        self.function = function

    @property
    def title(self):
        return f"{self.name}.{self.place}"


def by_bind(program, *options):
    return rdma_cm.by_capital_port(program, *options)


def server_by_port(server, client, *options):
    return rdma_cm.both([server, "-p", "{port}", *options],
                        [client, "-s", rdma_cm.SERVER, "-p", "{port}", *options])  # fmt: skip


def cmtime(wire):
    """Connections per second, all steps up to the connection, begun all at once (cmtime's way)."""
    deadline = time.monotonic() + rdma_cm.SECONDS
    options = ["-p", rdma_cm.free_port(), "-c", str(CONNECTIONS)]
    rdma_cm.listening_server(wire, ["cmtime", "-b", rdma_cm.SERVER, *options], deadline)
    client = wire.start(1, ["cmtime", "-s", rdma_cm.SERVER, *options])
    client.wait(deadline)
    refused = client.output().count("event:")  # what cmtime says of one that was not made
    if refused:
        raise Failure(f"{refused} of {CONNECTIONS} connections were not made")
    rows = re.findall(r"^([a-z ]+?) *: +([\d.]+)", client.output(), re.MULTILINE)
    total_ms = {step: float(ms) for step, ms in rows}
    missing = set(STEPS) - set(total_ms)
    if missing:
        raise Failure(f"cmtime printed nothing of {missing}")
    return round(CONNECTIONS * 1000 / sum(total_ms[step] for step in STEPS), 1)


CONNECTIONS = 1000
STEPS = ("create id", "resolve addr", "resolve route", "create qp", "connect")
RESTART = "mprdmad killed and restarted three times under verified traffic, listeners of before"
STREAM = ["-I", "10", "-C", "50", "-S", "65536", "-T", "v"]
# name, what runs, how
PROGRAMS = [
    ("rping", "rping -v -V -C 1000", rdma_cm.rping(1000)),
    ("ucmatose", "ucmatose -c 10 -C 20", by_bind("ucmatose", "-c", "10", "-C", "20")),
    ("udaddy", "udaddy -c 10 -C 20", by_bind("udaddy", "-c", "10", "-C", "20")),
    ("udaddy_ipoib", "udaddy -p 0x0002 -c 3: RDMA_PS_IPOIB",
     by_bind("udaddy", "-p", rdma_cm.IPOIB, "-c", "3", "-C", "20")),
    ("mckey", "mckey, a group of two", rdma_cm.mckey),
    ("rdma_server", "rdma_server, rdma_client", server_by_port("rdma_server", "rdma_client")),
    ("rdma_xserver", "rdma_xserver, rdma_xclient, over XRC",
     server_by_port("rdma_xserver", "rdma_xclient", "-c", "x")),
    ("rstream", "rstream, verified", rdma_cm.pair("rstream", *STREAM)),
    ("riostream", "riostream, verified", rdma_cm.pair("riostream", *STREAM)),
    ("rcopy", "rcopy, a file compared", rdma_cm.rcopy),
    ("rsockets_tcp", "TCP programs over rsockets (librspreload), a file compared: busybox nc; "
     "tclsh as HTTP server with curl and with wget", rsockets.all_programs),
    ("ib_write_bw", "ib_write_bw -R", rdma_cm.perftest_cm("ib_write_bw", "-n", "1000")),
]
# It takes no device without a link, and a wire of two has one when both are there.
DEVICE_FIRST = [
    ("fi_pingpong", "fi_pingpong -c over libfabric's verbs, MSG endpoints",
     libfabric.pingpong(*libfabric.MSG, "-I", "10")),
    ("fi_pingpong_rxm", "fi_pingpong -c over libfabric's verbs;ofi_rxm, RDM endpoints",
     libfabric.pingpong(*libfabric.RDM, "-I", "10")),
]  # fmt: skip
# Programs of the packages in scripts/packages-apps.txt. qperf's client has one address for TCP and
# for rdma_cm; with a wire of two, a program that asks for a link before its peer is there finds
# none.
PACKAGES = [
    (ucx.PROGRAMS, ("one_host", "two_daemons")),
    (mpi.PROGRAMS, ("one_host", "two_daemons")),
    (fio.PROGRAMS, EVERYWHERE),
    (qperf.PROGRAMS, ("one_host",)),
    (qemu.PROGRAMS, ("one_host", "two_daemons")),
    (iser.PROGRAMS, ("one_host", "two_daemons")),
    (fabtests.PROGRAMS, ("one_host", "two_daemons")),
]


def all_cases():
    plan = [(PROGRAMS, EVERYWHERE), (DEVICE_FIRST, ("one_host", "two_daemons"))]
    plan += PACKAGES
    many = [(
        "kill", "64 processes, 8 killed: the others work on, nothing is leaked", crowd.killed,
    ), (
        "restart", RESTART, crowd.restarted,
    )]  # fmt: skip
    by_turns = [("restart", RESTART, crowd.restarted_by_turns)]
    plan += [(many, ("own_daemon",)), (by_turns, ("two_daemons",))]
    return [
        Case(name, what, place, function)
        for programs, places in plan
        for name, what, function in programs
        for place in places
    ] + [
        Case("cmtime", "connections by cmtime -c 1000", place, cmtime, ">= 1000", "1/s")
        for place in EVERYWHERE
    ]
