"""That the reports of the patched perftest are read as they are printed."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/harness"), str(ROOT / "tests/perftest")]

import like_upstream  # noqa: E402
import patched_perftest  # noqa: E402
import perftest  # noqa: E402
import series  # noqa: E402
from hosts import Failure  # noqa: E402

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


if __name__ == "__main__":
    unittest.main()
