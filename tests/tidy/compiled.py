"""Checks that need the tools: each header compiles alone, and everything is formatted."""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess

from source import C_FAMILY, HEADERS

_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
_WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]


def _pkg_config(*packages):
    flags = []
    for package in packages:
        ran = subprocess.run(
            ["pkg-config", "--cflags", package], capture_output=True, text=True, check=False
        )
        flags += ran.stdout.split()
    # Other people's headers are not ours to warn about.
    return [("-isystem" + f[2:]) if f.startswith("-I") else f for f in flags]


def _compilations(path, root):
    """(compiler, language options) for one header: `.h` as C, and as C++ unless the provider's."""
    common = ["-I", str(root), *_WARNINGS]
    runs = []
    if path.suffix == ".h":
        runs.append(["gcc", "-std=c11", "-D_GNU_SOURCE", "-xc", *common])
    if path.suffix == ".hpp" or path.parts[0] != "providers":
        runs.append(["g++", "-std=c++20", "-xc++", *common])
    return runs


def _parallel(work, items):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for findings in pool.map(work, items):
            yield from findings


def _is_first_in_its_source(root, path):
    """Whether the source beside a header begins with it: then the build compiles it alone."""
    source = root / path.with_suffix(".cpp")
    if path.suffix != ".hpp" or not source.is_file():
        return False
    for line in source.read_text().splitlines():
        if line.startswith("#include"):
            return line == f'#include "{path}"'
    return False


def _changed_since(root, revision):
    """The files that differ from a revision, as `{"wire/icrc.hpp"}`; None: git does not know."""
    names = set()
    for command in (
        ["diff", "--name-only", "--relative", "-z", revision, "--"],
        ["ls-files", "--others", "--exclude-standard", "-z"],
    ):
        git = ["git", "-C", str(root), *command]
        listed = subprocess.run(git, capture_output=True, check=False)
        if listed.returncode != 0:
            return None
        names.update(listed.stdout.decode().split("\0"))
    return names - {""}


def _touched(root, files, revision):
    """The headers that changed since a revision, and those that include one of them."""
    changed = _changed_since(root, revision)
    if changed is None:
        return files

    def touched(path):
        text = (root / path).read_text(errors="replace")
        return str(path) in changed or not changed.isdisjoint(_INCLUDE.findall(text))

    return [path for path in files if touched(path)]


def headers(root, files, since=None):
    """Compiles each header as the only include of an empty file, unless the build does.

    With a revision only headers that changed since, and those that include one that did.
    """
    root = pathlib.Path(root)
    libraries = _pkg_config("libdpdk", "verilator")

    def compile_one(path):
        found = []
        for command in _compilations(path, root):
            ran = subprocess.run(
                [*command, *libraries, "-"],
                input=f'#include "{path}"\n',
                capture_output=True,
                text=True,
                check=False,
            )
            if ran.returncode != 0:
                errors = [l for l in ran.stderr.splitlines() if "error" in l] or ["?"]
                found.append((path, 1, "header-alone", f"{command[0]}: {errors[0]}"))
        return found

    def alone(path):
        return path.suffix in HEADERS and not _is_first_in_its_source(root, path)

    wanted = [f for f in files if alone(f)]
    yield from _parallel(compile_one, _touched(root, wanted, since) if since else wanted)


def formatting(root, files):
    """clang-format, with the style file at the root."""
    root = pathlib.Path(root)
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if tool is None:
        yield pathlib.PurePosixPath("."), 0, "format", "clang-format is not installed"
        return

    style = f"--style=file:{root / '.clang-format'}"

    def format_some(paths):
        ran = subprocess.run(
            [tool, style, "--dry-run", "-Werror", *(str(root / path) for path in paths)],
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode == 0:
            return []
        # FILE:LINE:COLUMN: error: .., a line or more for each file.
        lines = re.findall(r"^(.+?):(\d+):\d+: \w+: ", ran.stderr, re.MULTILINE)
        first = {path: int(line) for path, line in reversed(lines)}
        found = [(path, first[str(root / path)]) for path in paths if str(root / path) in first]
        message = "run clang-format -i on it"
        return [(path, line, "format", message) for path, line in found or [(paths[0], 1)]]

    wanted = [f for f in files if f.suffix in C_FAMILY]
    yield from _parallel(format_some, [wanted[i : i + 50] for i in range(0, len(wanted), 50)])
