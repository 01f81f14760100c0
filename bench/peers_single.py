"""Samples of single parts for bench/peers: the bare wire, the ICRC, instructions of the dataplane.

The bare wire (bench/local_wire) is measured before and after each other sample: it tells how fast
the machine was, too. Its latency is a mean over a tenth of a second, without percentiles: a reading
of the clock costs a tenth of it. Instructions are exact, so one round counts them.
"""

import json
import pathlib
import statistics
import tempfile

from hosts import Failure
from peers_processes import output

ROOT = pathlib.Path(__file__).resolve().parents[1]
NEEDED = ["valgrind"]
PROBE_SECONDS = 0.1
ICRC_BYTES = 4096
CONSTANTS = {"probe_seconds": PROBE_SECONDS, "icrc_bytes": ICRC_BYTES}


def probe(build):
    """The bare wire, at this moment: {figure: value}."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        output([build / "bench/local_wire", "--seconds", PROBE_SECONDS, "--rounds", 1, "--local",
                "--json", file.name])  # fmt: skip
        series = json.loads(pathlib.Path(file.name).read_text())["series"]
    names = {"goodput": "local.stream", "rate": "local.rate", "latency": "local.latency"}
    return {figure: statistics.median(series[name]["samples"]) for figure, name in names.items()}


def read_icrc(text):
    """Google Benchmark's JSON."""
    for benchmark in json.loads(text)["benchmarks"]:
        if benchmark["name"] == f"update/{ICRC_BYTES}":
            return {"value": benchmark["bytes_per_second"] / 1e9}
    raise Failure("icrc_speed printed no result")


def icrc(build):
    return read_icrc(output([build / "bench/icrc_speed", "--benchmark_format=json",
                             f"--benchmark_filter=^update/{ICRC_BYTES}$",
                             "--benchmark_min_time=0.2"]))  # fmt: skip


def instructions(case, claim):
    def run(build):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            output([ROOT / "bench/packet_cost", "--build", build, "--case", case,
                    "--json", file.name])  # fmt: skip
            claims = json.loads(pathlib.Path(file.name).read_text())["claims"]
        found = [each["value"] for each in claims if each["id"] == claim]
        if not found:
            raise Failure(f"packet_cost has no claim {claim}")
        return {"value": found[0]}

    return run


SAMPLES = {
    "icrc.speed": icrc,
    "packet_cost.instructions_4k": instructions("write-64k", "perf.instructions_4k"),
    "packet_cost.instructions_64": instructions("write-64", "perf.instructions_64"),
}
ONCE = {name for name in SAMPLES if name.startswith("packet_cost.")}
