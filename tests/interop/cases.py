"""The cases: a title and a function of the bench, each with our side as client and as server."""

import perftest
from bench import GUEST_DEVICE, expect
from cm_cases import CM_PLAIN

SECONDS = 60
OUTSTANDING = 16  # READs and atomics
LOSSY_TIMEOUT = "15"  # of ibv_qp_attr: 134 ms
GUEST_GID = 1  # ::ffff:10.77.0.2; ours has the same index


def pingpong(program, *options):
    """rdma-core's own, which compares every byte (-c)."""

    def run(bench, ours_is_server):
        command = [program, "-g", GUEST_GID, "-c", "-n", 100, *options]
        both = bench.pair(ours_is_server, [str(w) for w in command],
                          [*command, GUEST_DEVICE], SECONDS)  # fmt: skip
        for process in both:
            expect("invalid data" not in process.output(), f"{process.name}: wrong contents")

    return run


def bench_of(program, *options):
    """perftest. Our timeout is a second, so that a busy machine is not taken for a loss."""

    def run(bench, ours_is_server):
        command = [program, "-F", "-u", 18, *options]
        client, server = bench.pair(
            ours_is_server, [str(w) for w in command],
            [*command, GUEST_DEVICE, "-x", GUEST_GID], SECONDS,
        )  # fmt: skip
        expect(len(perftest.parse(client.output())) == 1, f"{client.name}: no result")
        for process in (client, server):
            expect("error" not in process.output().lower(), f"{process.name}: an error")

    return run


def on_both_sides(name, says, *options, clean=True):
    """A program of ours, the same at both ends."""

    def run(bench, ours_is_server):
        bench.clean = bench.clean and clean
        program = bench.build / "tests/interop" / name
        theirs = bench.guest.install(program)
        words = [*map(str, options), *(("-t", LOSSY_TIMEOUT) if bench.fault else ())]
        both = bench.pair(
            ours_is_server, [program, *words],
            [theirs, *words, GUEST_DEVICE, "-g", GUEST_GID], SECONDS,
        )  # fmt: skip
        for process in both:
            expect(says in process.output(), f"{process.name}: does not say '{says}'")

    return run


def verbs_pair(mtu):
    """Every RC operation in both directions, every byte compared."""
    return on_both_sides("verbs_pair", "contents verified", "-m", mtu, "-n", 30, "-s", mtu)


_BW = ("-n", 200, "-s", 20000)
_LAT = ("-n", 100, "-s", 64)
_TRANSPORTS = {
    "RC": ("send", "write", "read", "atomic"),
    "UC": ("send", "write"),
    "UD": ("send",),
}


def _perftest():
    for transport, operations in _TRANSPORTS.items():
        for operation in operations:
            bw, lat = dict([_BW[:2], _BW[2:]]), dict([_LAT[:2], _LAT[2:]])
            if operation == "atomic":
                del bw["-s"], lat["-s"]
            if operation in ("read", "atomic"):  # Soft-RoCE's own limit is above ours
                bw["-o"] = lat["-o"] = OUTSTANDING
            if transport == "UD":
                bw["-s"] = 2000
            for kind, options in (("bw", bw), ("lat", lat)):
                words = [word for pair in options.items() for word in pair]
                program = f"ib_{operation}_{kind}"
                yield f"{program} -c {transport}", bench_of(program, "-c", transport, *words)


_PLAIN = [
    ("ibv_rc_pingpong", pingpong("ibv_rc_pingpong")),
    ("ibv_rc_pingpong -s 30001", pingpong("ibv_rc_pingpong", "-s", 30001)),
    ("ibv_uc_pingpong", pingpong("ibv_uc_pingpong")),
    ("ibv_ud_pingpong", pingpong("ibv_ud_pingpong")),
    ("verbs_pair, MTU 256", verbs_pair(256)),
    ("verbs_pair, MTU 1024", verbs_pair(1024)),
    ("verbs_pair, MTU 4096", verbs_pair(4096)),
    ("verbs_errors", on_both_sides("verbs_errors", "as the standard says", clean=False)),
    *_perftest(),
    *CM_PLAIN,
]

CASES = [
    (f"{title}, we are the {'server' if server else 'client'}",
     lambda bench, function=function, server=server: function(bench, server))
    for title, function in _PLAIN
    for server in (False, True)
]  # fmt: skip

_SHORT = {
    "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "verbs_pair, MTU 1024",
    "ib_send_bw -c RC", "ib_write_bw -c RC", "ib_read_bw -c RC", "ib_atomic_bw -c RC",
    "rping -C 100",
}  # fmt: skip


def is_short(title):
    """Whether a case is one of the few that stand for all."""
    return title.split(", we are")[0] in _SHORT
