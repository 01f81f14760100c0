"""Cases of PFC on a network of `mprdma fabric`, with real programs: a pause storm, a slow receiver,
and two priorities. UC has neither window nor acknowledgement, so that nothing but PFC stops its
senders."""

import signal
import time

import perftest
from fabric_wire import FabricWire
from hosts import Failure, Process, wait_until
from mprdmads import daemons, end_of

# h0 and h1 are at one switch, h2 and h3 at the other; one path, faster than any host.
TOPOLOGY = """
{keys}
paths = 1
[path]
rate = "500Mbps"
delay_us = 20
""" + "".join(
    f'[[hosts]]\nname = "h{host}"\nip = "10.73.0.{host + 1}/24"\nrate = "200Mbps"\n'
    'port = "{port}"\n'
    for host in range(4)
)
PFC = "pfc = true\npause_bytes = 200_000\n"
# Longer than a program waits for a core of a busy machine, which is a pause, too.
WATCHED = PFC + "switch_watchdog_us = 500_000\n"
# The engines obey, at the rate of their links.
ENGINE = "[port]\npfc = true\n[transport]\nlink_mbps = 200\n"
WATCHED_AT_THE_NIC = PFC + "nic_watchdog_us = 500_000\n"
WATCHED_FOR = 1.0  # seconds


def expect(condition, what):
    if not condition:
        raise Failure(what)


class FabricPfc(FabricWire):
    """Four hosts on LocalPort."""

    name = "fabric-pfc"
    port_kind = "local"

    def __init__(self, build):
        super().__init__(build, TOPOLOGY.format(keys=PFC, port=self.port_kind), "pfc")

    def set_up_with(self, keys):
        """Another network, empty."""
        self.stop_processes()
        self.tear_down()
        self.topology = TOPOLOGY.format(keys=keys, port=self.port_kind)
        self.set_up()

    def host(self, index):
        return self.show()["hosts"][index]

    def drops(self):
        """{where: {counter: packets}} of what was dropped, and not on its way to nobody."""
        shown = self.show()
        places = {f"host {host['name']}": host for host in shown["hosts"]}
        for link in shown["links"]:
            for way in link["directions"]:
                places[f"{link['name']} from {way['from']}"] = way
        found = {
            place: {name: count for name, count in counters.items()
                    if name.startswith("drop_") and name != "drop_host_away" and count > 0}
            for place, counters in places.items()
        }  # fmt: skip
        return {place: counters for place, counters in found.items() if counters}


class FabricPfcVhost(FabricPfc):
    """Four hosts with virtio-user ports of DPDK, each towards a vhost-user port of the network."""

    name = "fabric-pfc-vhost"
    port_kind = "vhost"


def engine_options(wire, **more):
    config = wire.directory / "pfc.toml"
    config.write_text(ENGINE)
    return {"MPRDMA_CONFIG": str(config), "MPRDMA_COUNTERS": "1", **more}


def start_stream(wire, source, sink, seconds, deadline, **of_sink):
    """A program at `source` that writes to one at `sink` as fast as it may."""
    port = perftest.free_tcp_port()
    command = ["ib_write_bw", "-F", "-c", "UC", "-m", "4096", "-s", "65536", "-D", seconds,
               "-p", port]  # fmt: skip
    server = wire.start(sink, command, **engine_options(wire, **of_sink))
    wait_until(
        lambda: server.status is not None or server.listens_on(port), deadline, "a server"
    )
    client = wire.start(source, [*command, wire.tcp_address], **engine_options(wire))
    return client, server


def wait_for_traffic(wire, client, sink, deadline):
    before = wire.host(sink)["frames_out"]
    wait_until(
        lambda: client.status is not None or wire.host(sink)["frames_out"] > before + 1000,
        deadline, f"traffic to h{sink}",
    )  # fmt: skip


def stop_and_go(wire, keys):
    """A receiver whose process stands still again and again; what was dropped meanwhile, and the
    output of the sender."""
    wire.set_up_with(keys)
    deadline = time.monotonic() + 90
    client, server = start_stream(wire, 0, 2, 10, deadline)
    wait_for_traffic(wire, client, 2, deadline)
    noticed = "pause_full" if keys else "drop_host_slow"
    for _ in range(3):
        before = wire.host(2)[noticed]
        server.signal(signal.SIGSTOP)
        wait_until(lambda: wire.host(2)[noticed] > before, deadline, "a receiver without room")
        time.sleep(0.5)
        server.signal(signal.SIGCONT)
        wait_for_traffic(wire, client, 2, deadline)
    # What the receiver has not taken when its program ends is nobody's.
    drops = wire.drops()
    client.wait(deadline)
    server.wait(deadline)
    return drops, client.output()


