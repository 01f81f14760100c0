"""The samples of bench/peers: programs, how each is run, and what is read from its output."""

import json
import os
import pathlib
import re
import resource
import signal
import statistics
import subprocess
import tempfile
import time

import perftest
from daemon import DaemonWire
from hosts import Failure, LocalWire

NEEDED = ["ucx_perftest", "iperf3", "sockperf", "ib_write_bw"]
CONSTANTS = {
    "goodput": ["-s", 65536, "-n", 30000],
    "rate": ["-s", 64, "-n", 300000, "-N"],
    "send_latency": ["-s", 8, "-n", 30000],
    "write_latency": ["-s", 8, "-n", 30000],
    # Messages that a receiver takes. A put is a copy into memory that both processes have mapped:
    # nothing runs at the other end.
    "ucx": {"goodput": ["tag_bw", 65536, 50000], "rate": ["tag_bw", 64, 3000000],
            "latency": ["tag_lat", 8, 200000]},
    "ucx_put": {"goodput": ["ucp_put_bw", 65536, 50000], "rate": ["ucp_put_bw", 64, 3000000],
                "latency": ["ucp_put_lat", 8, 200000]},
    "tcp_seconds": 1,
    "probe_seconds": 0.1,
}  # fmt: skip
PROGRAMS = {
    "goodput": "ib_write_bw",
    "rate": "ib_write_bw",
    "send_latency": "ib_send_lat",
    "write_latency": "ib_write_lat",
}
MIB_BITS = (1 << 20) * 8
LIMIT_SECONDS = 30


class Cores:
    """Processor time of all processes that ended meanwhile, and of `others`, by wall time."""

    def __init__(self, *others):
        self.others = others
        self.wall, self.before = time.monotonic(), self._used()

    def _used(self):
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = usage.ru_utime + usage.ru_stime
        for pid in self.others:
            try:
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            used += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return used

    def per_second(self):
        return (self._used() - self.before) / (time.monotonic() - self.wall)


# ---- mprdma


def read_row(figure, row):
    if figure == "goodput":
        return {"value": row.gbps}
    if figure == "rate":
        return {"value": row.mpps}
    sample = {"value": row.usec}
    for title, number in row.columns.items():
        if title.startswith("99% "):
            sample["p99"] = number
        elif title.startswith("99.9% "):
            sample["p99_9"] = number
    return sample


def ours(wire_class, figure, **variables):
    """A sample of perftest over a wire of this class."""

    def run(build):
        with wire_class(build) as wire:
            wire.extra.update(variables)
            daemon = []
            if wire_class is DaemonWire:
                daemon = [wire.start_daemon(time.monotonic() + LIMIT_SECONDS).pid]
            cores = Cores(*daemon)
            row = perftest.run(wire, PROGRAMS[figure], CONSTANTS[figure], LIMIT_SECONDS)[-1]
            used = cores.per_second()
        return {**read_row(figure, row), "cores": used}

    return run


