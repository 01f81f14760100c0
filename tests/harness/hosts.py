"""Two hosts on one machine: processes, and the wires between them.

A Wire knows how a program becomes host 0 or host 1 of it: what environment `mprdma run` gets, and
in which network namespace. `with open_wire(...) as wire:` makes everything and removes it again.
Every process is started in a group of its own, is ended by it, and dies with this one.
"""

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PR_SET_PDEATHSIG = 1
LISTEN = "0A"
AF_XDP = 44  # of Linux; the socket module does not name it
DEFAULT_SEED = 7
_libc = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    """Something went wrong that the person at the keyboard wants to read."""


class Unavailable(Exception):
    """This cannot be done on this machine, for the reason given."""


def die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """A started program whose output goes to a file, or which has a terminal (a descriptor)."""

    def __init__(self, command, environment=None, name=None, directory=None, terminal=None):
        self.command = [str(c) for c in command]
        self.name = name or pathlib.Path(self.command[0]).name
        self._output = tempfile.TemporaryFile()
        # A group of its own, to be killed as one, but no session: Linux schedules each session as a
        # group (sched_autogroup_enabled), and among tens of busy groups it leaves a runnable one
        # without a core for seconds (seen on Linux 6.18: 3.7 s; among as many plain threads none).
        group = {"process_group": 0} if terminal is None else {"start_new_session": True}
        self._popen = subprocess.Popen(
            self.command, env=environment, cwd=directory,
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            stdout=self._output if terminal is None else terminal,
            stderr=subprocess.STDOUT, preexec_fn=die_with_parent, **group,
        )  # fmt: skip
        self.pid = self._popen.pid

    @property
    def status(self):
        """None while it runs; else the exit status, negative for a signal."""
        return self._popen.poll()

    def output(self):
        self._output.seek(0)
        return self._output.read().decode(errors="replace")

    def wait(self, deadline):
        """Waits until it ends; Failure if it does not, or not with status 0."""
        status = self.wait_status(deadline)
        if status != 0:
            raise Failure(f"{self.name}: {describe_status(status)}")

    def wait_status(self, deadline):
        try:
            return self._popen.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name}: still running at the end of its time") from None

    def stop(self):
        """Ends it and everything that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()

    def signal(self, number):
        self._popen.send_signal(number)

    def kill(self):
        """SIGKILL, as a crash would be."""
        self._popen.send_signal(signal.SIGKILL)
        self._popen.wait()

    def listens_on(self, port):
        """Whether a TCP socket of its network namespace listens on the port."""
        for table in ("tcp", "tcp6"):
            with contextlib.suppress(OSError):
                text = pathlib.Path(f"/proc/{self.pid}/net/{table}").read_text()
                for line in text.splitlines()[1:]:
                    fields = line.split()
                    if fields[3] == LISTEN and int(fields[1].rsplit(":", 1)[1], 16) == port:
                        return True
        return False


def describe_status(status):
    if status >= 0:
        return f"exit status {status}"
    return f"killed by {signal.Signals(-status).name}"


def wait_until(condition, deadline, what):
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"not within its time: {what}")
        time.sleep(0.005)


def need_af_xdp():
    """Unavailable where the kernel has no AF_XDP."""
    try:
        socket.socket(AF_XDP, socket.SOCK_RAW).close()
    except OSError as error:
        raise Unavailable(f"no AF_XDP sockets here: {error.strerror}") from None


# ---- Wires


class Wire:
    """Between host 0 (10.73.0.1) and host 1 (10.73.0.2). Base: one machine, one namespace."""

    name = ""
    tcp_address = "127.0.0.1"  # where host 1 reaches the TCP servers of host 0
    ADDRESSES = ("10.73.0.1", "10.73.0.2")  # of the devices of host 0 and host 1

    def __init__(self, build):
        self.build = pathlib.Path(build)
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="mprdma-wire-"))
        self.processes = []
        self.extra = {}  # further variables for both hosts
        self.seed = DEFAULT_SEED  # of cases that draw something
        self.notes = []  # what a case has to say beside its result
        self._paths = 0

    def __enter__(self):
        try:
            self.set_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stop_processes()
        self.tear_down()
        shutil.rmtree(self.directory, ignore_errors=True)

    def set_up(self):
        """Makes what the wire needs; raises Unavailable if this machine cannot."""

    def tear_down(self):
        """Removes it."""

    def port(self, host):
        raise NotImplementedError

    def prefix(self, _host):
        """What a command line starts with, to run as this host."""
        return []

    def environment(self, host):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MPRDMA_")}
        environment.update(MPRDMA_PORT=self.port(host), XDG_RUNTIME_DIR=str(self.directory))
        environment.update(self.extra)
        return environment

    def note(self, text):
        self.notes.append(text)

    def new_path(self, name):
        """For a socket: one that was never used."""
        self._paths += 1
        return self.directory / f"{name}{self._paths}.sock"

    def start(self, host, command, **variables):
        """Starts an application on a host, as a person would: `mprdma run -- COMMAND`."""
        environment = self.environment(host)
        environment.update(variables)
        mprdma = self.build / "tools" / "mprdma"
        process = Process(
            [*self.prefix(host), mprdma, "run", "--host", f"h{host}", "--", *command], environment,
            f"h{host}: {pathlib.Path(str(command[0])).name}",
        )  # fmt: skip
        self.processes.append(process)
        return process

    def stop_processes(self):
        for process in self.processes:
            process.stop()
        self.processes.clear()


class LocalWire(Wire):
    """LocalPort to LocalPort: shared memory."""

    name = "local"

    def port(self, host):
        return f"local:{self.directory}/wire.sock"


class VirtioWire(Wire):
    """Two owned ethdevs over a vhost-user socket; each of them survives the other's death."""

    name = "virtio"

    def port(self, host):
        path = f"{self.directory}/vhost.sock"
        if host == 0:
            return f"ethdev:net_virtio_user0,path={path},server=1"
        return f"ethdev:net_vhost0,iface={path},client=1"


