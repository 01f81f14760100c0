"""Checks that need the tools: each header compiles alone, and everything is formatted."""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess

from source import C_FAMILY, HEADERS

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


def headers(root, files):
    """Compiles each header as the only include of an empty file, unless the build does."""
    root = pathlib.Path(root)
    libraries = _pkg_config("libdpdk")

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

    yield from _parallel(compile_one, [f for f in files if alone(f)])


def formatting(root, files):
    """clang-format, with the style file at the root."""
    root = pathlib.Path(root)
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if tool is None:
        yield pathlib.PurePosixPath("."), 0, "format", "clang-format is not installed"
        return

    style = f"--style=file:{root / '.clang-format'}"

    def format_one(path):
        ran = subprocess.run(
            [tool, style, "--dry-run", "-Werror", str(root / path)],
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode == 0:
            return []
        place = ran.stderr.split("\n", 1)[0].split(":")
        line = int(place[1]) if len(place) > 1 and place[1].isdigit() else 1
        return [(path, line, "format", "run clang-format -i on it")]

    yield from _parallel(format_one, [f for f in files if f.suffix in C_FAMILY])
