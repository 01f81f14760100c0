"""The cases, by wire. A case is a title and a function of the wire that raises Failure."""

import json
import os
import re
import time

import beside
import crowd
import daemon
import daemon_virtio
import direct
import doctor_path
import fabric
import hostile
import libfabric
import matrix
import pause
import perftest
import rdma_cm
import rsockets
import rings
import service
from hosts import Failure, describe_status, wait_until

FAULT = "seed={},loss=0.01,reorder=0.02,dup=0.01,delay_us=50"
SIZES = 23  # 2 bytes to 8 MiB, as perftest's -a takes them


class Case:
    def __init__(self, wire, name, function):
        self.title = f"{wire}: {name}"
        self.function = function


def expect(condition, what):
    if not condition:
        raise Failure(what)


# ---- rdma-core's own programs


def ibv_devices(wire):
    process = wire.start(0, ["ibv_devices"])
    process.wait(time.monotonic() + 60)
    expect("mprdma0" in process.output(), "ibv_devices does not list mprdma0")


def number_of(text, key):
    found = re.search(rf"{key}:\s+(\d+)", text)
    expect(found is not None, f"ibv_devinfo prints no {key}")
    return int(found.group(1))


def ibv_devinfo(wire):
    process = wire.start(0, ["ibv_devinfo", "-v"])
    process.wait(time.monotonic() + 60)
    text = process.output()
    for wanted in (r"state:\s+PORT_ACTIVE", r"link_layer:\s+Ethernet", r"active_mtu:\s+4096"):
        expect(re.search(wanted, text), f"ibv_devinfo -v prints no {wanted}")
    expect(re.search(r"GID\[\s*\d+\]:\s+::ffff:10\.73\.0\.1, RoCE v2", text), "no RoCE v2 GID")
    expect(not re.search(r"GID\[.*RoCE v1", text), "a RoCE v1 GID, which we do not speak")
    limits = {"max_qp": 10000, "max_cqe": 4096, "max_mr": 1000, "max_sge": 4, "max_qp_wr": 1024}
    for key, least in limits.items():
        expect(number_of(text, key) >= least, f"{key} is below {least}")
    expect(number_of(text, "max_qp_rd_atom") >= 1, "no READs")


def pingpong(*options):
    def run(wire):
        deadline = time.monotonic() + 60
        port = perftest.free_tcp_port()
        command = ["ibv_rc_pingpong", "-d", "mprdma0", "-g", "1", "-p", str(port), *options]
        server = wire.start(0, command)
        wait_until(
            lambda: server.status is not None or server.listens_on(port), deadline, "a server"
        )
        client = wire.start(1, [*command, wire.tcp_address])
        client.wait(deadline)
        server.wait(deadline)
        expect("invalid data" not in client.output() + server.output(), "wrong contents")

    return run


# ---- perftest


def bandwidth(program, *options, rows=1, seconds=120):
    def run(wire):
        found = perftest.run(wire, program, options, seconds)
        expect(len(found) == rows, f"{len(found)} lines of results, not {rows}")
        for row in found:
            expect(row.gbps > 0 or row.mpps > 0, f"nothing moved at {row.bytes} bytes")

    return run


def latency(program, *options, rows=1, seconds=120):
    def run(wire):
        found = perftest.run(wire, program, options, seconds)
        expect(len(found) == rows, f"{len(found)} lines of results, not {rows}")
        for row in found:
            expect(row.usec > 0, f"no latency at {row.bytes} bytes")

    return run


# ---- MPRDMA_TRACE


