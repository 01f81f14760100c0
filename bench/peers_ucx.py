"""Samples of UCX over shared memory for bench/peers: ucx_perftest of Debian's ucx-utils 1.13.

There are four ways to hand a message to a receiver, and all are in the table: tags ("ucx", which
the claims take, as MPI libraries do), streams, active messages, and the active messages of UCT, the
layer below, which few programs call ("uct_am"; at most 8 KiB, so without goodput). The ratio to the
fastest of them is printed, too. A put ("ucx_put") is a copy into memory that both processes have
mapped: nothing runs at the other end, so nobody gets a message.

What they gave on one machine of two cores, where the bare wire had 20 to 22 M/s and 85 Gb/s:
64 B     tag_bw 3.7 to 4.3, stream_bw 3.0 to 3.4, ucp_am_bw 3.6 to 4.0, UCT's am_bw 3.7 to 4.8 over
         posix as over sysv; ucp_put_bw 27 to 75, UCT's put_bw 44 M/s
64 KiB   tag_bw 71 to 94 (without cma 92 to 94), stream_bw 107 to 123, ucp_am_bw 91 Gb/s
Neither `-O 32` nor UCX_TLS=posix,self or shm,self moved the rate of tag_bw out of its range. UCX's
loops never yield, so a third busy process costs it an order of magnitude: 0.2 to 0.6 M/s beside a
compiler. Of 8.6 to 14.3 M/s, noted on a day when the bare wire had 45 M/s, the test is not known.

ucx_perftest computes one percentile a run (-R), of the last 2048 messages; so a sample of a latency
is three runs in a batch: the median, p99, p99.9. The mean is of all messages of the first run.
"""

import csv
import os
import pathlib
import tempfile

import perftest
from hosts import Failure
from peers_processes import output, server, timed

NEEDED = ["ucx_perftest"]
SHARED_MEMORY = "posix,sysv,cma,self"
GOODPUT, RATE, LATENCY = (65536, 30000), (64, 2000000), (8, 100000)  # bytes, messages
TESTS = {
    **{f"{kind}.{figure}": (f"{test}_{suffix}", *amount)
       for kind, test in (("ucx", "tag"), ("ucx_stream", "stream"), ("ucx_am", "ucp_am"),
                          ("ucx_put", "ucp_put"))
       for figure, suffix, amount in (("goodput", "bw", GOODPUT), ("rate", "bw", RATE),
                                      ("latency", "lat", LATENCY))},
    "uct_am.rate": ("am_bw", *RATE),
    "uct_am.latency": ("am_lat", *LATENCY),
}  # fmt: skip
UCT = ["-d", "memory", "-x", "sysv"]
CONSTANTS = {"ucx_perftest": TESTS, "UCX_TLS": SHARED_MEMORY, "uct_am": UCT}
RANKS = {"value": 50, "p99": 99, "p99_9": 99.9}
MIB_BITS = (1 << 20) * 8
# Columns of a result behind its name and iterations.
PERCENTILE, OVERALL_LATENCY, OVERALL_MIB, OVERALL_RATE = 0, 2, 4, 6


def batch(test, size, count, latency):
    """Lines of a batch file: a name, then the options of its run."""
    ranks = RANKS if latency else {"value": 50}
    return "".join(f"{name} -t {test} -s {size} -n {count} -R {rank}\n"
                   for name, rank in ranks.items())  # fmt: skip


def read(text, count):
    """{name of a run: its columns} of what -v prints; lines in between tell how far it is."""
    found = {}
    for row in csv.reader(line for line in text.splitlines() if "," in line):
        if len(row) == 9 and row[1].strip() == str(count):
            found[row[0]] = [float(field) for field in row[2:]]
    return found


def sample_of(figure, text, count):
    found = read(text, count)
    wanted = RANKS if figure == "latency" else ["value"]
    if not all(name in found for name in wanted):
        raise Failure("ucx_perftest printed no result")
    whole = found["value"]
    if figure == "goodput":
        return {"value": whole[OVERALL_MIB] * MIB_BITS / 1e9}
    if figure == "rate":
        return {"value": whole[OVERALL_RATE] / 1e6}
    sample = {name: found[name][PERCENTILE] for name in RANKS}
    return {**sample, "mean": whole[OVERALL_LATENCY]}


def ucx(name):
    kind, figure = name.split(".")
    test, size, count = TESTS[name]

    def run(_build):
        port = perftest.free_tcp_port()
        environment = {**os.environ, "UCX_TLS": SHARED_MEMORY}
        with tempfile.TemporaryDirectory(prefix="mprdma-peers-") as directory:
            file = pathlib.Path(directory) / "batch"
            file.write_text(batch(test, size, count, figure == "latency"))
            command = ["ucx_perftest", "-p", port, "-b", file, "-v",
                       *(UCT if kind == "uct_am" else [])]  # fmt: skip
            with server(command, port, environment):
                return sample_of(figure, output([*command, "127.0.0.1"], environment), count)

    return timed(run)


SAMPLES = {name: ucx(name) for name in TESTS}
