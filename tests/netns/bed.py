"""Two hosts behind two routers that the kernel runs, with four links between the routers.

    host 0 -- veth -- router 0 == path1 .. path4 == router 1 -- veth -- host 1

Each of the six is in a network namespace, or between two. The routers choose among the links by a
hash of the five-tuple (fib_multipath_hash_policy), each link is shaped in both directions with
`tc tbf`, which drops at its tail and marks nothing. On each host runs an mprdmad over a DPDK device
on its veth; programs are parts of it. A second pair of veths, past the routers, carries perftest's
TCP connection, since AF_XDP takes everything that comes to the first.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import time

from hosts import Failure, Process, Unavailable, Wire, need_af_xdp, wait_until

PATHS = 4
HOSTS = (0, 1)
QUEUE_BYTES_LEAST = 16 * 9000  # of each link: 58 ms at 20 Mbit/s
STARTS_WITHIN = 60  # seconds that a daemon and its device take at most

# What tbf counts of a WRITE packet beside its payload: Ethernet, IPv4, UDP, BTH, data extension,
# RETH, ICRC (docs/wire-format.md).
HEADERS = 14 + 20 + 8 + 12 + 16 + 16 + 4


class Port:
    """A kind of DPDK device on a kernel's interface."""

    def __init__(self, name, driver, path_mtu, interface_mtu):
        self.name = name
        self.driver = driver
        self.path_mtu = path_mtu
        self.interface_mtu = interface_mtu

    def goodput(self, rate):
        """The most payload that a link of this rate carries."""
        return rate * self.path_mtu / (self.path_mtu + HEADERS)


PORTS = {
    "af_packet": Port("af_packet", "net_af_packet0,iface=rdma0", 4096, 9000),
    # A frame is within one page, with what kernel and DPDK put before it.
    "af_xdp": Port("af_xdp", "net_af_xdp0,iface=rdma0", 2048, 3400),
}


def host_address(host):
    return f"10.73.{host + 1}.1"


def gateway(host):
    return f"10.73.{host + 1}.254"


def subnet(host):
    return f"10.73.{host + 1}.0/24"


def path_address(router, path):
    return f"10.74.{path}.{router + 1}"


def _run(command, text=None):
    ran = subprocess.run(
        list(map(str, command)), input=text, capture_output=True, text=True, check=False
    )
    if ran.returncode != 0:
        shown = " ".join(map(str, command))
        raise Unavailable(f"{shown}: {(ran.stderr or ran.stdout).strip()}")
    return ran.stdout


