"""Two mprdmad, one on net_virtio_user and one on net_vhost, as two hosts: their programs connect
through the CM agents, and either daemon may be restarted under traffic."""

import pathlib
import signal
import time

import perftest
import rdma_cm
import service
from hosts import Failure, Process, Wire, wait_until

SECONDS = 120
FRAMES = 2000  # of programs, at a daemon: traffic is under way
# The other host's program is none of the daemon that is away, which takes a second or two: its own
# retries have to last so long. 1.07 s each (perftest's default is 67 ms), seven times.
PATIENT = ["-u", "18"]


def expect(condition, what):
    if not condition:
        raise Failure(what)


class DaemonVirtioWire(Wire):
    """The daemons live as long as the wire; all programs of a host share its device."""

    name = "daemon-virtio"

    def set_up(self):
        self.daemons = [None, None]
        self.metrics = [service.free_port(), service.free_port()]
        for host in (0, 1):
            (self.directory / f"h{host}").mkdir()
            self.start_daemon(host)

    def tear_down(self):
        for daemon in self.daemons:
            if daemon is not None:
                daemon.stop()

    def _device(self, host):
        path = f"{self.directory}/vhost.sock"
        # Either dials or listens again when the other went away.
        return (f"ethdev:net_virtio_user0,path={path},server=1" if host == 0
                else f"ethdev:net_vhost0,iface={path},client=1")  # fmt: skip

    def start_daemon(self, host):
        command = [
            self.build / "tools/mprdmad", "--socket", self.directory / f"h{host}/d.sock",
            "--port", self._device(host), "--address", f"{self.ADDRESSES[host]}/24",
            "--metrics", f"127.0.0.1:{self.metrics[host]}",
        ]  # fmt: skip
        environment = super().environment(host)
        environment.pop("MPRDMA_PORT")
        daemon = Process(command, environment, f"h{host}: mprdmad")
        self.daemons[host] = daemon
        serves = lambda: daemon.status is not None or "serving" in daemon.output()  # noqa: E731
        wait_until(serves, time.monotonic() + 60, "mprdmad")
        expect(daemon.status is None, daemon.output())

    def frames(self, host):
        """That the daemon has taken of programs that are there, since it began."""
        samples = service.scrape(self.metrics[host])
        return sum(value for name, value in samples.items()
                   if name.startswith("mprdma_port_frames_in_total{") and 'port="client"' in name)

    def start(self, host, command, **variables):
        """Starts a program on a part of the host's device; `--host` would be another wire."""
        environment = self.environment(host)
        environment.update(variables)
        name = f"h{host}: {pathlib.Path(str(command[0])).name}"
        process = Process([self.build / "tools/mprdma", "run", "--", *command], environment, name)
        self.processes.append(process)
        return process

    def port(self, host):
        return f"daemon:{self.directory}/h{host}/d.sock"


def bandwidth(wire):
    rows = perftest.run(wire, "ib_write_bw", ("-s", "65536", "-n", "500"), SECONDS)
    expect(len(rows) == 1, f"{len(rows)} lines of results, not 1")
    expect(rows[0].gbps > 0, "nothing moved")


def restarted(host):
    """ib_write_bw goes on over a daemon that was killed: its frames pass the next one."""

    def run(wire):
        deadline = time.monotonic() + SECONDS
        port = perftest.free_tcp_port()
        options = ["-F", "-p", str(port), *PATIENT, *perftest.UNTIL_ENDED]
        server = wire.start(0, ["ib_write_bw", *options])
        wait_until(lambda: server.status is not None or server.listens_on(port), deadline, "server")
        client = wire.start(1, ["ib_write_bw", *options, wire.tcp_address])
        for attempt in ("first", "next"):
            runs = lambda: client.status is not None or wire.frames(host) > FRAMES  # noqa: E731
            wait_until(runs, deadline, f"traffic through the {attempt} daemon")
            expect(client.status is None, "ib_write_bw ended by itself")
            if attempt == "first":
                wire.daemons[host].signal(signal.SIGKILL)
                wire.daemons[host].stop()
                wire.start_daemon(host)
        perftest.end(client, deadline)
        client.wait(deadline)
        server.wait(deadline)

    return run


CASES = [
    ("ib_write_bw", bandwidth),
    *[(name, function) for name, function in rdma_cm.PROGRAMS if name in ("rping", "udaddy")],
    ("mprdmad of h0 killed and restarted", restarted(0)),
    ("mprdmad of h1 killed and restarted", restarted(1)),
]
