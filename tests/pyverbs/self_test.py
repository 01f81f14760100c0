"""That run.py can fail: a suite of tests that hang, crash, fail and skip."""

import os
import pathlib
import sys
import tempfile
import textwrap
import unittest

sys.dont_write_bytecode = True

import sanitizer  # noqa: E402
import suite  # noqa: E402
from skips import MOST, Skips  # noqa: E402

PARSER = """
    class parser:
        @staticmethod
        def parse_args():
            pass
"""
TESTS = """
    import os, time, unittest

    class First(unittest.TestCase):
        def test_1_passes(self):
            pass
        def test_2_hangs_with_a_child(self):
            os.fork()
            time.sleep(1000)
        def test_3_crashes(self):
            os.abort()
        def test_4_fails(self):
            os.write(2, b"a word of its fork")
            self.fail("because")
        def test_5_skips(self):
            self.skipTest("not supported")
        def test_6_finds_a_variable(self):
            self.assertEqual(os.environ["GIVEN"], "yes")

    class Second(unittest.TestCase):
        def tearDown(self):
            self.fail("cleaning up")
        def test_skips_and_fails(self):
            self.skipTest("not supported")

    class Fourth(unittest.TestCase):
        def test_crashes_in_a_fork(self):
            pid = os.fork()
            if pid == 0:
                os.abort()
            os.waitpid(pid, 0)

    class Third(unittest.TestCase):
        def test_breaks_the_end(self):
            import atexit
            atexit.register(os.abort)
"""


class RunnerTest(unittest.TestCase):
    """What the runner makes of each end that a test can come to."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as directory:
            directory = pathlib.Path(directory)
            source = directory / "source"
            source.mkdir()
            (source / "args_parser.py").write_text(textwrap.dedent(PARSER))
            (source / "test_it.py").write_text(textwrap.dedent(TESTS))
            runner = suite.Runner(dict(os.environ), directory, 2, 1, source)
            cls.names = runner.names()
            groups = suite.by_class(cls.names)
            cls.results = [result for group in groups for result in runner.run(group, GIVEN="yes")]

    def of(self, name):
        (result,) = [result for result in self.results if result.test.endswith(name)]
        return result

    def test_every_test_has_one_result(self):
        found = {result.test for result in self.results}
        extra = {"test_it.Third (exit)", "test_it.Fourth (fork)"}
        self.assertEqual(found, {*self.names, *extra})
        self.assertEqual(len(found), len(self.results))

    def test_good_ends(self):
        for name in ("passes", "6_finds_a_variable"):
            self.assertEqual(self.of(name).outcome, "passed")
        self.assertEqual(self.of("5_skips").outcome, "skipped")

    def test_a_hang_is_named(self):
        result = self.of("hangs_with_a_child")
        self.assertEqual(result.outcome, "failed")
        self.assertIn("hangs", result.why)

    def test_a_crash_is_named(self):
        for name in ("3_crashes", "(exit)"):
            self.assertEqual(self.of(name).outcome, "failed")
            self.assertIn("SIGABRT", self.of(name).why)
        self.assertEqual(self.of("Fourth.test_crashes_in_a_fork").outcome, "passed")
        self.assertEqual(self.of("(fork)").outcome, "failed")

    def test_failures(self):
        self.assertIn("because", self.of("4_fails").why)
        self.assertIn("a word of its fork", self.of("4_fails").why)
        self.assertEqual(self.of("4_fails").outcome, "failed")
        self.assertEqual(self.of("skips_and_fails").outcome, "failed")


class SanitizerTest(unittest.TestCase):
    """Whose leaks count."""

    def test_only_ours(self):
        theirs = "Direct leak\n#1 f (/usr/lib/pyverbs/providers/mlx5.so)"
        ours = "Direct leak\n#1 f (../../providers/mprdma/pd.c:1)"
        with tempfile.TemporaryDirectory() as directory:
            directory = pathlib.Path(directory)
            (directory / "report.1").write_text(f"{theirs}\n\n{ours}\n\n{theirs}\n")
            reports = sanitizer.Reports(directory)
            self.assertEqual(reports.take(), ours)
            self.assertEqual(reports.take(), "")


class SkipsTest(unittest.TestCase):
    """Who may skip."""

    def setUp(self):
        self.skips = Skips([{"reason": "r", "says": "not supported", "tests": ["a", "b"]}])

    def judged(self, test, outcome, why=""):
        return self.skips.judge(suite.Result(test, outcome, why)).outcome

    def test_only_what_is_listed_and_for_its_reason(self):
        self.assertEqual(self.judged("a", "skipped", "X is not supported"), "skipped")
        self.assertEqual(self.judged("a", "skipped", "no device"), "failed")
        self.assertEqual(self.judged("c", "skipped", "X is not supported"), "failed")

    def test_what_is_listed_must_skip(self):
        self.assertEqual(self.judged("a", "passed"), "failed")
        self.assertEqual(self.judged("c", "passed"), "passed")

    def test_the_list_is_checked(self):
        self.assertEqual(list(self.skips.check(["a", "b", "c"])), [])
        self.assertEqual(len(list(self.skips.check(["a"]))), 1)
        many = [str(i) for i in range(MOST + 1)]
        group = {"reason": "r", "says": "s", "tests": many}
        self.assertEqual(len(list(Skips([group]).check(many))), 1)


if __name__ == "__main__":
    unittest.main()
