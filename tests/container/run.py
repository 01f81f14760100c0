#!/usr/bin/env python3
"""Two containers without network, devices or privileges run ib_write_bw over mprdmad's socket.

usage: tests/container/run.py [--build DIR] [--json FILE]

  --build DIR  a build directory in which everything is built (default: build-test)
  --json FILE  writes the claim apps.container there

A container is bubblewrap's: user, mount, PID, network, IPC and UTS namespaces of its own; /usr,
what mprdma consists of and the directory of the socket are mounted, read-only; /dev has null, zero
and the like, as every container's; there is no /sys. Where this runs as root, daemon and containers
are two users that are not, and the daemon allows the one of the containers. The programs connect
with rdma_cm (-R): there is no TCP either. perftest connects twice, and its server does not listen
in between; a directory that both containers may write holds a file by which liblistening
(tests/integration/listening.c) lets the client wait for the server each time. The data goes by a
direct ring between the containers: the daemon's counters tell.
Ends with 77 where bubblewrap or user namespaces are missing.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/harness")]

import perftest  # noqa: E402
from hosts import Failure, Process, Unavailable, describe_status, wait_until  # noqa: E402
from report import Report  # noqa: E402

SKIPPED = 77
SECONDS = 120
ADDRESS = "10.73.0.1"
# Users that nobody has; the second one runs the containers.
DAEMON_UID, CONTAINER_UID = 61001, 61002
INSIDE_UID = 1000
# How every user of the host looks from inside that the namespace has no name for.
NOBODY = 65534
IMAGE = (
    "tools/mprdma",
    "dataplane/libmprdma-engine.so",
    "providers/mprdma/libmprdma-preload.so",
    "providers/mprdma/libmprdma-rdmav34.so",
    "tests/integration/liblistening.so",
)
PROGRAM = ["ib_write_bw", "-R", "-F", "-n", "1000"]
LISTENS = "/run/listening/listens"
# What sets up connections and rings; without a ring each message of 64 KiB is 16 frames.
FRAMES_MAX = 200


def as_user(uid):
    """What a command line starts with; nothing where we are not root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"]


