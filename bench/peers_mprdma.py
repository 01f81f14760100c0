"""Samples of mprdma for bench/peers: unmodified perftest, and programs of bench/e2e.

"direct" is a wire of two processes (mprdma run --host h0 and h1), "default" the device that any
program gets (mprdma run), with the processor time of its mprdmad. The programs of bench/e2e do what
perftest cannot. silent_reader waits for memory and calls no verb meanwhile. many_qps has as many
messages under way over 10 000 queue pairs as over one: perftest's -q multiplies them, and
`ib_write_bw -q 10000` took 28 s (-t 128) and 48 s (-t 1) where many_qps took 4 s.
"""

import re
import statistics
import time

import perftest
from daemon import DaemonWire
from hosts import Failure, LocalWire
from peers_processes import (
    LIMIT_SECONDS, PAIR_SECONDS, PAIRS, Cores, busy, on_one_core, pair
)  # fmt: skip

NEEDED = ["ib_write_bw", "ib_write_lat", "ib_send_lat"]
PERFTEST = {
    "goodput": ["ib_write_bw", "-s", 65536, "-n", 30000],
    # As many as ucx_perftest sends: a tenth of a second would be mostly the start.
    "rate": ["ib_write_bw", "-s", 64, "-n", 2000000, "-N"],
    "send_latency": ["ib_send_lat", "-s", 8, "-n", 30000],
    "write_latency": ["ib_write_lat", "-s", 8, "-n", 30000],
}
# Beside busy loops, and with both processes on one core, a message may wait for a time slice of
# some milliseconds. All share one session: Linux schedules loops of other sessions as groups of
# their own.
BUSY = {
    "goodput": ["ib_write_bw", "-s", 65536, "-n", 10000],
    "send_latency": ["ib_send_lat", "-s", 8, "-n", 5000],
    "write_latency": ["ib_write_lat", "-s", 8, "-n", 5000],
}
# With a time instead of a number (-D) perftest prints only the mean.
PAIR = ["ib_send_lat", "-s", 8, "-D", PAIR_SECONDS]
OURS = {
    "silent_latency": ["silent_reader", "-d", 1000],
    "rate_1_qp": ["many_qps", "-d", 1000, "-q", 1],
    "rate_10000_qps": ["many_qps", "-d", 1000, "-q", 10000],
}
CONSTANTS = {"perftest": PERFTEST, "perftest beside busy loops": BUSY, "bench/e2e": OURS,
             "pairs": PAIRS, "of each": PAIR}  # fmt: skip


def read_row(figure, row):
    """A sample of a line of perftest's results."""
    if figure == "goodput":
        return {"value": row.gbps}
    if figure == "rate":
        return {"value": row.mpps}
    sample = {"value": row.usec}
    for key, start in (("mean", "t_avg"), ("p99", "99% "), ("p99_9", "99.9% ")):
        for title, number in row.columns.items():
            if title.startswith(start):
                sample[key] = number
    return sample


def read_silent(text):
    found = re.search(r"p50 ([\d.]+)  p99 ([\d.]+)  p99\.9 ([\d.]+)  mean ([\d.]+)", text)
    if found is None:
        raise Failure("silent_reader printed no latencies")
    return dict(zip(("value", "p99", "p99_9", "mean"), map(float, found.groups())))


def read_many_qps(text):
    found = re.search(r"rate ([\d.]+) M/s", text)
    if found is None:
        raise Failure("many_qps printed no rate")
    return {"value": float(found.group(1))}


def run_perftest(figure, command):
    def run(_build, wire):
        program, *options = command
        return read_row(figure, perftest.run(wire, program, options, LIMIT_SECONDS)[-1])

    return run


def run_ours(figure, command):
    read = read_silent if figure == "silent_latency" else read_many_qps

    def run(build, wire):
        program, *options = command
        port = perftest.free_tcp_port()
        return read(pair(wire, [build / "bench" / program, "-p", port, *options], port))

    return run


def run_pairs(pairs):
    """A sample: the mean of so many pairs, whose clients start together."""

    def run(_build, wire):
        program, *options = PAIR
        deadline = time.monotonic() + LIMIT_SECONDS
        servers = [perftest.start_server(wire, program, options, deadline) for _ in range(pairs)]
        clients = [wire.start(1, [program, *arguments]) for _, arguments in servers]
        for process in (*clients, *(server for server, _ in servers)):
            process.wait(deadline)
        rows = [row for client in clients for row in perftest.parse(client.output())]
        if len(rows) != pairs or not all(row.timed for row in rows):
            raise Failure(f"{program}: not every pair has a result that perftest could time")
        return {"value": statistics.mean(row.usec for row in rows)}

    return run


def over(wire_class, run, **variables):
    """A sample over a wire of this class, with the processor time of all its processes."""

    def sample(build):
        with wire_class(build) as wire:
            wire.extra.update(variables)
            daemons = []
            if wire_class is DaemonWire:
                daemons = [wire.start_daemon(time.monotonic() + LIMIT_SECONDS).pid]
            cores = Cores(*daemons)
            return {**run(build, wire), **cores.used()}

    return sample


def samples_of(who, wire_class):
    found = {f"{who}.{figure}": over(wire_class, run_perftest(figure, command))
             for figure, command in PERFTEST.items()}  # fmt: skip
    for figure, command in OURS.items():
        found[f"{who}.{figure}"] = over(wire_class, run_ours(figure, command))
    for figure, command in BUSY.items():
        run = over(wire_class, run_perftest(figure, command))
        found[f"{who}_busy.{figure}"] = busy(run)
        found[f"{who}_one_core.{figure}"] = on_one_core(run)
    return found


SAMPLES = {
    **samples_of("direct", LocalWire),
    **samples_of("default", DaemonWire),
    **{f"default_{pairs}_pairs.send_latency": over(DaemonWire, run_pairs(pairs))
       for pairs in PAIRS},
    "single.goodput": over(LocalWire, run_perftest("goodput", PERFTEST["goodput"]),
                           MPRDMA_MODE="mp-single"),
}  # fmt: skip
