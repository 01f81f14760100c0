"""qperf -cm1: connections by rdma_cm, every test of a reliable connection, atomics verified.

Its tests of UC and UD address peers by LID and have no GRH, which RoCE needs: those are left out.
The client names the server's host once, for TCP and for rdma_cm, so both have to be reached there:
on one host, the loopback address. It runs each test for a second: at `-n`, a count of messages, the
two sides do not end together. The server names its port by TCP before it listens there, so the
client is held back in rdma_connect() until it does (liblistening): it would be refused, now and
then.
"""

import re
import time

import perftest
import rdma_cm
from hosts import Failure, wait_until

SECONDS = 90
TESTS = (
    "rc_lat", "rc_bw", "rc_bi_bw", "rc_rdma_write_lat", "rc_rdma_write_poll_lat",
    "rc_rdma_write_bw", "rc_rdma_read_lat", "rc_rdma_read_bw", "rc_compare_swap_mr",
    "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add",
)  # fmt: skip


def parse(output):
    """What was measured, by test: {"rc_lat": ("latency", 91.9, "us")}."""
    pattern = r"^(\w+):\n +(latency|bw|msg_rate) += +([\d.]+) (\S+)$"
    return {test: (what, float(number), unit)
            for test, what, number, unit in re.findall(pattern, output, re.MULTILINE)}  # fmt: skip


def run(wire):
    deadline = time.monotonic() + SECONDS
    port = perftest.free_tcp_port()
    server, listens = rdma_cm.start_server(wire, ["qperf", "-lp", str(port)])
    wait_until(lambda: server.status is not None or server.listens_on(port), deadline, "a server")
    command = ["qperf", wire.tcp_address, "-lp", str(port), "-cm1", "-t", "1", *TESTS]
    variables = rdma_cm.preloads(wire, TEST_AWAITS_LISTENS=str(listens))
    client = wire.start(1, command, **variables)
    client.wait(deadline)
    found = parse(client.output())
    for test in TESTS:
        if test not in found or found[test][1] <= 0:
            raise Failure(f"{test}: nothing measured")
    server.stop()


PROGRAMS = [("qperf", "qperf -cm1: the tests of RC, atomics verified", run)]
