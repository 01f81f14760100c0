"""Cases of the patched perftest: what it refuses, and that it says why."""

import subprocess
import time

import patched_perftest
import perftest
from hosts import Failure, LocalWire

SECONDS = 60

# Program, options, and what it says. No device is needed: the options alone are wrong.
BAD = [
    ("ib_write_bw", ["--mode=foo"], "--mode: there is no mode 'foo'. The modes are default mp "),
    ("ib_write_bw", ["--preset=dcqcn-tuned"], "mprdma run --preset"),
    ("ib_write_bw", ["--preset=mp,slots=8"], "there is no key 'slots'"),
    ("ib_write_bw", ["--preset=mp,window_max=0"], "window_max should be a number of packets"),
    ("ib_write_bw", ["--preset=mp,window_max=-1"], "window_max should be a number of packets"),
    ("ib_write_bw", ["--preset=mp,window_max=8x"], "window_max should be a number of packets"),
    ("ib_write_bw", ["--preset=mp,window_max"], "window_max should be a number of packets"),
    ("ib_write_bw", ["--preset=mp,"], "there is no key ''"),
    ("ib_write_bw", ["--mode=mp", "--preset=mp"], "--mode and --preset exclude each other"),
    ("ib_write_bw", ["--mode=mp", "-R"], "--mode is not available with -R"),
    ("ib_write_bw", ["--mode=mp", "-c", "UC"], "--mode is available for RC only"),
    ("ib_send_lat", ["--preset=mp", "-c", "XRC"], "--preset is available for RC only"),
    ("ib_write_bw", ["--synchronise=101"], "should be between 0 and 100"),
    ("ib_write_bw", ["--synchronise=-1"], "should be between 0 and 100"),
    ("ib_write_bw", ["--synchronise=half"], "argument half should be int"),
    ("ib_read_bw", ["--synchronise=50"], "--synchronise is available for SEND and WRITE only"),
    ("ib_atomic_lat", ["--synchronise=50"], "--synchronise is available for SEND and WRITE only"),
    ("ib_send_bw", ["--synchronise=50", "-c", "UD"], "--synchronise is available for RC and XRC"),
    ("ib_write_lat", ["--report-paths", "-c", "UC"], "--report-paths is available for RC only"),
    ("ib_read_bw", ["--report-rates"], "available for ib_send_bw and ib_write_bw only"),
    ("ib_write_lat", ["--report-rates"], "available for ib_send_bw and ib_write_bw only"),
    ("ib_write_bw", ["--report-rates", "-a"], "not available with -a, -b, -D"),
    ("ib_send_bw", ["--report-rates", "-b"], "not available with -a, -b, -D"),
    ("ib_write_bw", ["--report-rates", "-D", "5"], "not available with -a, -b, -D"),
]
NOT_BUILT_IN = "is not available: perftest was built without infiniband/mprdmadv.h"
NEEDS_MPRDMA = ["--mode=mp", "--preset=mp", "--synchronise=0", "--report-paths"]


def expect(condition, what):
    if not condition:
        raise Failure(what)


def refused(program, options, reason):
    ran = subprocess.run([program, *options], text=True, check=False, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, timeout=SECONDS)  # fmt: skip
    expect(ran.returncode != 0 and reason in ran.stdout,
           f"{program} {' '.join(options)}: status {ran.returncode}: {ran.stdout[:400]}")


def bad_values(build):
    for name, options, reason in BAD:
        refused(patched_perftest.program(build, name), options, reason)


def without_header(build):
    """Each program of a build without mprdmadv.h names the reason, before it looks for a device."""
    for name in ("ib_write_bw", "ib_send_lat"):
        plain = patched_perftest.program(build, name, patched_perftest.PLAIN)
        for option in NEEDS_MPRDMA:
            refused(plain, [option], f"{option.split('=')[0]} {NOT_BUILT_IN}")


def other_device(build):
    """What the programs see is mprdma's device, but they are told that it is not."""
    stub = build / "tests/perftest/libother_device.so"
    program = patched_perftest.program(build, "ib_write_bw")
    deadline = time.monotonic() + SECONDS
    with LocalWire(build) as wire:
        for option in NEEDS_MPRDMA:
            command = f'exec env LD_PRELOAD="{stub}:$LD_PRELOAD" {program} {option}'
            process = wire.start(0, ["sh", "-c", command])
            status, name = process.wait_status(deadline), option.split("=")[0]
            expect(status != 0 and f"{name} needs an mprdma device, and mprdma0 is none"
                   in process.output(), f"{option}: {process.output()[:400]}")  # fmt: skip


def engine(options, reason):
    """The engine has the last word, when both ends are connected."""

    def run(build):
        program = patched_perftest.program(build, "ib_write_bw")
        deadline = time.monotonic() + SECONDS
        with LocalWire(build) as wire:
            for process in perftest.start_pair(wire, program, options, deadline):
                status = process.wait_status(deadline)
                expect(status != 0 and reason in process.output(),
                       f"{process.name}: status {status}: {process.output()[:400]}")  # fmt: skip

    return run


CASES = [
    ("bad values are refused with the reason", bad_values),
    ("a build without mprdmadv.h refuses the options", without_header),
    ("another device refuses the options", other_device),
    ("numbers out of range are refused",
     engine(["--preset=mp,window_slots=100"], "mprdmadv_create_qp failed: Invalid argument")),
]  # fmt: skip
