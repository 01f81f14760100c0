"""The suite as the package has it, and processes that run its tests."""

import contextlib
import dataclasses
import gzip
import itertools
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import time

import sanitizer
from device import ADDRESS

SOURCE = pathlib.Path("/usr/share/doc/rdma-core/tests")
PYTHON = "/usr/bin/python3"  # the one that the distribution's module is built for
CHILD = pathlib.Path(__file__).with_name("child.py")
EXIT_LIMIT_S = 60
CRASHED = "Fatal Python error"  # what faulthandler says first

# Files that are not unpacked, by the beginning of their names, and why.
LEFT_OUT = {
    "test_mlx5": "another vendor's devices",
    "test_efa": "another vendor's devices",
    "test_cuda": "another vendor's memory",
}
TWO_PROCESSES = ("test_rdmacm.",)  # tests whose two sides are processes


@dataclasses.dataclass
class Result:
    """What became of one test."""

    test: str  # module.Class.method
    outcome: str = ""  # passed, failed or skipped; "" while it runs
    why: str = ""
    seconds: float = 0.0

    def settle(self, outcome, why=""):
        """A test may report more than once, as when its clean-up fails: a failure stays."""
        if self.outcome != "failed":
            self.outcome = outcome
        self.why = "\n".join(filter(None, (self.why, why)))


def unpack(source, target):
    """Writes the suite's files to target; its __init__.py would import all vendors' files."""
    if not source.is_dir():
        sys.exit(f"{source} is missing: install python3-pyverbs")
    target.mkdir()
    for path in source.iterdir():
        name = path.stem if path.suffix == ".gz" else path.name
        if not name.endswith(".py") or name.startswith(tuple(LEFT_OUT)):
            continue
        if path.suffix == ".gz":
            (target / name).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, target)
    (target / "__init__.py").write_text("")


def by_class(names):
    """[module.Class.method, ...] of one class after the other."""
    for _, group in itertools.groupby(names, lambda name: name.rpartition(".")[0]):
        yield list(group)


def needs_daemon(names):
    """Whether some of the tests need a device that more than one process has."""
    return any(name.startswith(TWO_PROCESSES) for name in names)


def environment(build, directory):
    """The environment of a process that has the device, alone at the end of a wire."""
    provider = build / "providers/mprdma"
    preload = (provider / "libmprdma-preload.so", build / "tests/pyverbs/libpyverbs-dmabuf.so")
    engine = build / "dataplane/libmprdma-engine.so"
    for path in (*preload, engine, provider / "libmprdma-rdmav34.so"):
        if not path.exists():
            sys.exit(f"{path} is missing: build it, or name another --build")
    inherited = os.environ.get("LD_PRELOAD", "").split()
    return dict(
        os.environ,
        LD_PRELOAD=" ".join([*inherited, *map(str, preload)]),
        IBV_DRIVERS=str(provider / "libmprdma"),
        MPRDMA_ENGINE_LIBRARY=str(engine),
        MPRDMA_ADDRESS=ADDRESS,
        MPRDMA_PORT=f"local:{directory}/wire",
    )


