"""The distribution's rdma_cm programs between two hosts: connections made on the wire.

A server of rdma_cm listens on no TCP port: liblistening (listening.c), which is preloaded into it,
says when it listens. A client is started once, then, and whatever it meets is a fault.
"""

import os
import time

import perftest
import rping as rping_program
from hosts import Failure, describe_status, wait_until

SERVER = "10.73.0.1"
SECONDS = 90
IPOIB = "0x0002"  # RDMA_PS_IPOIB, as ucmatose and udaddy want it


def expect(condition, what):
    if not condition:
        raise Failure(what)


def free_port():
    """A port of rdma_cm that is free as a TCP port, too, which keeps cases apart."""
    return str(perftest.free_tcp_port())


def wait_for_success(process, deadline):
    process.wait(deadline)


def preloads(wire, **variables):
    """Further variables for a program that liblistening is preloaded into."""
    others = os.environ.get("LD_PRELOAD", "").split()
    library = str(wire.build / "tests/integration/liblistening.so")
    return {"LD_PRELOAD": " ".join([*others, library]), **variables}


def start_server(wire, command):
    """It, and the file that gets a byte whenever it listens."""
    listens = wire.new_path("listens")
    return wire.start(0, command, **preloads(wire, TEST_LISTENS=str(listens))), listens


def listening_server(wire, command, deadline):
    """One that listens."""
    server, listens = start_server(wire, command)
    known = lambda: server.status is not None or listens.exists()  # noqa: E731
    wait_until(known, deadline, f"{server.name} listens")
    if not listens.exists():
        raise Failure(f"{server.name}, which has not listened: {describe_status(server.status)}")
    return server


def both(server_command, client_command, server_ends=True, wait=wait_for_success):
    """`{port}` in the commands is a free one; `wait` fails unless a process ends as it should."""

    def run(wire):
        deadline = time.monotonic() + SECONDS
        port = free_port()
        command = [part.format(port=port) for part in server_command]
        server = listening_server(wire, command, deadline)
        client = wire.start(1, [part.format(port=port) for part in client_command])
        wait(client, deadline)
        if server_ends:
            wait(server, deadline)

    return run


def perftest_cm(program, *options):
    """perftest connects twice, and its server does not listen in between: a client that came then
    would be refused, so that it waits for the second time, too."""
    command = [program, "-R", "-F", *options, "-p"]

    def run(wire):
        deadline = time.monotonic() + SECONDS
        port = free_port()
        server, listens = start_server(wire, [*command, port])
        variables = preloads(wire, TEST_AWAITS_LISTENS=str(listens))
        client = wire.start(1, [*command, port, SERVER], **variables)
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
    server = listening_server(wire, ["rcopy", "-p", port], deadline)
    # Its options come last: one that comes first makes it a server.
    wire.start(1, ["rcopy", source, f"{SERVER}:{copy}", "-p", port]).wait(deadline)
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
    ("udaddy, IPOIB", by_capital_port("udaddy", "-p", IPOIB, "-c", "3", "-C", "20")),
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
