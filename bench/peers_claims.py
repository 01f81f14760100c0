"""What bench/peers claims, and what it prints beside the claims: tables of medians and ratios.

Pure: samples in, text and claims out. A sample is {"value": .., "round": .., ...}, a failed one has
"error" in place of the value.
"""

import statistics

UNITS = {
    "goodput": "Gb/s", "pingpong": "Gb/s", "rate": "M/s", "rate_1_qp": "M/s",
    "rate_10000_qps": "M/s", "latency": "us", "send_latency": "us", "write_latency": "us",
    "silent_latency": "us", "speed": "GB/s", "instructions_4k": "instr.",
    "instructions_64": "instr.",
}  # fmt: skip
# A sample whose probes differ by more is marked: the processors were others at its end.
STEADY_MAX = 1.5
BESIDE = ("p99", "p99_9", "mean", "cores")  # columns beside the value
# What hands a message to a receiver.
_UCP = ("ucx", "ucx_stream", "ucx_am")
UCX_MESSAGES = {
    "goodput": _UCP, "rate": (*_UCP, "uct_am"), "send_latency": (*_UCP, "uct_am"),
    "write_latency": (*_UCP, "uct_am"),
}  # fmt: skip

# Id, sample, what it is compared with (None: with nothing; several: with the fastest), and the
# least of the targets. Ratios of times for latencies, of amounts for the others.
_TCP_BUSY = ("tcp_busy.latency", "tcp_busy_waits.latency")
CLAIMS = [
    *((f"perf.{who}.{name}", sample.format(who=who),
       peer.format(who=who) if isinstance(peer, str) else peer, least)
      for who in ("direct", "default")
      for name, sample, peer, least in (
          ("goodput_vs_limit", "{who}.goodput", "bare.goodput", ">= 0.6"),
          ("goodput_vs_ucx_shm", "{who}.goodput", "ucx.goodput", ">= 1"),
          ("goodput_vs_tcp", "{who}.goodput", "tcp.goodput", ">= 1"),
          ("rate_vs_ucx_shm", "{who}.rate", "ucx.rate", ">= 0.5"),
          ("rate_vs_tcp", "{who}.rate", "tcp.rate", ">= 1"),
          ("send_latency_vs_ucx_shm", "{who}.send_latency", "ucx.latency", "<= 1.5"),
          ("write_latency_vs_ucx_shm", "{who}.write_latency", "ucx.latency", "<= 1.5"),
          ("send_latency_vs_tcp", "{who}.send_latency", "tcp.latency", "<= 1"),
          ("write_latency_vs_tcp", "{who}.write_latency", "tcp.latency", "<= 1"),
          ("silent_reader_vs_tcp", "{who}.silent_latency", "tcp.latency", "<= 1"),
          ("qps_10000", "{who}.rate_10000_qps", "{who}.rate_1_qp", ">= 0.9"),
          ("busy_goodput_vs_tcp", "{who}_busy.goodput", "tcp_busy.goodput", ">= 1"),
          ("busy_latency_vs_tcp", "{who}_busy.send_latency", _TCP_BUSY, "<= 1"),
          ("busy_write_latency_vs_tcp", "{who}_busy.write_latency", _TCP_BUSY, "<= 1"),
          ("one_core_goodput_vs_tcp", "{who}_one_core.goodput", "tcp_one_core.goodput", ">= 1"),
          ("one_core_latency_vs_tcp", "{who}_one_core.send_latency", "tcp_one_core.latency",
           "<= 1"),
      )),
    *((f"perf.default.{pairs}_pairs_latency_vs_tcp", f"default_{pairs}_pairs.send_latency",
       f"tcp_{pairs}_pairs.latency", "<= 1") for pairs in (5, 20)),
    ("perf.default_vs_direct.goodput", "default.goodput", "direct.goodput", ">= 0.9"),
    ("perf.default_vs_direct.rate", "default.rate", "direct.rate", ">= 0.9"),
    ("perf.default_vs_direct.latency", "default.send_latency", "direct.send_latency", "<= 1.11"),
    ("perf.mp_vs_single", "direct.goodput", "single.goodput", ">= 0.95"),
    ("perf.virtio_vs_testpmd", "virtio.goodput", "testpmd.goodput", ">= 0.5"),
    ("perf.veth_vs_iperf3", "veth.goodput", "veth_tcp.goodput", ">= 0.7"),
    ("perf.icrc_gb_per_s", "icrc.speed", None, ">= 10"),
    ("perf.instructions_4k", "packet_cost.instructions_4k", None, "<= 600"),
    ("perf.instructions_64", "packet_cost.instructions_64", None, "<= 1500"),
]  # fmt: skip
# Printed, not claimed: (what, sample, candidates, of which the best counts, and what of them). The
# median hides what one message of a hundred waits for, and what a busy loop costs: it lies within
# one slice of time.
RATIOS = [
    ("veth_xdp.goodput / iperf3's", "veth_xdp.goodput", ["veth_tcp.goodput"], "value"),
    *((f"{who}.{figure} / UCX's fastest", f"{who}.{figure}",
       [f"{kind}.{figure.split('_')[-1]}" for kind in UCX_MESSAGES[figure]], "value")
      for who in ("direct", "default")
      for figure in UCX_MESSAGES),
    *((f"{who}.send_latency / TCP's, {of}", f"{who}.send_latency", ["tcp.latency"], key)
      for who in ("direct", "default")
      for of, key in (("means", "mean"), ("p99", "p99"), ("p99.9", "p99_9"))),
    *((f"{who}_busy.send_latency / TCP's, means", f"{who}_busy.send_latency",
       _TCP_BUSY, "mean") for who in ("direct", "default")),
]  # fmt: skip


