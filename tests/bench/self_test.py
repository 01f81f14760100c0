"""bench/peers reads what its programs print, claims what it is to claim, and says what is missing.

No figure of this machine is looked at.
"""

import pathlib
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from unittest import mock

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / name) for name in ("tests/harness", "tests/integration", "bench")]

import outputs  # noqa: E402
import peers_claims  # noqa: E402
import peers_ethdev  # noqa: E402
import peers_libfabric  # noqa: E402
import peers_mprdma  # noqa: E402
import peers_single  # noqa: E402
import peers_tcp  # noqa: E402
import peers_ucx  # noqa: E402
import perftest  # noqa: E402
from hosts import Failure  # noqa: E402
from report import Report  # noqa: E402

peers = SourceFileLoader("peers", str(ROOT / "bench/peers")).load_module()
stages = SourceFileLoader("stages", str(ROOT / "bench/stages")).load_module()

EACH = (
    "goodput_vs_limit", "goodput_vs_ucx_shm", "goodput_vs_tcp", "rate_vs_ucx_shm", "rate_vs_tcp",
    "send_latency_vs_ucx_shm", "write_latency_vs_ucx_shm", "silent_reader_vs_tcp", "qps_10000",
    "busy_goodput_vs_tcp", "busy_latency_vs_tcp", "busy_write_latency_vs_tcp",
    "one_core_goodput_vs_tcp", "one_core_latency_vs_tcp",
)  # fmt: skip
PROMISED = {
    *(f"perf.{who}.{claim}" for who in ("direct", "default") for claim in EACH),
    "perf.default.5_pairs_latency_vs_tcp", "perf.default.20_pairs_latency_vs_tcp",
    "perf.default_vs_direct.goodput", "perf.default_vs_direct.rate",
    "perf.default_vs_direct.latency", "perf.mp_vs_single", "perf.virtio_vs_testpmd",
    "perf.veth_vs_iperf3", "perf.icrc_gb_per_s", "perf.instructions_4k", "perf.instructions_64",
}  # fmt: skip
KNOWN = {*peers.SAMPLES, *peers.BARE}


def of_all(value, **more):
    return {name: [{"value": value, **more}] for name in KNOWN}


class OutputsTest(unittest.TestCase):
    """Recorded outputs."""

    def test_words_behind_a_row(self):
        for words in ("libxdp: No bpffs found", "Correlation coefficient r^2: 0.5 < 0.9"):
            rows = perftest.parse(outputs.IB_SEND_LAT.replace("336.69 \n", f"336.69{words}\n"))
            self.assertEqual([row.timed for row in rows], [words.startswith("lib")])
            self.assertEqual(peers_mprdma.read_row("send_latency", rows[0])["p99_9"], 336.69)

    def test_perftest(self):
        rows = perftest.parse(outputs.IB_SEND_LAT)
        self.assertEqual(peers_mprdma.read_row("send_latency", rows[-1]),
                         {"value": 49.18, "mean": 80.62, "p99": 283.45, "p99_9": 336.69})

    def test_programs_of_ours(self):
        self.assertEqual(peers_mprdma.read_silent(outputs.SILENT_READER),
                         {"value": 90.206, "p99": 3277.155, "p99_9": 6257.132, "mean": 220.771})
        self.assertEqual(peers_mprdma.read_many_qps(outputs.MANY_QPS), {"value": 0.1387})

    def test_ucx_latency_is_three_runs(self):
        self.assertEqual(peers_ucx.sample_of("latency", outputs.UCX_LATENCY, 100000),
                         {"value": 0.135, "p99": 0.181, "p99_9": 18.817, "mean": 8.529})
        lines = peers_ucx.batch("tag_lat", 8, 100000, latency=True).splitlines()
        self.assertEqual(lines[1], "p99 -t tag_lat -s 8 -n 100000 -R 99")

    def test_ucx_amounts(self):
        whole = peers_ucx.sample_of("goodput", outputs.UCX_BANDWIDTH, 30000)["value"]
        self.assertAlmostEqual(whole, 3367.35 * 2**20 * 8 / 1e9)
        self.assertEqual(peers_ucx.sample_of("rate", outputs.UCX_BANDWIDTH, 30000),
                         {"value": 0.053878})

    def test_libfabric(self):
        self.assertEqual(peers_libfabric.sample_of("latency", outputs.FI_PINGPONG),
                         {"value": 7.36, "mean": 7.36})
        self.assertAlmostEqual(
            peers_libfabric.sample_of("pingpong", outputs.FI_PINGPONG)["value"], 71.24808)

    def test_tcp(self):
        self.assertEqual(peers_tcp.read_iperf3(outputs.IPERF3), 11600000000.5)
        self.assertEqual(peers_tcp.read_sockperf(outputs.SOCKPERF),
                         {"value": 6.38, "p99": 29.8, "p99_9": 41.7, "mean": 6.91})

    def test_testpmd(self):
        """A second without frames is before the first or after the last."""
        self.assertEqual(peers_ethdev.read_testpmd(outputs.TESTPMD), [2209943, 2290340])

    def test_icrc(self):
        self.assertEqual(peers_single.read_icrc(outputs.ICRC_SPEED), {"value": 24.81})

    def test_nothing_is_no_result(self):
        for read in (peers_mprdma.read_silent, peers_mprdma.read_many_qps, peers_tcp.read_iperf3,
                     peers_tcp.read_sockperf, peers_libfabric.read,
                     lambda text: peers_ucx.sample_of("rate", text, 1)):  # fmt: skip
            with self.assertRaises(Failure):
                read("")