def slow_receiver(wire):
    """With PFC a receiver that stands still stops its sender, and loses nothing."""
    drops, _ = stop_and_go(wire, "")
    lost = drops.get("host h2", {}).get("drop_host_slow", 0)
    expect(lost > 1000, f"without PFC only {lost} frames were lost")
    drops, output = stop_and_go(wire, PFC)
    # ARP is not lossless, and may find the receiver without room.
    flooded = sum(host["frames_flooded"] for host in wire.show()["hosts"])
    arp = drops.pop("host h2", {})
    expect(drops == {} and arp.pop("drop_host_slow", 0) <= flooded and arp == {},
           f"with PFC frames were lost: {drops} {arp}")  # fmt: skip
    receiver, sender = wire.host(2), wire.host(0)
    expect(receiver["pause_full"] >= 3, "the receiver did not pause the network")
    expect(sender["pause_sent"] > 0, "the network did not pause the sender")
    expect("pfc_received" in output and "pfc_paused_us" in output, "the sender did not obey")
    wire.notes.append(f"without PFC {lost} frames were lost; with it none, "
                      f"{receiver['pause_full']} pauses of the receiver")  # fmt: skip


def frames_in_a_while(wire, host):
    before = wire.host(host)["frames_out"]
    time.sleep(WATCHED_FOR)
    return wire.host(host)["frames_out"] - before


def storm(wire, keys, begun, reached):
    """The frames of a neighbour in a while, before the NIC of h3 goes mad and, once the storm has
    begun, the worse of the first two in a row that both reached(before, after), or of the last.
    On a busy machine the mad program may miss its turns, and the storm have gaps."""
    wire.set_up_with(keys)
    deadline = time.monotonic() + 90
    client, _ = start_stream(wire, 1, 2, 60, deadline)
    wait_for_traffic(wire, client, 2, deadline)
    before = frames_in_a_while(wire, 2)
    start_stream(wire, 0, 3, 60, deadline, MPRDMA_FAULT="pause_after_ms=1000")
    wait_until(lambda: wire.host(3)["pause_received"] > 0, deadline, "the storm")
    wait_until(lambda: begun(wire), deadline, "traffic into the storm")
    whiles = [frames_in_a_while(wire, 2), frames_in_a_while(wire, 2)]
    while not all(reached(before, after) for after in whiles) and time.monotonic() < deadline - 50:
        whiles = [whiles[1], frames_in_a_while(wire, 2)]
    expect(wire.host(3)["pause_received"] > 100, "the storm ended")
    return before, next((after for after in whiles if not reached(before, after)), whiles[1])


def is_paused(wire, name, direction=0):
    """The host of this name, or (1) the switch in front of it."""
    ways = {link["name"]: link["directions"] for link in wire.show()["links"]}
    return ways[name][direction]["paused"]


def pause_storm(wire):
    """One mad NIC blocks its neighbours, and a watchdog frees them, at the switch or at the NIC."""
    before, after = storm(wire, PFC, lambda wire: is_paused(wire, "h0"),
                          lambda before, after: after < before / 20)  # fmt: skip
    expect(before > 1000, f"only {before} frames of the neighbour before the storm")
    expect(after < before / 20, f"the storm blocked nobody: {after} frames, {before} before")
    expect(wire.host(1)["pause_sent"] > 0, "the neighbour was not told to pause")
    wire.notes.append(f"without a watchdog: {before} frames a second before, {after} in the storm")
    before, after = storm(wire, WATCHED, lambda wire: wire.host(3)["watchdog_trips"] > 0,
                          lambda before, after: after > before / 4)  # fmt: skip
    expect(after > before / 4, f"the watchdog freed nobody: {after} frames, {before} before")
    wait_until(lambda: is_paused(wire, "h3", 1), time.monotonic() + 10, "h3, which pauses still")
    links = {link["name"]: link["directions"] for link in wire.show()["links"]}
    expect(links["h3"][1]["drop_paused"] > 0, "nothing was dropped that was for h3")
    wire.notes.append(f"with one: {before} before, {after} in the storm")
    before, after = storm(wire, WATCHED_AT_THE_NIC,
                          lambda wire: wire.host(3)["nic_watchdog_trips"] > 0,
                          lambda before, after: after > before / 4)  # fmt: skip
    expect(after > before / 4, f"the NIC's watchdog freed nobody: {after}, {before} before")
    expect(wire.host(3)["pause_ignored"] > 100, "the card's pauses are obeyed still")
    wire.notes.append(f"with one at the NIC: {before} before, {after} in the storm")


