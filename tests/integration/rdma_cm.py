"""The distribution's rdma_cm programs between two hosts: connections made on the wire.

A server of rdma_cm listens on no TCP port, so a client finds out whether it does: one that nobody
listened to is started again.
"""

import os
import re
import time

import direct
import perftest
import rping as rping_program
from hosts import Failure, describe_status, wait_until

SERVER = "10.73.0.1"
SECONDS = 90
# What programs say of a server that does not listen yet, or whose host is not there yet.
TOO_EARLY = re.compile(
    r"REJECTED|UNREACHABLE|ADDR_ERROR|Connection refused|timed out|connect error|rconnect|"
    r"rdma_connect|rdma_create_ep|rdma_resolve_addr|Couldn't connect|event: 8"
)


def expect(condition, what):
    if not condition:
        raise Failure(what)


def free_port():
    """Of rdma_cm's own numbers; that they are free as TCP ports, too, keeps cases apart."""
    return str(perftest.free_tcp_port())


def wait_for_success(process, deadline):
    process.wait(deadline)


def wait_started(wire, server, earlier, deadline):
    """Until the server's engine is there."""
    started = lambda: server.status is not None or direct.sockets(wire) - earlier  # noqa: E731
    wait_until(started, deadline, "an engine of the server")


def start_client(wire, server, command, deadline):
    """Runs it until it has met the server; the process that did, and has ended."""
    while True:
        client = wire.start(1, command)
        status = client.wait_status(deadline)
        if status == 0 or not TOO_EARLY.search(client.output()):
            return client
        expect(server.status is None, f"the server: {describe_status(server.status or 0)}")
        wire.processes.remove(client)


def both(server_command, client_command, server_ends=True, wait=wait_for_success):
    """`{port}` in the commands is a free one; `wait` fails unless a process ends as it should."""

    def run(wire):
        deadline = time.monotonic() + SECONDS
        port = free_port()
        earlier = direct.sockets(wire)
        server = wire.start(0, [part.format(port=port) for part in server_command])
        wait_started(wire, server, earlier, deadline)
        command = [part.format(port=port) for part in client_command]
        client = start_client(wire, server, command, deadline)
        wait(client, deadline)
        if server_ends:
            wait(server, deadline)

    return run


def perftest_cm(program, *options):
    """perftest connects twice, and its server does not listen in between: a client that comes then
    is refused, and leaves a server behind that waits for it."""
    command = [program, "-R", "-F", *options, "-p"]

    def run(wire):
        deadline = time.monotonic() + SECONDS
        while True:
            port = free_port()
            earlier = direct.sockets(wire)
            server = wire.start(0, [*command, port])
            wait_started(wire, server, earlier, deadline)
            client = wire.start(1, [*command, port, SERVER])
            if client.wait_status(deadline) == 0 or not TOO_EARLY.search(client.output()):
                break
            server.stop()
            wire.processes = [p for p in wire.processes if p not in (server, client)]
        client.wait(deadline)
        server.wait(deadline)

    return run


def rping(pings, *options, address=SERVER):
    def wait(process, deadline):
        status = process.wait_status(deadline)
        expect(
            rping_program.ended_well(status, process.output(), pings),
            f"{process.name}: {describe_status(status)}",
        )

    common = ["-a", address, "-p", "{port}", "-v", "-V", "-C", str(pings), *options]
    return both(["rping", "-s", *common], ["rping", "-c", *common], wait=wait)


def pair(program, *options, server_ends=True):
    """Programs whose server is bound by -b and whose client says -s."""
    return both(
        [program, "-b", SERVER, "-p", "{port}", *options],
        [program, "-s", SERVER, "-p", "{port}", *options],
        server_ends,
    )


def by_capital_port(program, *options):
    """ucmatose and others have -p for both port space and number."""
    return both([program, "-b", SERVER, *options], [program, "-s", SERVER, *options])


def rcopy(wire):
    """A file arrives as it was."""
    deadline = time.monotonic() + SECONDS
    port = free_port()
    source, copy = wire.directory / "source", wire.directory / "copy"
    source.write_bytes(os.urandom(3_000_001))
    server = wire.start(0, ["rcopy", "-p", port])
    # Its options come last: one that comes first makes it a server.
    command = ["rcopy", source, f"{SERVER}:{copy}", "-p", port]
    client = start_client(wire, server, command, deadline)
    client.wait(deadline)
    server.stop()
    expect(copy.read_bytes() == source.read_bytes(), "the copy is another file")
    copy.unlink()


def mckey(wire):
    """Both join a group; what one sends to it the other gets."""
    deadline = time.monotonic() + SECONDS
    command = ["stdbuf", "-oL", "mckey", "-m", "239.1.2.3", "-C", "20", "-b"]
    receiver = wire.start(0, [*command, wire.ADDRESSES[0]])
    joined = lambda: receiver.status is not None or "joined" in receiver.output()  # noqa: E731
    wait_until(joined, deadline, "a member of the group")
    wire.start(1, [*command, wire.ADDRESSES[1], "-s"]).wait(deadline)
    receiver.wait(deadline)


PROGRAMS = [
    ("rping", rping(100)),
    ("rping -S 4096", rping(20, "-S", "4096")),
    ("rping -q", rping(20, "-q")),
    ("ucmatose", by_capital_port("ucmatose", "-c", "10", "-C", "20")),
    ("ucmatose -m", by_capital_port("ucmatose", "-c", "3", "-m")),
    ("udaddy", by_capital_port("udaddy", "-c", "3", "-C", "20")),
    ("rdma_server, rdma_client", both(["rdma_server", "-p", "{port}"],
                                      ["rdma_client", "-s", SERVER, "-p", "{port}"])),
    ("rstream", pair("rstream", "-I", "10", "-C", "20", "-S", "65536", "-T", "v")),
    ("rstream, nonblocking", pair("rstream", "-C", "20", "-S", "1000", "-T", "n")),
    ("riostream", pair("riostream", "-I", "10", "-C", "20", "-S", "65536", "-T", "v")),
    ("rcopy", rcopy),
    ("rdma_xserver, rdma_xclient", both(["rdma_xserver", "-p", "{port}", "-c", "x"],
                                        ["rdma_xclient", "-s", SERVER, "-p", "{port}", "-c", "x"])),
    ("ib_write_bw -R", perftest_cm("ib_write_bw", "-n", "200")),
    ("cmtime", pair("cmtime", "-c", "50", server_ends=False)),
    ("mckey", mckey),
]  # fmt: skip
# On one host, by the device's own address, that of two ends of mprdmad's switch.
ONE_HOST = ("rping", "ucmatose", "udaddy", "rstream", "ib_write_bw -R")
CASES = {
    "local": PROGRAMS,
    "daemon": [(name, function) for name, function in PROGRAMS if name in ONE_HOST],
}
