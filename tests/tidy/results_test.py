#!/usr/bin/env python3
"""scripts/test may not report a failure as a success: how it counts what meson wrote down."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))
import results  # noqa: E402

JUNIT = """<testsuites>
<testsuite name="mprdma.mprdma:unit / unit_a.Suite/0">
  <testcase name="good" classname="Suite/0" status="run"/>
  <testcase name="bad" classname="Suite/0" status="run"><failure message="x"/></testcase>
  <testcase name="left_out" classname="Suite/0" status="run"><skipped/></testcase>
  <testcase name="DISABLED_one" classname="Suite/0" status="notrun"/>
</testsuite>
<testsuite name="mprdma.mprdma:unit / unit_b.Other">
  <testcase name="good" classname="Other" status="run"/>
</testsuite>
<testsuite name="mprdma.mprdma:x / tap">
  <testcase name="1 - good" classname="mprdma.mprdma:x / tap"/>
  <testcase name="2 - bad" classname="mprdma.mprdma:x / tap"><failure/></testcase>
  <testcase name="3 - not here" classname="mprdma.mprdma:x / tap"><skipped/></testcase>
</testsuite>
<testsuite name="mprdma"><testcase name="script" classname="script"/></testsuite>
</testsuites>"""

PRINTED = """[ RUN      ] Suite/0.good
[ RUN      ] Suite/0.bad
file.cpp:3: Failure
ok 1 - good
not ok 2 - bad
# 0.1 s
# nothing moved
"""


class Counting(unittest.TestCase):
    def count(self, junit, *tests):
        with tempfile.TemporaryDirectory() as scratch:
            log = pathlib.Path(scratch) / "testlog.json"
            lines = [
                json.dumps({"name": name, "result": result, "returncode": code, "stdout": PRINTED})
                for name, result, code in tests
            ]
            log.write_text("\n".join(lines))
            if junit:
                log.with_name("testlog.junit.xml").write_text(junit)
            tally = results.Tally()
            results.read_meson_results(log, tally)
            return tally

    def test_each_case_of_a_gtest_program_counts(self):
        tally = self.count(JUNIT, ("mprdma:unit / unit_a", "FAIL", 1))
        self.assertEqual((tally.passed, tally.skipped), (1, 2))
        self.assertEqual(tally.failed, ["unit_a: Suite/0.bad"])
        self.assertEqual(tally.reasons[tally.failed[0]][0], "file.cpp:3: Failure")

    def test_each_case_of_a_tap_program_counts(self):
        tally = self.count(JUNIT, ("mprdma:x / tap", "ERROR", 1))
        self.assertEqual((tally.passed, tally.skipped), (1, 1))
        self.assertEqual(tally.failed, ["tap: 2 - bad"])
        self.assertEqual(tally.reasons["tap: 2 - bad"], ["0.1 s", "nothing moved"])

    def test_program_that_fails_after_its_cases_passed_is_a_failure(self):
        tally = self.count(JUNIT, ("mprdma:unit / unit_b", "FAIL", 66))
        self.assertEqual(tally.passed, 1)
        self.assertEqual(len(tally.failed), 1)

    def test_crash_timeout_and_unexpected_pass_are_failures(self):
        for result in ("FAIL", "ERROR", "TIMEOUT", "UNEXPECTEDPASS", "INTERRUPT"):
            self.assertEqual(len(self.count("", ("mprdma:x / y", result, -11)).failed), 1, result)

    def test_plain_tests_count_once_and_skips_are_no_passes(self):
        tally = self.count(JUNIT, ("mprdma:x / script", "OK", 0), ("mprdma:x / other", "SKIP", 77))
        self.assertEqual((tally.passed, tally.skipped, tally.failed), (1, 1, []))


if __name__ == "__main__":
    sys.exit(unittest.main())