def unit_of(sample):
    return UNITS[sample.split(".", 1)[1]]


def is_time(sample):
    return unit_of(sample) == "us"


def is_steady(probe):
    return max(probe) <= STEADY_MAX * min(probe)


def values(samples, name, key="value"):
    return [sample[key] for sample in samples.get(name, []) if key in sample]


def median(samples, name, key="value"):
    """None: no sample has it."""
    found = values(samples, name, key)
    return statistics.median(found) if found else None


def why_missing(samples, names):
    reasons = [f"{name}: {sample['error']}" for name in names for sample in samples.get(name, [])
               if "error" in sample]  # fmt: skip
    return reasons[0] if reasons else "not measured"


def peers_of(peer):
    """The names of the samples that a claim compares with."""
    return (peer,) if isinstance(peer, str) else tuple(peer or ())


def add_claims(report, samples, wanted):
    """All claims whose samples are among the wanted ones."""
    for claim, ours, peer, least in CLAIMS:
        peers = peers_of(peer)
        names = [ours, *peers]
        if not wanted.issuperset(names):
            continue
        what = f"{ours}, compared with {' or '.join(peers)}" if peers else ours
        unit = "x" if peers else unit_of(ours)
        found = [median(samples, name) for name in names]
        if None in found:
            report.missing(claim, what, least, unit, why_missing(samples, names))
        elif peers:
            report.figure(claim, what, least, found[0] / best_of(samples, peers, "value")[0], unit)
        else:
            report.figure(claim, what, least, found[0], unit)


def best_of(samples, names, key):
    """(median, name) of the fastest of those that were measured, or None."""
    found = [(median(samples, name, key), name) for name in names if values(samples, name, key)]
    if not found:
        return None
    return min(found) if is_time(found[0][1]) else max(found)


def ratios(samples):
    """{what: (ratio, the peer)} beside the claims."""
    found = {}
    for what, ours, peers, key in RATIOS:
        mine, best = median(samples, ours, key), best_of(samples, peers, key)
        if mine is not None and best is not None:
            found[what] = (mine / best[0], best[1])
    return found


def number(value):
    """Three digits, or all of those before the point."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def text_of(name, sample):
    """A sample in the log."""
    if "error" in sample:
        return sample["error"]
    parts = [f"{number(sample['value'])} {unit_of(name)}"]
    parts += [f"{key} {number(sample[key])}" for key in BESIDE if key in sample]
    return ", ".join(parts) + ("" if sample.get("steady", True) else ", unsteady")


def table(samples):
    """Lines: a sample each. `unsteady` counts those that are marked."""
    beside = "".join(f"{key.replace('_', '.'):>8}" for key in BESIDE)
    yield f"{'sample':<28}{'median':>10}{'least':>10}{'most':>10}  {'unit':<7}{beside}  unsteady"
    for name in sorted(samples):
        found = values(samples, name)
        if not found:
            yield f"{name:<28}{'failed':>10}  {why_missing(samples, [name])}"
            continue
        row = "".join(f"{number(value):>10}"
                      for value in (statistics.median(found), min(found), max(found)))  # fmt: skip
        middles = [median(samples, name, key) for key in BESIDE]
        beside = "".join(f"{'' if middle is None else number(middle):>8}" for middle in middles)
        moved = sum(not steady for steady in values(samples, name, "steady"))
        marks = f"{moved} of {len(samples[name])}" if moved else ""
        yield f"{name:<28}{row}  {unit_of(name):<7}{beside}  {marks}".rstrip()


def verdicts(report, samples):
    """Lines: a claim each, then the ratios beside them."""
    for claim in report.claims:
        unit = claim["unit"] if claim["unit"] == "x" else f" {claim['unit']}"
        if claim["value"] is None:
            yield f"{claim['id']:<40}  not measured: {claim['reason']}"
            continue
        verdict = "met" if claim["ok"] else "MISSED"
        value = f"{number(claim['value'])}{unit}"
        yield f"{claim['id']:<40}{value:>14}  {claim['target']:<8} {verdict}"
    for what, (ratio, peer) in ratios(samples).items():
        yield f"{what:<40}{f'{number(ratio)}x':>14}  ({peer})"
