"""Cases of the patched perftest on our device: that each option does what it says."""

import re
import time

import patched_perftest
import perftest
import rdma_cm
from hosts import Failure, LocalWire

SECONDS = 60
MESSAGES, BYTES, QPS = 1000, 8192, 2


def expect(condition, what):
    if not condition:
        raise Failure(what)


def run(build, name, *options, **variables):
    """Output of the server and of the client."""
    with LocalWire(build) as wire:
        wire.extra.update(variables)
        return perftest.outputs(wire, patched_perftest.program(build, name), options, SECONDS)


def reports(build):
    """--report-paths and --report-rates count every byte and message, at both ends."""
    server, client = run(build, "ib_write_bw", "-n", MESSAGES, "-s", BYTES, "-q", QPS,
                         "--report-paths", "--report-rates")  # fmt: skip
    sent, received = patched_perftest.paths(client), patched_perftest.paths(server)
    expect(len(sent) == len(received) == QPS, f"{len(sent)} and {len(received)} streams")
    for here, there in zip(sent, received):
        expect(here["sent"] == there["received"] == MESSAGES * BYTES, f"bytes: {here}, {there}")
        expect(here["received"] == there["sent"] == 0, f"bytes back: {here}, {there}")
        expect(here["packets"] >= MESSAGES * BYTES / 4096, f"packets: {here}")
        expect(here["mode"] == there["mode"] == "mp", f"modes: {here}, {there}")
        expect(here["window"] >= 1 and here["srtt_us"] > 0, f"{here}")
    ends = patched_perftest.rates(client), patched_perftest.rates(server)
    expect([end["end"] for end in ends] == ["sender", "receiver"], f"{ends}")
    for end in ends:
        expect(end["messages"] == MESSAGES * QPS, f"{end}")
        expect(end["cpu_s"] > 0 and end["elapsed_s"] > 0, f"{end}")


def read_responses(build):
    """The responder of READs sends the data, and says so; here on QPs of rdma_cm."""
    program = patched_perftest.program(build, "ib_read_bw")
    command = [program, "-R", "-F", "-n", str(MESSAGES), "-s", str(BYTES), "--report-paths", "-p",
               rdma_cm.free_port()]  # fmt: skip
    deadline = time.monotonic() + SECONDS
    with LocalWire(build) as wire:
        server, listens = rdma_cm.start_server(wire, command)
        variables = rdma_cm.preloads(wire, TEST_AWAITS_LISTENS=str(listens))
        client = wire.start(1, [*command, rdma_cm.SERVER], **variables)
        client.wait(deadline)
        server.wait(deadline)
        server, client = server.output(), client.output()
    streams = {stream["stream"]: stream for stream in patched_perftest.paths(server)}
    expect("responses" in streams, f"{streams}")
    expect(streams["responses"]["sent"] == MESSAGES * BYTES, f"{streams}")
    expect(patched_perftest.paths(client)[0]["received"] == MESSAGES * BYTES, client[-800:])


def mode(name, wanted=None, option="--mode"):
    def case(build):
        for output in run(build, "ib_send_bw", "-n", MESSAGES, "-s", BYTES, f"{option}={name}",
                          "--report-paths"):  # fmt: skip
            stream = patched_perftest.paths(output)[0]
            expect(stream["mode"] == (wanted or name), f"{stream}")

    return case


def window(build):
    """The window begins and ends as --preset names it: few messages hardly change it."""
    for numbers, good in ((",window_max=4,initial_window=2", lambda packets: packets <= 4),
                          ("", lambda packets: packets > 8)):  # fmt: skip
        _, client = run(build, "ib_write_bw", "-n", 20, "-s", 64, "--report-paths",
                        f"--preset=mp{numbers}")  # fmt: skip
        stream = patched_perftest.paths(client)[0]
        expect(stream["mode"] == "mp" and good(stream["window"]), f"{numbers}: {stream}")


def share(name, percent, *options):
    """That share of the messages has the flag, to the message."""

    def case(build):
        server, client = run(build, name, "-n", MESSAGES, "-s", 64, f"--synchronise={percent}",
                             *options)  # fmt: skip
        marked, messages = patched_perftest.marked(client)
        expect(messages == MESSAGES, f"{messages} messages")
        expect(marked == MESSAGES * percent // 100, f"{marked} of {messages}, not {percent} %")
        back = "Synchronise flag" in server
        expect(back == name.endswith("_lat"), f"the server posts: {back}")

    return case


def too_early(build):
    """The engine sees the flag: where packets overtake each other, a synchronise operation that
    comes too early is refused, and nothing else is."""
    counts = []
    for percent in (0, 100):
        server, _ = run(
            build, "ib_write_bw", "-n", MESSAGES, "-s", BYTES, f"--synchronise={percent}",
            MPRDMA_PLACEMENT="relaxed", MPRDMA_FAULT="seed=7,reorder=0.05,loss=0.01",
            MPRDMA_COUNTERS="1",
        )  # fmt: skip
        found = re.search(r"drop_sync_too_early (\d+)", server)
        counts.append(int(found.group(1)) if found else 0)
    expect(counts[0] == 0 < counts[1], f"refused without and with the flag: {counts}")


def anywhere(build):
    """--report-rates needs no mprdma: here in a build without its header."""
    program = patched_perftest.program(build, "ib_send_bw", patched_perftest.PLAIN)
    with LocalWire(build) as wire:
        outputs = perftest.outputs(wire, program, ("-n", MESSAGES, "--report-rates"), SECONDS)
    for output in outputs:
        expect(patched_perftest.rates(output)["messages"] == MESSAGES, output[-600:])


CASES = [
    ("reports count every byte and message", reports),
    ("READ responses are reported, on QPs of rdma_cm", read_responses),
    ("--mode=mp-paper", mode("mp-paper")),
    ("--mode=mp-single", mode("mp-single")),
    ("--preset=roce,window_max=16", mode("roce,window_max=16", "roce", "--preset")),
    ("--preset bounds the window", window),
    ("--synchronise=30 with a post list", share("ib_write_bw", 30, "-l", "4")),
    ("--synchronise=0", share("ib_write_bw", 0)),
    ("--synchronise=100 on SEND", share("ib_send_bw", 100)),
    ("--synchronise=55 on latency tests", share("ib_write_lat", 55)),
    ("the engine refuses what comes too early, by the flag", too_early),
    ("--report-rates in a build without mprdmadv.h", anywhere),
]
