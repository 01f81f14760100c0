"""Cases of processes that share mprdmad's device: no configuration, many, killed, restarted."""

import contextlib
import os
import pathlib
import re
import signal
import socket
import struct
import time

import perftest
from hosts import Failure, Process, Wire, describe_status, wait_until

# Constants of the daemon's protocol.
MAGIC, VERSION, QUERY, INFO = 0x434E444D, 3, 8, 9


def expect(condition, what):
    if not condition:
        raise Failure(what)


class DaemonWire(Wire):
    """Any number of processes of one device; a private daemon, unless a case starts another."""

    name = "daemon"
    ADDRESSES = ("10.73.0.1", "10.73.0.1")

    def __init__(self, build):
        super().__init__(build)
        self.daemons = []

    @property
    def socket(self):
        return self.directory / "mprdma" / "mprdmad.sock"

    def environment(self, host):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MPRDMA_")}
        environment.update(XDG_RUNTIME_DIR=str(self.directory))
        environment.update(self.extra)
        return environment

    def start(self, host, command, **variables):
        environment = self.environment(host)
        environment.update(variables)
        mprdma = self.build / "tools" / "mprdma"
        name = f"h{host}: {pathlib.Path(str(command[0])).name}"
        process = Process([mprdma, "run", "--", *command], environment, name)
        self.processes.append(process)
        return process

    def start_daemon(self, deadline, *options, address="10.73.0.1/24"):
        """A daemon of the case's own at the place where a private one would be."""
        self.socket.parent.mkdir(mode=0o700, exist_ok=True)
        program = self.build / "tools" / "mprdmad"
        command = [program, "--socket", self.socket, *options]
        if address is not None:
            command += ["--address", address]
        daemon = Process(command, self.environment(0))
        self.daemons.append(daemon)
        # Its socket is there first, before what else it may listen at.
        serves = lambda: daemon.status is not None or "serving" in daemon.output()  # noqa: E731
        wait_until(serves, deadline, "a daemon")
        expect(self.daemon_pid() == daemon.pid, daemon.output())
        return daemon

    def daemon_pid(self):
        """The process that listens; None: nobody does."""
        with contextlib.suppress(OSError), socket.socket(
            socket.AF_UNIX, socket.SOCK_SEQPACKET
        ) as asked:
            asked.connect(str(self.socket))
            peer = asked.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return struct.unpack("3i", peer)[0]
        return None

    def info(self, path):
        """What the daemon at a socket reports (Query, Info of dataplane/client/protocol.hpp):
        how many processes have a block of queue pair numbers, and whether its wire has a link."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
            asked.settimeout(30)
            asked.connect(str(path))
            asked.send(struct.pack("=IHHII", MAGIC, VERSION, QUERY, 1, 16))
            answer = asked.recv(512)
        magic, version, kind = struct.unpack_from("=IHH", answer)
        expect((magic, version, kind) == (MAGIC, VERSION, INFO), "no Info")
        return struct.unpack_from("=I", answer, 24)[0], answer[32 + 14] != 0

    def stop_processes(self):
        super().stop_processes()
        for daemon in self.daemons:
            daemon.stop()
        self.daemons.clear()
        pid = self.daemon_pid()  # a private one, which nobody waits for
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: self.daemon_pid() is None, time.monotonic() + 20, "its end")


def no_configuration(program, *options):
    def run(wire):
        rows = perftest.run(wire, program, options, 120)
        expect(len(rows) == 1, f"{len(rows)} lines of results, not 1")
        row = rows[0]
        expect((row.usec if program.endswith("_lat") else row.gbps) > 0, "nothing moved")
        expect(wire.daemon_pid() is not None, "no private daemon")

    return run


def two_start_one(wire):
    """Programs that find no daemon at the same time start one."""
    deadline = time.monotonic() + 90
    started = [wire.start(0, ["ibv_devinfo"]) for _ in range(8)]
    for process in started:
        process.wait(deadline)
        expect("mprdma0" in process.output(), "no device")
    running = [
        path.parent.name
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")
        if str(wire.socket).encode() in read_bytes(path)
    ]
    expect(len(running) == 1, f"{len(running)} daemons: {running}")


def read_bytes(path):
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def memory_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmSize:"):
            return int(line.split()[1])
    raise Failure("no VmSize")


def mapped_ports(pid):
    """How many mappings of clients' memory (dataplane/port/local_port_region) a process has."""
    return pathlib.Path(f"/proc/{pid}/maps").read_text().count("memfd:mprdma-local-port")


def processor_ns(pid):
    """Processor time of all threads of a process so far, without those that have ended."""
    threads = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int((read_bytes(path).split() or [0])[0]) for path in threads)


