"""`mprdma doctor --path` between two mprdmads: over a wire that harms nothing, and over a network
that loses a path, delays another, and marks."""

import json
import subprocess
import time

from hosts import Failure
from mprdmads import daemons, end_of

PORTS = 32  # source ports: some hash to every one of four paths
CUT, SLOW, MARKING = "path2", "path3", "path4"


def expect(condition, what):
    if not condition:
        raise Failure(what)


class Asked:
    """One run: its exit status, what it printed, and its findings by id."""

    def __init__(self, wire, socket, peer, *options):
        path = wire.directory / "path.json"
        path.unlink(missing_ok=True)
        command = [wire.build / "tools/mprdma", "doctor", "--path", peer, "--socket", socket,
                   "--json", path, *options]  # fmt: skip
        ran = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                             timeout=120)  # fmt: skip
        self.status, self.text = ran.returncode, ran.stdout + ran.stderr
        result = json.loads(path.read_text())
        self.claims = {claim["id"].removeprefix("doctor.path."): claim
                       for claim in result["claims"]}  # fmt: skip
        self.rows = result["series"]["path.ports"]
        self.loses_nothing = self.claims.get("loss", {}).get("value") == "OK"

    def is_(self, name, value, *words):
        claim = self.claims.get(name)
        expect(claim is not None, f"nothing is said of {name}:\n{self.text}")
        expect(claim["value"] == value, f"{name} is {claim['value']}, not {value}:\n{self.text}")
        for word in words:
            expect(word in claim["detail"], f"no '{word}' about {name}:\n{self.text}")


def ask_until(condition, *asked):
    """A link that comes up takes a moment: the first answer counts that meets the condition.

    Not at once again: what a peer answers in a second is limited.
    """
    deadline = time.monotonic() + 60
    while True:
        answer = Asked(*asked)
        if condition(answer) or time.monotonic() > deadline:
            return answer
        time.sleep(0.5)


def sound(wire):
    """A wire between two: everything arrives as it was sent, in both directions."""
    port = ["--port", f"local:{wire.directory / 'path.wire'}"]
    ends = [["--address", f"10.74.0.{host}/24", *port] for host in (1, 2)]
    with daemons(wire, ends) as sockets:
        good = ask_until(lambda a: a.status == 0 and a.loses_nothing, wire, sockets[0], "10.74.0.2")
        expect(good.status == 0, f"status {good.status}:\n{good.text}")
        good.is_("reached", "OK", "10.74.0.2")
        good.is_("loss", "OK", "0 of 80 ")
        good.is_("ecn-there", "OK", "ECT(0) arrives as sent")
        good.is_("ecn-back", "OK", "ECT(0) arrives as sent")
        good.is_("sizes-there", "OK", "largest 4096", "4096: 8/8")
        good.is_("sizes-back", "OK", "largest 4096", "4096: 8/8")
        good.is_("ports", "OK")
        good.is_("spread", "OK", "0 hops there and 0 back")
        expect(len(good.rows) == 16 and all(row["answered"] == 5 for row in good.rows), good.text)
        absent = Asked(wire, sockets[0], "10.74.0.9")
        expect(absent.status == 1, f"status {absent.status} for nobody")
        absent.is_("reached", "FAIL", "no neighbour answers")
    nowhere = Asked(wire, wire.directory / "none.sock", "10.74.0.2")
    expect(nowhere.status == 1, f"status {nowhere.status} without a daemon")
    nowhere.is_("daemon", "FAIL", "no mprdmad answers")


def harmed(wire):
    """Four paths: one is cut, one takes 20 ms, one marks what has to wait. Each is reported."""
    ends = [end_of(wire, host) for host in (0, 1)]
    try:
        with daemons(wire, ends) as sockets:
            options = ("--ports", PORTS, "--probes", 3)
            sound_one = ask_until(lambda a: a.status == 0, wire, sockets[0], "10.73.0.2", *options)
            expect(sound_one.status == 0, f"status {sound_one.status}:\n{sound_one.text}")
            sound_one.is_("ecn-there", "OK", "ECT(0) arrives as sent")
            wire.set(CUT, "down")
            wire.set(SLOW, "delay=20ms")
            # Slow enough that one packet finds another in the queue.
            wire.set(MARKING, "rate=250kbps", "red=1,0,0.001")
            bad = Asked(wire, sockets[0], "10.73.0.2", *options)
            bad.is_("reached", "OK")
            bad.is_("loss", "WARN", f" of {PORTS} source ports: ")
            dead = sum(row["answered"] == 0 for row in bad.rows)
            expect(0 < dead < PORTS, f"{dead} dead ports:\n{bad.text}")
            # Which ports the marking path carries, and in which direction, is the hash's choice.
            marks = [bad.claims[way]["detail"] for way in ("ecn-there", "ecn-back")]
            expect(any("marked CE on " in text for text in marks), f"no marks:\n{bad.text}")
            bad.is_("spread", "OK", "groups")
    finally:
        wire.set(CUT, "up")
        wire.set(SLOW, "delay=20us")
        wire.set(MARKING, "rate=200Mbps", "red=1,12,24")


CASES = {
    "daemon": [("doctor --path over a wire that harms nothing", sound)],
    "fabric": [("doctor --path over a network that cuts, delays and marks", harmed)],
}
