"""That what counts as success of a real program is told from failure."""

import pathlib
import sys
import time
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/harness")]

import rping  # noqa: E402
import stuck  # noqa: E402
from hosts import Process  # noqa: E402

RACE = "rdma_get_cm_event: Bad file descriptor\n"
SERVER_END = "server DISCONNECT EVENT...\nwait for RDMA_READ_ADV state 10\n"


def client(pings):
    return "".join(f"ping data: rdma-ping-{i}: ABC\n" for i in range(pings))


def server(pings):
    return "".join(f"server ping data: rdma-ping-{i}: ABC\n" for i in range(pings))


class RpingTest(unittest.TestCase):
    """Its race with itself is success only when its work is done, and nothing else is."""

    def test_race_at_the_end(self):
        self.assertTrue(rping.ended_well(255, SERVER_END + RACE + server(20), 20))
        self.assertTrue(rping.ended_well(255, RACE + client(20), 20))
        # The error stands within a line.
        text = server(20)
        self.assertTrue(rping.ended_well(255, text[:-9] + SERVER_END + RACE + text[-9:], 20))

    def test_status_zero(self):
        self.assertTrue(rping.ended_well(0, "", 20))

    def test_race_before_the_end(self):
        self.assertFalse(rping.ended_well(255, RACE + client(19), 20))
        self.assertFalse(rping.ended_well(255, SERVER_END + RACE + server(19), 20))

    def test_server_that_waits_for_something_else(self):
        end = SERVER_END.replace("READ_ADV state 10", "WRITE_COMPLETE state 11")
        self.assertFalse(rping.ended_well(255, end + RACE + server(20), 20))

    def test_other_errors(self):
        self.assertFalse(rping.ended_well(255, client(20), 20))
        self.assertFalse(rping.ended_well(255, "data mismatch!\n" + client(20), 20))
        self.assertFalse(rping.ended_well(-11, RACE + client(20), 20))
        self.assertFalse(rping.ended_well(1, RACE + client(20), 20))


class StuckTest(unittest.TestCase):
    """A process that hangs is looked at, and so is what it started."""

    def test_members(self):
        process = Process(["sh", "-c", "sleep 60 & wait"])
        try:
            deadline = time.monotonic() + 10
            while len(stuck.members({process.pid})) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertEqual(len(stuck.members({process.pid})), 2)
        finally:
            process.stop()


if __name__ == "__main__":
    unittest.main()
