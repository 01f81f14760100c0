"""Where processes stand that have not ended in time: threads, events not read, queue pairs."""

import pathlib
import shutil
import subprocess
import time

from hosts import Failure, Process

GDB_SECONDS = 60


def look(wire, processes):
    """Lines about those that still run, and about the devices of the wire."""
    running = [process for process in processes if process.status is None]
    if not running:
        return []
    lines = queue_pairs(wire)
    pids = members({process.pid for process in running})
    for pid in pids:
        lines += threads(pid) + event_counts(pid)
    for pid in pids:  # last, for it takes a while
        lines += [f"process {pid}:", *stacks(pid)]
    return lines


def read(path):
    """Empty where the process is gone, or the kernel does not tell."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def members(groups):
    """All processes of these groups: each process starts one, and what it starts stays there."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        fields = read(path).rpartition(")")[2].split()  # the name may hold anything
        if len(fields) > 2 and int(fields[2]) in groups:
            found.append(int(path.parent.name))
    return sorted(found)


def threads(pid):
    """The kernel function in which each thread sleeps, and its call with number and arguments."""
    lines = [f"process {pid}: {read(pathlib.Path(f'/proc/{pid}/comm'))}"]
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*")):
        where = [read(task / name) for name in ("comm", "wchan", "syscall")]
        lines.append(f"  thread {task.name} {' '.join(where)}")
    return lines


def event_counts(pid):
    """A count above 0 is an event that nobody has read."""
    lines = []
    for path in sorted(pathlib.Path(f"/proc/{pid}/fdinfo").glob("*"), key=lambda p: int(p.name)):
        for line in read(path).splitlines():
            if line.startswith("eventfd-count:"):
                flags = read(path).split("flags:")[1].split()[0]
                lines.append(f"  fd {path.name}: flags {flags} {' '.join(line.split())}")
    return lines


def stacks(pid):
    """The stacks of all threads, if gdb is installed."""
    if shutil.which("gdb") is None:
        return ["  no stacks: there is no gdb"]
    command = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all backtrace"]
    try:
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             errors="replace", timeout=GDB_SECONDS, check=False)  # fmt: skip
    except subprocess.TimeoutExpired:
        return ["  no stacks: gdb took too long"]
    wanted = ("#", "Thread ")
    return [f"  {line}" for line in ran.stdout.splitlines() if line.startswith(wanted)]


def queue_pairs(wire):
    """The queue pairs of all processes of the wire, as `mprdma top` shows them."""
    command = [wire.build / "tools/mprdma", "top", "--once", "--json", "--interval", "0.5"]
    process = Process(command, wire.environment(0))
    try:
        process.wait(time.monotonic() + 30)
    except Failure as failure:
        return [f"mprdma top: {failure}"]
    finally:
        process.stop()
    return process.output().splitlines()
