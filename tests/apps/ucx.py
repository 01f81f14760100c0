"""UCX: ucx_perftest (ucx-utils) over rc_verbs or ud_verbs and nothing else, default GID.

One pair of processes runs a batch of tests of the protocol layer (ucp_*, tags, streams), another
one those of the transport layer below. ucx_perftest 1.13 does not look at what arrives, but for the
last byte of a put, which its latency tests wait for: tests/apps/mpi.py compares the contents of
what UCX carries. Each test has to print a result with all its iterations.
"""

import csv
import re
import time

import counted
import perftest
from hosts import Failure, wait_until

SECONDS = 60
SIZES = (8, 1024, 8192, 65536, 1048576)
ITERATIONS = {8: 200, 1024: 200, 8192: 100, 65536: 50, 1048576: 10}
MESSAGES = ("tag_lat", "tag_bw", "ucp_am_lat", "ucp_am_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get")
ATOMICS = ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap")
# Test, options. Of `get`, zero copy begins at 65 bytes; rc_verbs has no `swap`.
TRANSPORT_RC = [
    ("am_lat", ["-D", "short"]), ("am_lat", ["-D", "bcopy"]), ("put_lat", ["-D", "short"]),
    ("put_lat", ["-D", "bcopy"]), ("put_lat", ["-D", "zcopy", "-s", "4096"]),
    ("put_bw", ["-D", "zcopy", "-s", "65536"]), ("get", ["-D", "bcopy"]),
    ("get", ["-D", "zcopy", "-s", "65536"]),
    ("add_lat", []), ("add_mr", []), ("fadd", []), ("cswap", []),
]  # fmt: skip
TRANSPORT_UD = [("am_lat", ["-D", "short"]), ("am_lat", ["-D", "bcopy"]),
                ("am_bw", ["-D", "zcopy", "-s", "2048"])]  # fmt: skip


def protocol_tests():
    """Lines of a batch: a name of our own, then the test's options."""
    lines = [("stream_lat_65536", ["-t", "stream_lat", "-s", "65536", "-n", "50", "-w", "5"]),
             ("tag_sync_lat_8", ["-t", "tag_sync_lat", "-s", "8", "-n", "100", "-w", "5"])]
    for test in MESSAGES:
        for size in SIZES:
            lines.append((f"{test}_{size}", ["-t", test, "-s", str(size), "-n",
                                             str(ITERATIONS[size]), "-w", "5"]))  # fmt: skip
    lines += [(test, ["-t", test, "-s", "8", "-n", "100", "-w", "5"]) for test in ATOMICS]
    return lines


def transport_tests(tests):
    return [(f"{number}_{test}", ["-t", test, *options, "-n", "100", "-w", "5"])
            for number, (test, options) in enumerate(tests)]  # fmt: skip


def parse(output, batch):
    """Iterations by name of the test, of what `-v` prints for a batch file."""
    rows = csv.reader(line for line in output.splitlines() if "," in line)
    found = {}
    for row in rows:
        if row[0] != batch and len(row) > 2 and row[1].strip().isdigit():
            found[row[0]] = int(row[1])
    return found


def errors(output):
    """What UCX says of those, once each."""
    found = re.findall(r"UCX +ERROR (.*)", output)
    return "; ".join(dict.fromkeys(found)) or "and no reason"


def iterations(options):
    return int(options[options.index("-n") + 1])


def run_batch(wire, name, tests, options, transport):
    """Both sides have the batch; the client prints the results."""
    deadline = time.monotonic() + SECONDS
    batch = wire.directory / name
    batch.write_text("".join(f"{test} {' '.join(more)}\n" for test, more in tests))
    port = perftest.free_tcp_port()
    command = ["ucx_perftest", "-p", str(port), "-b", str(batch), "-v", *options]
    variables = {"UCX_TLS": transport, **counted.WANTED}
    server = wire.start(0, command, **variables)
    ready = lambda: server.status is not None or server.listens_on(port)  # noqa: E731
    wait_until(ready, deadline, "a server")
    client = wire.start(1, [*command, wire.tcp_address], **variables)
    client.wait(deadline)
    server.wait(deadline)
    found = parse(client.output(), name)
    wrong = [test for test, more in tests if found.get(test) != iterations(more)]
    if wrong:
        raise Failure(f"{transport}: no result of {', '.join(wrong)}; {errors(client.output())}")
    return [client.output(), server.output()]


def both_layers(transport, layer, tests):
    def run(wire):
        outputs = run_batch(wire, "protocol.batch", protocol_tests(), [], transport)
        counted.expect_sent(outputs, 1, sum(size * ITERATIONS[size] for size in SIZES))
        device = ["-d", "mprdma0:1", "-x", layer]
        run_batch(wire, "transport.batch", transport_tests(tests), device, transport)

    return run


LAYERS = ("ucx_perftest: tags, active messages, put and get of 8 B to 1 MiB, streams of 64 KiB, "
          "atomics of 8 B, over ")  # fmt: skip
PROGRAMS = [
    ("ucx_rc", f"{LAYERS}rc_verbs", both_layers("rc_v", "rc_verbs", TRANSPORT_RC)),
    ("ucx_ud", f"{LAYERS}ud_verbs", both_layers("ud_v", "ud_verbs", TRANSPORT_UD)),
]
