"""QEMU: live migration of a guest to another process over RDMA (`migrate rdma:ADDRESS:PORT`).

The guest needs no kernel: a boot sector adds one to a counter at each tick of its clock and writes
it to one of 64 pages. The target has the counter and the pages as they would be without the
migration, goes on counting, and holds 16 MiB of random bytes that only the source was given.
"""

import json
import os
import socket
import struct
import time

import rdma_cm
from hosts import Failure, wait_until

SECONDS = 60
COUNTER = 0x600
PAGES, PAGES_AT, PAGE = 64, 0x20000, 4096
PATTERN_AT, PATTERN_BYTES = 0x1000000, 16 << 20
FLOPPY_BYTES = 1440 * 1024
# 16-bit code: ds = 0, interrupts on; then for each tick: add one to [0x600], and store it in the
# first word of page (counter mod 64), whose segment is 0x2000 + 0x100 * number.
CODE = bytes.fromhex(
    "31c0 8ed8 fb"  # xor ax,ax; mov ds,ax; sti
    "f4"  # tick: hlt
    "66ff060006"  # inc dword [0x600]
    "8b1e0006 83e33f c1e308 81c30020 8ec3"  # es = 0x2000 + ((counter & 63) << 8)
    "66a10006 2666a30000"  # mov eax,[0x600]; mov es:[0],eax
    "ebdd"  # jmp tick
)


def boot_sector():
    return CODE + bytes(510 - len(CODE)) + b"\x55\xaa"


def expected_pages(counter):
    """The word in each page after so many ticks, once each page has had one."""
    return [counter - (counter - page) % PAGES for page in range(PAGES)]


class Monitor:
    """QMP, over a guest's socket."""

    def __init__(self, process, path, deadline):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(SECONDS)
        self._process = process
        wait_until(lambda: self._connect(path), deadline, f"the monitor of {process.name}")
        self._lines = self._socket.makefile("rw")
        self._lines.readline()  # the greeting
        self.command("qmp_capabilities")

    def _connect(self, path):
        if self._process.status is not None:
            raise Failure(f"{self._process.name} has ended")
        try:
            self._socket.connect(str(path))
        except OSError:
            return False
        return True

    def close(self):
        self._lines.close()
        self._socket.close()

    def command(self, name, **arguments):
        self._lines.write(json.dumps({"execute": name, "arguments": arguments}))
        self._lines.flush()
        while True:
            answer = json.loads(self._lines.readline() or '{"error": "the monitor is gone"}')
            if "error" in answer:
                raise Failure(f"{name}: {answer['error']}")
            if "return" in answer:
                return answer["return"]

    def memory(self, directory, address, size):
        path = directory / "memory"
        self.command("pmemsave", val=address, size=size, filename=str(path))
        return path.read_bytes()

    def counter(self, directory):
        return struct.unpack("<I", self.memory(directory, COUNTER, 4))[0]


def guest(wire, path, *options):
    return [
        "qemu-system-x86_64", "-machine", "pc,accel=tcg", "-m", "64", "-nodefaults", "-display",
        "none", "-drive", f"if=floppy,format=raw,readonly=on,file={wire.directory}/floppy",
        "-qmp", f"unix:{path},server=on,wait=off", *options,
    ]  # fmt: skip


def migrate(source, uri, deadline):
    source.command("migrate", uri=uri)
    state = {}

    def ended():
        state.update(source.command("query-migrate"))
        return state["status"] in ("completed", "failed", "cancelled")

    wait_until(ended, deadline, "the end of the migration")
    if state["status"] != "completed":
        raise Failure(f"the migration: {state['status']}: {state.get('error-desc', '')}")


def compare(wire, source, target, pattern, deadline):
    if source.command("query-status")["status"] != "postmigrate":
        raise Failure("the source still runs")
    at_end, here = source.counter(wire.directory), target.counter(wire.directory)
    if here < at_end:
        raise Failure(f"the target counts from {here}, the source got to {at_end}")
    wait_until(lambda: target.counter(wire.directory) > here, deadline, "the guest goes on")
    target.command("stop")
    counter = target.counter(wire.directory)
    pages = target.memory(wire.directory, PAGES_AT, PAGES * PAGE)
    words = [struct.unpack_from("<I", pages, page * PAGE)[0] for page in range(PAGES)]
    # The processor may stand between the two stores of a tick.
    if words not in (expected_pages(counter), expected_pages(counter - 1)):
        raise Failure(f"at {counter} the pages hold {words}")
    if target.memory(wire.directory, PATTERN_AT, PATTERN_BYTES) != pattern:
        raise Failure("the memory of the target is not that of the source")


def migration(*capabilities):
    def run(wire):
        deadline = time.monotonic() + SECONDS
        pattern = os.urandom(PATTERN_BYTES)
        (wire.directory / "pattern").write_bytes(pattern)
        (wire.directory / "floppy").write_bytes(boot_sector().ljust(FLOPPY_BYTES, b"\0"))
        uri = f"rdma:{rdma_cm.SERVER}:{rdma_cm.free_port()}"
        paths = [wire.new_path("qmp") for _ in range(2)]
        loader = f"loader,file={wire.directory}/pattern,addr={PATTERN_AT:#x},force-raw=on"
        started = wire.start(1, guest(wire, paths[1], "-device", loader))
        source = Monitor(started, paths[1], deadline)
        all_written = lambda: source.counter(wire.directory) >= PAGES  # noqa: E731
        wait_until(all_written, deadline, "the guest counts")
        waiting = guest(wire, paths[0], "-incoming", uri)
        target = Monitor(rdma_cm.listening_server(wire, waiting, deadline), paths[0], deadline)
        wanted = [{"capability": name, "state": True} for name in capabilities]
        for monitor in (source, target):
            monitor.command("migrate-set-capabilities", capabilities=wanted)
        migrate(source, uri, deadline)
        compare(wire, source, target, pattern, deadline)
        for monitor in (source, target):
            monitor.command("quit")
            monitor.close()
        for process in list(wire.processes):
            process.wait(deadline)
        wire.stop_processes()

    return run


def both_ways(wire):
    migration()(wire)
    migration("rdma-pin-all")(wire)


PROGRAMS = [("qemu_migration", "QEMU, live migration of a guest that runs, memory compared: "
             "page by page and with rdma-pin-all", both_ways)]  # fmt: skip
