#!/usr/bin/env python3
"""Breaks the transport, connection management, the NIC's part, mprdmad and its clients, the
engine's worker and its port, the wire formats, the fabric, the simulator and the provider in small
ways and asserts that their tests find each breakage.

The swarm has to find what breaks a promise of the mode `mp`. What only slows a connection down, or
chooses a worse path, breaks no promise that the swarm knows: that is for the transport's unit
tests, and so are the standard's connections. Single rules of the standard are for the conformance
scripts. The exploration of all states has a few mutants of its own, which show that it can fail.

A mutant is an exact replacement in a copy of transport/, or of another directory (SOURCES), whose
own unit tests have to find it. Only files that it touches are compiled again and linked in front of
the library; of headers, the unit test itself. The provider is linked as a library that the tests of
the verbs load (tests/provider). A text that is not there exactly once is an error, also of a mutant
that is not tried (--one-of), so that the list stays true to the code.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import time

from mutants import MUTANTS as SENDER_MUTANTS
from mutants_begin import MUTANTS as BEGIN_MUTANTS
from mutants_cc import MUTANTS as CC_MUTANTS
from mutants_cm import MUTANTS as CM_MUTANTS
from mutants_daemon import MUTANTS as DAEMON_MUTANTS
from mutants_explore import MUTANTS as EXPLORE_MUTANTS
from mutants_fast import MUTANTS as FAST_MUTANTS
from mutants_irn import MUTANTS as IRN_MUTANTS
from mutants_map import MUTANTS as MAP_MUTANTS
from mutants_mgmt import MUTANTS as MGMT_MUTANTS
from mutants_mp import MUTANTS as MP_MUTANTS
from mutants_offload import MUTANTS as OFFLOAD_MUTANTS
from mutants_pace import MUTANTS as PACE_MUTANTS
from mutants_paper import MUTANTS as PAPER_MUTANTS
from mutants_pfc import MUTANTS as PFC_MUTANTS
from mutants_port import MUTANTS as PORT_MUTANTS
from mutants_provider import MUTANTS as PROVIDER_MUTANTS
from mutants_receive import MUTANTS as RECEIVE_MUTANTS
from mutants_roce import MUTANTS as ROCE_MUTANTS
from mutants_rules import MUTANTS as RULE_MUTANTS
from mutants_sim import MUTANTS as SIM_MUTANTS
from mutants_spacing import MUTANTS as SPACING_MUTANTS
from mutants_windows import MUTANTS as WINDOW_MUTANTS
from mutants_wire import MUTANTS as WIRE_MUTANTS
from mutants_worker import MUTANTS as WORKER_MUTANTS

MUTANTS = RECEIVE_MUTANTS + SENDER_MUTANTS + MAP_MUTANTS + MP_MUTANTS + PAPER_MUTANTS
MUTANTS += ROCE_MUTANTS + RULE_MUTANTS + WINDOW_MUTANTS + CM_MUTANTS + DAEMON_MUTANTS
MUTANTS += MGMT_MUTANTS + WORKER_MUTANTS + PORT_MUTANTS + EXPLORE_MUTANTS + CC_MUTANTS
MUTANTS += WIRE_MUTANTS + SIM_MUTANTS + PROVIDER_MUTANTS + PACE_MUTANTS + SPACING_MUTANTS
MUTANTS += IRN_MUTANTS + PFC_MUTANTS + FAST_MUTANTS + BEGIN_MUTANTS
MUTANTS += OFFLOAD_MUTANTS

SECONDS_MAX = 240

# Unit tests, by killer, that run for seconds: only a mutant that all others missed needs them.
SLOW_TESTS = {
    "unit": ("AckRun", "OffloadSender", "PlainLanes", "RoceRandom"),
    "sim": ("*/TraceFileOf", "Determinism", "Synchronise", "SynchroniseBesideAnother"),
}

# What the exploration is run with, until it finds something.
SEARCHES = (
    ["--messages", "write3,send2,read1", "--duplicate-packets", "0", "--duplicate-acks", "0"],
    ["--placement", "relaxed", "--states", "200000"],
    ["--mode", "roce", "--states", "200000"],
)

# By killer; of all others it is transport/.
SOURCES = {
    "base": "base",
    "cc": "cc",
    "cm": "dataplane/cm",
    "daemon": "dataplane/daemon",
    "fabric": "switchsim/fabric",
    "facts": "providers/mprdma",
    "mgmt": "dataplane/mgmt",
    "model": "switchsim/model",
    "port": "dataplane/port",
    "provider": "providers/mprdma",
    "rings": "dataplane/client",
    "sim": "switchsim/sim",
    "wire": "wire",
    "worker": "dataplane/worker",
}

# Killers that are the unit tests of a library: whose they are.
UNIT_TESTS = {
    "unit": "the transport",
    "cm": "the CM agent",
    "daemon": "mprdmad's switch",
    "fabric": "the fabric",
    "mgmt": "dataplane/mgmt",
    "model": "the network model",
    "port": "LocalPort",
    "rings": "the processes of mprdmad",
    "sim": "the simulator",
    "wire": "wire",
    "worker": "the worker",
}

# Killers that are unit tests of headers alone.
HEADERS_ONLY = ("base", "cc", "facts")

# The libraries are full of debug information, which nobody reads here: without it, and by the other
# linker of binutils, a killer is linked in a fifth of the time.
LINKER = ["-fuse-ld=gold", "-Wl,--strip-all"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cxx", required=True, help="compiler, words separated by spaces")
    parser.add_argument("--root", required=True, type=pathlib.Path, help="source tree")
    parser.add_argument("--work", required=True, type=pathlib.Path, help="where to build")
    parser.add_argument("--libs", required=True, nargs="+", help="swarm and below, in link order")
    parser.add_argument("--link", nargs="*", default=[], help="libraries of the system")
    parser.add_argument("--explore-libs", required=True, nargs="+", help="exploration and below")
    parser.add_argument("--conformance-libs", required=True, nargs="+", help="the scripts' runner")
    parser.add_argument("--scripts", required=True, help="the directory of the scripts")
    for killer, whose in UNIT_TESTS.items():
        parser.add_argument(f"--{killer}-tests", required=True, help=f"the unit tests of {whose}")
        parser.add_argument(f"--{killer}-libs", required=True, nargs="+", help="what they need")
    parser.add_argument("--provider-tests", required=True, help="the program of the verbs' tests")
    parser.add_argument("--provider-lib", required=True, help="the provider's objects")
    parser.add_argument("--provider-link", nargs="+", default=[], help="libraries that it needs")
    parser.add_argument("--provider-env", nargs="+", default=[], help="what the tests run in")
    parser.add_argument("--only", help="one mutant, or all that begin so: daemon-")
    parser.add_argument("--one-of", type=int, default=1, help="only one of each N mutants")
    parser.add_argument("--turn", type=int, help="which one, 0 to N - 1; else the commit says")
    parser.add_argument("--seeds", default="1..4000")
    return parser.parse_args()


def sources_of(mutant):
    """The directory that a mutant breaks."""
    return SOURCES.get(mutant.killer, "transport")


def stale_text(arguments, mutant):
    """What is wrong with a mutant's place in the code; also of those that are not tried."""
    source = pathlib.Path(sources_of(mutant)) / mutant.file
    count = (arguments.root / source).read_text().count(mutant.old)
    return None if count == 1 else f"{mutant.name}: its old text is {count} times in {source}"


