"""Samples of kernel TCP over loopback for bench/peers: iperf3 and sockperf.

Both sides of a ping-pong poll (sockperf --nonblocked), or both wait in the kernel where processors
are shared, on one core and among many pairs: that is the faster way there. Beside busy loops it
is done both ways ("waits"). Each message of the rate is a call of its own (iperf3 -N). Beside busy
loops that are scheduled as groups of their own (sched(7), autogroup) a second of ping-pong may be
some hundred messages, of which p99.9 is the slowest.
"""

import contextlib
import json
import re
import statistics
import time

import perftest
from hosts import Failure, Process
from peers_processes import (
    LIMIT_SECONDS, PAIR_SECONDS, PAIRS, busy, on_one_core, output, server, timed
)  # fmt: skip

NEEDED = ["iperf3", "sockperf"]
SECONDS = 1
GOODPUT_BYTES, RATE_BYTES, PINGPONG_BYTES = 65536, 64, 14  # sockperf has none smaller
CONSTANTS = {"seconds": SECONDS, "goodput": GOODPUT_BYTES, "rate": RATE_BYTES,
             "latency": PINGPONG_BYTES, "pairs": PAIRS, "pair_seconds": PAIR_SECONDS}  # fmt: skip
POLLS = "--nonblocked"
# Which processes talk: what the command lines of server and client begin with, and an address.
LOOPBACK = ([], [], "127.0.0.1")


def read_iperf3(text):
    """Bits per second at the receiver."""
    try:
        return json.loads(text)["end"]["sum_received"]["bits_per_second"]
    except (ValueError, KeyError):
        raise Failure("iperf3 printed no result") from None


def read_sockperf(text):
    sample = {}
    for key, pattern in (("value", r"percentile 50\.000 ="), ("p99", r"percentile 99\.000 ="),
                         ("p99_9", r"percentile 99\.900 ="), ("mean", r"avg-latency=")):
        found = re.search(rf"{pattern}\s*([0-9.]+)", text)
        if found is None:
            raise Failure("sockperf printed no percentiles")
        sample[key] = float(found.group(1))
    return sample


def iperf3(place, size, *options):
    to_server, to_client, address = place
    port = perftest.free_tcp_port()
    with server([*to_server, "iperf3", "-s", "-1", "-p", port], port):
        return read_iperf3(output([*to_client, "iperf3", "-c", address, "-p", port, "-l", size,
                                   "-J", "-t", SECONDS, *options]))  # fmt: skip


def goodput(place):
    return {"value": iperf3(place, GOODPUT_BYTES) / 1e9}


def rate(_build):
    return {"value": iperf3(LOOPBACK, RATE_BYTES, "-N") / 8 / RATE_BYTES / 1e6}


def sockperf(port, *options):
    """What server and client of a ping-pong begin with."""
    common = ["--tcp", "-i", "127.0.0.1", "-p", port, *options]
    return (["sockperf", "server", *common],
            ["sockperf", "ping-pong", *common, "-m", PINGPONG_BYTES])  # fmt: skip


def latency(*options):
    def run(_build):
        port = perftest.free_tcp_port()
        listening, client = sockperf(port, *options)
        with server(listening, port):
            return read_sockperf(output([*client, "-t", SECONDS]))

    return run


def pairs_latency(pairs):
    """A sample: the mean of so many pairs, whose clients start together."""

    def run(_build):
        with contextlib.ExitStack() as stack:
            commands = []
            for _ in range(pairs):
                port = perftest.free_tcp_port()
                listening, client = sockperf(port)
                stack.enter_context(server(listening, port))
                commands.append([*client, "-t", PAIR_SECONDS])
            clients = [Process(command) for command in commands]
            for client in clients:
                stack.callback(client.stop)
            deadline = time.monotonic() + LIMIT_SECONDS
            for client in clients:
                client.wait(deadline)
            means = [read_sockperf(client.output())["mean"] for client in clients]
        return {"value": statistics.mean(means)}

    return run


def loopback_goodput(_build):
    return goodput(LOOPBACK)


SAMPLES = {
    "tcp.goodput": timed(loopback_goodput),
    "tcp.rate": timed(rate),
    "tcp.latency": timed(latency(POLLS)),
    "tcp_busy.goodput": busy(timed(loopback_goodput)),
    "tcp_busy.latency": busy(timed(latency(POLLS))),
    "tcp_busy_waits.latency": busy(timed(latency())),
    "tcp_one_core.goodput": on_one_core(timed(loopback_goodput)),
    "tcp_one_core.latency": on_one_core(timed(latency())),
    **{f"tcp_{pairs}_pairs.latency": timed(pairs_latency(pairs)) for pairs in PAIRS},
}  # fmt: skip
