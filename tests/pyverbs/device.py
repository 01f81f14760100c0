"""What a device is to its host beside verbs: an interface that has its address, and the daemon by
which two processes share it."""

import contextlib
import ctypes
import os
import socket
import subprocess
import time

ADDRESS = "10.73.0.1/24"
DAEMON_LIMIT_S = 60
CLONE_NEWNET = 0x40000000
IP = (
    f"link add name roce0 type veth peer name roce1\naddress add {ADDRESS} dev roce0\n"
)  # what `ip -batch` reads


def make_interface():
    """From here on this process and its children are in a network namespace of their own, which
    goes with them, and where an interface has the device's address: the suite's tests of rdma_cm
    look for it with `ip`, on the interface that sysfs names beside the device. Returns why that
    cannot be; those tests skip themselves then, which is reported."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        return os.strerror(ctypes.get_errno())
    ran = subprocess.run(
        ["ip", "-batch", "-"], input=IP, capture_output=True, text=True, check=False
    )
    return ran.stderr.strip()


@contextlib.contextmanager
def daemon(build, directory):
    """mprdmad, whose files are in `directory`; yields the port that its processes have."""
    path, log = directory / "mprdmad.sock", directory / "mprdmad.log"
    command = [build / "tools/mprdmad", "--address", ADDRESS, "--socket", path]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        _wait_for(path, process)
        yield f"daemon:{path}"
    finally:
        process.terminate()
        if process.wait() != 0:
            raise RuntimeError(f"mprdmad: status {process.returncode}\n{log.read_text()}")


def _wait_for(path, process):
    deadline = time.monotonic() + DAEMON_LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.socket(
            socket.AF_UNIX, socket.SOCK_SEQPACKET
        ) as asked:
            asked.connect(str(path))
            return
        time.sleep(0.01)
    raise RuntimeError("mprdmad does not start")