class RoutedBed(Wire):
    """The wire between host 0 (10.73.1.1) and host 1 (10.73.2.1)."""

    name = "netns"
    tcp_address = "10.75.0.1"

    def __init__(self, build, port, rate, verbose=False):
        super().__init__(build)
        self.device = PORTS[port]
        self.rate = rate  # bits per second of each path
        self.verbose = verbose
        self.daemons = [None, None]
        self.tag = f"mprdma{os.getpid()}"
        self._spaces = []

    # ---- Making and removing it

    def set_up(self):
        if os.geteuid() != 0:
            raise Unavailable("network namespaces need root")
        for command in ("ip", "tc", "sysctl", "ping"):
            if shutil.which(command) is None:
                raise Unavailable(f"there is no {command} command")
        if self.device is PORTS["af_xdp"]:
            need_af_xdp()
        for side in HOSTS:
            self._add_space(self.host_space(side), [])
            self._add_space(self.router_space(side), [
                "net.ipv4.ip_forward=1", "net.ipv4.fib_multipath_hash_policy=1",
                # A link that is down at its other end is no way either.
                "net.ipv4.conf.all.ignore_routes_with_linkdown=1",
            ])  # fmt: skip
        self._add_links()
        for side in HOSTS:
            self._set_up_host(side)
            self._set_up_router(side)
        for side in HOSTS:
            self._add_routes(side)
        for host in HOSTS:
            self.start_daemon(host)

    def tear_down(self):
        for daemon in self.daemons:
            if daemon is not None:
                daemon.stop()
        self.daemons = [None, None]
        for space in reversed(self._spaces):
            with contextlib.suppress(Unavailable):
                _run(["ip", "netns", "delete", space])
        self._spaces.clear()

    def host_space(self, host):
        return f"{self.tag}h{host}"

    def router_space(self, router):
        return f"{self.tag}r{router}"

    def _add_space(self, name, settings):
        _run(["ip", "netns", "add", name])
        self._spaces.append(name)
        quiet = [
            "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1",
            "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0",
        ]  # fmt: skip
        _run(["ip", "netns", "exec", name, "sysctl", "-qw", *quiet, *settings])

    def _batch(self, space, lines):
        _run(["ip", "-n", space, "-batch", "-"], "\n".join(lines) + "\n")

    def _add_links(self):
        mtu = self.device.interface_mtu
        links = [("rdma0", self.host_space(h), "host", self.router_space(h), mtu) for h in HOSTS]
        links.append(("tcp0", self.host_space(0), "tcp0", self.host_space(1), 1500))
        links += [
            (f"path{path}", self.router_space(0), f"path{path}", self.router_space(1), mtu)
            for path in self.paths()
        ]
        for name, space, peer, peer_space, bytes_max in links:
            _run(["ip", "-n", space, "link", "add", name, "mtu", bytes_max, "type", "veth",
                  "peer", "name", peer, "mtu", bytes_max, "netns", peer_space])  # fmt: skip

    def _set_up_host(self, host):
        # The kernel has no address on the device's interface: mprdmad answers there.
        self._batch(self.host_space(host), [
            "link set lo up", "link set rdma0 up", f"address add 10.75.0.{host + 1}/24 dev tcp0",
            "link set tcp0 up",
        ])  # fmt: skip

    def _set_up_router(self, router):
        lines = [f"address add {gateway(router)}/24 dev host", "link set host up"]
        for path in self.paths():
            lines += [f"address add {path_address(router, path)}/24 dev path{path}",
                      f"link set path{path} up"]  # fmt: skip
        self._batch(self.router_space(router), lines)
        # What a router with little memory has, and loss soon says so; yet a host that waits for its
        # turn on a busy machine shall not leave the links idle.
        queue = max(int(self.rate / 8 * 0.010), QUEUE_BYTES_LEAST)
        for path in self.paths():
            _run(["tc", "-n", self.router_space(router), "qdisc", "add", "dev", f"path{path}",
                  "root", "tbf", "rate", f"{int(self.rate)}bit",
                  "burst", 2 * self.device.interface_mtu, "limit", queue])  # fmt: skip

    def _add_routes(self, router):
        hops = "".join(f" nexthop via {path_address(1 - router, p)}" for p in self.paths())
        self._batch(self.router_space(router), [f"route add {subnet(1 - router)}{hops}"])

    # ---- Daemons and programs

    @staticmethod
    def paths():
        return range(1, PATHS + 1)

    def prefix(self, host):
        return ["ip", "netns", "exec", self.host_space(host)]

    def socket(self, host):
        return self.directory / f"h{host}.sock"

    def start_daemon(self, host):
        command = [
            *self.prefix(host), self.build / "tools" / "mprdmad",
            "--address", f"{host_address(host)}/24", "--gateway", gateway(host),
            "--mtu", self.device.path_mtu, "--port", f"ethdev:{self.device.driver}",
            "--socket", self.socket(host),
        ]  # fmt: skip
        daemon = Process(command, self.plain_environment(MPRDMA_COUNTERS="1"), f"mprdmad{host}")
        self.daemons[host] = daemon
        ready = lambda: daemon.status is not None or "serving" in daemon.output()  # noqa: E731
        wait_until(ready, time.monotonic() + STARTS_WITHIN, f"mprdmad of host {host} serves")
        if daemon.status is not None:
            raise Failure(f"mprdmad does not start: {daemon.output().strip()}")
        return daemon

    def plain_environment(self, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MPRDMA_")}
        environment.update(XDG_RUNTIME_DIR=str(self.directory), **variables)
        return environment

    def environment(self, host):
        return self.plain_environment(**self.extra)

    def start(self, host, command, **variables):
        environment = self.environment(host)
        environment.update(variables)
        mprdma = self.build / "tools" / "mprdma"
        process = Process(
            [*self.prefix(host), mprdma, "run", "--port", f"daemon:{self.socket(host)}", "--",
             *command], environment, f"h{host}: {pathlib.Path(str(command[0])).name}",
        )  # fmt: skip
        self.processes.append(process)
        return process

    # ---- Links and routers

    def set_path(self, path, state, router=0):
        """Sets a link at one of the routers, as `ip link set pathN up|down` does."""
        self._batch(self.router_space(router), [f"link set path{path} {state}"])

    def sent_bytes(self, router=1):
        """What the router has sent over each path so far; host 1's data come from router 1."""
        read = "cat " + " ".join(
            f"/sys/class/net/path{path}/statistics/tx_bytes" for path in self.paths()
        )
        return [int(line) for line in self.router_runs(router, ["sh", "-c", read]).split()]

    def router_runs(self, router, command):
        """What the command prints that a router's operator types."""
        return _run(["timeout", 60, "ip", "netns", "exec", self.router_space(router), *command])

    def set_gateway_mac(self, host, mac):
        """The router of a host gets another Ethernet address, and says nothing of it."""
        self._batch(self.router_space(host), [f"link set host address {mac}"])