def sleeps(pid):
    """How often the threads of a process gave their processor up so far, to sleep."""
    threads = pathlib.Path(f"/proc/{pid}/task").glob("*/status")
    found = [re.search(rb"^voluntary_ctxt_switches:\s*(\d+)", read_bytes(path), re.M)
             for path in threads]  # fmt: skip
    return sum(int(match[1]) for match in found if match)


def idle_costs_nothing(*options):
    """Two programs that sleep with connected queue pairs, and the daemon, wake up some 100 times in
    a second for their service, and take about 1 % of a processor each. A machine that is slow or
    busy takes longer for the same wake-ups: their number is held to a limit, and the time only to
    one that somebody who spins exceeds. Of four half seconds the least counts."""

    def run(wire):
        deadline = time.monotonic() + 120
        daemon = wire.start_daemon(deadline, *options)
        program, path = wire.build / "tests/integration/verbs_check", wire.new_path("idle")
        what = [path, "--idle", "--qps", "16", "--idle-ms", "5000"]
        pair = [wire.start(host, [program, side, *what]) for host, side in
                ((0, "--server"), (1, "--client"))]  # fmt: skip
        wait_until(lambda: all("connected" in process.output() for process in pair), deadline,
                   "queue pairs that are connected")  # fmt: skip
        idlers = (daemon, *pair)
        shares, rates = ({process: [] for process in idlers} for _ in range(2))
        for _ in range(4):
            before = {process: (processor_ns(process.pid), sleeps(process.pid))
                      for process in idlers}  # fmt: skip
            expect(min(map(min, before.values())) > 0, "the kernel tells no processor times")
            start = time.monotonic_ns()
            time.sleep(0.5)
            span = time.monotonic_ns() - start
            for process, (used_ns, slept) in before.items():
                shares[process].append((processor_ns(process.pid) - used_ns) / span)
                rates[process].append((sleeps(process.pid) - slept) / span * 1e9)
        expect(pair[1].status is None, "the programs ended while they were looked at")
        for process in pair:
            process.wait(deadline)
        used = {process.name: [f"{share:.2%}, {rate:.0f} times a second"
                               for share, rate in zip(shares[process], rates[process])]
                for process in idlers}  # fmt: skip
        wire.note(f"of a processor: {used}")
        expect(max(min(of) for of in rates.values()) < 200, f"idle, and awake {used}")
        expect(max(min(of) for of in shares.values()) < 0.10, f"idle, and {used} of a processor")

    return run


def stays_for_its_program(wire):
    """A private daemon that has nobody on it stays for a program that has not opened the device."""
    deadline = time.monotonic() + 120
    waiting = wire.start(0, ["sleep", "100"])
    wait_until(lambda: wire.daemon_pid() is not None, deadline, "a private daemon")
    pid = wire.daemon_pid()
    time.sleep(13)  # longer than it lingers for nobody
    expect(wire.daemon_pid() == pid, "it has ended")
    waiting.stop()
    wait_until(lambda: wire.daemon_pid() is None, deadline, "its end after the program's")
    # Its log stays for who wants to know what it said.
    left = lambda: sorted(path.name for path in wire.socket.parent.iterdir())  # noqa: E731
    wait_until(lambda: left() == ["mprdmad.sock.log"], deadline, f"its files' end: {left()}")


def other_address(wire):
    """An address that is not the daemon's is refused in words."""
    wire.start_daemon(time.monotonic() + 30)
    process = wire.start(0, ["ibv_devinfo"], MPRDMA_PORT=f"daemon:{wire.socket}",
                         MPRDMA_ADDRESS="10.9.9.9/24")
    status = process.wait_status(time.monotonic() + 60)
    expect(status == 125, describe_status(status))
    expect("10.9.9.9" in process.output() and "10.73.0.1" in process.output(), "no words")


CASES = [
    ("ib_write_bw, no configuration", no_configuration("ib_write_bw", "-n", "1000")),
    ("ib_send_lat, no configuration", no_configuration("ib_send_lat", "-n", "200")),
    ("ib_send_bw -c UD", no_configuration("ib_send_bw", "-c", "UD", "-s", "1024", "-n", "500")),
    ("ib_read_bw -q 16", no_configuration("ib_read_bw", "-q", "16", "-n", "100")),
    ("8 programs at once start one daemon", two_start_one),
    ("idle queue pairs cost nothing", idle_costs_nothing()),
    ("idle queue pairs cost nothing, no direct rings", idle_costs_nothing("--direct-rings", "off")),
    ("a private daemon stays for its program", stays_for_its_program),
    ("another address", other_address),
]  # fmt: skip
