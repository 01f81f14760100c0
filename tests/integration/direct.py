"""Cases of what goes beyond libibverbs: mprdmadv.h in its example, and mprdma top."""

import json
import os
import time

import perftest
from hosts import Failure, Process, wait_until

EXAMPLE = "providers/mprdma/examples/mprdmadv_example"
# What no clean wire of one path shows, however slow the machine: timeouts and probes it may.
NEVER_ON_A_CLEAN_WIRE = ("retransmitted_nack", "retransmitted_trigger", "retransmitted_early")


def expect(condition, what):
    if not condition:
        raise Failure(what)


# ---- The example


def example(mode, *options, fault=None):
    """Data and flag from one process to the other; the reader checks that no byte is stale."""

    def run(wire):
        deadline = time.monotonic() + 120
        port = perftest.free_tcp_port()
        command = [wire.build / EXAMPLE, "-p", str(port), "-m", mode, *options]
        if fault is not None:
            wire.extra["MPRDMA_FAULT"] = fault
        reader = wire.start(0, command)
        wait_until(lambda: reader.status is not None or reader.listens_on(port), deadline, "reader")
        writer = wire.start(1, [*command, wire.tcp_address])
        writer.wait(deadline)
        reader.wait(deadline)
        for process in (reader, writer):
            expect(f"mode            {mode}\n" in process.output(), "another mode")

    return run