def mutate(arguments, mutant, directory):
    """A directory that shadows the sources with the broken text."""
    shutil.rmtree(directory, ignore_errors=True)
    sources = sources_of(mutant)
    target = directory / sources
    for file in {mutant.file, *mutant.rebuild}:
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(arguments.root / sources / file, target / file)
    text = (arguments.root / sources / mutant.file).read_text()
    (target / mutant.file).write_text(text.replace(mutant.old, mutant.new))
    return target


def compiles_tests(mutant):
    """True if tests are compiled again: those alone are the killer. Of a header, the library of all
    tests has the code as it was."""
    return any("/tests/" in file for file in mutant.rebuild)


def turn_of(arguments):
    """Which one of each N mutants is tried: the commit's name says, so that all have a turn."""
    if arguments.turn is not None:
        return arguments.turn % arguments.one_of
    git = ["git", "-C", str(arguments.root), "rev-parse", "HEAD"]
    named = subprocess.run(git, capture_output=True, text=True, check=False)
    commit = int(named.stdout, 16) if named.returncode == 0 else 0
    return commit % arguments.one_of


def is_wanted(mutant, only):
    return only in (None, mutant.name) or (only.endswith("-") and mutant.name.startswith(only))


def compile_one(arguments, directory, source, target):
    command = arguments.cxx.split() + ["-O1", "-fno-strict-aliasing"]
    if source.suffix == ".c":
        command += ["-x", "c", "-std=c11", "-D_GNU_SOURCE", "-fPIC", "-fvisibility=hidden"]
    else:
        command += ["-std=c++20"]
    command += ["-DMPRDMA_DCHECK", "-I" + str(directory), "-I" + str(arguments.root)]
    command += ["-c", str(source), "-o", str(target)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return str(target)


def compile_all(arguments, mutant, directory, sources):
    """The objects of the mutant's sources: of all together where their names allow it, which takes
    a third of the time, for most of it is the headers'."""
    files = [sources / file for file in mutant.rebuild]
    if len(files) > 1:
        together = directory / "together.cpp"
        together.write_text("".join(f'#include "{file}"\n' for file in files))
        try:
            return [compile_one(arguments, directory, together, directory / "together.o")]
        except subprocess.CalledProcessError:
            pass  # two files have a name in common
    return [compile_one(arguments, directory, file, file.with_suffix(".o")) for file in files]


def link_of(arguments, mutant):
    """What the linker gets behind the mutant's objects."""
    gtest = ["-lgtest_main", "-lgtest", "-lpthread", "-ldl"]
    system = ["-l" + library for library in arguments.link]
    if mutant.killer in HEADERS_ONLY:
        return [arguments.libs[-1], *gtest]
    if mutant.killer in UNIT_TESTS:
        tests = vars(arguments)[mutant.killer + "_tests"]
        libs = vars(arguments)[mutant.killer + "_libs"]
        whole = [] if compiles_tests(mutant) else ["-Wl,--whole-archive", tests]
        whole += ["-Wl,--no-whole-archive", "-Wl,--start-group", *libs, "-Wl,--end-group"]
        return whole + gtest + system
    if mutant.killer == "conformance":
        libs = arguments.conformance_libs
        return ["-Wl,--start-group", *libs, "-Wl,--end-group", "-lgtest", *system]
    return (arguments.explore_libs if mutant.killer == "explore" else arguments.libs) + system


def build(arguments, mutant, directory):
    objects = compile_all(arguments, mutant, directory, mutate(arguments, mutant, directory))
    command = arguments.cxx.split() + LINKER
    if mutant.killer == "provider":
        program = directory / "libmprdma-rdmav34.so"  # as libibverbs looks for it
        # provider.c, which nobody calls, registers the provider, and needs all others.
        command += ["-shared", "-o", str(program), *objects, "-Wl,-u,mprdma_is_our_device"]
        command += [arguments.provider_lib, *("-l" + lib for lib in arguments.provider_link)]
    else:
        program = directory / "killer"
        command += ["-o", str(program), *objects, *link_of(arguments, mutant)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return program


def hunt_over_provider(arguments, library):
    """As hunt_by_tests(): the tests of the verbs load the library."""
    environment = dict(variable.split("=", 1) for variable in arguments.provider_env)
    environment["IBV_DRIVERS"] = str(library.with_name("libmprdma"))
    options = ["--gtest_fail_fast", "--gtest_filter=-Leak.*"]
    return hunt_by_tests(arguments.provider_tests, *options, **environment)


def hunt_by_unit_tests(program, killer):
    """As hunt_by_tests(); the quick ones come first."""
    if killer in SLOW_TESTS:
        quick = "--gtest_filter=-" + ":".join(suite + ".*" for suite in SLOW_TESTS[killer])
        killed, finding = hunt_by_tests(program, "--gtest_fail_fast", quick)
        if killed:
            return killed, finding
    return hunt_by_tests(program, "--gtest_fail_fast")


def hunt_by_tests(program, *options, **variables):
    """(a test failed, its name). A crash is a finding, too."""
    command = [str(program), *options]
    limits = {"timeout": SECONDS_MAX, "env": os.environ | variables}
    try:
        run = subprocess.run(command, capture_output=True, text=True, **limits)
    except subprocess.TimeoutExpired:
        return True, "hangs"
    failed = [line for line in run.stdout.splitlines() if line.startswith("[  FAILED  ] ")]
    return run.returncode != 0, (failed or run.stderr.strip().splitlines() or ["nothing"])[0]


def hunt(program, seeds):
    """(found something, the finding's line)."""
    try:
        run = subprocess.run(
            [str(program), "--seeds", seeds], capture_output=True, text=True, timeout=SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return False, "too slow"
    lines = [line for line in run.stdout.splitlines() if line.startswith("swarm:")]
    last = (run.stderr.strip().splitlines() or lines or ["nothing"])[-1]
    return run.returncode == 1 and "replay:" in run.stdout, last


def hunt_by_exploring(program):
    """(found something, the finding's line)."""
    for search in SEARCHES:
        try:
            run = subprocess.run(
                [str(program), *search], capture_output=True, text=True, timeout=SECONDS_MAX
            )
        except subprocess.TimeoutExpired:
            return False, "too slow"
        lines = [line for line in run.stdout.splitlines() if line.startswith("explore:")]
        if run.returncode == 1 and "replay:" in run.stdout:
            return True, (lines or ["nothing"])[-1]
    return False, "nothing"


def try_mutant(arguments, mutant):
    directory = arguments.work / mutant.name
    started = time.monotonic()
    try:
        program = build(arguments, mutant, directory)
        if mutant.killer == "provider":
            killed, finding = hunt_over_provider(arguments, program)
        elif mutant.killer in (*HEADERS_ONLY, *UNIT_TESTS):
            killed, finding = hunt_by_unit_tests(program, mutant.killer)
        elif mutant.killer == "conformance":
            killed, finding = hunt_by_tests(program, arguments.scripts, "--gtest_brief=1")
        elif mutant.killer == "explore":
            killed, finding = hunt_by_exploring(program)
        else:
            killed, finding = hunt(program, arguments.seeds)
    except subprocess.CalledProcessError as error:
        return False, f"{mutant.name}: {error} {error.stderr}"
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    seconds = time.monotonic() - started
    fate = "killed" if killed else "SURVIVED"
    return killed, f"{mutant.name}: {fate} in {seconds:.1f} s: {finding[:160]}"


def main():
    arguments = parse_arguments()
    mutants = [m for m in MUTANTS if is_wanted(m, arguments.only)]
    names = {m.name for m in MUTANTS}
    if len(names) != len(MUTANTS) or not mutants:
        sys.exit("mutants: names are unique, and --only names some of them")
    stale = [text for text in map(lambda m: stale_text(arguments, m), MUTANTS) if text]
    for text in stale:
        print("[ FAILED ] " + text)
    if arguments.one_of > 1:
        turn = turn_of(arguments)
        mutants = mutants[turn :: arguments.one_of]
        print(f"--one-of {arguments.one_of} --turn {turn}", flush=True)
    survivors = len(stale)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for killed, text in pool.map(lambda m: try_mutant(arguments, m), mutants):
            print(("[   OK   ] " if killed else "[ FAILED ] ") + text, flush=True)
            survivors += not killed
    print(f"{len(mutants)} of {len(MUTANTS)} mutants tried, {survivors} failed")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
