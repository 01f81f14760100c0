"""Cases on a network of `mprdma fabric`: four paths between two hosts, and what happens to them."""

import signal
import time

import perftest
from fabric_wire import FabricWire
from hosts import Failure, describe_status, wait_until

PATHS = ("path1", "path2", "path3", "path4")
TOPOLOGY = """
paths = 4
[path]
rate = "200Mbps"
delay_us = 20
queue_kb = 400
red = [1.0, 12, 24]
[[hosts]]
name = "h0"
ip = "10.73.0.1/24"
port = "{port}"
[[hosts]]
name = "h1"
ip = "10.73.0.2/24"
port = "{port}"
"""


def expect(condition, what):
    if not condition:
        raise Failure(what)


class FabricLocal(FabricWire):
    """Both hosts on LocalPort."""

    name = "fabric"

    def __init__(self, build):
        super().__init__(build, TOPOLOGY.format(port="local"), "test")


class FabricVhost(FabricWire):
    """Both hosts own a DPDK device; the fabric speaks vhost-user."""

    name = "fabric-vhost"

    def __init__(self, build):
        super().__init__(build, TOPOLOGY.format(port="vhost"), "test")


def directions(wire):
    """{link: {from: counters}}"""
    return {
        link["name"]: {d["from"]: d for d in link["directions"]} for link in wire.show()["links"]
    }


def frames_in(wire):
    return sum(host["frames_in"] for host in wire.show()["hosts"])


def start_check(wire, *options):
    """A host of the fabric has its link when it tells its peer that it is there (--active)."""
    program = wire.build / "tests/integration/verbs_check"
    path = wire.new_path("check")
    server = wire.start(0, [program, "--server", path, "--active", *options])
    client = wire.start(1, [program, "--client", path, "--active", *options])
    return client, server


def run_check(wire, *options):
    """The counters of the links before verbs_check and after it."""
    deadline = time.monotonic() + 90
    before = directions(wire)
    for process in start_check(wire, *options):
        process.wait(deadline)
    return before, directions(wire)


def restore(wire):
    for path in PATHS:
        wire.set(path, "up", "loss=0", "delay=20us", "rate=200Mbps")


def check_uses_all_paths(wire):
    before, after = run_check(wire, "--ops", "1500", "--qps", "3", "--seed", "31")

    def moved(link, start, key):
        return after[link][start][key] - before[link][start][key]

    for tor, host in (("tor1", "h0"), ("tor2", "h1")):
        carried = [moved(path, tor, "packets") for path in PATHS]
        expect(all(count > 0 for count in carried), f"packets of the paths from {tor}: {carried}")
        expect(sum(carried) == moved(host, host, "packets"), f"{host} sent other than was carried")
        lost = sum(moved(path, tor, "drop_loss") + moved(path, tor, "drop_down") for path in PATHS)
        expect(lost == 0, "packets were lost on clean links")


def check_sprays(wire):
    """`path_policy = "spray"`: each path gets the same share of the packets, a lossy one, too."""
    config = wire.directory / "transport.toml"
    config.write_text('[transport]\npath_policy = "spray"\n')
    wire.extra["MPRDMA_CONFIG"] = str(config)
    try:
        wire.set("path4", "loss=1%")
        before, after = run_check(wire, "--ops", "1500", "--qps", "2", "--seed", "35")
    finally:
        restore(wire)
    for tor in ("tor1", "tor2"):
        carried = [after[path][tor]["packets"] - before[path][tor]["packets"] for path in PATHS]
        shares = [count / sum(carried) for count in carried]
        expect(all(0.2 < share < 0.3 for share in shares), f"shares of the paths: {shares}")


def over_loss(preset, congestion=None):
    """A case: every path loses 1 % in both directions, and contents are right with this preset;
    with DCQCN an end hears of the marks of a slow path, where a queue grows."""

    def run(wire):
        if congestion is None:
            wire.extra["MPRDMA_PRESET"] = preset
        else:  # in one file: the variable would replace all that a file says of the transport
            config = wire.directory / "congestion.toml"
            config.write_text(f'[transport]\npreset = "{preset}"\ncongestion = "{congestion}"\n')
            wire.extra.update(MPRDMA_CONFIG=str(config), MPRDMA_COUNTERS="1")
        try:
            for path in PATHS:
                wire.set(path, "loss=1%", *(["rate=50Mbps"] if congestion else []))
            before, after = run_check(wire, "--ops", "1000", "--qps", "2", "--seed", "36")
        finally:
            restore(wire)
        lost = sum(
            after[path][tor]["drop_loss"] - before[path][tor]["drop_loss"]
            for path in PATHS for tor in ("tor1", "tor2")
        )  # fmt: skip
        expect(lost > 0, "nothing was lost")
        if congestion == "dcqcn-paper":
            heard = any("cnps_received" in process.output() for process in wire.processes)
            expect(heard, "no CNP came")

    return run


def check_rides_over_changes(wire):
    """Contents and order are right whatever the links do meanwhile."""
    deadline = time.monotonic() + 120
    try:
        wire.set("path1", "loss=2%")
        wire.set("path4", "rate=20Mbps", "delay=2ms")
        client, server = start_check(wire, "--ops", "1500", "--qps", "2", "--seed", "32")
        while client.status is None:
            expect(time.monotonic() < deadline, "verbs_check did not end")
            for state in ("down", "up"):
                wire.set("path2", state)
                time.sleep(0.05)
        client.wait(deadline)
        server.wait(deadline)
        expect(sum(d["drop_loss"] for d in directions(wire)["path1"].values()) > 0, "no losses")
    finally:
        restore(wire)


