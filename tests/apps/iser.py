"""iSER: tgt's target and libiscsi's initiator (iscsi-inq, iscsi-test-cu) on a file as a disk.

READ and VERIFY with the bytes compared by the target, which has to find what the initiator has read
by RDMA, WRITE with the file compared here, and a VERIFY of wrong bytes that has to be refused.
tgt's control socket is in a directory of the case's, its TCP portal at a free port of the loopback.
Its iSER port stays 3260: tgt 1.0.85 takes `--iser port=` for wrong because of a stale errno.
tgtd is killed at the end: SIGTERM ends it only without targets.
"""

import os
import re
import subprocess
import time

import perftest
import rdma_cm
from hosts import Failure

SECONDS = 90
TARGET = "iqn.2001-01.com.example:disk"
INITIATOR = "iqn.2001-01.com.example:initiator"
DISK_BYTES = 16 << 20
# Each is of the kind FAMILY.SUITE.TEST; READ's Async, which is left out, crashes in libiscsi.
READS = ("Read10.Simple", "Read12.Simple", "Read16.Simple", "Verify10.Simple", "Verify16.Simple",
         "Verify10.Mismatch")  # fmt: skip
WRITES = ("Write10.Simple", "Write12.Simple", "Write16.Simple", "WriteVerify10.Simple")


def parse(output):
    """(ran, failed) of iscsi-test-cu's tests; those that it skips count as not run."""
    row = re.search(r"^ *tests +\d+ +(\d+) +\d+ +(\d+)", output, re.MULTILINE)
    if row is None:
        return 0, 0
    return int(row.group(1)) - len(re.findall(r"\[SKIPPED\]", output)), int(row.group(2))


class Admin:
    """tgtadm, for the tgtd of this case."""

    def __init__(self, wire):
        self.variables = {"TGT_IPC_SOCKET": str(wire.new_path("tgt"))}

    def run(self, *arguments):
        command = ["tgtadm", "--lld", "iser", *arguments]
        return subprocess.run(command, env={**os.environ, **self.variables}, check=False,
                              capture_output=True, text=True, timeout=SECONDS)  # fmt: skip

    def expect(self, *arguments):
        ran = self.run(*arguments)
        if ran.returncode != 0:
            raise Failure(f"tgtadm {' '.join(arguments)}: {ran.stderr.strip()}")

    def set_up(self, disk):
        target = ("--mode", "target", "--tid", "1")
        self.expect(*target, "--op", "new", "-T", TARGET)
        self.expect("--mode", "logicalunit", "--op", "new", "--tid", "1", "--lun", "1", "-b",
                    str(disk))  # fmt: skip
        # tgt requires both bindings.
        self.expect(*target, "--op", "bind", "-I", "ALL")
        self.expect(*target, "--op", "bind", "-Q", INITIATOR)


def initiator(wire, program, *options):
    """Runs it to its end; what it has said."""
    deadline = time.monotonic() + SECONDS
    url = f"iser://{rdma_cm.SERVER}/{TARGET}/1"
    process = wire.start(1, [program, "-i", INITIATOR, *options, url])
    process.wait(deadline)
    return process.output()


def expect_test(wire, name):
    output = initiator(wire, "iscsi-test-cu", "--dataloss", "--fail", "--test", f"ALL.{name}")
    if parse(output) != (1, 0):
        raise Failure(f"{name}: ran and failed {parse(output)}")


def run(wire):
    deadline = time.monotonic() + SECONDS
    disk = wire.directory / "disk"
    content = os.urandom(DISK_BYTES)
    disk.write_bytes(content)
    admin = Admin(wire)
    portal = f"portal=127.0.0.1:{perftest.free_tcp_port()}"
    command = ["env", *(f"{k}={v}" for k, v in admin.variables.items()), "tgtd", "--foreground",
               "--iscsi", portal]  # fmt: skip
    rdma_cm.listening_server(wire, command, deadline)
    admin.set_up(disk)
    if "Product:VIRTUAL-DISK" not in initiator(wire, "iscsi-inq"):
        raise Failure("iscsi-inq shows no disk")
    for name in READS:
        expect_test(wire, name)
    if disk.read_bytes() != content:
        raise Failure("reading has changed the disk")
    for name in WRITES:
        disk.write_bytes(content)
        expect_test(wire, name)
        expect_written(disk.read_bytes(), content)


def expect_written(after, before):
    """Each test writes whole blocks of one byte, from the first one on, at least 255."""
    written = sum(after[at : at + 512] != before[at : at + 512] for at in range(0, 256 * 512, 512))
    if written < 255:
        raise Failure(f"{written} of the first 256 blocks were written")


PROGRAMS = [("iser", "tgt's iSER target and libiscsi: iscsi-inq, iscsi-test-cu READ, WRITE and "
             "VERIFY, the disk compared", run)]  # fmt: skip