def traced(wire):
    """The trace of both ends holds what one sent and the other one received."""
    name = wire.new_path("trace")
    wire.extra["MPRDMA_TRACE"] = f"{name}-%p"
    perftest.run(wire, "ib_write_bw", ["-s", "65536", "-n", "100"], 120)
    ends = []
    for path in sorted(name.parent.glob(f"{name.name}-*")):
        events = [json.loads(line) for line in path.read_text().splitlines()]
        ends.append([event for event in events if event.get("opcode", "").startswith("MP_WRITE")])
    expect(len(ends) == 2, f"{len(ends)} traces, not 2")
    sent = {event["psn"] for end in ends for event in end if event["event"] == "send"}
    received = {event["psn"] for end in ends for event in end if event["event"] == "receive"}
    # 16 packets of the path MTU, or segments of up to 16 KiB between engines on shared memory.
    expect(len(sent) >= 400, f"{len(sent)} packets sent, in 100 messages of 4 at least")
    expect(sent == received, f"{len(sent)} packets sent, {len(received)} of them received")


# ---- verbs_check


def verbs_check(*options, fault=None, seconds=180, server_host=0, transport=None):
    """`transport`: keys of [transport] for both hosts."""

    def run(wire):
        deadline = time.monotonic() + seconds
        program = wire.build / "tests/integration/verbs_check"
        path = wire.new_path("check")
        if fault is not None:
            wire.extra["MPRDMA_FAULT"] = FAULT.format(fault)
        if transport is not None:
            config = wire.directory / "transport.toml"
            keys = (f'{key} = "{value}"\n' for key, value in transport.items())
            config.write_text("[transport]\n" + "".join(keys))
            wire.extra["MPRDMA_CONFIG"] = str(config)
        server = wire.start(server_host, [program, "--server", path, *options])
        client = wire.start(1 - server_host, [program, "--client", path, *options])
        client.wait(deadline)
        server.wait(deadline)

    return run


def on_a_vlan(wire):
    """Both ends have frames with tags; the kernel between them takes tags off and puts them on."""
    wire.port_options = ";vlan=100;pcp=3"
    verbs_check("--ops", "500", "--qps", "2", "--seed", "18")(wire)


def kill_peers(rounds, survivor, *options):
    """The survivor lives through the deaths of so many peers, and talks to the next one."""

    def run(wire):
        deadline = time.monotonic() + 180
        program = wire.build / "tests/integration/verbs_check"
        path = wire.new_path("kill")
        common = ["--kill-peer", "--timeout", "13", "--retry-cnt", "3", *options]
        server = wire.start(survivor, [program, "--server", path, "--ops", rounds, *common])
        for seed in range(rounds):
            client = wire.start(1 - survivor, [program, "--client", path, "--seed", seed, *common])
            status = client.wait_status(deadline)
            expect(status == -9, f"the victim: {describe_status(status)}")
            expect(server.status in (None, 0), "the survivor did not live")
            wire.processes.remove(client)
        server.wait(deadline)

    return run


def perftest_server_killed(wire):
    """ib_write_bw whose server is killed ends with an error by itself."""
    deadline = time.monotonic() + 90
    port = perftest.free_tcp_port()
    options = ["-F", "-p", str(port), "-n", "1000000", "-N", "-s", "65536", "-u", "13"]
    server = wire.start(0, ["ib_write_bw", *options])
    wait_until(lambda: server.listens_on(port), deadline, "a server")
    client = wire.start(1, ["ib_write_bw", *options, wire.tcp_address])
    wait_until(lambda: not server.listens_on(port), deadline, "a connection")
    time.sleep(1.5)  # perftest measures the clock first; nothing is asserted about when
    server.kill()
    status = client.wait_status(deadline)
    expect(status > 0, f"the client: {describe_status(status)}")
    expect("status 12" in client.output(), "the client names no status 12 (retries exceeded)")


# ---- The command, and what it says when something is wrong


def refuses(command_line, *patterns, config=None, **variables):
    """`mprdma run` (or the program under it) fails, and says why."""

    def run(wire):
        if config is not None:
            path = wire.directory / "broken.toml"
            path.write_text(config)
            variables["MPRDMA_CONFIG"] = str(path)
        process = wire.start(0, command_line, **variables)
        status = process.wait_status(time.monotonic() + 60)
        expect(status != 0, "it succeeded")
        expect(status > 0, describe_status(status))
        for pattern in patterns:
            expect(re.search(pattern, process.output()), f"the message has no /{pattern}/")

    return run


