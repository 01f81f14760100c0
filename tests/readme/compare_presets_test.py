"""scripts/compare-presets judges what it measured: claims, table, file, exit code."""

import pathlib
import sys
import unittest
from unittest import mock

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts/lib"), str(ROOT / "tests/harness")]

import compare_presets  # noqa: E402
from hosts import Failure  # noqa: E402
from judged import run_main  # noqa: E402
from processors import Use  # noqa: E402

USE = Use(2, own=0.97, others=0.01, stolen=0.0, wanted=2.6)
# Of each sample, without loss and with it. The ratios of all claims are well met.
MEASURED = {
    "mp": {"goodput": (3.6, 3.2), "small": (20, 21), "rpc": (150, 152)},
    "mp-single": {"goodput": (0.9, 0.8), "small": (20, 21), "rpc": (150, 160)},
    "irn": {"goodput": (0.93, 0.9), "small": (20, 21), "rpc": (150, 150)},
    "roce": {"goodput": (0.93, 0.3), "small": (20, 40), "rpc": (150, 1500)},
}


def a_round(**changes):
    """{(preset, lossy, sample): (value, use)}; `changes`: irn_goodput=(clean, lossy)."""
    found = {}
    for preset, samples in MEASURED.items():
        for name, values in samples.items():
            for lossy, value in enumerate(changes.get(f"{preset}_{name}", values)):
                found[preset, bool(lossy), name] = (value, USE)
    return found


class ComparePresetsTest(unittest.TestCase):
    """Its exit code, its words and its file."""

    def compare(self, rounds, *options):
        """(exit code, what it printed, its report) of a run that measured this."""
        run_round = mock.Mock(side_effect=rounds)
        return run_main(compare_presets, options, run_round=run_round, FabricWire=mock.MagicMock())

    def claims(self, report):
        return {claim["id"]: claim for claim in report["claims"]}

    def test_every_claim_is_met_by_such_values(self):
        code, said, report = self.compare([a_round()])
        claims = self.claims(report)
        self.assertEqual(code, 0)
        self.assertEqual(set(claims), {name for name, *_ in compare_presets.CLAIMS})
        self.assertTrue(all(claim["ok"] for claim in claims.values()), claims)
        self.assertEqual(claims["compare.irn-roce"]["value"], 3)
        self.assertNotIn("MISSED", said)
        self.assertEqual(report["series"]["irn.loss.goodput"]["values"], [0.9])
        for preset in compare_presets.PRESETS:
            self.assertIn(preset, said)

    def test_a_miss_is_printed_with_a_reason_and_is_no_failure(self):
        for sample, missed in (({"irn_goodput": (0.93, 0.5)}, "compare.irn-clean"),
                               ({"roce_goodput": (0.93, 0.6)}, "compare.irn-roce"),
                               ({"mp_goodput": (3.6, 2.0)}, "compare.mp-irn"),
                               ({"roce_rpc": (150, 140)}, "compare.rpc-irn"),
                               ({"mp_rpc": (150, 190)}, "compare.rpc-mp")):  # fmt: skip
            code, said, report = self.compare([a_round(**sample)])
            self.assertEqual(code, 0, missed)
            self.assertIn(f"MISSED {missed}", said)
            self.assertIn("processors", self.claims(report)[missed]["reason"])

    def test_the_median_of_the_rounds_counts(self):
        slow = a_round(mp_goodput=(3.6, 1.0))
        _, said, report = self.compare([slow, a_round(), a_round()], "--runs", "3")
        self.assertNotIn("MISSED", said)
        self.assertEqual(report["series"]["mp.loss.goodput"]["values"], [1.0, 3.2, 3.2])

    def test_a_failure_leaves_claims_without_values(self):
        code, said, report = self.compare([Failure("roce: no answer")])
        self.assertIn("roce: no answer", str(code))
        self.assertTrue(all(claim["value"] is None for claim in report["claims"]))

    def test_a_loss_that_is_none_is_refused(self):
        code, said, _ = self.compare([], "--loss", "100")
        self.assertEqual(code, 2)
        self.assertIn("below 100", said)


if __name__ == "__main__":
    unittest.main()
