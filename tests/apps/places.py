"""Where two processes can be: on one host, on two hosts of one wire, behind two mprdmads."""

import os
import time

from daemon import DaemonWire
from hosts import LocalWire, Process, wait_until


class OneHost(DaemonWire):
    """Both are parts of one mprdmad's device, and reach each other at its own address."""

    name = "one_host"
    what = "two processes of one host, on one mprdmad"

    def set_up(self):
        self.start_daemon(time.monotonic() + 30)

    def stop_processes(self):
        """The daemon stays for the next case; it is stopped with the place."""
        for process in self.processes:
            process.stop()
        self.processes.clear()

    def tear_down(self):
        for daemon in self.daemons:
            daemon.stop()
        self.daemons.clear()


class TwoHosts(LocalWire):
    """Each owns its end of a wire of shared memory."""

    name = "two_hosts"
    what = "two processes, each its own host, on a wire"


class TwoDaemons(DaemonWire):
    """Each is a part of the device of its own host's mprdmad; the daemons own the wire's ends."""

    name = "two_daemons"
    ADDRESSES = LocalWire.ADDRESSES
    what = "two hosts, each with an mprdmad, on a wire between the two"

    def daemon_socket(self, host):
        return self.directory / f"h{host}.sock"

    def environment(self, host):
        environment = super().environment(host)
        environment["MPRDMA_PORT"] = f"daemon:{self.daemon_socket(host)}"
        return environment

    def set_up(self):
        self.daemons = [self._new_daemon(host) for host in (0, 1)]
        wait_until(self.linked, time.monotonic() + 30, "two daemons on a wire")

    def _new_daemon(self, host):
        command = [
            self.build / "tools" / "mprdmad", "--address", f"{self.ADDRESSES[host]}/24",
            "--port", f"local:{self.directory}/wire.sock", "--socket", self.daemon_socket(host),
        ]  # fmt: skip
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MPRDMA_")}
        return Process(command, environment, f"mprdmad of h{host}")

    def restart_daemon(self, host):
        """Another one in the place of one that is killed."""
        self.daemons[host].kill()
        self.daemons[host] = self._new_daemon(host)

    def linked(self):
        try:
            return all(self.info(self.daemon_socket(host))[1] for host in (0, 1))
        except (FileNotFoundError, ConnectionRefusedError):
            return False  # refused: it has its name and is about to listen

    stop_processes = OneHost.stop_processes
    tear_down = OneHost.tear_down


class OwnDaemon(DaemonWire):
    """Each case starts, kills and restarts a daemon as it likes."""

    name = "own_daemon"
    what = "many processes of one host, on one mprdmad"


PLACES = {place.name: place for place in (OneHost, TwoHosts, TwoDaemons, OwnDaemon)}
