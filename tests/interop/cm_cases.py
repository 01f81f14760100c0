"""Cases of rdma_cm: connections that our CM agent and Linux's ib_cm make with each other.

A server of rdma_cm listens on no TCP port, so a client finds out whether it does: one that nobody
listened to is started again.
"""

import contextlib
import re
import time

import capture
import perftest
import rping as rping_program
from bench import GUEST_DEVICE, expect
from guest import GUEST_IP, OUR_IP
from hosts import Failure

SECONDS = 90
# What programs say of a server that does not listen yet, or whose host is not there yet.
TOO_EARLY = re.compile(
    r"REJECTED|UNREACHABLE|ADDR_ERROR|connect error|event: 8|rdma_resolve_addr|"
    r"Unable to perform rdma_client function"
)
KILLED = (-9, 128 + 9)  # as we see it, as the guest's shell does
CRASHED = (-11, 128 + 11)
SLOW_SECONDS = 10  # longer than either side waits for two answers: 4.3 s each (4.096 us * 2^20)
REQ, MRA = ("0x07", "0x0010"), ("0x07", "0x0011")  # class and attribute, as tshark prints them


class Sides:
    """Who is where in a case, and how a program is started there."""

    def __init__(self, bench, ours_is_server):
        self.bench = bench
        self.ours_is_server = ours_is_server
        self.deadline = time.monotonic() + SECONDS
        self.address = OUR_IP if ours_is_server else GUEST_IP
        self.port = str(perftest.free_tcp_port())

    def start(self, as_server, command):
        words = [str(word).format(address=self.address, port=self.port) for word in command]
        if as_server == self.ours_is_server:
            return self.bench.ours(*words)
        return self.bench.theirs(" ".join(words), self.deadline - time.monotonic())

    def said(self, process, is_server=False):
        """What it printed, also if our standard error is apart."""
        ours = is_server == self.ours_is_server
        return process.output() + (self.bench.errors.read_text() if ours else "")

    def server(self, command):
        return self.start(True, command)

    def client(self, command, server):
        """Runs it until it has met the server; the process that did."""
        while True:
            client = self.start(False, command)
            status = client.wait_status(self.deadline)
            if status in (0, *KILLED, *CRASHED) or not TOO_EARLY.search(self.said(client)):
                return client
            expect(server.status is None, f"{server.name} ended with status {server.status}")
            self.bench.processes.remove(client)

    def both(self, server_command, client_command):
        server = self.server(server_command)
        client = self.client(client_command, server)
        client.wait(self.deadline)
        server.wait(self.deadline)
        return client, server


def programs(server_command, client_command, check=lambda _: None):
    """`{address}` and `{port}` in the commands are the server's."""

    def run(bench, ours_is_server):
        for process in Sides(bench, ours_is_server).both(server_command, client_command):
            check(process)

    return run


def rping(pings, *options):
    """Its exit status alone does not say whether it ended well."""
    common = ["-a", "{address}", "-p", "{port}", "-v", "-V", "-C", pings, *options]

    def run(bench, ours_is_server):
        sides = Sides(bench, ours_is_server)
        server = sides.server(["rping", "-s", *common])
        client = sides.client(["rping", "-c", *common], server)
        for process, is_server in ((client, False), (server, True)):
            status = process.wait_status(sides.deadline)
            said = sides.said(process, is_server)
            expect(rping_program.ended_well(status, said, pings),
                   f"{process.name}: exit status {status}")  # fmt: skip

    return run


def by_capital_port(program, *options):
    """ucmatose and udaddy have a port of their own."""
    return programs([program, "-b", "{address}", *options], [program, "-s", "{address}", *options])


def ib_write_bw_by_cm(bench, ours_is_server):
    """perftest makes its own connection as well as that of the test by rdma_cm. For the second one
    its server listens anew, and its client crashes if it is refused (it asks again with an id that
    it has destroyed): whoever is too early there starts both again."""
    sides = Sides(bench, ours_is_server)
    command = ["ib_write_bw", "-R", "-F", "-u", 18, "-p", "{port}", "-n", 200, "-s", 20000]
    theirs = [*command, *GUEST_DEVICE.split()]
    for_server, for_client = (command, theirs) if ours_is_server else (theirs, command)
    while True:
        server = sides.server(for_server)
        client = sides.client([*for_client, "{address}"], server)
        if client.status not in CRASHED or "REJECTED" not in sides.said(client):
            break
        bench.stop_processes()
        bench.processes.clear()
    client.wait(sides.deadline)
    server.wait(sides.deadline)
    expect(len(perftest.parse(client.output())) == 1, f"{client.name}: no result")


# ---- cm_pair


def _installed(bench, ours_is_server):
    """The program's path on the server, and on the client."""
    program = bench.build / "tests/interop/cm_pair"
    theirs = bench.guest.install(program)
    return (program, theirs) if ours_is_server else (theirs, program)