class AfPacketWire(Wire):
    """Two owned ethdevs: AF_PACKET on both ends of a veth pair in two network namespaces."""

    name = "af_packet"
    tcp_address = "10.74.0.1"
    mtu = 9000
    port_options = ""

    def set_up(self):
        if os.geteuid() != 0:
            raise Unavailable("network namespaces need root")
        if shutil.which("ip") is None:
            raise Unavailable("there is no ip command")
        self.tag = f"mprdma{os.getpid()}"
        for host in (0, 1):
            self._ip("netns", "add", self._space(host))
        self._ip(
            "link", "add", "veth0", "mtu", self.mtu, "netns", self._space(0), "type", "veth",
            "peer", "name", "veth1", "mtu", self.mtu, "netns", self._space(1),
        )  # fmt: skip
        for host in (0, 1):
            here = ("-n", self._space(host))
            self._ip(*here, "address", "add", f"10.74.0.{host + 1}/24", "dev", f"veth{host}")
            self._ip(*here, "link", "set", "lo", "up")
            self._ip(*here, "link", "set", f"veth{host}", "up")

    def tear_down(self):
        for host in (0, 1):
            with contextlib.suppress(Unavailable, AttributeError):
                self._ip("netns", "delete", self._space(host))

    def _space(self, host):
        return f"{self.tag}h{host}"

    @staticmethod
    def _ip(*arguments):
        ran = subprocess.run(
            ["ip", *map(str, arguments)], capture_output=True, text=True, check=False
        )
        if ran.returncode != 0:
            raise Unavailable(f"ip {' '.join(map(str, arguments))}: {ran.stderr.strip()}")

    def prefix(self, host):
        return ["ip", "netns", "exec", self._space(host)]

    def port(self, host):
        return f"ethdev:net_af_packet0,iface=veth{host}{self.port_options}"


WIRES = {wire.name: wire for wire in (LocalWire, VirtioWire, AfPacketWire)}
