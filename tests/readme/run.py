#!/usr/bin/env python3
"""Runs the command lines of README as they stand, in order, on a tree of which the demo alone was
built. Prints TAP, a case for each block.

usage: tests/readme/run.py --tree DIR [--skip-demo] [--only REGEX]

  --tree DIR   a directory, made for this and removed afterwards: a copy of the tree without what is
               built here. The first line of README, the demo, sets it up.
  --skip-demo  compiles in it what the demo would, and does not run the demo
  --only REGEX only the blocks with a line that matches, as in --only fabric; after the same

As root the lines run where the network namespaces and interfaces that they make are nobody else's.
Sockets lie in a runtime directory of their own, by which whatever is left behind is found.
"""

import argparse
import contextlib
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/harness")]

import tap  # noqa: E402
from hosts import Failure, Process, Unavailable, wait_until  # noqa: E402
from lines import DEMO_SECONDS, blocks, role_of  # noqa: E402

SHOWN = 8000  # characters of the output of each program of a block that failed
PORT = 18515  # of perftest, unless it is told another
DAEMON_ENDS_S = 60  # the private mprdmad: 10 s after its last program, on a busy machine
# A network of its own, and names of network namespaces (/run/netns) that nobody else sees.
SPACE = """mkdir -p /run/netns && mount -t tmpfs netns /run/netns && mount -t sysfs sysfs /sys &&
ip link set lo up && echo ready && exec sleep infinity"""
# Whatever a person who develops here has in the environment, a stranger has not.
OURS = re.compile(r"MPRDMA_(?!SETUP$)|CC$|CXX$|CCACHE_(BASEDIR|NOHASHDIR)$|MESON_|NINJA_")


MARK = ".readme-tree"  # a file that stands in a copy that a run made


