"""fio's engine rdma: write, read and send between a server (rw=read) and a client.

fio itself verifies what a server receives by `send`. With `write` and `read` it does not look at
the bytes; both sides have their buffers in files (mem=mmapshared), and these are compared here. fio
chooses the server's buffer of each operation at random, so each block has to be one of the other
side's. A message of `send` that finds no receive ends the connection, for fio's rnr_retry_count is
0, and the client does not wait for its server's application: the server is as deep as there are
messages, and the client gives it the time to post its receives.
"""

import os
import time

import rdma_cm
from hosts import Failure

BLOCK = 65536
DEPTH = 16
BYTES = 64 * DEPTH * BLOCK  # each buffer is used: it is missed with a chance of (15/16)^1024


MESSAGES = 512  # of `send`


def run_pair(wire, port, size, server_options, client_options):
    deadline = time.monotonic() + rdma_cm.SECONDS
    common = ["fio", "--ioengine=rdma", f"--port={port}", f"--bs={BLOCK}", f"--size={size}",
              "--verify_state_save=0"]
    server = rdma_cm.listening_server(
        wire, [*common, "--name=server", "--rw=read", *server_options], deadline
    )
    client = wire.start(1, [*common, "--name=client", "--rw=write",
                            f"--hostname={rdma_cm.SERVER}", *client_options])  # fmt: skip
    client.wait(deadline)
    server.wait(deadline)


def buffers(wire, name):
    path = wire.directory / name
    path.write_bytes(os.urandom(DEPTH * BLOCK))
    return path, [f"--mem=mmapshared:{path}", f"--iodepth={DEPTH}"]


def blocks(content):
    return [content[at : at + BLOCK] for at in range(0, len(content), BLOCK)]


def expect_copied(copies, originals):
    """Every block of `copies` is a block of `originals`, and these are different ones."""
    known = set(blocks(originals))
    if len(known) != DEPTH:
        raise Failure(f"{len(known)} different blocks, not {DEPTH}: nothing can be told from these")
    strange = [number for number, block in enumerate(blocks(copies)) if block not in known]
    if strange:
        raise Failure(f"blocks {strange} are none of the other side's")


def memory(verb):
    def run(wire):
        there, server = buffers(wire, "server.buffers")
        here, client = buffers(wire, "client.buffers")
        # The client's own buffers stay as they are filled first.
        run_pair(wire, rdma_cm.free_port(), BYTES, server,
                 [*client, f"--verb={verb}", "--scramble_buffers=0"])  # fmt: skip
        if verb == "write":
            expect_copied(there.read_bytes(), here.read_bytes())
        else:
            expect_copied(here.read_bytes(), there.read_bytes())

    return run


def send(wire):
    verify = "--verify=crc32c"
    run_pair(wire, rdma_cm.free_port(), MESSAGES * BLOCK, [f"--iodepth={MESSAGES}", verify],
             [f"--iodepth={DEPTH // 4}", "--verb=send", verify, "--do_verify=0",
              "--rate_iops=1000"])  # fmt: skip


def all_verbs(wire):
    for function in (memory("write"), memory("read"), send):
        function(wire)
        wire.stop_processes()


PROGRAMS = [
    ("fio", "fio, engine rdma: write and read with buffers compared, send with crc32c", all_verbs)
]
