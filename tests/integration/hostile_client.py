#!/usr/bin/env python3
"""A process that misbehaves towards mprdmad in every way there is, again and again.

usage: hostile_client.py SOCKET

Prints "round N" when it has done everything N times. Ends with status 1 when the daemon cannot be
reached any more. The formats are those of dataplane/client/protocol.hpp,
dataplane/port/local_port_region.hpp and abi/mprdma_abi_cm.h, a second time: an attacker does
not use our library.
"""

import contextlib
import ctypes
import fcntl
import itertools
import mmap
import os
import random
import socket
import struct
import sys
import threading
import time

MAGIC = 0x434E444D
VERSION = 3
HELLO, WELCOME, REFUSED, CM_COMMAND, QUERY = 1, 2, 3, 4, 8
HEAD = struct.Struct("<IHHII")  # magic, version, type, serial, bytes
NO_BLOCK = 0xFFFFFFFF
SLOTS_OF_A_BLOCK = 1 << 14  # queue pair numbers of one generation
GREETING = struct.pack("<IIII", 0x4C503031, 1, 0, 0)
REGION_MAGIC = 0x4C6F63616C506F72
SLOTS, STRIDE = 256, 4352
BARE = 1 << 15  # in the offset of a descriptor
NEWEST, RETURNED, NEED_WAKEUP, TX_RING = 128, 256, 384, 4096
RETURN_RING = TX_RING + 8 * SLOTS
RETURN_RING_ENTRIES = 8192
FRAMES = (RETURN_RING + 2 * RETURN_RING_ENTRIES + 4095) // 4096 * 4096
REGION_BYTES = FRAMES + SLOTS * STRIDE
F_ADD_SEALS = 1033
SEALS = 1 | 2 | 4 | 16  # SEAL, SHRINK, GROW, FUTURE_WRITE
MFD_CLOEXEC, MFD_ALLOW_SEALING, MFD_HUGETLB = 1, 2, 4
PUNCH_HOLE = 0x02 | 0x01  # with KEEP_SIZE
CM_CREATE, CM_RESOLVE, CM_LISTEN, CM_CONNECT, CM_ACCEPT = 1, 4, 5, 6, 7
EPERM = 1
PS_TCP = 0x0106
PATIENCE = 20  # seconds
libc = ctypes.CDLL(None, use_errno=True)


def head(kind, size, serial=1, version=VERSION):
    return HEAD.pack(MAGIC, version, kind, serial, size)


def dial(path):
    """A connection; the queue of the daemon may be full, with ourselves."""
    deadline = time.monotonic() + PATIENCE
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(PATIENCE)
        try:
            connection.connect(path)
            return connection
        except (BlockingIOError, InterruptedError, TimeoutError):
            connection.close()
            if time.monotonic() > deadline:
                raise


def quietly(function, *arguments):
    """The daemon hangs up on us: that is what is asked for."""
    with contextlib.suppress(OSError):
        return function(*arguments)
    return None


def hello(connection, instance=None):
    body = struct.pack("<QII32s", instance or random.getrandbits(63) | 1, os.getpid(), NO_BLOCK,
                       b"hostile")
    connection.send(head(HELLO, HEAD.size + len(body)) + body)


def memory(size=REGION_BYTES, flags=0, seals=SEALS, written=True):
    return memory_and_map(size, flags, seals, written)[0]


def memory_and_map(size=REGION_BYTES, flags=0, seals=SEALS, written=True):
    """The map comes before the seals, after which there is none to write to."""
    fd = os.memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags)
    os.ftruncate(fd, size)
    if written:
        os.posix_fallocate(fd, 0, size)
        # No large frames; we read bare packets, which the daemon never writes.
        os.pwrite(fd, struct.pack("<QIIIIII", REGION_MAGIC, 2, SLOTS, STRIDE, 0, 0, 1), 0)
    own_map = mmap.mmap(fd, size) if written else None
    if seals:
        fcntl.fcntl(fd, F_ADD_SEALS, seals)
    return fd, own_map