def ordering(*options):
    """Data, then a flag that the reader polls, over paths of different length: packets overtake."""

    def run(wire):
        deadline = time.monotonic() + 90
        try:
            for path, delay in zip(PATHS, ("20us", "300us", "800us", "2ms")):
                wire.set(path, f"delay={delay}")
            common = ["--ordering", "--ops", "300", "--size-max", "262144", *options]
            for process in start_check(wire, *common):
                process.wait(deadline)
        finally:
            restore(wire)

    return run


def start_bandwidth(wire, seconds, deadline):
    port = perftest.free_tcp_port()
    command = ["ib_write_bw", "-F", "-s", "65536", "-D", seconds, "-p", port]
    server = wire.start(0, command)
    wait_until(
        lambda: server.status is not None or server.listens_on(port), deadline, "a server"
    )
    before = frames_in(wire)
    client = wire.start(1, [*command, wire.tcp_address])
    wait_until(
        lambda: client.status is not None or frames_in(wire) > before + 1000, deadline, "traffic"
    )
    return client, server


def fabric_killed(wire):
    """Killed and started again under ib_write_bw: it goes on, or ends as the standard says."""
    deadline = time.monotonic() + 90
    client, server = start_bandwidth(wire, 6, deadline)
    wire.fabric.kill()
    wire.set_up()
    status = client.wait_status(deadline)
    expect(status >= 0, f"the client: {describe_status(status)}")
    if status != 0:
        expect("status 12" in client.output(), "neither success nor status 12 (retries exceeded)")
        server.stop()  # it waits for the client's word
    else:
        server.wait(deadline)
    # And the next ones find a network as before.
    wire.stop_processes()
    for process in start_check(wire, "--ops", "200", "--seed", "33"):
        process.wait(deadline)


def program_killed(wire):
    """A host whose program dies is the next one's."""
    deadline = time.monotonic() + 90
    client, server = start_bandwidth(wire, 20, deadline)
    server.kill()
    status = client.wait_status(deadline)
    expect(status > 0, f"the client: {describe_status(status)}")
    expect("status 12" in client.output(), "the client names no status 12 (retries exceeded)")
    wire.stop_processes()
    for process in start_check(wire, "--ops", "200", "--seed", "34"):
        process.wait(deadline)


def leaves_nothing(wire):
    """`down` and SIGTERM remove everything."""
    directory = wire.directory / "mprdma" / f"fabric-{wire.fabric_name}"
    expect(directory.is_dir(), f"there is no {directory}")
    wire.command("down")
    expect(wire.fabric.wait_status(time.monotonic() + 20) == 0, "the fabric failed")
    expect(not directory.exists(), "down left files behind")
    expect(wire.command("show", check=False).returncode == 1, "show of a fabric that is not up")
    wire.set_up()
    wire.fabric._popen.send_signal(signal.SIGTERM)
    expect(wire.fabric.wait_status(time.monotonic() + 20) == 0, "the fabric failed at SIGTERM")
    expect(not directory.exists(), "SIGTERM left files behind")
    wire.set_up()


def refusals(wire):
    """What cannot be done is said, and changes nothing."""
    ran = wire.command("set", "path1", "rate=fast", check=False)
    expect(ran.returncode == 1 and "rate=200Mbps" in ran.stderr, f"set: {ran.stderr}")
    ran = wire.command("set", "path9", "down", check=False)
    expect(ran.returncode == 1 and "path4" in ran.stderr, f"set: {ran.stderr}")
    ran = wire.command("up", wire.directory / "fabric.toml", check=False)
    expect(ran.returncode == 1 and "runs already" in ran.stderr, f"up: {ran.stderr}")
    broken = wire.directory / "broken.toml"
    broken.write_text(wire.topology.replace("200Mbps", "fast"))
    ran = wire.command("up", broken, check=False)
    expect(ran.returncode == 1 and "broken.toml:4:8" in ran.stderr, f"up: {ran.stderr}")


BOTH = [
    ("verbs_check uses all paths", check_uses_all_paths),
    ("the fabric killed and started again", fabric_killed),
    ("a program killed", program_killed),
]
CASES = {
    "fabric": [
        *BOTH,
        ("verbs_check sprays, over a path that loses packets, too", check_sprays),
        *((f"verbs_check over lossy paths, preset {preset}", over_loss(preset))
          for preset in ("irn", "spray-nscc", "swift-plb")),
        *((f"verbs_check over lossy paths, preset irn with {congestion}",
           over_loss("irn", congestion)) for congestion in ("dcqcn-paper", "timely")),
        ("verbs_check rides over loss, cuts and a slow path", check_rides_over_changes),
        ("a flag after its data, paths of different length", ordering()),
        ("a flag may overtake relaxed data", ordering("--relaxed", "--expect-stale")),
        ("a synchronised flag never does", ordering("--relaxed", "--synchronise")),
        ("what cannot be done is said", refusals),
        ("down leaves nothing", leaves_nothing),
    ],
    "fabric-vhost": BOTH,
}
WIRES = {"fabric": FabricLocal, "fabric-vhost": FabricVhost}
