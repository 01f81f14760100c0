"""A wire that is a network: `mprdma fabric` between the hosts, one path or many.

    with FabricWire(build, topology, port="virtio") as wire:
        perftest.run(wire, "ib_write_bw", ...)
        wire.set("path2", "down")
        wire.show()
"""

import json
import pathlib
import subprocess
import threading
import time

from hosts import Failure, Process, Wire, die_with_parent, wait_until


class FabricWire(Wire):
    """Two hosts, h0 (10.73.0.1) and h1 (10.73.0.2), on a fabric of their own."""

    name = "fabric"

    def __init__(self, build, topology, fabric_name="demo"):
        super().__init__(build)
        self.topology = topology
        self.fabric_name = fabric_name
        self.fabric = None

    def set_up(self):
        path = self.directory / "fabric.toml"
        path.write_text(self.topology)
        self.fabric = Process(
            [self._mprdma, "fabric", "up", path, "--name", self.fabric_name, "--foreground"],
            self._fabric_environment(), "fabric",
        )  # fmt: skip
        wait_until(self._answers, time.monotonic() + 20, "the fabric is up")

    def tear_down(self):
        if self.fabric is not None:
            if self.fabric.status is None:
                self.command("down")
            self.fabric.stop()

    @property
    def _mprdma(self):
        return self.build / "tools" / "mprdma"

    def _fabric_environment(self):
        environment = super().environment(0)
        del environment["MPRDMA_PORT"]
        return environment

    def _answers(self):
        if self.fabric.status is not None:
            raise Failure(f"the fabric did not start:\n{self.fabric.output()[-2000:]}")
        return self.command("show", "--json", check=False).returncode == 0

    def port(self, host):
        return ""  # `mprdma run --fabric` knows

    def environment(self, host):
        environment = super().environment(host)
        environment.pop("MPRDMA_PORT", None)
        return environment

    def start(self, host, command, **variables):
        environment = self.environment(host)
        environment.update(variables)
        process = Process(
            [self._mprdma, "run", "--fabric", self.fabric_name, "--host", f"h{host}", "--",
             *command],
            environment, f"h{host}: {pathlib.Path(str(command[0])).name}",
        )  # fmt: skip
        self.processes.append(process)
        return process

    def command(self, verb, *arguments, check=True):
        ran = subprocess.run(
            [self._mprdma, "fabric", verb, "--name", self.fabric_name, *map(str, arguments)],
            env=self._fabric_environment(), capture_output=True, text=True, check=False, timeout=20,
        )  # fmt: skip
        if check and ran.returncode != 0:
            raise Failure(f"mprdma fabric {verb} {' '.join(map(str, arguments))}: {ran.stderr}")
        return ran

    def set(self, link, *changes):
        self.command("set", link, *changes)

    def show(self):
        return json.loads(self.command("show", "--json").stdout)

    def watch(self, interval_s):
        """Started: a program that prints what show() returns again and again, one line each."""
        return subprocess.Popen(
            [self._mprdma, "fabric", "show", "--name", self.fabric_name, "--json", "--watch",
             "--interval", str(interval_s)],
            env=self._fabric_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            preexec_fn=die_with_parent,
        )  # fmt: skip


class Sampler(threading.Thread):
    """Reads the fabric's counters at intervals: bytes that each path has carried.

    One program tells them all, and nothing is parsed before the end: a program for each sample
    takes a tenth of a processor from what is measured."""

    def __init__(self, wire, paths, interval_s=0.1):
        super().__init__(daemon=True)
        self.wire = wire
        self.paths = paths
        self.interval_s = interval_s
        self.samples = []  # from stop() on: (time, {path: bytes on the wire so far})
        self._lines = []  # (time, what `fabric show` printed)
        self._show = None

    def start(self):
        self._show = self.wire.watch(self.interval_s)
        super().start()

    def run(self):
        for line in self._show.stdout:
            self._lines.append((time.monotonic(), line))

    def bytes_now(self):
        return self._bytes_of(self.wire.show())

    def _bytes_of(self, shown):
        links = {link["name"]: link for link in shown["links"]}
        directions = [
            {path: links[path]["directions"][way]["bytes"] for path in self.paths} for way in (0, 1)
        ]
        # The data's direction; the other one carries the acknowledgements.
        return max(directions, key=lambda way: sum(way.values()))

    def stop(self):
        self._show.terminate()
        self.join()
        self._show.wait()
        whole = [(at, line) for at, line in self._lines if line.endswith(b"\n")]
        self.samples = [(at, self._bytes_of(json.loads(line))) for at, line in whole]
