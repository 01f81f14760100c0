"""Every service of the verbs under rdma-core's pingpongs and perftest, in each transport mode.

A row of the tables is a program and its options; it becomes a case for each mode that it can have.
What perftest 4.5 refuses by itself has no row: READ and atomics over UC, all but SEND over UD,
events for WRITE, a shared receive queue where nothing is received.
"""

import time

import perftest
from hosts import Failure, wait_until

MODES = ("mp", "roce")
SECONDS = 120


def expect(condition, what):
    if not condition:
        raise Failure(what)


# ---- rdma-core's pingpongs. -c compares contents; of ibv_xsrq_pingpong it counts clients.

PINGPONGS = (
    ("ibv_rc_pingpong", "-c"),
    ("ibv_rc_pingpong", "-c", "-e"),
    ("ibv_rc_pingpong", "-c", "-N"),
    ("ibv_rc_pingpong", "-c", "-s", "100000", "-n", "200"),
    ("ibv_uc_pingpong", "-c"),
    ("ibv_uc_pingpong", "-c", "-e"),
    ("ibv_uc_pingpong", "-c", "-s", "100000", "-n", "200"),
    ("ibv_ud_pingpong", "-c"),
    ("ibv_ud_pingpong", "-c", "-e"),
    ("ibv_srq_pingpong", "-c"),
    ("ibv_srq_pingpong", "-c", "-e"),
    ("ibv_xsrq_pingpong",),
    ("ibv_xsrq_pingpong", "-e"),
)


def pingpong(program, *options):
    def run(wire):
        deadline = time.monotonic() + SECONDS
        port = perftest.free_tcp_port()
        command = [program, "-d", "mprdma0", "-g", "1", "-p", str(port), *options]
        server = wire.start(0, command)
        ready = lambda: server.status is not None or server.listens_on(port)  # noqa: E731
        wait_until(ready, deadline, "a server")
        client = wire.start(1, [*command, wire.tcp_address])
        client.wait(deadline)
        server.wait(deadline)
        expect("invalid data" not in client.output() + server.output(), "wrong contents")

    return run


# ---- perftest

OPERATIONS = {
    "RC": ("write", "read", "send", "atomic"),
    "UC": ("write", "send"),
    "UD": ("send",),
    "XRC": ("write", "read", "send", "atomic"),
}
# An address that maps to a group of IPv4: ff0e::ffff:239.1.2.3.
GROUP = "255:14:0:0:0:0:0:0:0:0:255:255:239:1:2:3"


def _sizes(operation, transport, kind):
    """Atomics take no size; a datagram fits into a packet."""
    if operation == "atomic":
        return ()
    if kind == "lat":
        return ("-s", "64")
    return ("-s", "2048") if transport == "UD" else ("-s", "20000")


def _each_operation():
    for transport, operations in OPERATIONS.items():
        for operation in operations:
            for kind in ("bw", "lat"):
                yield operation, transport, kind, _sizes(operation, transport, kind)


def _perftest_rows():
    for operation, transport, kind, sizes in _each_operation():
        yield (f"ib_{operation}_{kind}", "-c", transport, *sizes)
    for operation, transport, kind, sizes in _each_operation():
        if operation != "write":
            yield (f"ib_{operation}_{kind}", "-c", transport, "-e", *sizes)
    for transport in ("RC", "UC"):
        for operation in OPERATIONS[transport]:
            sizes = _sizes(operation, transport, "bw")
            yield (f"ib_{operation}_bw", "-c", transport, "-b", *sizes)
            yield (f"ib_{operation}_bw", "-c", transport, "-q", "8", *sizes)
    for kind, transport in (("bw", "RC"), ("lat", "RC"), ("bw", "UD"), ("lat", "UD")):
        yield (f"ib_send_{kind}", "-c", transport, "--use-srq", *_sizes("send", transport, kind))
    for kind in ("bw", "lat"):
        sizes = _sizes("send", "UD", kind)
        yield (f"ib_send_{kind}", "-c", "UD", "-g", "-M", GROUP, *sizes)
    for action in ("CMP_AND_SWAP", "FETCH_AND_ADD"):
        yield ("ib_atomic_bw", "-c", "RC", "-A", action)


def measured(program, *options):
    def run(wire):
        found = perftest.run(wire, program, ("-n", "200", *options), SECONDS)
        expect(len(found) == 1, f"{len(found)} lines of results")
        row = found[0]
        if program.endswith("_lat"):
            expect(row.usec > 0, "no latency")
        else:
            expect(row.gbps > 0 or row.mpps > 0, "nothing moved")

    return run


# ---- Rows and modes


def _in_mode(mode, function):
    def run(wire):
        wire.extra["MPRDMA_MODE"] = mode
        function(wire)

    return run


ROWS = [(row, pingpong(*row)) for row in PINGPONGS] + [
    (row, measured(*row)) for row in _perftest_rows()
]


def _modes_of(row):
    """Only a reliable connection has modes; the other services are what the standard says."""
    is_rc = "RC" in row or row[0] in ("ibv_rc_pingpong", "ibv_srq_pingpong")
    return MODES if is_rc else MODES[:1]


CASES = [
    (f"{' '.join(row)}, {mode}", _in_mode(mode, function))
    for row, function in ROWS
    for mode in _modes_of(row)
]