class Port:
    """A served connection with its LocalPort, whose memory we write to as we like."""

    def __init__(self, path, own_memory=None):
        self.connection = dial(path)
        hello(self.connection)
        data, fds, _, _ = socket.recv_fds(self.connection, 512, 1)
        kind = HEAD.unpack_from(data)[2]
        if kind != WELCOME or not fds:
            raise ConnectionError(f"no welcome: {data[24:].rstrip(bytes(1))}")
        self.first_qpn = struct.unpack_from("<I", data, 24)[0] * SLOTS_OF_A_BLOCK
        self.ipv4 = struct.unpack_from("<I", data, 32)[0]
        self.mac = data[40:46]
        self.control = socket.socket(fileno=fds[0])
        self.control.setblocking(False)
        self.fd, self.map = memory_and_map() if own_memory is None else (own_memory, None)
        fd = self.fd
        quietly(socket.send_fds, self.control, [GREETING], [fd])
        self.sent = 0

    def close(self):
        if self.map is not None:
            self.map.close()
        os.close(self.fd)
        self.control.close()
        self.connection.close()

    def put_word(self, slot, length, offset=0):
        sequence = (self.sent + 1) & 0xFFFF
        word = struct.pack("<HHHH", slot, length, offset, sequence)
        at = TX_RING + 8 * (self.sent % SLOTS)
        self.map[at:at + 8] = word
        self.map[NEWEST:NEWEST + 8] = word
        self.sent += 1

    def put(self, frame):
        """Nobody takes it from us faster than he can: slots are used again without being given."""
        slot = self.sent % SLOTS
        at = FRAMES + slot * STRIDE
        self.map[at:at + len(frame)] = frame
        self.put_word(slot, len(frame))
        quietly(self.control.send, struct.pack("<IIII", 0x4C503031, 2, 0, 0))

    def frame(self, *, source_qpn=None, dest_qpn=None, source=None, dest=None, mac=None):
        """A datagram, from ourselves to ourselves unless told otherwise."""
        source = self.ipv4 if source is None else source
        dest = self.ipv4 if dest is None else dest
        own = self.first_qpn + 77
        payload = bytes(64)
        bth = struct.pack(">BBHII", 0x64, 0x40, 0xFFFF, dest_qpn or own, 1)
        deth = struct.pack(">II", 0x11111111, source_qpn or own)
        udp_bytes = 8 + len(bth) + len(deth) + len(payload) + 4
        ip = bytearray(struct.pack(">BBHHHBBHII", 0x45, 0, 20 + udp_bytes, 0, 0x4000, 64, 17, 0,
                                   source, dest))
        total = sum(struct.unpack(">10H", ip))
        total = (total & 0xFFFF) + (total >> 16)
        struct.pack_into(">H", ip, 10, ~(total + (total >> 16)) & 0xFFFF)
        udp = struct.pack(">HHHH", 50000, 4791, udp_bytes, 0)
        ethernet = self.mac + (mac or self.mac) + b"\x08\x00"
        return ethernet + bytes(ip) + udp + bth + deth + payload + bytes(4)

    def ended(self):
        """The daemon hung up."""
        with contextlib.suppress(TimeoutError):
            return not self.connection.recv(512)
        return False


# ---- Each way by itself


def admitted(path):
    """A port; the daemon may still have to see that earlier ones of ours were closed."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return Port(path)
        except ConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def garbage(path):
    """On the control socket: no message at all, too short, too long, unknown, out of turn."""
    whole = head(HELLO, 64) + bytes(48)
    texts = [b"GET / HTTP/1.1\r\n\r\n", b"x", whole[:15], whole[:63], whole + b"x",
             head(99, 64) + bytes(48), head(WELCOME, 128) + bytes(112),
             head(CM_COMMAND, 360) + bytes(344), head(HELLO, 64, version=77) + bytes(48),
             random.randbytes(300)]  # fmt: skip
    for text in texts:
        with dial(path) as connection:
            quietly(connection.send, text)
            quietly(connection.recv, 512)
    with contextlib.closing(admitted(path)) as port:
        quietly(port.control.send, random.randbytes(16))
        quietly(port.ended)


def forged(path):
    """Addresses and queue pair numbers that are not ours, and frames that are none."""
    with contextlib.closing(admitted(path)) as port:
        others = (port.first_qpn + (1 << 17)) % (1 << 24) | 5
        for frame in (
            port.frame(source_qpn=others),
            port.frame(source_qpn=1, dest_qpn=1),
            port.frame(source=port.ipv4 + 1),
            port.frame(mac=b"\x02\x00\x00\x00\x00\x99"),
            port.frame(dest_qpn=others)[:60],
            b"\xff" * 6 + port.mac + b"\x08\x06" + random.randbytes(46),
            random.randbytes(200),
        ) * 20:
            port.put(frame)
            time.sleep(0.0005)  # the daemon may look
        for op in (CM_CONNECT, CM_ACCEPT):
            port.connection.send(cm_command_of(op, 1, others))
            error = struct.unpack_from("<i", port.connection.recv(512), HEAD.size)[0]
            if error != EPERM:
                raise RuntimeError(f"a connection of others' queue pair: {error}")


def ring_indices(path):
    """A cursor that jumps, one that runs back, entries of nonsense, all of it without end."""
    for at, word in ((NEWEST, struct.pack("<HHHH", 0, 100, 0, 30000)), (RETURNED, b"\xff\x7f\0\0")):
        with contextlib.closing(admitted(path)) as port:
            port.put_word(3, 100)
            port.map[at:at + len(word)] = word
            # An answer to ourselves makes the daemon look for frames that we gave back.
            if at == NEWEST:
                quietly(port.ended)
    with contextlib.closing(admitted(path)) as port:
        strange = (4000, 100, 0), (1, 3, 0), (2, 4352, 64), (3, 65535, 65535), (4, 100, BARE)
        for slot, length, offset in strange:
            port.put_word(slot, length, offset)
        time.sleep(0.05)
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            at = random.choice((NEWEST, RETURNED, NEED_WAKEUP, TX_RING, RETURN_RING))
            at += 8 * random.randrange(SLOTS // 4) if at >= TX_RING else 0
            port.map[at:at + 8] = random.randbytes(8)
            quietly(port.control.send, struct.pack("<IIII", 0x4C503031, 2, 0, 0))


def never_reads(path):
    """Frames to ourselves, of which none is taken."""
    with contextlib.closing(admitted(path)) as port:
        frame = port.frame()
        for _ in range(8 * SLOTS):
            port.put(frame)
            time.sleep(0.0002)


def memory_of_all_kinds(path):
    """Truncated, too large, not written, huge pages, no memory at all; holes under the reader."""
    made = [lambda: memory(seals=0), lambda: memory(seals=SEALS & ~2),
            lambda: memory(seals=SEALS & ~16), lambda: memory(size=8192),
            lambda: memory(size=REGION_BYTES + (64 << 20), written=False),
            lambda: memory(written=False),
            lambda: memory(size=4 << 20, flags=MFD_HUGETLB, written=False),
            lambda: os.open("/dev/zero", os.O_RDWR), lambda: os.pipe()[0]]  # fmt: skip
    for make in made:
        fd = quietly(make)
        if fd is not None:
            with contextlib.closing(Port(path, fd)) as port:
                if not port.ended():
                    raise RuntimeError("the daemon took memory that it should not")
    with contextlib.closing(admitted(path)) as port:
        frame = port.frame()
        quietly(os.ftruncate, port.fd, 0)
        for _ in range(50):
            port.put(frame)
            if not libc.fallocate(port.fd, PUNCH_HOLE, ctypes.c_long(0), ctypes.c_long(4096)):
                raise RuntimeError("the daemon took memory with holes to come")
            time.sleep(0.001)


def lingering_socket():
    """A TCP socket whose last close() waits for ten minutes, and the peer that does not read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        peer, _ = listener.accept()
    sender.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sender.send(bytes(65536))
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 600))
    return sender, peer