def probe(build):
    """The bare wire, at this moment: {figure: value}."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        output([build / "bench/local_wire", "--seconds", CONSTANTS["probe_seconds"], "--rounds", 1,
                "--json", file.name])  # fmt: skip
        series = json.loads(pathlib.Path(file.name).read_text())["series"]
    names = {"goodput": "local.stream", "rate": "local.rate", "latency": "local.latency"}
    return {figure: statistics.median(series[name]["samples"]) for figure, name in names.items()}


# ---- Others


def output(command, environment=None):
    name = pathlib.Path(str(command[0])).name
    try:
        ran = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, check=False,
            timeout=LIMIT_SECONDS, env=environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Failure(f"{name}: not at its end after {LIMIT_SECONDS} s") from None
    if ran.returncode != 0:
        raise Failure(f"{name}: {ran.stderr.strip()[-300:]}")
    return ran.stdout


class Server:
    """A server beside the client, ended with its block."""

    def __init__(self, command, environment=None, ready=None):
        self.command, self.environment, self.ready = command, environment, ready

    def __enter__(self):
        self.process = subprocess.Popen(
            [str(part) for part in self.command], env=self.environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        until = time.monotonic() + 10
        while not listens(self.ready) and time.monotonic() < until:
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def listens(port):
    """Whether a TCP socket of this namespace listens on the port."""
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                return True
    return False


def timed(run):
    """Adds the processor time that its processes took."""

    def with_cores(build):
        cores = Cores()
        sample = run(build)
        sample["cores"] = cores.per_second()
        return sample

    return with_cores


def ucx(kind, figure):
    def run(_build):
        test, size, count = CONSTANTS[kind][figure]
        port = perftest.free_tcp_port()
        environment = {**os.environ, "UCX_TLS": "posix,sysv,cma,self"}
        with Server(["ucx_perftest", "-p", port], environment, port):
            text = output(["ucx_perftest", "-p", port, "127.0.0.1", "-t", test, "-s", size,
                           "-n", count], environment)  # fmt: skip
        final = [line.split() for line in text.splitlines() if line.startswith("Final:")]
        if not final:
            raise Failure("ucx_perftest printed no result")
        numbers = [float(field) for field in final[0][1:]]
        # iterations, p50, average, overall; MiB/s average, overall; messages/s average, overall
        if figure == "goodput":
            return {"value": numbers[5] * MIB_BITS / 1e9}
        return {"value": numbers[7] / 1e6 if figure == "rate" else numbers[1]}

    return timed(run)


def tcp_goodput(_build):
    port = perftest.free_tcp_port()
    with Server(["iperf3", "-s", "-1", "-p", port], ready=port):
        text = output(["iperf3", "-c", "127.0.0.1", "-p", port, "-l", 65536, "-J", "-t",
                       CONSTANTS["tcp_seconds"]])  # fmt: skip
    return {"value": json.loads(text)["end"]["sum_received"]["bits_per_second"] / 1e9}


def tcp_latency(_build):
    port = perftest.free_tcp_port()
    common = ["--tcp", "--nonblocked", "-i", "127.0.0.1", "-p", port]
    with Server(["sockperf", "server", *common], ready=port):
        text = output(["sockperf", "ping-pong", *common, "-m", 14, "-t",
                       CONSTANTS["tcp_seconds"]])  # fmt: skip
    sample = {}
    for key, name in (("value", "50.000"), ("p99", "99.000"), ("p99_9", "99.900")):
        found = re.search(rf"percentile {re.escape(name)} =\s*([0-9.]+)", text)
        if found is None:
            raise Failure("sockperf printed no percentiles")
        sample[key] = float(found.group(1))
    return sample


def tcp_rate(_build):
    """Messages of 64 bytes, each sent by itself."""
    port = perftest.free_tcp_port()
    with Server(["iperf3", "-s", "-1", "-p", port], ready=port):
        text = output(["iperf3", "-c", "127.0.0.1", "-p", port, "-l", 64, "-N", "-J", "-t",
                       CONSTANTS["tcp_seconds"]])  # fmt: skip
    bits = json.loads(text)["end"]["sum_received"]["bits_per_second"]
    return {"value": bits / 8 / 64 / 1e6}


def busy(run):
    """The sample beside one busy loop for each core."""

    def with_loops(build):
        loops = [subprocess.Popen(["python3", "-c", "while True: pass"])
                 for _ in range(os.cpu_count() or 1)]  # fmt: skip
        try:
            sample = run(build)
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
        sample.pop("cores", None)  # the loops' own
        return sample

    return with_loops


SAMPLES = {
    **{f"direct.{figure}": ours(LocalWire, figure) for figure in PROGRAMS},
    **{f"default.{figure}": ours(DaemonWire, figure) for figure in PROGRAMS},
    "single.goodput": ours(LocalWire, "goodput", MPRDMA_MODE="mp-single"),
    **{f"{kind}.{figure}": ucx(kind, figure) for kind in ("ucx", "ucx_put")
       for figure in CONSTANTS[kind]},
    "tcp.goodput": timed(tcp_goodput),
    "tcp.rate": timed(tcp_rate),
    "tcp.latency": timed(tcp_latency),
    "busy.goodput": busy(ours(DaemonWire, "goodput")),
    "busy.send_latency": busy(ours(DaemonWire, "send_latency")),
    "busy_tcp.goodput": busy(tcp_goodput),
    "busy_tcp.latency": busy(tcp_latency),
}
