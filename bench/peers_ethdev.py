"""Samples of processes that own a DPDK ethdev for bench/peers, and of what else uses such a wire.

virtio-user to vhost-user: perftest, and dpdk-testpmd (Debian's dpdk-dev), whose one process sends
frames of the length that ours have with 4096 bytes of payload, as fast as it can, and whose other
one takes them; neither looks at a byte. Both wires have the same parameters (no huge pages, queues
of 256). What counts is the payload of the frames that were taken.

veth: perftest over AF_PACKET at both ends of a veth pair, and iperf3 over the same pair. veth_xdp:
the same over AF_XDP, whose frames carry 2048 bytes of payload at most. Namespaces and pairs are
made for the sample and removed afterwards, which needs root.
"""

import contextlib
import os
import pathlib
import re
import signal
import statistics
import tempfile
import time

import peers_tcp
from hosts import AfPacketWire, Failure, Process, VirtioWire, need_af_xdp, wait_until
from peers_mprdma import over, run_perftest
from peers_processes import LIMIT_SECONDS, SHOWN, Cores

NEEDED = ["dpdk-testpmd"]
VIRTIO = ["ib_write_bw", "-s", 65536, "-n", 20000]
VETH = ["ib_write_bw", "-s", 65536, "-n", 10000]
XDP_MTU = 2048
VETH_XDP = [*VETH, "-m", XDP_MTU]
PAYLOAD_BYTES, FRAME_BYTES = 4096, 4156
EAL = ["--no-pci", "--no-telemetry", "--no-huge", "-m", 256, "--log-level=*:warning"]
TESTPMD = ["--total-num-mbufs=8192", "--mbuf-size=4608", "--txd=256", "--rxd=256", "--burst=32",
           "--stats-period=1"]  # fmt: skip
SECONDS = 2  # of which testpmd's statistics are read
CONSTANTS = {"virtio": VIRTIO, "veth": VETH, "veth_xdp": VETH_XDP,
             "dpdk-testpmd": [*EAL, "--", *TESTPMD]}  # fmt: skip


def read_testpmd(text):
    """Frames a second, in each second in which some came."""
    return [int(number) for number in re.findall(r"Rx-pps:\s+(\d+)", text) if int(number) > 0]


def testpmd(directory, name, cpu, device, *options):
    command = [
        "dpdk-testpmd", *EAL, f"--file-prefix=peers-{name}-{os.getpid()}",
        f"--lcores=0@{cpu},1@{cpu}", f"--vdev={device}", "--", *TESTPMD, *options,
    ]  # fmt: skip
    # Where EAL keeps its files.
    return Process(command, {**os.environ, "RUNTIME_DIRECTORY": str(directory)})


def testpmd_goodput(_build):
    cpus = sorted(os.sched_getaffinity(0))
    cores = Cores()
    with tempfile.TemporaryDirectory(prefix="mprdma-peers-") as directory:
        path = pathlib.Path(directory) / "wire.sock"
        receiver = testpmd(
            directory, "rx", cpus[0], f"net_virtio_user0,path={path},server=1,queues=1,"
            "queue_size=256,mrg_rxbuf=1,in_order=1", "--forward-mode=rxonly",
        )  # fmt: skip
        both = [receiver]
        deadline = time.monotonic() + LIMIT_SECONDS
        try:
            listens = lambda: receiver.status is not None or path.exists()  # noqa: E731
            wait_until(listens, deadline, "dpdk-testpmd listens")
            both.append(testpmd(
                directory, "tx", cpus[-1], f"net_vhost0,iface={path},client=1,queues=1",
                "--forward-mode=txonly", f"--txpkts={FRAME_BYTES}",
            ))  # fmt: skip
            rates = testpmd_rates(both, deadline)
        finally:
            end_testpmd(both)
    return {"value": statistics.median(rates) * PAYLOAD_BYTES * 8 / 1e9, **cores.used()}


def testpmd_rates(processes, deadline):
    """Frames a second that the first of them takes, without the first second."""
    receiver = processes[0]
    ended = lambda: any(process.status is not None for process in processes)  # noqa: E731
    seen = lambda: len(read_testpmd(receiver.output())) > SECONDS  # noqa: E731
    wait_until(lambda: ended() or seen(), deadline, "dpdk-testpmd counts frames")
    if ended():
        said = "\n".join(process.output().strip()[-SHOWN:] for process in processes)
        raise Failure(f"dpdk-testpmd ended: {said}")
    return read_testpmd(receiver.output())[1:]


def end_testpmd(processes):
    """With a signal that it handles first, so that nothing of it is left."""
    for process in processes:
        process.signal(signal.SIGINT)
    for process in processes:
        with contextlib.suppress(Failure):
            process.wait_status(time.monotonic() + 10)
        process.stop()


def iperf3_over_veth(build):
    with AfPacketWire(build) as wire:
        cores = Cores()
        sample = peers_tcp.goodput((wire.prefix(0), wire.prefix(1), wire.tcp_address))
        return {**sample, **cores.used()}


class AfXdpWire(AfPacketWire):
    """AF_XDP at both ends of a veth pair, which it takes whole: perftest's TCP has another pair."""

    name = "af_xdp"
    tcp_address = "10.75.0.1"
    mtu = 3498  # more than that a veth does not take for XDP

    def set_up(self):
        need_af_xdp()
        super().set_up()
        self._ip("link", "add", "control", "netns", self._space(0), "type", "veth",
                 "peer", "name", "control", "netns", self._space(1))  # fmt: skip
        for host in (0, 1):
            here = ("-n", self._space(host))
            self._ip(*here, "address", "add", f"10.75.0.{host + 1}/24", "dev", "control")
            self._ip(*here, "link", "set", "control", "up")

    def port(self, host):
        return f"ethdev:net_af_xdp0,iface=veth{host}"


SAMPLES = {
    "virtio.goodput": over(VirtioWire, run_perftest("goodput", VIRTIO)),
    "testpmd.goodput": testpmd_goodput,
    "veth.goodput": over(AfPacketWire, run_perftest("goodput", VETH)),
    "veth_xdp.goodput": over(AfXdpWire, run_perftest("goodput", VETH_XDP),
                             MPRDMA_MTU=str(XDP_MTU)),
    "veth_tcp.goodput": iperf3_over_veth,
}  # fmt: skip
