"""What the receivers of a simulation answer, computed from the packets that came to them, by
docs/wire-format.md 4.2 and 4.3 and the sharing of held frames (transport/core/held_pool.hpp).

The reader of a capture compares it with the acknowledgements that the capture has. A receiver here
posts a receive for every SEND, places nothing early, and owes no acknowledgement.
"""

from collections import defaultdict

from capture import number

# What is read of a packet of data, under the names that tshark has for it.
DATA = ["ip.src", "ip.dst", "ip.dsfield.ecn", "udp.srcport", "infiniband.bth.opcode",
        "infiniband.bth.psn", "mprdma.data.retx", "mprdma.data.maps",
        "mprdma.data.timestamp"]  # fmt: skip
# All that an acknowledgement carries.
ACK = ["ip.src", "ip.dst", "udp.srcport", "infiniband.bth.opcode", "infiniband.bth.psn",
       "mprdma.opcode", "mprdma.ack.version", "mprdma.ack.aack", "mprdma.ack.duplicate",
       "mprdma.ack.held", "mprdma.ack.sack_valid", "mprdma.ack.ordered", "mprdma.ack.retx",
       "mprdma.ack.ece", "mprdma.ack.stream", "mprdma.ack.nack_code", "mprdma.ack.detail",
       "mprdma.ack.echoed_timestamp", "mprdma.ack.sack", "mprdma.ack.run", "mprdma.ack.msn",
       "mprdma.ack.delay", "mprdma.ack.map"]  # fmt: skip

MP_ACK, MP_ACK_MAP = 0xD1, 0xD9
NONE, WINDOW_OVERFLOW, BUDGET_EXHAUSTED = 0, 1, 2
CE = 3
MAP_PACKETS = 64

_RESPONSES = (0xCD, 0xCE, 0xCF, 0xD0, 0xD2, 0xD8)
_SENDS_THAT_END = (0xC2, 0xC3, 0xC4, 0xC5)
_PSNS = 1 << 24


def is_ack(frame):
    return number(frame["infiniband.bth.opcode"]) in (MP_ACK, MP_ACK_MAP)


def shown(frame):
    """An acknowledgement of the capture, field by field in the order of ACK."""
    return tuple(frame[name] if name.startswith("ip.") else number(frame[name]) for name in ACK)


def answers(frames, window, budget):
    """The acknowledgement of each packet of data in `frames`, which all arrive, in their order.

    `window` is L, `budget` the number of frames that may wait at all receivers together.
    """
    data = [frame for frame in frames if not is_ack(frame)]
    first = _first_psns(data)
    pool = _Pool(budget)
    receivers = {stream: _Receiver(psn, window, pool) for stream, psn in first.items()}
    return [_fields(frame, *receivers[_stream(frame)].take(frame)) for frame in data]


def _distance(a, b):
    """From PSN a to PSN b, as serial numbers."""
    return (b - a + _PSNS // 2) % _PSNS - _PSNS // 2


def _is_response(frame):
    return number(frame["infiniband.bth.opcode"]) in _RESPONSES


def _stream(frame):
    return frame["ip.src"], frame["ip.dst"], _is_response(frame)


def _first_psns(data):
    """Each stream comes complete, so that its first PSN is among those that arrive."""
    psns = defaultdict(list)
    for frame in data:
        psns[_stream(frame)].append(number(frame["infiniband.bth.psn"]))
    return {
        stream: min(seen, key=lambda psn, any_one=seen[0]: _distance(any_one, psn))
        for stream, seen in psns.items()
    }


class _Pool:
    def __init__(self, budget):
        self.free = budget


class _Receiver:
    """Of one stream."""

    def __init__(self, first, window, pool):
        self.next = first
        self.window = window
        self.pool = pool
        self.held = {}  # PSN to opcode
        self.msn = 0

    def take(self, frame):
        """Returns NACK code, whether it is a duplicate, AACK, MSN and map (None: there is none)."""
        psn = number(frame["infiniband.bth.psn"])
        ahead = _distance(self.next, psn)
        nack, duplicate = NONE, False
        if ahead >= self.window:
            nack = WINDOW_OVERFLOW
        elif ahead < 0 or psn in self.held:
            duplicate = True
        elif ahead == 0:
            self._execute(number(frame["infiniband.bth.opcode"]))
        elif len(self.held) >= self.pool.free:
            nack = BUDGET_EXHAUSTED
        else:
            self.pool.free -= 1
            self.held[psn] = number(frame["infiniband.bth.opcode"])
        tells = nack == NONE and _distance(self.next, psn) > 0 and frame["mprdma.data.maps"] == "1"
        return nack, duplicate, self.next, self.msn, self._map_before(psn) if tells else None

    def _execute(self, opcode):
        while opcode is not None:
            self.msn += opcode in _SENDS_THAT_END
            self.next = (self.next + 1) % _PSNS
            opcode = self.held.pop(self.next, None)
            self.pool.free += opcode is not None

    def _map_before(self, sack):
        bits = 0
        for back in range(1, MAP_PACKETS + 1):
            psn = (sack - back) % _PSNS
            here = psn in self.held or _distance(self.next, psn) < 0
            bits |= here << (MAP_PACKETS - back)
        return bits


def _fields(frame, nack, duplicate, aack, msn, received):
    opcode = MP_ACK if received is None else MP_ACK_MAP
    return tuple(
        {
            "ip.src": frame["ip.dst"],
            "ip.dst": frame["ip.src"],
            "udp.srcport": number(frame["udp.srcport"]),
            "infiniband.bth.opcode": opcode,
            "infiniband.bth.psn": aack,
            "mprdma.opcode": opcode,
            "mprdma.ack.version": 1,
            "mprdma.ack.aack": aack,
            "mprdma.ack.duplicate": int(duplicate),
            "mprdma.ack.held": 0,
            "mprdma.ack.sack_valid": 1,
            "mprdma.ack.ordered": 1,
            "mprdma.ack.retx": number(frame["mprdma.data.retx"]),
            "mprdma.ack.ece": int(number(frame["ip.dsfield.ecn"]) == CE),
            "mprdma.ack.stream": int(_is_response(frame)),
            "mprdma.ack.nack_code": nack,
            "mprdma.ack.detail": 0,
            "mprdma.ack.echoed_timestamp": number(frame["mprdma.data.timestamp"]),
            "mprdma.ack.sack": number(frame["infiniband.bth.psn"]),
            "mprdma.ack.run": 0,
            "mprdma.ack.msn": msn,
            "mprdma.ack.delay": 0,
            "mprdma.ack.map": received,
        }[name]
        for name in ACK
    )