class Host:
    """A daemon, and containers beside it."""

    def __init__(self, build, directory):
        self.build = build
        self.directory = directory
        self.processes = []
        directory.chmod(0o711)
        self.image = directory / "image"
        for part in IMAGE:
            (self.image / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(build / part, self.image / part)
        self.sockets = directory / "sockets"
        self.sockets.mkdir()
        self.listening = directory / "listening"
        self.listening.mkdir()
        if os.geteuid() == 0:
            os.chown(self.sockets, DAEMON_UID, DAEMON_UID)
            os.chown(self.listening, CONTAINER_UID, CONTAINER_UID)
        # A copy: a build directory is not everybody's.
        shutil.copy(build / "tools/mprdmad", directory / "mprdmad")

    def start(self, command, name, **variables):
        process = Process(command, {"PATH": os.environ["PATH"], **variables}, name)
        self.processes.append(process)
        return process

    def start_daemon(self, deadline):
        socket = self.sockets / "mprdmad.sock"
        allowed = ["--allow-uid", CONTAINER_UID] if os.geteuid() == 0 else []
        daemon = self.start(
            [*as_user(DAEMON_UID), self.directory / "mprdmad", "--address", f"{ADDRESS}/24",
             "--socket", socket, *allowed], "mprdmad", MPRDMA_COUNTERS="1")  # fmt: skip
        wait_until(lambda: socket.exists() or daemon.status is not None, deadline, "a daemon")
        if daemon.status is not None:
            raise Failure(f"mprdmad: {describe_status(daemon.status)}\n{daemon.output()}")
        return daemon

    def container(self, command, **variables):
        """The command line that runs it in a container."""
        links = []
        for name in ("bin", "lib", "lib64", "sbin"):
            links += ["--symlink", f"usr/{name}", f"/{name}"]
        further = []
        for name, value in variables.items():
            further += ["--setenv", name, value]
        return [
            *as_user(CONTAINER_UID), "bwrap", "--unshare-all", "--die-with-parent",
            "--uid", str(INSIDE_UID), "--gid", str(INSIDE_UID), "--cap-drop", "ALL",
            "--ro-bind", "/usr", "/usr", *links, "--proc", "/proc", "--dev", "/dev",
            "--tmpfs", "/tmp",
            "--ro-bind", self.image, "/opt/mprdma",
            "--ro-bind", self.sockets, "/run/mprdma",
            "--bind", self.listening, "/run/listening",
            "--clearenv", "--setenv", "PATH", "/usr/bin",
            "--setenv", "MPRDMA_PORT", "daemon:/run/mprdma/mprdmad.sock",
            "--setenv", "MPRDMA_DAEMON_UID", str(NOBODY), *further,
            *command,
        ]  # fmt: skip

    def run_inside(self, command, name, **variables):
        variables["LD_PRELOAD"] = "/opt/mprdma/tests/integration/liblistening.so"
        run = ["/opt/mprdma/tools/mprdma", "run", "--", *command]
        return self.start(self.container(run, **variables), name)

    def stop(self):
        for process in self.processes:
            process.stop()


def check_available():
    if shutil.which("bwrap") is None:
        raise Unavailable("there is no bwrap: install bubblewrap")
    tried = subprocess.run(
        [*as_user(CONTAINER_UID), "bwrap", "--unshare-user", "--ro-bind", "/", "/", "true"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if tried.returncode != 0:
        raise Unavailable(f"no user namespaces here: {tried.stderr.strip()}")


def check_bare(host, deadline):
    """The container is what it is said to be."""
    script = ("test ! -e /dev/infiniband && test ! -e /sys && test ! -w /run/mprdma && "
              "test $(grep -c : /proc/net/dev) = 1 && id -u")  # fmt: skip
    probe = host.start(host.container(["sh", "-c", script]), "probe")
    probe.wait(deadline)
    if probe.output().strip() != str(INSIDE_UID):
        raise Failure(f"the container is not bare: {probe.output()}")


def run_client(host, server, deadline):
    client = host.run_inside([*PROGRAM, ADDRESS], "client", TEST_AWAITS_LISTENS=LISTENS)
    status = client.wait_status(deadline)
    if status != 0:
        raise Failure(f"client: {describe_status(status)}\n{client.output()}\n"
                      f"server:\n{server.output()}")  # fmt: skip
    return client


def check_ring(daemon, deadline):
    """By the counters that the daemon prints at its end."""
    daemon.signal(signal.SIGTERM)
    daemon.wait(deadline)
    counted = {n: int(v) for n, v in re.findall(r"mprdmad: (\w+) (\d+)", daemon.output())}
    frames, made = counted.get("nic_frames_in", 0), counted.get("nic_rings_made", 0)
    if made == 0 or frames >= FRAMES_MAX:
        raise Failure(f"not by a direct ring: {made} rings, {frames} frames passed the daemon")


def write_bw(host):
    """Gb/s between two containers."""
    deadline = time.monotonic() + SECONDS
    daemon = host.start_daemon(deadline)
    check_bare(host, deadline)
    server = host.run_inside(PROGRAM, "server", TEST_LISTENS=LISTENS)
    client = run_client(host, server, deadline)
    server.wait(deadline)
    rows = perftest.parse(client.output())
    if len(rows) != 1:
        raise Failure(f"no results:\n{client.output()}")
    check_ring(daemon, deadline)
    return rows[0].gbps


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-test")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    report = Report("tests/container/run.py", {})
    what = "ib_write_bw -R between two containers that have mprdmad's socket only"
    claim = ("apps.container", what, "> 0")
    status = 0
    with tempfile.TemporaryDirectory(prefix="mprdma-container-") as name:
        try:
            check_available()
            host = Host(arguments.build.resolve(), pathlib.Path(name))
            try:
                gbps = write_bw(host)
            finally:
                host.stop()
            report.claim(*claim, gbps, "Gb/s")
            print(f"ib_write_bw between two containers: {gbps:.2f} Gb/s")
        except (Failure, Unavailable) as reason:
            print(reason)
            report.missing(*claim, "Gb/s", str(reason).splitlines()[0])
            status = SKIPPED if isinstance(reason, Unavailable) else 1
    if arguments.json:
        report.write(arguments.json)
    return status


if __name__ == "__main__":
    sys.exit(main())