class ClaimsTest(unittest.TestCase):
    """All that was promised, of samples that exist."""

    def claims(self, samples, wanted=None):
        report = Report("bench/peers", {})
        peers_claims.add_claims(report, samples, set(samples) if wanted is None else wanted)
        return report, {claim["id"]: claim for claim in report.claims}

    def test_complete(self):
        _, claims = self.claims(of_all(1.0))
        self.assertEqual(PROMISED - set(claims), set())
        self.assertEqual(len(claims), len(peers_claims.CLAIMS))

    def test_samples_exist(self):
        named = {name for _, ours, peer, _ in peers_claims.CLAIMS
                 for name in (ours, *peers_claims.peers_of(peer))}
        named |= {name for _, ours, others, _ in peers_claims.RATIOS for name in (ours, *others)}
        self.assertEqual(named - KNOWN, set())
        for name in KNOWN:
            self.assertIn(name.split(".", 1)[1], peers_claims.UNITS)

    def test_value(self):
        samples = of_all(2.0)
        samples["tcp.rate"] = [{"value": 1.0}, {"value": 4.0}, {"value": 8.0}]
        _, claims = self.claims(samples)
        self.assertEqual(claims["perf.direct.rate_vs_tcp"]["value"], 0.5)
        self.assertFalse(claims["perf.direct.rate_vs_tcp"]["met"])
        self.assertEqual(claims["perf.instructions_64"]["value"], 2.0)

    def test_failed_sample_has_a_reason(self):
        samples = of_all(1.0)
        samples["veth.goodput"] = [{"error": "network namespaces need root"}]
        report, claims = self.claims(samples)
        claim = claims["perf.veth_vs_iperf3"]
        self.assertEqual((claim["value"], claim["ok"]), (None, False))
        self.assertEqual(claim["reason"], "veth.goodput: network namespaces need root")
        said = "\n".join([*peers_claims.table(samples), *peers_claims.verdicts(report, samples)])
        self.assertIn("need root", said)

    def test_fastest_of_several(self):
        samples = of_all(1.0)
        samples["tcp_busy_waits.latency"] = [{"value": 0.5}]
        _, claims = self.claims(samples)
        self.assertEqual(claims["perf.direct.busy_latency_vs_tcp"]["value"], 2.0)

    def test_others_are_left_out(self):
        samples = {"icrc.speed": [{"value": 25.0}]}
        _, claims = self.claims(samples)
        self.assertEqual(list(claims), ["perf.icrc_gb_per_s"])

    def test_fastest_of_ucx(self):
        samples = of_all(1.0)
        samples["ucx_am.rate"] = [{"value": 4.0}]
        samples["uct_am.latency"] = [{"value": 0.5}]
        found = peers_claims.ratios(samples)
        self.assertEqual(found["direct.rate / UCX's fastest"], (0.25, "ucx_am.rate"))
        self.assertEqual(found["direct.send_latency / UCX's fastest"], (2.0, "uct_am.latency"))


