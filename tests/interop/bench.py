"""One case at work: our program at our end of the tap, the guest's at its own, a capture between.

A case passes if both programs do, if nobody retransmitted or dropped anything (our counters, the
guest's, and the capture, which knows neither), and if every packet of ours is well formed.
"""

import collections
import contextlib
import ipaddress
import os
import re
import shutil
import signal
import subprocess
import time

import capture
import perftest
from guest import GUEST_IP, HOST_IP, INTERFACE, OUR_IP
from hosts import Failure, Process, Unavailable, wait_until

# Without the bypass of the queueing discipline a capture sees what we send.
PORT = f"ethdev:net_af_packet0,iface={INTERFACE},qdisc_bypass=0,framecnt=2048"
# No retransmission within a second: the guest may be kept off its CPU longer than the 67 ms that
# the pingpongs ask for. The same for the guest's side: patient.c.
CONFIG = "[transport]\nrto_floor_us = 1000000\nrto_ceiling_us = 10000000\n"
# What nobody may count on a clean link, whatever the machine's speed.
OURS_MUST_BE_ZERO = re.compile(r"packets_retransmitted|retransmitted_\w+|nacks_\w+|\w*rto_expired"
                               r"|drop_(?!not_udp)\w+"  # not_udp: perftest's TCP on the same tap
                              
                               r"|retry_exceeded|rnr_retry_exceeded|tx_dropped|rx_no_buffer"
                               r"|errors_\w+|cq_overruns")  # fmt: skip
GUESTS_MUST_BE_ZERO = (
    "completer_retry_err", "duplicate_request", "out_of_seq_request", "rcvd_seq_err",
    "retry_exceeded_err", "retry_rnr_exceeded_err", "send_err",
)  # fmt: skip
# A datagram after the last packet of a case.
MARK, MARK_PORT, MARK_WITHIN = "the case is over", 9, 65536
ACK, MAD_QPN, GUEST_DEVICE = 0x11, 1, "-d rxe0"
MANUFACTURERS = 0xC0  # opcodes from here on; those of the modes that are not the standard's
DAEMON_SECONDS = 60


def expect(condition, what):
    if not condition:
        raise Failure(what)


