"""rdma-core's own API tests (package python3-pyverbs) over our provider and the engine that is
named: the fake one, or the real one, which then talks to itself.

What is not built must answer EOPNOTSUPP, which these tests take as a reason to skip; a test that
runs must pass. Exit status 77, skipped, where the package is not installed.
"""

import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path("/usr/share/doc/rdma-core/tests")
PYTHON = "/usr/bin/python3"  # the one that the distribution's module is built for
# Those that passed when this was written; fewer means that something is now "not supported".
PASSED_MIN = 35


def unpack(target):
    for path in SOURCE.iterdir():
        if path.suffix == ".gz":
            (target / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        elif path.suffix == ".py":
            shutil.copy(path, target)


def main():
    preload, provider, engine = sys.argv[1:4]
    importable = subprocess.run([PYTHON, "-c", "import pyverbs"], check=False).returncode == 0
    if not SOURCE.is_dir() or not importable:
        print("python3-pyverbs is not installed")
        return 77
    environment = dict(
        os.environ,
        LD_PRELOAD=preload,
        IBV_DRIVERS=provider,
        MPRDMA_ENGINE_LIBRARY=engine,
        MPRDMA_ADDRESS="10.73.0.1/24",
    )
    with tempfile.TemporaryDirectory() as directory:
        environment["MPRDMA_PORT"] = f"local:{directory}/wire"
        tests = pathlib.Path(directory) / "tests"
        tests.mkdir()
        unpack(tests)
        ran = subprocess.run(
            [PYTHON, "-B", str(tests / "run_tests.py"), "-v"],
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    passed = len(re.findall(r"(?:\.\.\. |^)ok$", ran.stderr, re.MULTILINE))
    if ran.returncode != 0 or passed < PASSED_MIN:
        print(ran.stderr)
        print(f"{passed} passed, at least {PASSED_MIN} expected; exit status {ran.returncode}")
        return 1
    print(f"{passed} passed; {ran.stderr.strip().splitlines()[-1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
