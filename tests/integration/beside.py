"""mprdmad beside the kernel on one port: RDMA, ping and TCP of two hosts over one veth pair.

Host 0's kernel has the device's address, 10.73.0.1, on the tap; host 1's has another one,
10.73.0.12. Everything, perftest's own TCP included, goes over the taps.
"""

import pathlib
import re
import signal
import sys
import time

import perftest
from hosts import AfPacketWire, Failure, Process, describe_status, need_af_xdp, wait_until

KERNEL_ADDRESSES = ("10.73.0.1", "10.73.0.12")
TAP = "mprdma0"
BYTES = 8 << 20

CONFIGURATION = """
[device]
address = "10.73.0.{number}/24"
mac = "02:4d:52:49:00:0{number}"
mtu = 1024
[port]
spec = "ethdev:{driver},iface=veth{host}"
[daemon]
socket = "{socket}"
[kernel]
tap = "{tap}"
shared_address = {shared}
"""

# Sends the bytes 0, 1, .. 250, 0, .. and closes; the server compares.
TRANSFER = """
import socket, sys
server, address = sys.argv[1] == "server", sys.argv[2]
port, size = map(int, sys.argv[3:])
expected = (bytes(range(251)) * (size // 251 + 1))[:size]
if server:
    listener = socket.create_server((address, port))
    connection = listener.accept()[0]
    got = bytearray()
    while part := connection.recv(65536):
        got += part
    assert got == expected, f"{len(got)} bytes, or others"
else:
    with socket.create_connection((address, port), timeout=60) as connection:
        connection.sendall(expected)
"""

FORGE = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forger:
    forger.bind(("10.73.0.1", 0))
    forger.sendto(bytes(100), ("10.73.0.2", 4791))
"""


def expect(condition, what):
    if not condition:
        raise Failure(what)


class BesideWire(AfPacketWire):
    """Two mprdmad with taps, on AF_PACKET; the veth interfaces have no address of their own."""

    name = "beside"
    driver = "net_af_packet0"
    tcp_address = KERNEL_ADDRESSES[0]
    mtu = 1500  # path MTU 1024

    def set_up(self):
        super().set_up()
        deadline = time.monotonic() + 60
        self.daemons = []
        for host in (0, 1):
            here = ("-n", self._space(host))
            self._ip(*here, "address", "flush", "dev", f"veth{host}")
            # The kernel of a real port does not see its frames; AF_PACKET's does.
            self._ip(*here, "link", "set", f"veth{host}", "arp", "off")
            self.daemons.append(self._start_daemon(host, deadline))
            address = f"{KERNEL_ADDRESSES[host]}/24"
            self._ip(*here, "address", "add", address, "dev", TAP)

    def _start_daemon(self, host, deadline):
        directory = self.directory / f"h{host}"
        directory.mkdir()
        file = directory / "mprdmad.toml"
        file.write_text(CONFIGURATION.format(
            number=host + 1, host=host, driver=self.driver, socket=directory / "d.sock", tap=TAP,
            shared="true" if host == 0 else "false",
        ))  # fmt: skip
        command = [*self.prefix(host), self.build / "tools/mprdmad", "-c", file]
        environment = self.environment(host)
        environment.update(MPRDMA_COUNTERS="1")
        daemon = Process(command, environment, f"h{host}: mprdmad")
        self.processes.append(daemon)
        wait_until(lambda: daemon.status is not None or "serving" in daemon.output(), deadline,
                   "mprdmad")  # fmt: skip
        expect(daemon.status is None, daemon.output())
        return daemon

    def port(self, host):
        return f"daemon:{self.directory}/h{host}/d.sock"

    def environment(self, host):
        environment = super().environment(host)
        environment.update(XDG_RUNTIME_DIR=str(self.directory / f"h{host}"))
        return environment

    def start(self, host, command, **variables):
        """Starts a program on a part of the host's device."""
        environment = self.environment(host)
        environment.update(variables)
        process = Process(
            [*self.prefix(host), self.build / "tools/mprdma", "run", "--", *command], environment,
            f"h{host}: {pathlib.Path(str(command[0])).name}",
        )  # fmt: skip
        self.processes.append(process)
        return process

    def plain(self, host, command):
        """A program of the host's own, without the device."""
        process = Process([*self.prefix(host), *command])
        self.processes.append(process)
        return process

    def stop_processes(self):
        """Programs; the daemons stay for the next case."""
        for process in [p for p in self.processes if p not in self.daemons]:
            process.stop()
            self.processes.remove(process)

    def tear_down(self):
        for daemon in getattr(self, "daemons", []):
            daemon.stop()
        super().tear_down()

    def counters(self, host, deadline):
        """Ends the host's daemon; what it has counted."""
        daemon = self.daemons[host]
        daemon.signal(signal.SIGTERM)
        status = daemon.wait_status(deadline)
        expect(status == 0, describe_status(status))
        words = [line.split() for line in daemon.output().splitlines()]
        return {w[1]: int(w[2]) for w in words if len(w) == 3 and w[0] == "mprdmad:"}


