"""Samples of libfabric's shm provider for bench/peers: fi_pingpong of Debian's libfabric-bin 1.17.

It is the only program of libfabric's that Debian has (fabtests is in no package), and knows one
test: a message there and back. It prints a mean without percentiles, so the mean stands in the
table; and its MB/s is that of one message under way ("pingpong"), not of a stream. No claim takes
either. shm has endpoints of type rdm only: without -e rdm, fi_pingpong asks for dgram.
"""

import perftest
from hosts import Failure
from peers_processes import output, server, timed

NEEDED = ["fi_pingpong"]
COMMAND = ["fi_pingpong", "-p", "shm", "-e", "rdm"]
SIZES = {"latency": (8, 100000), "pingpong": (65536, 20000)}  # bytes, messages
CONSTANTS = {"fi_pingpong": SIZES}


def read(text):
    """{column: field} of a result; sizes and amounts in it end in k or m."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) != 2 or lines[0][0] != "bytes" or len(lines[0]) != len(lines[1]):
        raise Failure("fi_pingpong printed no result")
    return dict(zip(*lines))


def sample_of(figure, text):
    row = read(text)
    if figure == "latency":
        return {"value": float(row["usec/xfer"]), "mean": float(row["usec/xfer"])}
    return {"value": float(row["MB/sec"]) * 8 / 1e3}


def libfabric(figure):
    size, count = SIZES[figure]

    def run(_build):
        port = perftest.free_tcp_port()
        command = [*COMMAND, "-S", size, "-I", count]
        with server([*command, "-B", port], port):
            return sample_of(figure, output([*command, "-P", port, "127.0.0.1"]))

    return timed(run)


SAMPLES = {f"libfabric.{figure}": libfabric(figure) for figure in SIZES}