@contextlib.contextmanager
def _impatient(bench):
    """The guest's side gives a peer up that does not answer."""
    patient = bench.build / "tests/interop/libpatient.so"
    bench.guest.remove(patient.name)
    try:
        yield
    finally:
        if not bench.fault:
            bench.guest.install(patient)


def cm_pair(what, *options):
    def run(bench, ours_is_server):
        server, client = _installed(bench, ours_is_server)
        words = ["-w", what, *options, "-p", "{port}", "{address}"]
        both = Sides(bench, ours_is_server).both([server, "-s", *words], [client, *words])
        for process in both:
            expect("as it should be" in process.output(), f"{process.name}: does not say so")

    return run


def slow_server(bench, ours_is_server):
    """One that thinks for longer than its peer waits asks for time, we by ourselves, Linux when it
    has been asked again; from then on it is not asked any more."""
    cm_pair("talk", "-d", SLOW_SECONDS)(bench, ours_is_server)
    if bench.fault or not capture.tshark_is_there():
        return
    names = ["infiniband.mad.mgmtclass", "infiniband.mad.attributeid"]
    messages = [tuple(line.values()) for line in capture.fields(bench.pcap, names)]
    expect(MRA in messages, "nobody asked for time")
    expect(REQ not in messages[messages.index(MRA) :], "a request was sent again after MRA")


def nobody(*options):
    """Nobody listens at that port, and the client is told."""

    def run(bench, ours_is_server):
        sides = Sides(bench, ours_is_server)
        _, client = _installed(bench, ours_is_server)
        if ours_is_server:
            bench.clean = False  # there is nobody of ours to say what was counted
        if ours_is_server and not bench.socket:
            # Somebody listens at another one, or we would not be there at all.
            sides.server(["ucmatose", "-b", "{address}"])
        while True:
            words = [client, "-w", "nobody", *options, "-p", "{port}", "{address}"]
            ended = sides.start(False, words)
            if ended.wait_status(sides.deadline) == 0:
                return
            if "ADDR_ERROR" not in sides.said(ended):
                raise Failure(f"{ended.name}: exit status {ended.status}")

    return run


def dies(who):
    """By SIGKILL. Whatever is left of its host ends its connections; of a process that owned its
    port nothing is left."""

    def run(bench, ours_is_server):
        bench.clean = False
        sides = Sides(bench, ours_is_server)
        server_program, client_program = _installed(bench, ours_is_server)
        words = ["-w", f"{who}-dies", "-p", "{port}", "{address}"]
        with _impatient(bench):
            server = sides.server([server_program, "-s", *words])
            client = sides.client([client_program, *words], server)
            server.wait_status(sides.deadline)
        dead, alive = (server, client) if who == "server" else (client, server)
        expect(dead.status in KILLED, f"{dead.name}: status {dead.status}, not killed")
        alive.wait(sides.deadline)
        ours_died = (who == "server") == ours_is_server
        reason = "DISCONNECTED"
        if ours_died and not bench.socket:
            reason = "transport retry counter exceeded"
        expect(reason in alive.output(), f"{alive.name}: does not say {reason}")

    return run


def behind_daemon(function):
    def run(bench, ours_is_server):
        with bench.behind_daemon():
            function(bench, ours_is_server)

    return run


CM_PLAIN = [
    ("rping -C 100", rping(100)),
    ("rping -S 4096", rping(20, "-S", 4096)),
    ("ucmatose", by_capital_port("ucmatose", "-c", 3, "-C", 20)),
    ("udaddy", by_capital_port("udaddy", "-c", 3, "-C", 20)),
    ("ib_write_bw -R", ib_write_bw_by_cm),
    ("cm_pair", cm_pair("talk")),
    ("cm_pair, a slow server", slow_server),
    ("cm_pair, the server hangs up", cm_pair("hang-up")),
    ("cm_pair, the server rejects", cm_pair("reject")),
    ("cm_pair, nobody listens", nobody()),
    ("cm_pair, datagrams", cm_pair("talk", "-u")),
    ("cm_pair, datagrams, the server rejects", cm_pair("reject", "-u")),
    ("cm_pair, datagrams, nobody listens", nobody("-u")),
    ("cm_pair, the client dies", dies("client")),
    ("cm_pair, the server dies", dies("server")),
]
_BEHIND_DAEMON = {
    "rping -C 100", "udaddy", "cm_pair, the server rejects", "cm_pair, nobody listens",
    "cm_pair, the client dies", "cm_pair, the server dies",
}  # fmt: skip
CM_PLAIN += [
    (f"{title}, mprdmad", behind_daemon(function))
    for title, function in CM_PLAIN
    if title in _BEHIND_DAEMON
]