def copy_tree(to):
    """What git knows, as it stands here, and nothing that is built."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "-c", "-o", "--exclude-standard"],
                            capture_output=True, text=True, check=False)  # fmt: skip
    if listed.returncode != 0:
        raise Unavailable(f"no list of the files of the tree: {listed.stderr.strip()}")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():  # else removed, which git has not been told
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name, follow_symlinks=False)


class Reader:
    """Who types the lines of README, in a copy of the tree."""

    def __init__(self, tree):
        self.tree = tree
        self.space = None  # as root: the process that holds it
        self.runtime = tempfile.mkdtemp(prefix="mprdma-readme-")
        self.environment = {k: v for k, v in os.environ.items() if not OURS.match(k)}
        self.environment.update(XDG_RUNTIME_DIR=self.runtime, MANPAGER="cat")
        self.running = []  # (role, process): servers and clients

    def __enter__(self):
        try:
            self.set_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def set_up(self):
        """The copy, and as root the namespaces."""
        shutil.rmtree(self.tree, ignore_errors=True)
        copy_tree(self.tree)
        (self.tree / MARK).touch()
        if os.geteuid() == 0:
            space = Process(["unshare", "--net", "--mount", "sh", "-c", SPACE], name="namespaces",
                            directory=self.tree)  # fmt: skip
            self.space = space
            ready = lambda: space.status is not None or "ready" in space.output()  # noqa: E731
            wait_until(ready, time.monotonic() + 20, "there are namespaces")
            if space.status is not None:
                raise Unavailable(f"no namespaces here: {space.output().strip()}")

    def __exit__(self, *_):
        self.end_programs()
        for pid in self.left_behind():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.space is not None:
            self.space.stop()
        shutil.rmtree(self.runtime, ignore_errors=True)
        shutil.rmtree(self.tree, ignore_errors=True)

    def start(self, line, terminal=None):
        """In a shell, as it stands. bash makes a terminal its own."""
        into = []
        if self.space is not None:
            into = ["nsenter", "--net", "--mount", "--wd", "--target", str(self.space.pid)]
        return Process([*into, "bash", "-c", line], self.environment, line, self.tree, terminal)

    def left_behind(self):
        """Processes of the lines that still run: they inherited the runtime directory."""
        marker = f"XDG_RUNTIME_DIR={self.runtime}\0".encode()
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if marker in path.read_bytes():
                    found.append(int(path.parent.name))
        return found

    # ---- Blocks and lines

    def read(self, block):
        """All lines of a block; programs that are left running belong to it."""
        known = [(line, role_of(line)) for line in block]
        for line, role in known:
            if role is None:
                raise Failure(f"tests/readme/lines.py has no role for this line of README: {line}")
        if self.space is None and any(role.root for _, role in known):
            raise Unavailable("needs root")
        try:
            for line, role in known:
                if role.kind != "not_run":
                    print(f"# {line}", flush=True)
                    getattr(self, role.kind)(line, role)
            self.wait_for_programs()
        except Failure as failure:
            shown = [f"---- {process.name}\n{process.output()[-SHOWN:]}"
                     for _, process in self.running]  # fmt: skip
            raise Failure("\n".join([str(failure), *shown])) from None
        finally:
            self.end_programs()

    def run(self, line, role):
        self.running.append((role, self.start(line)))
        self.finish(*self.running[-1])
        self.running.pop()

    def last(self, line, role):
        self.wait_for_programs()
        self.run(line, role)

    def server(self, line, role):
        process = self.client(line, role)
        listens = lambda: process.status is not None or process.listens_on(PORT)  # noqa: E731
        wait_until(listens, time.monotonic() + role.seconds, f"{line} listens")

    def client(self, line, role):
        process = self.start(line)
        self.running.append((role, process))
        return process

    def watch(self, line, role):
        """On a terminal, until it has shown what it is for; then Ctrl-C."""
        mine, terminal = pty.openpty()
        process = self.start(line, terminal)
        os.close(terminal)
        try:
            os.set_blocking(mine, False)
            shown = []

            def seen():
                with contextlib.suppress(OSError):  # nothing there now, or the end
                    shown.append(os.read(mine, 1 << 16).decode(errors="replace"))
                return process.status is not None or re.search(role.says, "".join(shown))

            wait_until(seen, time.monotonic() + role.seconds, f"{line} shows '{role.says}'")
            os.write(mine, b"\x03")
            status = process.wait_status(time.monotonic() + role.seconds)
            if status not in (-signal.SIGINT, 128 + signal.SIGINT):
                raise Failure(f"{line}: ended by itself, with {status}:\n{''.join(shown)}")
        finally:
            process.stop()
            os.close(mine)

    def wait_for_programs(self):
        while self.running:
            self.finish(*self.running[-1])
            self.running.pop()

    def end_programs(self):
        for _, process in self.running:
            process.stop()
        self.running.clear()

    @staticmethod
    def finish(role, process):
        """Waits for the end; Failure if it was not a good one, or not with the expected words."""
        process.wait(time.monotonic() + role.seconds)
        if not re.search(role.says, process.output()):
            raise Failure(f"{process.name}: printed nothing like '{role.says}'")


def only_built(reader):
    """What scripts/demo does before it runs anything, for lines that are tried by hand."""
    process = reader.start("export CC='ccache gcc' CXX='ccache g++' CCACHE_BASEDIR=$PWD "
                           "CCACHE_NOHASHDIR=1; meson setup build && ninja -C build demo-needs")
    process.wait(time.monotonic() + DEMO_SECONDS)


def nothing_left(reader):
    """The private mprdmad ends some seconds after the last program, as README says."""
    wait_until(lambda: not reader.left_behind(), time.monotonic() + DAEMON_ENDS_S,
               "all processes that README's lines started have ended")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ", 1)[1])
    parser.add_argument("--tree", type=pathlib.Path, required=True)
    parser.add_argument("--skip-demo", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    # A run removes what a killed one left, and nothing else.
    if options.tree.exists() and not (options.tree / MARK).exists():
        parser.error(f"--tree {options.tree}: is there already, and was not made for this")
    found = blocks((ROOT / "README.md").read_text())
    cases = []
    try:
        with Reader(options.tree.resolve()) as reader:
            if options.skip_demo or options.only:
                found = [b for b in found if "./scripts/demo" not in b[0]]
                found = [b for b in found if re.search(options.only, "\n".join(b), re.MULTILINE)]
                cases.append(("what the demo builds", lambda: only_built(reader)))
            cases += [(re.sub(r"\s+#.*", "", b[0]), lambda b=b: reader.read(b)) for b in found]
            cases.append(("nothing is left behind", lambda: nothing_left(reader)))
            return tap.run(cases)
    except Unavailable as reason:
        print(f"1..0 # SKIP {reason}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
