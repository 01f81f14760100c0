"""Which tests may be skipped: skips.toml."""

import dataclasses
import tomllib

MOST = 15  # as many as the project allows itself


class Skips:
    """The reasons for the tests that our device does not run."""

    def __init__(self, groups):
        self._says = {test: group["says"] for group in groups for test in group["tests"]}
        self._listed = sum(len(group["tests"]) for group in groups)
        self._groups = groups

    @classmethod
    def read(cls, path):
        return cls(tomllib.loads(path.read_text())["skip"])

    def check(self, everything):
        """What is wrong with the list itself."""
        if self._listed > MOST:
            yield f"{self._listed} tests, at most {MOST} may be skipped"
        if self._listed != len(self._says):
            yield "a test is listed twice"
        for test in self._says:
            if test not in everything:
                yield f"{test} is no test of the suite"
        for group in self._groups:
            if not group["reason"].strip():
                yield f"{group['tests'][0]}: no reason"

    def judge(self, result):
        """The result as the list has it: a skip that it does not know is a failure, and so is a
        test that it knows and that was not skipped."""
        says = self._says.get(result.test)
        why = None
        if result.outcome == "skipped" and says is None:
            why = f"skipped, and not listed: {result.why}"
        elif result.outcome == "skipped" and says not in result.why:
            why = f"skipped for a reason other than {says!r}: {result.why}"
        elif result.outcome == "passed" and says is not None:
            why = "listed, and was not skipped: take it off the list"
        return result if why is None else dataclasses.replace(result, outcome="failed", why=why)
