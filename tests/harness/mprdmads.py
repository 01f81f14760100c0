"""mprdmads at the ends of a wire, or of a fabric."""

import contextlib
import time

from hosts import Failure, Process, wait_until


@contextlib.contextmanager
def daemons(wire, ends):
    """An mprdmad for each end, a list of options; gives their sockets."""
    started = []
    sockets = [wire.directory / f"path{number}.sock" for number in range(len(ends))]
    try:
        for socket, options in zip(sockets, ends):
            command = [wire.build / "tools/mprdmad", "--socket", socket, *options]
            started.append(Process(command, name=f"mprdmad {socket.name}"))
        wire.processes.extend(started)  # so that a failure shows what they said
        deadline = time.monotonic() + 60
        for process, socket in zip(started, sockets):
            wait_until(lambda p=process, s=socket: p.status is not None or s.exists(), deadline,
                       "a daemon")  # fmt: skip
            if process.status is not None:
                raise Failure(f"a daemon ended: {process.output()}")
        yield sockets
    finally:
        for process in started:
            process.stop()


def end_of(wire, host):
    """The end of the fabric that `mprdma run --fabric` gives a program of this host."""
    process = wire.start(host, ["printenv", "MPRDMA_ADDRESS", "MPRDMA_MAC", "MPRDMA_PORT"])
    process.wait(time.monotonic() + 60)
    address, mac, port = process.output().split("\n")[:3]
    return ["--address", address, "--mac", mac, "--port", port]
