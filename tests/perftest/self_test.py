"""That the reports of the patched perftest are read as they are printed, and become figures."""

import importlib.machinery
import importlib.util
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/harness"), str(ROOT / "tests/perftest")]

import like_upstream  # noqa: E402
import patched_perftest  # noqa: E402
import perftest  # noqa: E402
import series  # noqa: E402
from hosts import Failure  # noqa: E402
from report import Report  # noqa: E402

OUTPUT = """\
 #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
 32768      4000             701.78             667.54 \t\t     0.021361
           #messages   elapsed[sec]   CPU[sec]   MsgRate[Mpps]   MsgRate by CPU time[Mpps]
 receiver  4000        0.187265       0.150000   0.021360        0.026667
---------------------------------------------------------------------------------------
 Synchronise flag: on 1200 of 4000 messages
 QPN       stream     mode       paths   window[pkt]  SRTT[usec]   packets    again      ...
 0xfbbb0d  requests   mp-paper   2       5.6          43.0         16000      3          0      \
    0        0        12
 0xfbbb0d  responses  mp-paper   1       54.0         0.0          7          0          1      \
    0        0        0
 0xfbbb0d  bytes sent 65536000, again 12288, received 9
"""


class ReportsTest(unittest.TestCase):
    def test_rates(self):
        rates = patched_perftest.rates(OUTPUT)
        self.assertEqual(("receiver", 4000, 0.15), (rates["end"], rates["messages"],
                                                    rates["cpu_s"]))  # fmt: skip

    def test_the_rates_are_no_row_of_results(self):
        self.assertEqual([32768], [row.bytes for row in perftest.parse(OUTPUT)])

    def test_marked(self):
        self.assertEqual((1200, 4000), patched_perftest.marked(OUTPUT))

    def test_paths(self):
        requests, responses = patched_perftest.paths(OUTPUT)
        self.assertEqual(("mp-paper", 2, 5.6, 16000, 3, 12), tuple(
            requests[key] for key in ("mode", "paths", "window", "packets", "again", "probes")
        ))  # fmt: skip
        self.assertEqual((65536000, 12288, 9), tuple(
            responses[key] for key in ("sent", "sent_again", "received")
        ))  # fmt: skip

    def test_nothing_reported(self):
        for read in (patched_perftest.rates, patched_perftest.marked, patched_perftest.paths):
            self.assertRaises(Failure, read, "nothing\n")


class CasesTest(unittest.TestCase):
    def test_the_shape_of_a_run_has_no_figures(self):
        one, other = (" QPN 0x12 rate 1.5 at 10:73\n", " QPN 0xab  rate 22 at 9:1\n")
        self.assertEqual(like_upstream.shape(one), like_upstream.shape(other))
        self.assertNotEqual(like_upstream.shape(one), like_upstream.shape("QPN 0x1 speed 1\n"))

    def test_the_series_is_spoilt_where_it_is_meant_to_be(self):
        text = (series.PATCHES / series.listed()[1]).read_text()
        for change in (series.other_context, series.other_line):
            changed = [a for a, b in zip(text.splitlines(), change(text).splitlines()) if a != b]
            self.assertEqual(1, len(changed))


def benchmark(name):
    """A program of bench/, which has no suffix, as a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / "bench" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def claims(report):
    return {claim["id"]: claim["value"] for claim in report.claims}


class FiguresTest(unittest.TestCase):
    def test_figure9(self):
        figure9 = benchmark("figure9")
        sample = {"mprdma": 1.0, "sender": 2.0, "receiver": 3.0, "bare": 4.0}
        samples = {512: [sample, {**sample, "bare": 2.0}, {**sample, "bare": 8.0}],
                   1024: [{**sample, "mprdma": 3.0}], 4096: [sample]}  # fmt: skip
        report = Report("test", {})
        figure9.add_claims(report, samples)
        self.assertEqual(
            {"mp.9.rate_512": 0.25, "mp.9.rate_1024": 0.75, "mp.9.rate_4096": 0.25,
             "mp.9.line_rate": 0.25, "mp.9.receiver_vs_sender": 1.5}, claims(report),
        )  # fmt: skip
        self.assertTrue(report.good)  # a figure that is missed is no failure
        self.draw(figure9, figure9.picture(samples, 3))

    def test_figure19(self):
        figure19 = benchmark("figure19")
        samples = {(size, policy, share): [10.0, 10.0 - share / 20]
                   for size in figure19.SIZES for policy in figure19.POLICIES
                   for share in figure19.SHARES}  # fmt: skip
        report = Report("test", {})
        figure19.add_claims(report, samples)
        self.assertEqual(0.75, claims(report)["mp.19.dataplane_512K"])
        self.assertEqual(0.9, claims(report)["mp.19.dataplane_32K_40"])
        self.assertEqual(1, claims(report)["mp.19.dataplane_stop_and_wait_32K"])
        self.draw(figure19, figure19.picture(samples, 2, "direct"))

    def draw(self, module, picture):
        if shutil.which("gnuplot") is None:
            self.skipTest("there is no gnuplot")
        with tempfile.TemporaryDirectory() as directory:
            base = pathlib.Path(directory) / "figure"
            self.assertIsNone(module.figure_plot.draw(picture, base))
            self.assertIn("<path", base.with_suffix(".svg").read_text())
            points = sum(len(c) for panel in picture.panels for c in panel.curves.values())
            self.assertEqual(points + 1, len(base.with_suffix(".csv").read_text().splitlines()))


if __name__ == "__main__":
    unittest.main()
