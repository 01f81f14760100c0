#!/usr/bin/env python3
"""The house rules as a test: prints `file:line: rule: message` for each breach, and fails on any.

tidy.py [--root DIR] [--fast] [--since REV] [PATH ...]
  --fast       leaves out what runs a compiler or clang-format
  --since REV  compiles only headers that changed since, and those that include one that did
  PATH         checks only what lies under these paths
"""

import argparse
import pathlib
import sys

import checks
import circles
import compiled
from source import C_FAMILY, tree_files


def read(root, path):
    """The text of a file, or None if it is none or holds no text."""
    try:
        data = (pathlib.Path(root) / path).read_bytes()
        return None if b"\0" in data else data.decode()
    except (OSError, UnicodeDecodeError):
        return None


def text_findings(root, path):
    """All findings of the checks that need the text only, for one file."""
    name, text = str(path), read(root, path)
    if text is None:
        return
    found = [*checks.machine_paths(name, text), *checks.shape(name, text)]
    if path.suffix in C_FAMILY:
        exists = lambda target: (pathlib.Path(root) / target).is_file()
        found += checks.includes(name, text, exists)
        found += checks.bans(name, text)
        found += checks.unbuilt(name, lambda target: read(root, target))
    for line, rule, message in found:
        yield path, line, rule, message


def circle_findings(root, files):
    """The circles through one of the files; whoever else is in them is looked for in the tree."""
    texts = {str(f): read(root, f) for f in tree_files(root) if f.suffix in C_FAMILY}
    for path, line, rule, message in circles.findings({p: t for p, t in texts.items() if t}):
        if pathlib.PurePosixPath(path) in files:
            yield path, line, rule, message


def all_findings(root, files, fast=False, since=None):
    """All findings in the files."""
    for path in files:
        yield from text_findings(root, path)
    yield from circle_findings(root, files)
    if not fast:
        yield from compiled.headers(root, files, since)
        yield from compiled.formatting(root, files)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--since")
    parser.add_argument("paths", nargs="*")
    arguments = parser.parse_args()
    files = tree_files(arguments.root)
    if arguments.paths:
        wanted = tuple(p.rstrip("/") for p in arguments.paths)
        files = [f for f in files if any(str(f) == p or str(f).startswith(p + "/") for p in wanted)]
    count = 0
    findings = all_findings(arguments.root, files, arguments.fast, arguments.since)
    for path, line, rule, message in findings:
        print(f"{path}:{line}: {rule}: {message}")
        count += 1
    print(f"tidy: {len(files)} files, {count} findings")
    # Nothing looked at is no success.
    return 1 if count or not files else 0


if __name__ == "__main__":
    sys.exit(main())
