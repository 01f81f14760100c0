"""Cases of mprdmad as a service: who watches it, SIGHUP, and whom it does not serve."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import perftest
from hosts import Failure, Process, Unavailable, wait_until

NOBODY = 65534


def expect(condition, what):
    if not condition:
        raise Failure(what)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def scrape(port):
    """Samples by name and labels; every one must stand under its own HELP and TYPE."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        expect(answer.headers["Content-Type"].startswith("text/plain"), "not text")
        lines = answer.read().decode().splitlines()
    samples, helped, typed = {}, "", ""
    for line in lines:
        if line.startswith("# HELP "):
            helped = line.split()[2]
        elif line.startswith("# TYPE "):
            typed = line.split()[2]
        elif line.startswith("mprdma_"):
            match = re.fullmatch(r"([a-z_]+)(\{.*\})? ([0-9.e+]+)", line)
            expect(match and match[1] == helped == typed, f"a bad line: {line}")
            samples[match[1] + (match[2] or "")] = float(match[3])
    return samples


def metrics(wire):
    """Read under traffic, beside readers that send garbage or nothing; all of it is counted."""
    deadline = time.monotonic() + 120
    port = free_port()
    # Only frames that pass the daemon are in its counters.
    wire.start_daemon(deadline, "--metrics", f"127.0.0.1:{port}", "--direct-rings", "off")
    with contextlib.ExitStack() as stack:
        bad = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
               for _ in range(4)]
        for number, text in enumerate((b"GET /metr", b"\0\xff\r\n\r\n", b"A" * 70000)):
            with contextlib.suppress(OSError):
                bad[number].sendall(text)
        perftest.run(wire, "ib_write_bw", ["-n", "500"], 100)
        samples = scrape(port)
    expect(samples["mprdma_clients_served_total"] >= 2, "clients are not counted")

    def counted():
        found = scrape(port)
        return (found["mprdma_clients"] == 0
                and found['mprdma_port_frames_in_total{port="gone"}'] >= 500)

    wait_until(counted, deadline, "the frames of those who are gone in the counters")
    with contextlib.suppress(urllib.error.HTTPError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/other", timeout=60)
        raise Failure("another page than /metrics")


def ask_dpdk(pid, command):
    """An answer of the telemetry socket of DPDK, as dpdk-telemetry.py asks; None: not there yet."""
    directories = ("/var/run", os.environ.get("XDG_RUNTIME_DIR", "/tmp"), "/tmp",
                   f"/tmp/mprdma-eal-{os.getuid()}")  # fmt: skip
    for directory in directories:
        path = f"{directory}/dpdk/mprdma-{pid}/dpdk_telemetry.v2"
        with contextlib.suppress(OSError), socket.socket(
            socket.AF_UNIX, socket.SOCK_SEQPACKET
        ) as asked:
            asked.settimeout(20)
            asked.connect(path)
            asked.recv(4096)
            asked.send(command.encode())
            return json.loads(asked.recv(1 << 16))[command.split(",")[0]]
    return None


def telemetry(wire):
    deadline = time.monotonic() + 120
    daemon = wire.start_daemon(deadline, "--port", "ethdev:net_null0,no-rx=1")
    wait_until(lambda: ask_dpdk(daemon.pid, "/mprdma/info"), deadline, "DPDK's telemetry")
    info = ask_dpdk(daemon.pid, "/mprdma/info")
    expect(info["address"] == "10.73.0.1/24" and info["link_up"] == 1, f"info: {info}")
    expect(ask_dpdk(daemon.pid, "/mprdma/clients") == {}, "clients of nobody")
    # The daemon announces its address when it begins, which may be after its first answer here.
    counted = lambda: ask_dpdk(daemon.pid, "/mprdma/counters,wire")  # noqa: E731
    wait_until(lambda: counted()["nic_arp_requests"] >= 1, deadline, "counters")
    expect(ask_dpdk(daemon.pid, "/mprdma/counters,nonsense") is None, "an answer to nonsense")
    expect("cm_established" in ask_dpdk(daemon.pid, "/mprdma/cm"), "connection management")


def reloaded(wire):
    """SIGHUP: what may change does, what may not is refused in words, an error changes nothing."""
    deadline = time.monotonic() + 60
    path = wire.directory / "mprdmad.toml"
    port = free_port()

    def write(address, extra=""):
        path.write_text(f'[device]\naddress = "{address}"\n[metrics]\nlisten = "127.0.0.1:{port}"\n'
                        f"[daemon]\n{extra}\n")

    def info():
        return next(name for name in scrape(port) if name.startswith("mprdma_info"))

    write("10.73.0.1/24")
    daemon = wire.start_daemon(deadline, "-c", path, address=None)

    def reload(what):
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: what in daemon.output(), deadline, f"'{what}'")

    write("10.73.0.1/24", "slots = 1024")
    reload("change with a restart only")
    write("10.73.0.1/24", "slots = 3")
    reload("slots: expected a power of two")
    expect("going on as before" in daemon.output(), "an error in the file is not said")
    mode = wire.socket.stat().st_mode & 0o777
    expect(mode == 0o600, f"mode {mode:o} for the daemon's user alone")
    write("10.73.0.1/24", f"allowed_uids = [{NOBODY}]")
    daemon.signal(signal.SIGHUP)
    wait_until(lambda: wire.socket.stat().st_mode & 0o777 == 0o666, deadline, "the new users")
    user = wire.start(0, ["ibv_rc_pingpong", "-g", "1", "-p", str(free_port())])  # no peer comes
    wait_until(lambda: scrape(port)["mprdma_clients"] == 1, deadline, "a process on the device")
    write("10.73.0.9/24")
    reload("the address stays while processes use the device")
    expect("10.73.0.1/24" in info(), "the address is another one")
    user.stop()
    wait_until(lambda: scrape(port)["mprdma_clients"] == 0, deadline, "no process")
    daemon.signal(signal.SIGHUP)
    wait_until(lambda: "10.73.0.9/24" in info(), deadline, "the new address")