class Bench:
    def __init__(self, guest, build, directory, mode, fault):
        self.guest = guest
        self.build = build
        self.directory = directory
        self.config = directory / "mprdma.toml"
        # Where losses are wanted, patience is only waiting.
        patience = "[transport]\n" if fault else CONFIG
        self.config.write_text(patience + (f'mode = "{mode}"\n' if mode else ""))
        self.processes = []  # of this case, to be shown when it fails
        self.pcap = directory / "case.pcap"
        self.errors = directory / "stderr"  # of our program: its counters too
        self.counters = {}
        self.guest_before = {}
        guest.remove("libpatient.so")
        if not fault:
            guest.install(build / "tests/interop/libpatient.so")
        self.fault = fault  # MPRDMA_FAULT of our side; empty: a clean link
        self.clean = True  # in this case nothing is refused or sent twice
        self.socket = None  # of mprdmad; None: our programs own the port

    def ours(self, *command):
        """Starts a program over our device."""
        # Apart, so that the counters do not get into a line of the program's results.
        separately = ["sh", "-c", f'exec "$@" 2>{self.errors}', "sh"]
        process = Process(
            [*self.guest.prefix(), *separately, "env", "MPRDMA_COUNTERS=1",
             f"MPRDMA_FAULT={self.fault}", f"XDG_RUNTIME_DIR={self.directory}",
             self.build / "tools/mprdma", "run", *self._port(), "--config", self.config,
             "--", *command],
            name=f"ours: {command[0]}",
        )  # fmt: skip
        self.processes.append(process)
        return process

    def _port(self):
        if self.socket:
            return ["--port", f"daemon:{self.socket}"]
        return ["--address", f"{OUR_IP}/24", "--port", PORT]

    @contextlib.contextmanager
    def behind_daemon(self):
        """mprdmad owns the port meanwhile, and our programs are its processes."""
        socket = self.directory / "mprdmad.sock"
        socket.unlink(missing_ok=True)
        daemon = Process(
            [*self.guest.prefix(), self.build / "tools/mprdmad", "--address", f"{OUR_IP}/24",
             "--port", PORT, "--socket", socket],
        )  # fmt: skip
        self.processes.append(daemon)
        wait_until(lambda: socket.exists() or daemon.status is not None,
                   time.monotonic() + DAEMON_SECONDS, "mprdmad serves")  # fmt: skip
        self.socket = socket
        try:
            yield
        finally:
            self.socket = None
            daemon.stop()

    def theirs(self, command, seconds, listen=None):
        job = self.guest.start(command, seconds, listen)
        self.processes.append(job)
        return job

    def pair(self, ours_is_server, our_command, their_command, seconds):
        """Server, then client. Commands are lists without device, TCP port, and peer."""
        deadline = time.monotonic() + seconds + 30
        port = perftest.free_tcp_port()
        at_port = ["-p", str(port)]
        theirs = " ".join([*map(str, their_command), *at_port])
        if ours_is_server:
            server = self.ours(*our_command, *at_port)
            wait_until(lambda: server.status is not None or server.listens_on(port), deadline,
                       f"{server.name} listens")  # fmt: skip
            client = self.theirs(f"{theirs} {HOST_IP}", seconds)
        else:
            server = self.theirs(theirs, seconds, port)
            server.wait_listening(deadline)
            client = self.ours(*our_command, *at_port, GUEST_IP)
        client.wait(deadline)
        server.wait(deadline)
        return client, server

    # ---- Around a case

    @contextlib.contextmanager
    def watched(self, thorough):
        """Captures and counts while the case runs; looks at both when it ends well."""
        self.processes.clear()
        self.errors.write_text("")
        self.clean = not self.fault
        self.guest_before = self.guest.counters()
        with self._captured():
            yield
            # Answers to the last packets are under way.
            counted = self.guest_counted()
        if self.clean:
            for name in GUESTS_MUST_BE_ZERO:
                expect(counted[name] == 0, f"the guest counts {counted[name]} {name}")
            self._check_our_counters()
        self._check_capture(thorough)

    def stop_processes(self):
        for process in self.processes:
            if isinstance(process, Process):
                process.stop()
        if any(process.status is None for process in self.processes):
            self.guest.kill_jobs()

    def guest_counted(self):
        """By how much each of the guest's counters moved in this case."""
        after = self.guest.counters()
        return {name: value - self.guest_before[name] for name, value in after.items()}

    @contextlib.contextmanager
    def _captured(self):
        self.pcap.unlink(missing_ok=True)
        filter_ = ["udp", "port", "4791", "or", "udp", "dst", "port", str(MARK_PORT)]
        if shutil.which("tcpdump"):
            command = ["tcpdump", "-Z", "root", "-U", "-n", "-B", "16384"]
            command += ["-s", "0", "-i", INTERFACE, "-w", self.pcap, *filter_]
        elif shutil.which("dumpcap"):
            command = ["dumpcap", "-P", "-q", "-i", INTERFACE, "-w", self.pcap]
            command += ["-f", " ".join(filter_)]
        else:
            raise Unavailable("neither tcpdump nor dumpcap is installed")
        process = Process([*self.guest.prefix(), *command])
        try:
            wait_until(lambda: "listening on" in process.output() or "File:" in process.output(),
                       time.monotonic() + 30, "the capture runs")  # fmt: skip
            yield
            self._mark_the_end()
            os.kill(process.pid, signal.SIGINT)
            process.wait_status(time.monotonic() + 30)
        finally:
            process.stop()
        lost = re.search(r"(\d+) packets dropped by kernel", process.output())
        expect(lost is None or lost.group(1) == "0", "the capture lost packets")

    def _mark_the_end(self):
        """The kernel hands packets over in blocks, and what it still has at the end is lost: so the
        last one is ours to know."""
        send = f"printf '{MARK}' >/dev/udp/{GUEST_IP}/{MARK_PORT}"
        subprocess.run([*self.guest.prefix(), "bash", "-c", send], timeout=30, check=True)
        wait_until(lambda: MARK.encode() in self.pcap.read_bytes()[-MARK_WITHIN:],
                   time.monotonic() + 30, "the capture is complete")  # fmt: skip

    # ---- What is looked at

    def _check_our_counters(self):
        line = re.compile(r"^mprdma: (?:transport_|port_)?(\w+) (\d+)$", re.M)
        self.counters = {name: int(value) for name, value in line.findall(self.errors.read_text())}
        expect("commands" in self.counters, "our program printed no counters")
        for name, value in self.counters.items():
            expect(not OURS_MUST_BE_ZERO.fullmatch(name), f"we count {value} {name}")

    def _check_capture(self, thorough):
        seen = collections.Counter()
        packets = 0
        us = ipaddress.ip_address(OUR_IP).packed
        for frame in capture.frames(self.pcap):
            packet = capture.roce(frame)
            if packet is None:
                continue
            packets += 1
            who = "ours" if packet.source == us else "the guest's"
            where = f"{who}, opcode {packet.opcode:#x}, QP {packet.dest_qpn:#x}, PSN {packet.psn}"
            expect(packet.icrc_good, f"wrong ICRC: {where}")
            expect(packet.opcode < MANUFACTURERS, f"not of the standard: {where}")
            is_nak = packet.opcode == ACK and packet.syndrome >= 0x20
            expect(not is_nak or not self.clean, f"NAK {packet.syndrome:#x}: {where}")
            if packet.opcode != ACK and packet.dest_qpn != MAD_QPN:
                seen[where] += 1
        expect(packets, "the capture holds no packets")
        twice = [where for where, count in seen.items() if count > 1]
        expect(not twice or not self.clean, "sent more than once:\n" + "\n".join(twice[:20]))
        if thorough and capture.tshark_is_there():
            lines = capture.malformed(self.pcap)
            expect(not lines, "malformed:\n" + "\n".join(lines[:20]))

    def trace(self, count):
        """The first packets of the case, as tshark shows them."""
        with contextlib.suppress(Failure, OSError, subprocess.TimeoutExpired):
            return capture.summary(self.pcap, "frame")[:count]
        return []
