"""Runs tests of rdma-core's suite in this process and reports each as a line of JSON.

usage: child.py SUITE FD SEED TEST... ; TEST is module.Class.method, "list" instead prints all of
them. SUITE is a directory with the package `tests` in it; the tests draw sizes and numbers: each
starts from SEED and its own name. run.py starts this with the device set up.
"""

import faulthandler
import importlib
import json
import os
import pathlib
import random
import sys
import time
import unittest


class Reporter(unittest.TestResult):
    """Says what happens, when it happens: after a crash or a hang that is all there is."""

    def __init__(self, fd, seed):
        super().__init__()
        self._fd = fd
        self._seed = seed
        self._start = 0.0

    def say(self, **what):
        os.write(self._fd, (json.dumps(what) + "\n").encode())

    def startTest(self, test):
        super().startTest(test)
        random.seed(f"{self._seed} {short_id(test)}")
        self._start = time.monotonic()
        self.say(event="start", test=short_id(test))

    def stopTest(self, test):
        super().stopTest(test)
        self.say(event="stop", seconds=time.monotonic() - self._start)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.say(event="passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say(event="skipped", why=reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say(event="failed", why=self._exc_info_to_string(err, test))

    def addError(self, test, err):
        super().addError(test, err)
        self.say(event="failed", why=self._exc_info_to_string(err, test))


def short_id(test):
    """The suite's package is called tests: leave that out."""
    return test.id().removeprefix("tests.")


def prepare(suite):
    """Makes the suite importable; its parser of the command line has to have run."""
    sys.path[0:0] = [str(suite), str(suite / "tests")]
    sys.argv[1:] = []
    importlib.import_module("args_parser").parser.parse_args()
    importlib.import_module("dmabuf_mend").apply()


def all_tests(suite):
    loader = unittest.TestLoader()
    for path in sorted((suite / "tests").glob("test_*.py")):
        module = importlib.import_module(f"tests.{path.stem}")
        for test_class in loader.loadTestsFromModule(module):
            yield from test_class


def main():
    suite, fd, seed, *names = sys.argv[1:]
    suite, reporter = pathlib.Path(suite), Reporter(int(fd), seed)
    faulthandler.enable()  # a process that a test forked leaves no other trace of its crash
    prepare(suite)
    if names == ["list"]:
        for test in all_tests(suite):
            reporter.say(event="is", test=short_id(test))
    else:
        loader = unittest.TestLoader()
        loader.loadTestsFromNames([f"tests.{name}" for name in names]).run(reporter)
    reporter.say(event="end")


if __name__ == "__main__":
    main()