OPENS_QP = ["ibv_rc_pingpong", "-g", "1", "127.0.0.1"]


def port_in_use(wire):
    """A third process on a wire that has two."""
    deadline = time.monotonic() + 100
    ports = [perftest.free_tcp_port(), perftest.free_tcp_port()]
    command = ["ib_write_bw", "-F", "-D", "100", "-p", str(ports[0])]
    server = wire.start(0, command)
    wait_until(lambda: server.listens_on(ports[0]), deadline, "a server")
    client = wire.start(1, [*command, wire.tcp_address])
    # An engine opens its port before it has met the other end: until then a third one can be first.
    direct.look_until_at_work(wire, deadline)
    third = wire.start(1, ["ibv_rc_pingpong", "-d", "mprdma0", "-g", "1", "-p", str(ports[1])])
    expect(third.wait_status(deadline) > 0, "a third process got a port")
    expect(re.search(r"in use|busy|taken|two", third.output()), "it does not say that it is in use")
    expect(server.status is None and client.status is None, "the others were disturbed")


def no_permission(wire):
    """A wire in a directory that belongs to somebody else."""
    if os.geteuid() == 0:
        somebody_else = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        closed = wire.directory
    else:
        somebody_else, closed = [], "/proc"
    refuses(
        [*somebody_else, *OPENS_QP], "mprdma: no permission", "choose",
        MPRDMA_PORT=f"local:{closed}/other.sock",
    )(wire)  # fmt: skip


# ---- Which cases on which wire

DEVICE = [
    ("ibv_devices", ibv_devices),
    ("ibv_devinfo -v", ibv_devinfo),
    ("ibv_rc_pingpong", pingpong()),
    ("ibv_rc_pingpong -e", pingpong("-e")),
    ("ibv_rc_pingpong -s 100000 -c", pingpong("-s", "100000", "-n", "200", "-c")),
]

SWEEPS = [
    ("ib_write_bw -a", bandwidth("ib_write_bw", "-a", "-n", "100", rows=SIZES)),
    ("ib_read_bw -a", bandwidth("ib_read_bw", "-a", "-n", "100", rows=SIZES)),
    ("ib_send_bw -a", bandwidth("ib_send_bw", "-a", "-n", "100", rows=SIZES)),
]
SWEEPS_SLOW = [
    ("ib_write_bw -a", bandwidth("ib_write_bw", "-a", "-n", "10", rows=SIZES)),
    ("ib_read_bw -a", bandwidth("ib_read_bw", "-a", "-n", "10", rows=SIZES)),
    ("ib_send_bw -a", bandwidth("ib_send_bw", "-a", "-n", "10", rows=SIZES)),
]

MANY = [
    ("ib_write_bw -q 1", bandwidth("ib_write_bw", "-q", "1", "-s", "4096", "-n", "2000")),
    ("ib_write_bw -q 64", bandwidth("ib_write_bw", "-q", "64", "-s", "4096", "-n", "200")),
    ("ib_read_bw -q 64", bandwidth("ib_read_bw", "-q", "64", "-s", "4096", "-n", "200")),
    ("ib_send_bw -q 64", bandwidth("ib_send_bw", "-q", "64", "-s", "4096", "-n", "200")),
]

LATENCIES = [
    ("ib_write_lat", latency("ib_write_lat", "-s", "8", "-n", "200")),
    ("ib_read_lat", latency("ib_read_lat", "-s", "8", "-n", "200")),
    ("ib_send_lat", latency("ib_send_lat", "-s", "8", "-n", "200")),
    ("ib_send_lat -e", latency("ib_send_lat", "-e", "-s", "64", "-n", "200")),
]