def descriptors(path):
    """That nobody asked for, and of which the last one is the daemon's."""
    query = head(QUERY, 16)
    sender, peer = lingering_socket()
    with peer, dial(path) as connection:
        quietly(socket.send_fds, connection, [query], [sender.fileno()] * 8)
        # In a thread: if the daemon was quicker, or took none, the last close() is ours.
        closing = threading.Thread(target=sender.close)
        closing.start()
        quietly(connection.recv, 512)
    closing.join()  # the peer has gone: nothing lingers any more
    sender, peer = lingering_socket()
    with contextlib.closing(Port(path, os.dup(sender.fileno()))) as port, peer:
        closing = threading.Thread(target=sender.close)
        closing.start()
        quietly(port.ended)
    closing.join()


def silence(path):
    """Connections that say nothing, more than the daemon keeps."""
    connections = [dial(path) for _ in range(200)]
    for connection in connections:
        connection.close()


def storms(path):
    """Hello without end, ports without end, commands without reading the answers."""
    for _ in range(30):
        with dial(path) as connection:
            quietly(hello, connection)
    greedy = []
    for _ in range(20):
        with contextlib.suppress(ConnectionError):
            greedy.append(Port(path))
    for port in greedy:
        port.close()
    with contextlib.closing(admitted(path)) as port:
        port.connection.setblocking(False)
        refused = 0
        for serial in range(20000):
            taken = quietly(port.connection.send, cm_command(port, serial)) is not None
            refused = 0 if taken else refused + 1
            if refused > 300:
                break  # the daemon has had enough of us
            if not taken:
                time.sleep(0.0001)


def cm_command(port, serial):
    """Ids, ports, and connections to whoever listens."""
    op = (CM_CREATE, CM_CREATE, CM_RESOLVE, CM_LISTEN, CM_CONNECT)[serial % 5]
    remote = bytes(10) + b"\xff\xff" + struct.pack(">I", port.ipv4)
    body = struct.pack("<IIQIIIIII", op, random.getrandbits(32), 0, PS_TCP, 10, 100, 0, 0, 0)
    body += bytes(24) + remote + struct.pack("<H6x", random.randrange(65536))
    return head(CM_COMMAND, 360, serial) + body + random.randbytes(360 - HEAD.size - len(body))


def cm_command_of(op, number, qpn):
    """About one id, with nothing but a queue pair number in it."""
    body = struct.pack("<II", op, number) + bytes(80) + struct.pack("<I", qpn)
    return head(CM_COMMAND, 360) + body + bytes(360 - HEAD.size - len(body))


ATTACKS = (garbage, forged, ring_indices, never_reads, memory_of_all_kinds, descriptors, silence,
           storms)  # fmt: skip


def main():
    path = sys.argv[1]
    for number in itertools.count(1):
        for attack in ATTACKS:
            start = time.monotonic()
            attack(path)
            print(f"{attack.__name__}: {time.monotonic() - start:.1f} s", flush=True)
        print(f"round {number}", flush=True)


if __name__ == "__main__":
    main()