class BesideXdpWire(BesideWire):
    """On AF_XDP, which takes the whole of the interface: all that the kernel has is the tap."""

    name = "beside-xdp"
    driver = "net_af_xdp0"

    def set_up(self):
        need_af_xdp()
        super().set_up()


def transfer(wire, server, port):
    """8 MiB of known contents from one host's kernel to the other's."""
    words = ["-c", TRANSFER, "server", KERNEL_ADDRESSES[server], str(port), str(BYTES)]
    listening = wire.plain(server, [sys.executable, *words])
    deadline = time.monotonic() + 60
    wait_until(lambda: listening.status is not None or listening.listens_on(port), deadline, "TCP")
    words[2] = "client"
    return [listening, wire.plain(1 - server, [sys.executable, *words])]


def rdma_ping_and_tcp(wire):
    """While ib_write_bw runs: ping both ways, and bytes that are compared."""
    deadline = time.monotonic() + 120
    port = perftest.free_tcp_port()
    options = ["-F", "-p", str(port), "-m", "1024", *perftest.UNTIL_ENDED]
    server = wire.start(0, ["ib_write_bw", *options])
    wait_until(lambda: server.status is not None or server.listens_on(port), deadline, "server")
    client = wire.start(1, ["ib_write_bw", *options, wire.tcp_address])
    runs = lambda: client.status is not None or perftest.is_running(client)  # noqa: E731
    wait_until(runs, deadline, "ib_write_bw sends")
    beside = transfer(wire, 0, perftest.free_tcp_port())
    beside += transfer(wire, 1, perftest.free_tcp_port())
    for host in (0, 1):
        address = KERNEL_ADDRESSES[1 - host]
        beside.append(wire.plain(host, ["ping", "-c", "20", "-i", "0.05", "-W", "10", address]))
    # The address of host 1's device is not its kernel's: the daemon answers. A full ring of the
    # interface may drop some, as it drops of what else is under way.
    pings = ["ping", "-c", "20", "-i", "0.05", "-W", "10", "10.73.0.2"]
    beside.append(wire.plain(0, pings))
    for process in beside:
        process.wait(deadline)
        expect("DUP!" not in process.output(), "two answers to one ping")
    expect(client.status is None, "ib_write_bw ended by itself")
    perftest.end(client, deadline)
    client.wait(deadline)
    server.wait(deadline)
    row = perftest.parse(client.output())[0]
    expect(row.gbps > 0 or not row.timed, "nothing moved")
    got = int(re.search(r"(\d+) received", beside[-1].output()).group(1))
    check_counters(wire, got, deadline)


def check_counters(wire, pings_got, deadline):
    """RDMA in the device's name does not pass; what the kernels sent and got has been counted."""
    wire.plain(0, [sys.executable, "-c", FORGE]).wait(deadline)
    counters = [wire.counters(host, deadline) for host in (0, 1)]
    expect(counters[0].get("nic_drop_forged") == 1, f"forged: {counters[0]}")
    for host in (0, 1):
        for name in ("nic_kernel_in", "nic_kernel_out"):
            expect(counters[host].get(name, 0) > 0, f"h{host}: {counters[host]}")
        expect("nic_drop_kernel" not in counters[host], f"h{host}: {counters[host]}")
    answered = counters[1].get("nic_pings_answered", 0)
    expect(0 < pings_got <= answered <= 20, f"{pings_got} answers to pings: {counters[1]}")


CASES = [
    ("ib_write_bw beside ping and TCP of the kernel", rdma_ping_and_tcp),
]
