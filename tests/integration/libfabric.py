"""libfabric's own fi_pingpong over its provider verbs: connections by rdma_cm, contents checked.

Its two sides agree over TCP first. The server binds to what the host's own name resolves to, so
that has to be the device's address or a loopback one, as with any RDMA device.
"""

import time

import perftest
from hosts import Failure, describe_status, wait_until

SECONDS = 90


def pingpong(provider, endpoint, *options):
    """fi_pingpong -c compares every byte of what comes back."""

    def run(wire):
        deadline = time.monotonic() + SECONDS
        port = str(perftest.free_tcp_port())
        command = ["fi_pingpong", "-p", provider, "-e", endpoint, "-c", *options]
        server = wire.start(0, [*command, "-B", port])
        ready = lambda: server.status is not None or server.listens_on(int(port))  # noqa: E731
        wait_until(ready, deadline, "a server")
        client = wire.start(1, [*command, "-P", port, wire.tcp_address])
        for process in (client, server):
            status = process.wait_status(deadline)
            if status != 0:
                raise Failure(f"{process.name}: {describe_status(status)}")
        # A line for each size: bytes, iterations, total, time, rate. No size, no line.
        lines = [line for line in client.output().splitlines() if line[:1].isdigit()]
        if not lines:
            raise Failure("fi_pingpong printed no result")

    return run


MSG = ("verbs", "msg")
RDM = ("verbs;ofi_rxm", "rdm")
CASES = {
    "daemon": [
        ("fi_pingpong, verbs", pingpong(*MSG)),
        ("fi_pingpong, verbs;ofi_rxm", pingpong(*RDM)),
    ],
}