ASK = """
import os, socket, sys
os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asked.settimeout(30)
asked.connect(sys.argv[1])
sys.stdout.buffer.write(asked.recv(4096))
"""


def another_user(wire):
    """Where some other users may connect, one that is not named is refused with the reason."""
    if os.geteuid() != 0:
        raise Unavailable("only root can become another user")
    deadline = time.monotonic() + 60
    wire.start_daemon(deadline, "--allow-uid", "12345")
    for directory in (wire.directory, wire.socket.parent):
        directory.chmod(0o711)
    try:
        asked = subprocess.run(
            ["python3", "-c", ASK.format(nobody=NOBODY), str(wire.socket)],
            capture_output=True, timeout=60, check=True,
        )  # fmt: skip
    finally:
        for directory in (wire.directory, wire.socket.parent):
            directory.chmod(0o700)
    expect(f"not user {NOBODY}".encode() in asked.stdout, f"its answer: {asked.stdout}")


def wrong_at_start(wire):
    """What a daemon cannot serve, or was given wrongly, ends it at once and in words."""
    deadline = time.monotonic() + 60
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        for status, words, options in (
            (1, f"metrics cannot be served at {address}: Address already in use",
             ["--metrics", address]),
            (2, "--linger: nan: expected a number of seconds in", ["--linger", "nan"]),
            (2, "--linger: -1: expected a number of seconds in", ["--linger", "-1"]),
            (2, "--allow-uid: -1: expected a user id in", ["--allow-uid", "-1"]),
            # The wire cannot be opened; before that, what follows from a lone address is said.
            (1, "10.73.0.1/32 is alone in its subnet", ["--port", "local:/nowhere/at/all"]),
        ):
            command = [wire.build / "tools/mprdmad", "--socket", wire.directory / "wrong.sock"]
            daemon = Process([*command, "--address", "10.73.0.1", *options], name="mprdmad")
            wire.processes.append(daemon)
            got = daemon.wait_status(deadline)
            expect(got == status and words in daemon.output(), f"{got}: {daemon.output()}")


CASES = [
    ("what mprdmad cannot serve is said at its start", wrong_at_start),
    ("metrics for Prometheus, beside bad readers", metrics),
    ("DPDK's telemetry", telemetry),
    ("SIGHUP", reloaded),
    ("another user is refused", another_user),
]
