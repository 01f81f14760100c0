"""The peer: a guest whose kernel's Soft-RoCE answers on a tap, run by shared/peerlab/run-peerlab.

    with Guest(directory_of_peerlab, life_seconds=600) as guest:
        job = guest.start("ibv_rc_pingpong -g 1", seconds=60, listen=18515)
        job.wait_listening(deadline)
        job.wait(deadline)

Host and guest meet in a directory that both see: jobs/N.job goes in, N.out and N.rc come back.
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import time

from hosts import Failure, Process, Unavailable, wait_until

HERE = pathlib.Path(__file__).resolve().parent
INTERFACE = "pltap0"
HOST_IP = "10.77.0.1"  # the kernel's, for perftest's TCP exchange
OUR_IP = "10.77.0.9"  # our device's
GUEST_IP = "10.77.0.2"
SETUP_SECONDS = 1800
BOOT_SECONDS = 400  # 5 on an idle machine, 180 and more beside a dozen compilers
ANSWER_SECONDS = 30  # of a guest whose CPUs have to wait for ours
# A queue of the tap that is full drops; the guest takes in about 20000 packets a second.
TAP_QUEUE_PACKETS = 10000
# A kernel that is kept off its CPU for long takes the timer for broken, and panics.
KERNEL_OPTIONS = "no_timer_check"


def _run(command, environment, seconds, what):
    try:
        ran = subprocess.run(
            [str(word) for word in command], env=environment, capture_output=True, text=True,
            timeout=seconds, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{what}: {error}") from None
    if ran.returncode != 0:
        last = (ran.stderr + ran.stdout).strip().splitlines()[-1:] or ["no message"]
        raise Unavailable(f"{what}: {last[0]}")
    return ran.stdout


def _kill_session(process):
    """run-peerlab and all below it; `timeout` makes process groups of its own."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            session = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[3])
            if session == process.pid:
                os.kill(int(entry.name), signal.SIGKILL)
    process.stop()


class Job:
    """A command in the guest. Has the manners of hosts.Process."""

    def __init__(self, guest, name, command):
        self._guest = guest
        self._path = guest.jobs / name
        self.name = f"guest: {command.split()[0]}"
        self.command = [command]

    def _file(self, suffix):
        return self._path.with_name(self._path.name + suffix)

    @property
    def status(self):
        with contextlib.suppress(OSError, ValueError):
            value, end = self._file(".rc").read_text().split()
            return int(value) if end == "end" else None
        return None

    def output(self):
        with contextlib.suppress(OSError):
            return self._file(".out").read_text(errors="replace")
        return ""

    def wait_listening(self, deadline):
        wait_until(self._file(".listening").exists, deadline, f"{self.name} listens")
        if self.status is not None:
            raise Failure(f"{self.name}: ended before it listened, with status {self.status}")

    def wait(self, deadline):
        if self.wait_status(deadline) != 0:
            raise Failure(f"{self.name}: exit status {self.status}")

    def wait_status(self, deadline):
        wait_until(
            lambda: self.status is not None or self._guest.process.status is not None, deadline,
            f"{self.name} ends",
        )  # fmt: skip
        return self.status


