"""Runs the distribution's perftest programs between two hosts, and reads what they print."""

import pathlib
import re
import signal
import socket
import time

from hosts import Failure, wait_until

# What perftest says when a busy machine kept it from measuring its own clock: anywhere in its
# output. Bandwidth is 0 in such a row.
_REMARK = "Correlation coefficient r^2"
# What follows a row of results on the same line: that remark, or what a library says at the end.
_WORDS = re.compile(r"[A-Za-z].*")
# A column title is "#bytes", "BW average[MB/sec]" or "tps average".
_TITLE = re.compile(r"#\w+|tps average|[A-Za-z0-9.%_][^\[\]#]*\[[^\]]*\]")
MIB_BITS = (1 << 20) * 8
ATTEMPTS = 3  # to get a run whose clock was measured


class Row:
    """One line of results: {column title: number}."""

    def __init__(self, titles, numbers, timed):
        self.columns = dict(zip(titles, numbers))
        self.timed = timed  # perftest said nothing against its own figures

    def _find(self, start):
        for title, number in self.columns.items():
            if title.startswith(start):
                return title, number
        raise Failure(f"perftest printed no column '{start}'")

    @property
    def bytes(self):
        return int(self._find("#bytes")[1])

    @property
    def iterations(self):
        return int(self._find("#iterations")[1])

    @property
    def gbps(self):
        """Average goodput; perftest prints MiB/s or Gb/s."""
        title, number = self._find("BW average")
        return number if "Gb/sec" in title else number * MIB_BITS / 1e9

    @property
    def mpps(self):
        """Million messages per second."""
        return self._find("MsgRate")[1]

    @property
    def usec(self):
        """Typical latency, or the average where perftest has only that."""
        for start in ("t_typical", "t_avg"):
            for title, number in self.columns.items():
                if title.startswith(start):
                    return number
        raise Failure("perftest printed no latency")


def parse(output):
    """All rows of results in a program's output."""
    titles, rows = [], []
    timed = _REMARK not in output
    for line in output.splitlines():
        if line.strip().startswith("#bytes"):
            titles = _TITLE.findall(line)
            continue
        fields = _WORDS.sub("", line).split()
        try:
            numbers = [float(field) for field in fields]
        except ValueError:
            continue
        if titles and len(numbers) >= 3:
            rows.append(Row([t.strip() for t in titles], numbers, timed))
    return rows


def free_tcp_port():
    """One that nobody uses now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("0.0.0.0", 0))
        return probe.getsockname()[1]


# Options of a run that end() ends. perftest's own alarm ends a run with -D, also if the alarm comes
# early; without a margin (-f) that is the only alarm.
UNTIL_ENDED = ["-D", "3600", "-f", "0"]


def is_running(client):
    """Whether a client of a run with -D has begun: only then it has a handler for alarms."""
    try:
        status = pathlib.Path(f"/proc/{client.pid}/status").read_text()
    except OSError:
        return False
    caught = int(re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE).group(1), 16)
    return bool(caught >> (signal.SIGALRM - 1) & 1)


def end(client, deadline):
    """Ends a run with UNTIL_ENDED, as when its time is over."""
    begun = lambda: client.status is not None or is_running(client)  # noqa: E731
    wait_until(begun, deadline, "perftest sends")
    client.signal(signal.SIGALRM)


def run(wire, program, arguments=(), seconds=30):
    """Server on host 0, client on host 1. Returns the client's rows; Failure if one fails.

    What perftest could not time is run again.
    """
    for _ in range(ATTEMPTS):
        rows = _run_once(wire, program, arguments, seconds)
        if all(row.timed for row in rows):
            break
    return rows


def start_server(wire, program, arguments, deadline):
    """On host 0: a process that listens, and what its client has for arguments."""
    port = free_tcp_port()
    options = ["-F", "-p", str(port), *map(str, arguments)]
    server = wire.start(0, [program, *options])
    ready = lambda: server.status is not None or server.listens_on(port)  # noqa: E731
    wait_until(ready, deadline, f"{program} listens")
    if server.status is not None:
        raise Failure(f"{server.name}: ended before it listened, with status {server.status}")
    return server, [*options, wire.tcp_address]


def start_pair(wire, program, arguments, deadline, client_program=None):
    """Server on host 0, client on host 1: processes that have started."""
    server, options = start_server(wire, program, arguments, deadline)
    return server, wire.start(1, [client_program or program, *options])


def outputs(wire, program, arguments=(), seconds=30, client_program=None):
    """What server and client print in a run that both end well."""
    deadline = time.monotonic() + seconds
    server, client = start_pair(wire, program, arguments, deadline, client_program)
    client.wait(deadline)
    server.wait(deadline)
    return server.output(), client.output()


def _run_once(wire, program, arguments, seconds):
    _, output = outputs(wire, program, arguments, seconds)
    rows = parse(output)
    if not rows:
        raise Failure(f"{program}: no results in the client's output")
    return rows