# The engines obey it with what the daemon passes on, and have no configuration of their own.
DAEMON = "[port]\npfc = true\nlink_mbps = 200\n"
PRIORITY = 3
# 48 Mb/s: what a program sends until it hears of a pause has room in the fabric, and what it sends
# in two seconds has not.
PACED = ["--rate_limit=6", "--rate_units=M", "--rate_limit_type=SW", "--burst_size=4"]


def start_beside(wire, socket, sink, priority, deadline):
    """As start_stream(), from the mprdmad of this socket, at a priority."""
    port = perftest.free_tcp_port()
    command = ["ib_write_bw", "-F", "-c", "UC", "-m", "4096", "-s", "4096", *perftest.UNTIL_ENDED,
               "-p", port, f"--tclass={priority << 5}", *PACED]  # fmt: skip
    server = wire.start(sink, command)
    wait_until(
        lambda: server.status is not None or server.listens_on(port), deadline, "a server"
    )
    client = Process(
        [wire.build / "tools/mprdma", "run", "--port", f"daemon:{socket}", "--", *command,
         wire.tcp_address],
        {**wire.environment(0), "MPRDMA_COUNTERS": "1"}, f"a program of priority {priority}",
    )  # fmt: skip
    wire.processes.append(client)
    wait_for_traffic(wire, client, sink, deadline)
    return client, server


def counter_of(process, name):
    words = [line.split() for line in process.output().splitlines()]
    return sum(int(line[-1]) for line in words if name in line)


def one_priority(wire):
    """Two programs of one mprdmad: the receiver of one stands still, and its sender is paused,
    which loses nothing; the other, at a priority that is not lossless, goes on."""
    wire.set_up_with(PFC + f"lossless_priorities = [{PRIORITY}]\n")
    deadline = time.monotonic() + 90
    config = wire.directory / "daemon.toml"
    config.write_text(DAEMON)
    with daemons(wire, [["-c", config, *end_of(wire, 0)]]) as (socket,):
        paused, receiver = start_beside(wire, socket, 2, PRIORITY, deadline)
        other, _ = start_beside(wire, socket, 3, 0, deadline)
        before = frames_in_a_while(wire, 3)
        receiver.signal(signal.SIGSTOP)
        wait_until(lambda: is_paused(wire, "h0"), deadline, "a paused host")
        # Whoever does not obey has filled the host's share of the fabric after two of them.
        after = [frames_in_a_while(wire, 3) for _ in range(4)]
        stands = wire.host(2)["frames_out"]
        time.sleep(WATCHED_FOR)
        expect(wire.host(2)["frames_out"] == stands, "the receiver takes frames")
        lost = wire.drops().get("host h2", {})
        receiver.signal(signal.SIGCONT)
        wait_for_traffic(wire, paused, 2, deadline)
        for client in (paused, other):
            perftest.end(client, deadline)
            client.wait(deadline)
    expect(max(after[2:]) > before / 4, f"the other priority stood still: {after}, {before} before")
    flooded = sum(host["frames_flooded"] for host in wire.show()["hosts"])
    expect(lost.pop("drop_host_slow", 0) <= flooded and lost == {}, f"frames were lost: {lost}")
    for client in (paused, other):
        expect(counter_of(client, "pfc_received") > 0, "a program was not told of the pause")
    wire.notes.append(f"frames of the other priority in a second: {before} before the pause, "
                      f"{after} in it")  # fmt: skip


CASES = {
    "fabric-pfc": [
        ("a pause stops one priority of an mprdmad, and no other", one_priority),
        ("a slow receiver loses nothing", slow_receiver),
        ("a watchdog ends a pause storm", pause_storm),
    ],
    # The storm differs in nothing but the port, and takes as long again.
    "fabric-pfc-vhost": [("a slow receiver loses nothing", slow_receiver)],
}
WIRES = {"fabric-pfc": FabricPfc, "fabric-pfc-vhost": FabricPfcVhost}
