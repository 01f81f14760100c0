"""MPICH (ch4:ucx) and Open MPI (pml ucx), two ranks and four, with mpi_check.c over UCX's verbs.

The program compares all contents. It is compiled here by each MPI's own compiler. UCX is given no
shared memory (UCX_TLS), and each rank's counters have to show that its bytes went over the device.
Both are called by names of their own: which of them `mpirun` is, Debian's alternatives say.
"""

import os
import pathlib
import subprocess
import time

import counted
from hosts import Failure, Process

SECONDS = 90
SOURCE = pathlib.Path(__file__).with_name("mpi_check.c")
# Verbs alone: neither shared memory nor TCP.
TRANSPORTS = "rc_v,ud_v,self"
LEAST_BYTES = 8_000_000  # of the 9 sizes in three rounds, to one other rank and in two collectives

OPEN_MPI = [
    "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ucx", "--mca",
    "osc", "ucx", "--mca", "btl", "^vader,tcp,openib,uct",
]  # fmt: skip
KINDS = {"mpich": ["mpiexec.hydra", "-launcher", "fork"], "openmpi": OPEN_MPI}


def compiled(wire, kind):
    program = wire.directory / f"mpi_check.{kind}"
    if not program.exists():
        command = [f"mpicc.{kind}", "-O1", "-o", str(program), str(SOURCE)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if ran.returncode != 0:
            raise Failure(f"{' '.join(command)}: {ran.stderr[-2000:]}")
    return program


def changes(environment):
    """Changes as arguments of env, because launcher and hosts have environments of their own."""
    return [f"{key}={value}" for key, value in sorted(environment.items())
            if os.environ.get(key) != value]  # fmt: skip


def rank_command(wire, host, program):
    """One rank on a host of the wire, as a person would start it there."""
    variables = changes({**wire.environment(host), **counted.WANTED, "UCX_TLS": TRANSPORTS})
    return ["env", *variables, str(wire.build / "tools/mprdma"), "run", "--", str(program)]


def run_ranks(wire, kind, ranks):
    deadline = time.monotonic() + SECONDS
    program = compiled(wire, kind)
    command = list(KINDS[kind])
    for rank in range(ranks):
        more = ["-n", "1", *rank_command(wire, rank % 2, program)]
        command += [":", *more] if rank else more
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MPRDMA_")}
    environment["TMPDIR"] = str(wire.directory)  # what it leaves behind goes with the wire
    process = Process(command, environment, f"{kind}, {ranks} ranks")
    wire.processes.append(process)
    process.wait(deadline)
    if f"checked, {ranks} ranks" not in process.output():
        raise Failure(f"{process.name}: not checked")
    counted.expect_sent([process.output()], ranks, LEAST_BYTES)


def all_kinds(wire):
    for kind in KINDS:
        for ranks in (2, 4):
            run_ranks(wire, kind, ranks)
            wire.stop_processes()


PROGRAMS = [("mpi", "MPICH (ch4:ucx) and Open MPI (pml ucx), 2 and 4 ranks, contents compared",
             all_kinds)]  # fmt: skip
