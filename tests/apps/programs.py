"""The cases: a name, what runs, the place, and a function of the place that raises Failure."""

import libfabric
import rdma_cm

EVERYWHERE = ("one_host", "two_hosts", "two_daemons")


class Case:
    """The claim `apps.NAME` is about all cases of the name, `apps.NAME.PLACE` about one."""

    def __init__(self, name, what, place, function):
        self.name = name
        self.what = what
        self.place = place
        self.function = function

    @property
    def title(self):
        return f"{self.name}.{self.place}"


def by_bind(program, *options):
    return rdma_cm.by_capital_port(program, *options)


def server_by_port(server, client, *options):
    return rdma_cm.both([server, "-p", "{port}", *options],
                        [client, "-s", rdma_cm.SERVER, "-p", "{port}", *options])  # fmt: skip


STREAM = ["-I", "10", "-C", "50", "-S", "65536", "-T", "v"]
# name, what runs, how
PROGRAMS = [
    ("rping", "rping -v -V -C 1000", rdma_cm.rping(1000)),
    ("ucmatose", "ucmatose -c 10 -C 20", by_bind("ucmatose", "-c", "10", "-C", "20")),
    ("udaddy", "udaddy -c 10 -C 20", by_bind("udaddy", "-c", "10", "-C", "20")),
    ("mckey", "mckey, a group of two", rdma_cm.mckey),
    ("rdma_server", "rdma_server, rdma_client", server_by_port("rdma_server", "rdma_client")),
    ("rdma_xserver", "rdma_xserver, rdma_xclient, over XRC",
     server_by_port("rdma_xserver", "rdma_xclient", "-c", "x")),
    ("rstream", "rstream, verified", rdma_cm.pair("rstream", *STREAM)),
    ("riostream", "riostream, verified", rdma_cm.pair("riostream", *STREAM)),
    ("rcopy", "rcopy, a file compared", rdma_cm.rcopy),
    ("ib_write_bw", "ib_write_bw -R", rdma_cm.perftest_cm("ib_write_bw", "-n", "1000")),
]
# It takes no device without a link, and a wire of two has one when both are there.
DEVICE_FIRST = [
    ("fi_pingpong", "fi_pingpong -c over libfabric's verbs, MSG endpoints",
     libfabric.pingpong(*libfabric.MSG, "-I", "10")),
    ("fi_pingpong_rxm", "fi_pingpong -c over libfabric's verbs;ofi_rxm, RDM endpoints",
     libfabric.pingpong(*libfabric.RDM, "-I", "10")),
]  # fmt: skip


def all_cases():
    plan = [(PROGRAMS, EVERYWHERE), (DEVICE_FIRST, ("one_host", "two_daemons"))]
    return [
        Case(name, what, place, function)
        for programs, places in plan
        for name, what, function in programs
        for place in places
    ]
