"""What the processors did during a measurement: how busy they were, and with whose programs."""

import dataclasses
import os
import pathlib

BUSY = 0.9  # from here on a processor that is asked for more has no more to give
SHARED = 0.1  # a share of them that others take, from which on it explains a loss of speed


@dataclasses.dataclass
class Use:
    """The use of all processors over a time: shares between 0 and 1."""

    processors: int
    own: float  # by this process and those that it started
    others: float  # by other programs and the kernel for them
    stolen: float  # by other virtual machines of the host
    wanted: float  # threads that ran or waited for a processor, on average

    @property
    def busy(self):
        return self.own + self.others + self.stolen

    def __str__(self):
        plural = "" if self.processors == 1 else "s"
        return (f"{self.processors} processor{plural}, {percent(self.busy)} busy, "
                f"{percent(self.others)} by other programs, {percent(self.stolen)} stolen, "
                f"on average {self.wanted:.1f} threads that wanted one")  # fmt: skip

    def reason(self):
        """Why something was slow, as far as the processors tell."""
        if self.busy < BUSY:
            return ("the processors were not all busy (one thread may have had too little of one): "
                    f"{self}")  # fmt: skip
        if self.others + self.stolen < SHARED:
            return f"likely the processors, too few for this rate: {self}"
        return f"likely the processors, which were shared: {self}"


def percent(share):
    return f"{100 * share:.0f} %"


class Watch:
    """Measures from when it is made."""

    def __init__(self):
        self._begin = _snapshot()
        self._runnable = []

    def look(self):
        """To be called again and again: who wants a processor now, besides the one who asks."""
        self._runnable.append(max(0, _counter("procs_running") - 1))

    def use(self):
        total0, busy0, stolen0, own0 = self._begin
        total, busy, stolen, own = _snapshot()
        ticks = max(1, total - total0)
        mine = min(own - own0, busy - busy0) / ticks
        runnable = self._runnable or [0]
        return Use(os.cpu_count() or 1, max(0.0, mine), max(0.0, (busy - busy0) / ticks - mine),
                   max(0.0, (stolen - stolen0) / ticks), sum(runnable) / len(runnable))  # fmt: skip


def _snapshot():
    """In clock ticks since the start of the machine: all, busy, stolen, and this demo's own."""
    fields = [int(field) for field in _stat("cpu ").split()[1:9]]
    user, nice, system, idle, waiting, irq, softirq, stolen = fields
    return sum(fields), user + nice + system + irq + softirq, stolen, _own_ticks()


def _stat(start):
    lines = pathlib.Path("/proc/stat").read_text().splitlines()
    return next(line for line in lines if line.startswith(start))


def _counter(name):
    return int(_stat(name + " ").split()[1])


def _own_ticks():
    """Ticks of this process and all below it, ended children included: a process that ends within
    the time hands its ticks on to its parent."""
    processes = {}  # pid: (parent, ticks)
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        processes[int(path.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    own = {os.getpid()}
    grown = True
    while grown:
        below = {pid for pid, (parent, _) in processes.items() if parent in own}
        grown = not below <= own
        own |= below
    return sum(processes[pid][1] for pid in own if pid in processes)