class RoundsTest(unittest.TestCase):
    """The run around the samples."""

    def measure(self, sample, latencies, rounds=1, names=("direct.rate",)):
        probes = [{"goodput": 1.0, "rate": 1.0, "latency": latency} for latency in latencies]
        with mock.patch.dict(peers.SAMPLES, {name: sample for name in names}), \
                mock.patch.object(peers.peers_single, "probe", side_effect=probes), \
                mock.patch.object(peers.sys, "stderr"):
            return peers.measure(pathlib.Path(), rounds, names, 7)

    def test_moved_processors_are_marked(self):
        for after, steady in ((0.29, True), (0.31, False), (0.1, False)):
            samples = self.measure(lambda _: {"value": 1.0}, [0.2, after])
            taken = samples["direct.rate"][0]
            self.assertEqual((taken["probe"], taken["steady"]), ([0.2, after], steady))
            row = next(line for line in peers_claims.table(samples) if "direct.rate" in line)
            self.assertEqual(row.endswith("1 of 1"), not steady)

    def test_failure_goes_on(self):
        def fails(_):
            raise Failure("no such thing")

        samples = self.measure(fails, [1.0] * 3, rounds=1, names=("direct.rate", "ucx.rate"))
        self.assertEqual(samples["ucx.rate"][0]["error"], "no such thing")

    def test_exact_counts_are_taken_once(self):
        name = "packet_cost.instructions_64"
        samples = self.measure(lambda _: {"value": 1.0}, [1.0] * 4, 2, (name,))
        self.assertEqual(len(samples[name]), 1)

    def test_set_up(self):
        with mock.patch.object(peers.subprocess, "run") as run, \
                mock.patch.object(peers.shutil, "which", return_value="there"):
            run.return_value.returncode = 0
            with mock.patch.dict(peers.os.environ, {"MPRDMA_SETUP": "skip"}):
                peers.set_up()
                run.assert_not_called()
            with mock.patch.dict(peers.os.environ, {"MPRDMA_SETUP": ""}):
                peers.set_up()
            self.assertEqual(run.call_args.args[0][1:], ["--bench"])

    def test_report(self):
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "peers.json"
            arguments = mock.Mock(rounds=1, seed=7)
            peers.report_of(arguments, "release", of_all(1.0)).write(file)
            self.assertIn('"direct.rate / UCX\'s fastest"', file.read_text())


class StagesTest(unittest.TestCase):
    """bench/stages puts the stamps of two processes together."""

    def test_message_by_message(self):
        stamps = [
            (10, "2", "taken"),  # of a message whose post is not known
            (100, "1", "posted"), (110, "1", "sent"), (300, "2", "taken"), (310, "1", "sent"),
            (500, "2", "posted"), (540, "2", "sent"), (800, "1", "taken"),
            (900, "1", "posted"),
            (950, "1", "posted"),  # by the same side: no answer
            (1000, "2", "posted"),
        ]  # fmt: skip
        number, rows = stages.medians(stages.messages(stamps))
        self.assertEqual(number, 3)
        self.assertEqual(rows, [
            ("sender", "sent", 0.025, 2 / 3),  # 10 and 40 ns, the first time of each
            ("receiver", "taken", 0.25, 2 / 3), ("receiver", "answers", 0.4, 1.0),
        ])  # fmt: skip

    def test_no_stamps(self):
        with tempfile.TemporaryDirectory() as directory, self.assertRaisesRegex(Failure, "stages"):
            stages.read(pathlib.Path(directory))


if __name__ == "__main__":
    unittest.main()
