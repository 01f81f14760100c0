"""TCP programs of the distribution, unmodified, over rsockets: librspreload puts these in front.

librspreload goes over to the kernel's TCP without a word where rsockets cannot connect. A client
therefore runs in a network namespace of its own in which there is no network: what it gets came
over the device.
"""

import glob
import os
import time

from hosts import Failure, describe_status, wait_until
from rdma_cm import SERVER, free_port

PRELOAD = "/usr/lib/*/rsocket/librspreload.so"
NO_NETWORK = ["unshare", "--map-root-user", "--net", "--"]
SECONDS = 90
BYTES = 3_000_001

# One connection, and then it ends; it says what the client asked for.
HTTP_SERVER = """
proc serve {channel host port} {
  lassign $::argv address number path
  fconfigure $channel -translation {auto binary}
  puts [gets $channel]
  while {[gets $channel line] > 0} {}
  fconfigure $channel -translation binary
  puts -nonewline $channel "HTTP/1.0 200 OK\\r\\nContent-Length: [file size $path]\\r\\n\\r\\n"
  set file [open $path rb]
  fcopy $file $channel
  close $channel
  exit
}
socket -server serve -myaddr [lindex $argv 0] [lindex $argv 1]
vwait forever
"""


def preloaded(wire, host, command):
    libraries = glob.glob(PRELOAD)
    if len(libraries) != 1:
        raise Failure(f"{len(libraries)} files {PRELOAD}, not 1")
    others = os.environ.get("LD_PRELOAD", "").split()
    return wire.start(host, command, LD_PRELOAD=" ".join([*others, *libraries]))


def meet(wire, server, port, command, deadline):
    """Starts a client again and again, until one has met the server; until one of both ends."""
    while True:
        client = preloaded(wire, 1, [*NO_NETWORK, *command])
        ended = lambda: client.status is not None or server.status is not None  # noqa: E731
        wait_until(ended, deadline, "the end of the server or of its client")
        if server.listens_on(int(port)):
            raise Failure("the server listens on a socket of the kernel's")
        if not client.status or not refused(client):
            return client
        if server.status is not None:
            raise Failure(f"the server: {describe_status(server.status)}")
        wire.processes.remove(client)


def refused(client):
    """By rsockets, and then by the kernel, which has no network."""
    words = ("Network is unreachable", "network is unreachable", "Couldn't connect")
    return any(word in client.output() for word in words)


def new_file(wire):
    source, copy = wire.directory / "source", wire.directory / "copy"
    source.write_bytes(os.urandom(BYTES))
    copy.unlink(missing_ok=True)
    return source, copy


def compare(source, copy):
    if copy.read_bytes() != source.read_bytes():
        raise Failure(f"{copy.stat().st_size} bytes came, not the {BYTES} that were sent")


def nc(wire):
    """A file goes through; the receiver's own standard input never ends, else it would hang up.

    It ends at the end of the file and, as programs may, closes nothing: a kernel would tell the
    sender, rsockets does not, so nobody waits for that one.
    """
    deadline = time.monotonic() + SECONDS
    source, copy = new_file(wire)
    silent = wire.directory / "silent"
    if not silent.exists():
        os.mkfifo(silent)
    port = free_port()
    receive = f"exec busybox nc -l -p {port} <>{silent} >{copy}"
    server = preloaded(wire, 0, ["sh", "-c", receive])
    send = f"exec busybox nc {SERVER} {port} <{source}"
    meet(wire, server, port, ["sh", "-c", send], deadline)
    server.wait(deadline)
    compare(source, copy)


def http(*client):
    """`{url}` and `{copy}` in the client's command are where from and where to."""

    def run(wire):
        deadline = time.monotonic() + SECONDS
        source, copy = new_file(wire)
        script = wire.directory / "server.tcl"
        script.write_text(HTTP_SERVER)
        port = free_port()
        server = preloaded(wire, 0, ["tclsh", script, SERVER, port, source])
        url = f"http://{SERVER}:{port}/a/file"
        command = [part.format(url=url, copy=copy) for part in client]
        meet(wire, server, port, command, deadline).wait(deadline)
        server.wait(deadline)
        if "GET /a/file HTTP/1." not in server.output():
            raise Failure("the server was not asked")
        compare(source, copy)

    return run


CURL = http("curl", "--silent", "--show-error", "--output", "{copy}", "{url}")
WGET = http("wget", "--no-verbose", "--tries=1", "--output-document={copy}", "{url}")


def all_programs(wire):
    for pair in (nc, CURL, WGET):
        pair(wire)
        wire.stop_processes()


# Only what blocks in accept(): rsockets' own select() and poll() see a connection up to 5 s late.
CASES = {"daemon": [("busybox nc over rsockets", nc)]}
