"""Adds up what the test programs report."""

import json
import pathlib
import xml.etree.ElementTree

PASSED = ("OK", "EXPECTEDFAIL")
SKIPPED = ("SKIP",)
# What a summary says of a failure: who sees only the end of a long log has to know why, too.
REASON_LINES = 5
REASON_COLUMNS = 400


class Tally:
    """How much passed, failed and was skipped so far."""

    def __init__(self):
        self.passed = 0
        self.skipped = 0
        self.failed = []
        self.skipped_names = []
        self.reasons = {}  # name of a failure: the first lines that it printed

    def total(self):
        return self.passed + self.skipped + len(self.failed)

    def fail(self, name, reason=()):
        self.failed.append(name)
        self.reasons[name] = [line[:REASON_COLUMNS] for line in reason][:REASON_LINES]

    def check(self, name, good):
        """Counts one thing that either worked or did not; returns whether it did."""
        if good:
            self.passed += 1
        else:
            self.fail(name)
        return good

    def report(self):
        """Prints the summary; its last line stands alone."""
        for name in self.skipped_names:
            print(f"skipped: {name}")
        for name in self.failed:
            print(f"FAILED: {name}")
            for line in self.reasons[name]:
                print(f"    {line}")
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        print(f"{self.passed} passed, {len(self.failed)} failed{skipped}")


def read_meson_results(log, tally):
    """Adds the results of one `meson test` run; GoogleTest and TAP programs count by case."""
    cases = _cases(pathlib.Path(log).with_name("testlog.junit.xml"))
    for line in pathlib.Path(log).read_text().splitlines():
        test = json.loads(line)
        passed, failed, skipped = cases.get(test["name"], (0, [], []))
        name = test["name"].split(" / ")[-1]
        tally.passed += passed
        tally.skipped += len(skipped)
        tally.skipped_names += [f"{name}: {case}" for case in skipped]
        printed = test.get("stdout", "").splitlines()
        for case in failed:
            tally.fail(f"{name}: {case}", _after(printed, case))
        if test["result"] in SKIPPED:
            tally.skipped += 1
            tally.skipped_names.append(name)
        elif test["result"] not in PASSED:
            # A crash leaves no failed case behind; the program itself has failed then.
            if not failed:
                reason = f"{test['result']}, exit code {test['returncode']}"
                tally.fail(f"{name}: {reason}", printed[-REASON_LINES:])
        elif not (passed or failed or skipped):
            tally.passed += 1


def _cases(junit):
    """For each program that has cases: the number passed, the names failed, the names skipped."""
    result = {}
    if not junit.exists():
        return result
    for suite in xml.etree.ElementTree.parse(junit).getroot().iter("testsuite"):
        # meson names a GoogleTest program's <project>.<test>.<suite of cases>, a TAP program's
        # <project>.<test>, and that of all plain tests <project>.
        _project, dot, rest = suite.get("name", "").partition(".")
        if not dot:
            continue
        parts = rest.rsplit(".", 1)
        passed, failed, skipped = result.get(parts[0], (0, [], []))
        for case in suite.iter("testcase"):
            name = f"{case.get('classname', '')}.{case.get('name')}"
            if len(parts) < 2:
                name = case.get("name", "")
            if case.find("failure") is not None or case.find("error") is not None:
                failed = [*failed, name]
            elif case.find("skipped") is not None or case.get("status") == "notrun":
                skipped = [*skipped, name]
            else:
                passed += 1
        result[parts[0]] = (passed, failed, skipped)
    return result


def _after(printed, case):
    """The lines behind the one with which a program named the case that then failed."""
    starts = (f"not ok {case}", f"[ RUN      ] {case}")
    for number, line in enumerate(printed):
        if line.startswith(starts):
            return [line.removeprefix("# ") for line in printed[number + 1 :] if line.strip()]
    return []
