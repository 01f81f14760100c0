"""libfabric's fi_pingpong, the one test of libfabric that Debian ships, over all its endpoints.

Debian has no package of fabtests (fi_msg_bw, fi_rdm_tagged_bw, ...). fi_pingpong -c compares every
byte; `-m tagged` is for RDM. A datagram has at most the 4096 bytes of the device's MTU.
"""

import libfabric

SIZES = ("1", "4096", "65536", "1048576")
ENDPOINTS = [
    (libfabric.MSG, SIZES, ()),
    (libfabric.RDM, SIZES, ()),
    (libfabric.RDM, SIZES, ("-m", "tagged")),
    (("verbs", "dgram"), ("1", "4096"), ()),
]


def all_endpoints(wire):
    for endpoint, sizes, options in ENDPOINTS:
        for size in sizes:
            libfabric.pingpong(*endpoint, "-I", "10", "-S", size, *options)(wire)
            wire.stop_processes()


PROGRAMS = [("fabtests", "what Debian has of libfabric's tests: fi_pingpong -c over MSG, RDM (also "
             "tagged) and DGRAM endpoints (no package has fabtests)", all_endpoints)]  # fmt: skip