def example_without_run(wire):
    """Linking the library brings no device, and does no harm."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MPRDMA_")}
    process = Process([wire.build / EXAMPLE], environment)
    wire.processes.append(process)
    status = process.wait_status(time.monotonic() + 60)
    expect(status == 1, f"status {status}")
    expect("no mprdma device" in process.output(), "it does not say that there is no device")


# ---- mprdma top


def top(wire, *options):
    """The processes in one answer of `mprdma top --once --json`."""
    command = [wire.build / "tools/mprdma", "top", "--once", "--json", "--interval", "0.1"]
    process = Process([*command, *options], wire.environment(0))
    wire.processes.append(process)
    process.wait(time.monotonic() + 60)
    wire.processes.remove(process)
    return json.loads(process.output())["processes"]


def sockets(wire):
    """Sockets of running engines, and of those that died since the last `mprdma top`."""
    return set((wire.directory / "mprdma").glob("top-*.sock"))


def all_at_work(processes):
    """Two processes whose queue pairs all have moved something."""
    moved = [
        qp["bytes_sent"] + qp["bytes_received"] for p in processes if p["answered"]
        for qp in p["qps"]
    ]  # fmt: skip
    return len(processes) == 2 and len(moved) > 0 and all(moved) and all(
        p["qps"] for p in processes
    )  # fmt: skip


def look_until_at_work(wire, deadline):
    while True:
        seen = top(wire)
        if all_at_work(seen):
            return seen
        if time.monotonic() > deadline:
            raise Failure(f"top does not show two processes at work: {json.dumps(seen)}")


def check_plausible(qp):
    for stream in (qp["requests"], qp["responses"]):
        for cause in NEVER_ON_A_CLEAN_WIRE:
            expect(stream[cause] == 0, f"{cause} on a clean wire: {json.dumps(qp)}")
        expect(stream["retransmitted"] <= stream["packets_sent"], "more again than at all")
        expect(stream["window_packets"] > 0, "a window of nothing")
        if stream["packets_sent"] > 1000:
            expect(stream["srtt_ns"] > 0, "packets without a round-trip time")
            expect(stream["paths_in_use"] <= 64, "more paths than are counted")
    expect(qp["mode"] == "mp", f"mode {qp['mode']}")
    expect(qp["state"] in ("RTR", "RTS"), f"state {qp['state']}")


def top_of_verbs_check(wire):
    deadline = time.monotonic() + 120
    program = wire.build / "tests/integration/verbs_check"
    path = wire.new_path("top")
    options = ["--ops", "100000", "--qps", "3", "--seed", "14"]
    pids = {
        wire.start(0, [program, "--server", path, *options]).pid: "10.73.0.1",
        wire.start(1, [program, "--client", path, *options]).pid: "10.73.0.2",
    }
    seen = look_until_at_work(wire, deadline)
    expect({p["pid"]: p["address"] for p in seen} == pids, "other processes, or addresses")
    ends = {
        (p["address"], qp["qpn"]): (qp["peer"], qp["peer_qpn"]) for p in seen for qp in p["qps"]
    }
    expect(len(ends) == 6, f"{len(ends)} queue pairs, not 6")
    for here, there in ends.items():
        expect(ends.get(there) == here, f"{here} says {there}, which does not say so")
    for process in seen:
        expect(process["program"] == "verbs_check", "another program")
        for qp in process["qps"]:
            check_plausible(qp)


def top_of_a_server_that_never_polls(wire):
    """The server of ib_write_bw waits for TCP while the other side writes to its memory."""
    deadline = time.monotonic() + 120
    port = perftest.free_tcp_port()
    options = ["-F", "-p", str(port), "-D", "30", "-s", "65536"]
    server = wire.start(0, ["ib_write_bw", *options])
    wait_until(lambda: server.listens_on(port), deadline, "a server")
    wire.start(1, ["ib_write_bw", *options, wire.tcp_address])
    by_pid = {}
    while by_pid.get(server.pid, {"rx_bps": None})["rx_bps"] in (None, 0):
        expect(time.monotonic() < deadline, f"the server is not shown at work: {by_pid}")
        by_pid = {p["pid"]: p["qps"][0] for p in top(wire) if p["qps"]}


def top_of_the_killed(wire):
    """The socket of a process that could not remove it is removed by the next reader."""
    deadline = time.monotonic() + 120
    port = perftest.free_tcp_port()
    options = ["-F", "-p", str(port), "-D", "30"]  # both, or it ends at once
    earlier = sockets(wire)
    server = wire.start(0, ["ib_write_bw", *options])
    wait_until(lambda: server.listens_on(port), deadline, "a server")
    client = wire.start(1, ["ib_write_bw", *options, wire.tcp_address])
    wait_until(lambda: len(sockets(wire) - earlier) == 2, deadline, "two sockets")
    client.kill()
    server.kill()
    while sockets(wire):
        # Others of this user, beside the test, may be at work.
        shown = {p["pid"] for p in top(wire)} & {client.pid, server.pid}
        expect(not shown, f"top shows the dead: {shown}")
        expect(time.monotonic() < deadline, "their sockets are still there")


def top_where_nothing_can_be_written(wire):
    """A process that top cannot see works all the same."""
    blocked = wire.directory / "blocked"
    blocked.mkdir()
    (blocked / "mprdma").write_text("not a directory")
    wire.extra["XDG_RUNTIME_DIR"] = str(blocked)
    found = perftest.run(wire, "ib_write_bw", ("-s", "4096", "-n", "200"), 120)
    expect(len(found) == 1, "no result")


CASES = [
    ("mprdmadv_example, mp", example("mp")),
    ("mprdmadv_example, mp-single", example("mp-single")),
    ("mprdmadv_example, mp-paper", example("mp-paper")),
    ("mprdmadv_example, irn", example("irn")),
    ("mprdmadv_example, roce", example("roce")),
    (
        "mprdmadv_example, bad wire",
        example("mp", "-n", "30", fault="seed=15,loss=0.01,reorder=0.05,dup=0.01,delay_us=50"),
    ),
    (
        "mprdmadv_example, irn, bad wire",
        example("irn", "-n", "30", fault="seed=15,loss=0.01,reorder=0.05,dup=0.01,delay_us=50"),
    ),
    ("mprdmadv_example, not under mprdma run", example_without_run),
    ("mprdma top, verbs_check", top_of_verbs_check),
    ("mprdma top, a server that never polls", top_of_a_server_that_never_polls),
    ("mprdma top, killed processes", top_of_the_killed),
    ("mprdma top, no directory", top_where_nothing_can_be_written),
]