class Guest:
    def __init__(self, peerlab, life_seconds):
        """A guest that nobody ended ends by itself after life_seconds."""
        self._life_seconds = life_seconds
        self._run_peerlab = pathlib.Path(peerlab) / "run-peerlab"
        self._lab = pathlib.Path(os.environ.get("PEERLAB_DIR", "/tmp/peerlab"))
        self._space = f"mprdma-peer-{os.getpid()}"
        self._environment = dict(os.environ, PEERLAB_DIR=str(self._lab), PEERLAB_NS=self._space,
                                 APPEND=KERNEL_OPTIONS)  # fmt: skip
        self._lock = None
        self._names = 0
        self.process = None
        self.boot_seconds = 0.0
        self.jobs = self._lab / "share/jobs"

    def __enter__(self):
        try:
            self._set_up()
            self._boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._switch_off()
        with contextlib.suppress(Unavailable):
            _run([self._run_peerlab, "netdown"], self._environment, 30, "netdown")
        if self._lock is not None:
            self._lock.close()

    def answers(self):
        """Whether it still does what it is told."""
        if self.process.status is not None:
            return False
        with contextlib.suppress(Failure):
            self.run("true", ANSWER_SECONDS)
            return True
        return False

    def restart(self):
        """Another guest in the place of one that does not answer."""
        self._switch_off()
        self._boot()

    def prefix(self):
        """What a command line starts with, to run at our end of the tap."""
        return ["ip", "netns", "exec", self._space]

    def start(self, command, seconds, listen=None):
        """Starts a shell command in the guest, which is ended after so many seconds."""
        first = f"# listen {listen or ''}"
        return self._give(command, f"{first}\ntimeout -k 2 {int(seconds)} {command}\n")

    def counters(self):
        """Soft-RoCE's, by name."""
        job = self._give("counters", "# counters\n")
        job.wait(time.monotonic() + 2 * ANSWER_SECONDS)
        pairs = (line.split(":") for line in job.output().splitlines())
        return {name: int(value) for name, value in pairs if value.isdigit()}

    def _give(self, title, text):
        self._names += 1
        name = f"{self._names:05}"
        new = self.jobs / f"{name}.new"
        new.write_text(text)
        new.rename(self.jobs / f"{name}.job")
        return Job(self, name, title)

    def run(self, command, seconds=60):
        """Runs one to its end and returns what it printed."""
        job = self.start(command, seconds)
        job.wait(time.monotonic() + seconds + 60)
        return job.output()

    def kill_jobs(self):
        """Ends all that was started."""
        kill = self.jobs / "kill"
        kill.touch()
        with contextlib.suppress(Failure):
            wait_until(lambda: not kill.exists(), time.monotonic() + 30, "jobs end")

    def install(self, program):
        """Copies a program to where the guest sees it, and returns its path there."""
        target = self._lab / "share" / pathlib.Path(program).name
        shutil.copy(program, target)
        return f"/share/{target.name}"

    def remove(self, name):
        """The guest sees such a program no more."""
        (self._lab / "share" / name).unlink(missing_ok=True)

    def _set_up(self):
        if os.geteuid() != 0:
            raise Unavailable("a tap and a network namespace need root")
        if not self._run_peerlab.is_file():
            raise Unavailable(f"there is no {self._run_peerlab}")
        self._lab.mkdir(parents=True, exist_ok=True)
        self._lock = open(self._lab / "interop.lock", "w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Unavailable(f"another run uses the guest in {self._lab}") from None
        if not (self._lab / "initrd.cpio").is_file():
            print("# setting the guest up, which takes some minutes", flush=True)
            _run([self._run_peerlab, "setup"], self._environment, SETUP_SECONDS, "peerlab setup")
        if shutil.which("qemu-system-x86_64") is None:
            raise Unavailable("there is no qemu-system-x86_64")

    def _switch_off(self):
        if self.process is None:
            return
        with contextlib.suppress(OSError, Failure):
            (self.jobs / "stop").touch()
            wait_until(lambda: self.process.status is not None, time.monotonic() + 10, "off")
        _kill_session(self.process)
        self.process = None

    def _boot(self):
        start = time.monotonic()
        shutil.rmtree(self.jobs, ignore_errors=True)
        self.jobs.mkdir(parents=True)
        _run([self._run_peerlab, "netup"], self._environment, 60, "peerlab netup")
        queue = ("link", "set", INTERFACE, "txqueuelen", TAP_QUEUE_PACKETS)
        _run(["ip", "-n", self._space, *queue], self._environment, 60, "txqueuelen")
        self.process = Process(
            [self._run_peerlab, "peer", "-t", self._life_seconds, HERE / "guest-agent.sh"],
            self._environment, "peerlab",
        )  # fmt: skip
        up = lambda: (self.jobs / "ready").exists() or self.process.status is not None  # noqa: E731
        try:
            wait_until(up, start + BOOT_SECONDS, "the guest is up")
        except Failure as failure:
            raise Failure(f"{failure}\n{self.process.output()[-4000:]}") from None
        if self.process.status is not None:
            raise Failure(f"the guest did not start:\n{self.process.output()[-4000:]}")
        self.boot_seconds = time.monotonic() - start