OPTIONS = [
    ("ib_write_bw -b", bandwidth("ib_write_bw", "-b", "-s", "65536", "-n", "500")),
    ("ib_read_bw -b", bandwidth("ib_read_bw", "-b", "-s", "65536", "-n", "500")),
    ("ib_send_bw -b", bandwidth("ib_send_bw", "-b", "-s", "65536", "-n", "500")),
    ("ib_write_bw -b -q 64", bandwidth("ib_write_bw", "-b", "-q", "64", "-s", "64", "-n", "200")),
    ("ib_write_bw -D 1", bandwidth("ib_write_bw", "-D", "1", "-s", "65536")),
    ("ib_read_bw -D 1", bandwidth("ib_read_bw", "-D", "1", "-s", "65536")),
    ("ib_send_bw -D 1", bandwidth("ib_send_bw", "-D", "1", "-s", "1024")),
    ("ib_send_bw -e", bandwidth("ib_send_bw", "-e", "-s", "4096", "-n", "500")),
    ("ib_read_bw -e", bandwidth("ib_read_bw", "-e", "-s", "4096", "-n", "500")),
    ("ib_write_bw -I", bandwidth("ib_write_bw", "-I", "64", "-s", "64", "-n", "2000")),
    ("ib_send_bw -I", bandwidth("ib_send_bw", "-I", "64", "-s", "64", "-n", "2000")),
    ("ib_write_bw -l", bandwidth("ib_write_bw", "-l", "16", "-s", "1024", "-n", "1600")),
    ("ib_send_bw -l", bandwidth("ib_send_bw", "-l", "16", "-s", "1024", "-n", "1600")),
    ("ib_write_bw, MPRDMA_TRACE", traced),
    ("ib_write_bw -Q 8", bandwidth("ib_write_bw", "-Q", "8", "-s", "1024", "-n", "2000")),
    ("ib_write_bw -m 1024", bandwidth("ib_write_bw", "-m", "1024", "-s", "65536", "-n", "500")),
    ("ib_write_lat -a", latency("ib_write_lat", "-a", "-n", "10", rows=SIZES)),
    ("ib_read_lat, 64 KiB", latency("ib_read_lat", "-s", "65536", "-n", "100")),
    ("ib_send_lat, 64 KiB", latency("ib_send_lat", "-s", "65536", "-n", "100")),
    ("ib_read_lat -e", latency("ib_read_lat", "-e", "-s", "64", "-n", "200")),
    ("ib_write_lat -I", latency("ib_write_lat", "-I", "64", "-s", "64", "-n", "200")),
]

# perftest posts by ibv_wr_*() where a device has it; the same by ibv_post_send().
OLD_POST = [
    (
        f"{program} --use_old_post_send",
        bandwidth(program, "--use_old_post_send", "-s", "4096", "-n", "500"),
    )
    for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw")
]

# The algorithms that docs/extending.md walks through.
EXAMPLES = {"recovery": "gap", "window_control": "aimd", "path_policy": "rotate"}

CHECKS = [
    ("verbs_check", verbs_check("--ops", "2000", "--qps", "3", "--seed", "1")),
    ("verbs_check --events", verbs_check("--ops", "500", "--qps", "3", "--events", "--seed", "2")),
    ("verbs_check, 1 MiB", verbs_check("--ops", "200", "--size-max", "1000000", "--seed", "3")),
    ("verbs_check, MTU 1024", verbs_check("--ops", "500", "--mtu", "1024", "--seed", "4")),
    ("verbs_check, bad wire", verbs_check("--ops", "500", "--qps", "3", "--seed", "5", fault=5)),
    (
        "verbs_check, bad wire, events",
        verbs_check("--ops", "300", "--qps", "2", "--events", "--seed", "6", fault=6),
    ),
    ("verbs_check --last-byte", verbs_check("--last-byte", "--ops", "3000", "--seed", "7")),
    (
        "verbs_check --last-byte, bad wire",
        verbs_check("--last-byte", "--ops", "1000", "--seed", "8", fault=8),
    ),
    (
        "verbs_check --relaxed, bad wire",
        verbs_check("--relaxed", "--ops", "500", "--qps", "3", "--seed", "14", fault=14),
    ),
    (
        "verbs_check --ordering, bad wire",
        verbs_check("--ordering", "--ops", "200", "--size-max", "262144", fault=15),
    ),
    (
        "verbs_check --ordering --relaxed --synchronise, bad wire",
        verbs_check("--ordering", "--relaxed", "--synchronise", "--ops", "200",
                    "--size-max", "262144", fault=16),
    ),
    (
        "verbs_check, the examples of docs/extending.md, bad wire",
        verbs_check("--ops", "500", "--qps", "3", "--seed", "17", fault=17, transport=EXAMPLES),
    ),
    ("verbs_check --bad", verbs_check("--bad")),
    ("verbs_check --bad, bad wire", verbs_check("--bad", fault=9)),
    ("verbs_check --idle", verbs_check("--idle", "--qps", "16")),
    ("verbs_check, the other way round", verbs_check("--seed", "10", server_host=1)),
]

