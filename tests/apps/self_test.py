"""What the programs of other packages print is read as it is, and wrong data is told from right."""

import os
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / name) for name in ("tests/harness", "tests/integration", "tests/apps")]

import counted  # noqa: E402
import fio  # noqa: E402
import iser  # noqa: E402
import qemu  # noqa: E402
import qperf  # noqa: E402
import ucx  # noqa: E402
from hosts import Failure  # noqa: E402

UCX = """protocol.batch,iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr
tag_lat_8, 200,137.158,260.900,260.900,0.03,0.03,3833,3833
[1795410145.003659] [vm:16768:0]         libperf.c:511  UCX  ERROR rc_verbs/mprdma0:1 does not do
[1795410145.006090] [vm:16768:0]    perftest_run.c:334  UCX  ERROR Failed to run test: Unsupported
get_64k, 100,89.871,175.431,175.431,356.27,356.27,5700,5700
mprdma: payload_bytes_out 856
"""
QPERF = """rc_lat:
    latency  =  91.9 us
ver_rc_fetch_add:
    msg_rate  =  2.59 K/sec
rc_bw:
failed to receive RDMA CM TCP IPv4 server port: timed out
"""
ISCSI = """
    [SKIPPED] Logical unit is fully provisioned. Skipping test
Run Summary:    Type  Total    Ran Passed Failed Inactive
              suites      1      1    n/a      0        0
               tests      2      2      1      1        0
             asserts    512    512    511      1      n/a
"""


class OutputsTest(unittest.TestCase):
    def test_ucx(self):
        self.assertEqual(ucx.parse(UCX, "protocol.batch"), {"tag_lat_8": 200, "get_64k": 100})
        self.assertIn("does not do; Failed to run test", ucx.errors(UCX))

    def test_qperf(self):
        self.assertEqual(
            qperf.parse(QPERF),
            {"rc_lat": ("latency", 91.9, "us"), "ver_rc_fetch_add": ("msg_rate", 2.59, "K/sec")},
        )

    def test_iscsi_skipped_is_not_run(self):
        self.assertEqual(iser.parse(ISCSI), (1, 1))
        self.assertEqual(iser.parse("Login Failed."), (0, 0))

    def test_counters_of_all_processes(self):
        two = UCX + UCX.replace("856", "90")
        counted.expect_sent([two], 2, 90)
        with self.assertRaises(Failure):
            counted.expect_sent([two], 2, 91)
        with self.assertRaises(Failure):
            counted.expect_sent(["nothing"], 1, 0)


class ContentsTest(unittest.TestCase):
    def test_fio_buffers(self):
        originals = os.urandom(fio.DEPTH * fio.BLOCK)
        copies = originals[fio.BLOCK :] + originals[-fio.BLOCK :]
        fio.expect_copied(copies, originals)
        with self.assertRaises(Failure):
            fio.expect_copied(copies[:-1] + bytes([copies[-1] ^ 1]), originals)
        with self.assertRaises(Failure):
            fio.expect_copied(bytes(len(originals)), bytes(len(originals)))

    def test_disk(self):
        before = bytes(512 * 256)
        iser.expect_written(b"A" * (512 * 255) + before[: 512], before)
        with self.assertRaises(Failure):
            iser.expect_written(b"A" * (512 * 254) + before[: 1024], before)

    def test_guest(self):
        self.assertEqual(len(qemu.boot_sector()), 512)
        pages = qemu.expected_pages(130)
        self.assertEqual((pages[0], pages[1], pages[2], pages[3], pages[63]),
                         (128, 129, 130, 67, 127))  # fmt: skip


if __name__ == "__main__":
    unittest.main()