class Runner:
    """Runs tests in processes of their own, which find `environment` and, in `directory`, the
    files of `source`. `runtime`: see sanitizer.py."""

    def __init__(self, environment, directory, limit_s, seed, source=SOURCE, runtime=None):
        self._directory = directory
        self._limit_s = limit_s
        self._seed = seed
        self._reports = sanitizer.Reports(directory / "reports", runtime)
        self._environment = self._reports.environment(environment)
        unpack(source, directory / "tests")

    def names(self):
        """All tests, module.Class.method."""
        with Child(self, ["list"]) as child:
            names = [what["test"] for what in child.events() if what["event"] == "is"]
        if not names or child.status != 0:
            sys.exit(f"the suite cannot be loaded:\n{child.output()}")
        self._reports.take()
        return names

    def run(self, names, **variables):
        """Runs tests of one class, with further variables in their environment; yields a Result
        for each. After a crash or a hang, the rest goes on in another process."""
        left = list(names)
        while left:
            done = 0
            for result in self._run_in_one(left, variables):
                done += result.test in left
                yield result
            left = left[done:]

    def _run_in_one(self, names, variables):
        last = Result(names[0])
        with Child(self, names, variables) as child:
            for result in child.results():
                last = result
                if not last.outcome:
                    break
                yield last
        whole = names[0].rpartition(".")[0]
        if not last.outcome:
            last.settle("failed", f"{child.ending()}\n{child.output()}")
            yield last
        elif child.status != 0:
            yield Result(f"{whole} (exit)", "failed", f"{child.ending()}\n{child.output()}")
        elif CRASHED in child.output():
            yield Result(f"{whole} (fork)", "failed", child.output())
        if reports := self._reports.take():
            yield Result(f"{whole} (sanitizer)", "failed", reports)

    def start(self, output, arguments, fd, variables):
        return subprocess.Popen(
            [PYTHON, "-B", str(CHILD), str(self._directory), str(fd), str(self._seed), *arguments],
            cwd=self._directory, env={**self._environment, **variables}, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, pass_fds=[fd], start_new_session=True,
        )  # fmt: skip

    @property
    def output(self):
        return self._directory / "output"

    @property
    def limit_s(self):
        return self._limit_s


class Child:
    """One process, and what it says. `status` is its exit status when it is gone; None: it was
    killed because it hung."""

    def __init__(self, runner, arguments, variables=None):
        self._runner = runner
        self.status = None
        self._ended = False
        self._silent = False
        self._output_end = 0
        self._read, write = os.pipe()
        with runner.output.open("w") as output:
            self._process = runner.start(output, arguments, write, variables or {})
        os.close(write)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self._silent:  # it may take its time to close what the tests left open
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.status = self._process.wait(EXIT_LIMIT_S)
        self._kill()
        os.close(self._read)

    def _kill(self):
        """And the processes that the tests forked."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def events(self):
        """What it says, until it says that it ends, is gone, or says nothing for too long."""
        text = b""
        while not self._ended and (data := self._next()):
            *lines, text = (text + data).split(b"\n")
            for line in lines:
                what = json.loads(line)
                self._ended = what["event"] == "end"
                yield what

    def _next(self):
        """Some bytes; none if there will be none. Forked children hold the pipe open as well, so
        the end of the process is looked at, too."""
        deadline = time.monotonic() + self._runner.limit_s
        while time.monotonic() < deadline:
            gone = self._process.poll() is not None
            if select.select([self._read], [], [], 0 if gone else 0.2)[0]:
                return os.read(self._read, 65536)
            if gone:
                return b""
        self._silent = True
        return b""

    def results(self):
        """A Result for each test that ended, and for one that began and did not."""
        result = None
        for what in self.events():
            if what["event"] == "start":
                result = Result(what["test"])
            elif what["event"] == "stop":
                result.seconds = what["seconds"]
                said = self._new_output()  # by processes that the test forked, too
                if result.outcome == "failed" and said:
                    result.settle("failed", said)
                yield result
                result = None
            elif what["event"] != "end":
                result.settle(what["event"], what.get("why", ""))
        if result is not None:
            result.outcome = ""
            yield result

    def _new_output(self):
        with self._runner.output.open(errors="replace") as file:
            file.seek(self._output_end)
            text = file.read()
            self._output_end = file.tell()
        return text

    def ending(self):
        if self._silent:
            return f"hangs: nothing for {self._runner.limit_s:.0f} s"
        if self.status is None:
            return f"hangs: not gone {EXIT_LIMIT_S} s after its end"
        if self.status < 0:
            return f"killed by {signal.Signals(-self.status).name}"
        return f"exit status {self.status}"

    def output(self):
        return "\n".join(self._runner.output.read_text(errors="replace").splitlines()[-60:])