KILLS = [
    ("20 peers killed, h0 survives", kill_peers(20, 0)),
    ("20 peers killed, h1 survives", kill_peers(20, 1)),
    ("ib_write_bw, its server killed", perftest_server_killed),
]

STOPS = [(title, rings.continued(*options)) for title, options in rings.CONTINUED]

COMMAND = [
    (
        "mprdma run, unknown key",
        refuses(["true"], r"broken\.toml:3:1\b", "adress", config='\n[device]\nadress = ""\n'),
    ),
    (
        "mprdma run, broken TOML",
        refuses(["true"], r"broken\.toml:2:\d+", config="[device]\nname = \n"),
    ),
    (
        "mprdma run, wrong value",
        refuses(["true"], r"broken\.toml:2:7\b", "1024", config="[device]\nmtu = 1500\n"),
    ),
    ("mprdma run, no such program", refuses(["/nonexistent/program"], "/nonexistent/program")),
    ("mprdma run, no such wire", refuses(OPENS_QP, "a port is", MPRDMA_PORT="ring:/tmp/x")),
    (
        "mprdma run, no such directory",
        refuses(OPENS_QP, "/nonexistent", "create it", MPRDMA_PORT="local:/nonexistent/w.sock"),
    ),
    ("mprdma run, no permission", no_permission),
    ("mprdma run, port in use", port_in_use),
]

BRIEF_CHECKS = [
    ("verbs_check", verbs_check("--ops", "1000", "--qps", "2", "--seed", "11")),
    ("verbs_check, bad wire", verbs_check("--ops", "300", "--qps", "2", "--seed", "12", fault=12)),
    ("verbs_check --last-byte", verbs_check("--last-byte", "--ops", "1000", "--seed", "13")),
    ("verbs_check --bad", verbs_check("--bad")),
    ("verbs_check --idle", verbs_check("--idle", "--qps", "16")),
]

_CASES = {
    "local": DEVICE + SWEEPS + MANY + LATENCIES + OPTIONS + OLD_POST + CHECKS + KILLS + STOPS
    + COMMAND + direct.CASES + matrix.CASES,
    "virtio": DEVICE + SWEEPS + MANY + LATENCIES + BRIEF_CHECKS
    + [
        ("3 peers killed, h0 survives", kill_peers(3, 0)),
        ("3 peers killed, h1 survives", kill_peers(3, 1)),
    ],
    "af_packet": DEVICE + SWEEPS_SLOW + MANY + LATENCIES + BRIEF_CHECKS
    + [
        ("3 peers killed, h0 survives", kill_peers(3, 0)),
        ("verbs_check on a VLAN", on_a_vlan),
    ],
}


def of_wire(name):
    of_daemon = daemon.CASES + rings.CASES + crowd.CASES + service.CASES + hostile.CASES
    further = {"daemon": of_daemon, "daemon-virtio": daemon_virtio.CASES, "beside": beside.CASES,
               "beside-xdp": beside.CASES}
    chosen = [*{**_CASES, **fabric.CASES, **pause.CASES, **further}[name]]
    for module in (rdma_cm, libfabric, rsockets, doctor_path):
        chosen += module.CASES.get(name, [])
    return [Case(name, title, function) for title, function in chosen]
