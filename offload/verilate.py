#!/usr/bin/env python3
"""Makes C++ of SystemVerilog with Verilator: one source, V<top>_all.cpp, and the headers that it
and its users need, in the directory of --out. Warnings are errors.

The names of the sources that Verilator writes carry hashes, so Meson cannot list them: the one
source includes them all.
"""

import argparse
import pathlib
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verilator", required=True)
    parser.add_argument("--top", required=True, help="the module")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--lenient", action="store_true", help="without warnings")
    parser.add_argument("sources", nargs="+")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    prefix = "V" + arguments.top
    for stale in out.glob(prefix + "*"):
        stale.unlink()
    command = [arguments.verilator, "--cc", "-O3", "-Wall", "--noassert", "--trace"]
    command += ["--x-assign", "unique", "--x-initial", "unique"]
    command += ["--top-module", arguments.top, "--prefix", prefix, "-Mdir", str(out)]
    command += ["-Wno-lint", "-Wno-style"] if arguments.lenient else []
    if subprocess.run([*command, *arguments.sources], check=False).returncode:
        return 1
    written = sorted(path.name for path in out.glob(prefix + "*.cpp"))
    text = "".join(f'#include "{name}"\n' for name in written)
    (out / f"{prefix}_all.cpp").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
