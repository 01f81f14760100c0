"""Pages of 2 MiB, for the tests that register and allocate them."""

import contextlib
import fcntl
import pathlib
import signal
import sys

COUNT = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
NEEDED = 8


@contextlib.contextmanager
def reserved():
    """Has the kernel set pages aside, for this run alone: another may end while this one needs
    them. Gives them back afterwards. Without the right to do so, and without free pages, the tests
    skip themselves, which is then reported."""
    added = _add()
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        _change(-added)
        signal.signal(signal.SIGTERM, previous)


def _add():
    try:
        return _change(NEEDED)
    except OSError as error:
        print(f"no huge pages set aside: {error}", flush=True)
        return 0


def _change(by):
    """Others may do the same at the same moment. Returns how many there are more."""
    if by == 0:
        return 0
    with COUNT.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = int(file.read())
        file.seek(0)
        file.write(str(max(0, before + by)))
        file.flush()
        return int(COUNT.read_text()) - before
