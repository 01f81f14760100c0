"""Checks that need nothing but the text. Each yields (line, rule, message)."""

import re

import rules
from functions import functions
from source import C_FAMILY, HEADERS, strip


def _inside(path, directory):
    return directory == "" or path == directory or path.startswith(directory + "/")


def _owner(path, table):
    """The longest directory of the table that holds the path."""
    holders = [d for d in table if _inside(path, d)]
    return max(holders, key=len) if holders else None


def _line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def includes(path, text, exists):
    """Every include against the table; `exists` tells whether a path of the tree exists."""
    pattern = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
    code = strip(text, keep_strings=True)
    for match in pattern.finditer(code):
        line, name = _line_of(code, match.start()), match.group(2)
        message = (
            _quoted_include(path, name, exists)
            if match.group(1) == '"'
            else _system_include(path, name, exists)
        )
        if message:
            yield line, "include", message


def _quoted_include(path, name, exists):
    if not exists(name):
        return f'"{name}" is no path from the root of the tree'
    owner = _owner(path, rules.MAY_INCLUDE)
    target = _owner(name, rules.MAY_INCLUDE)
    if owner is None or target is None:
        return f'"{name}": {"this file" if owner is None else "it"} is in no directory of the table'
    if owner == target:
        return None
    allowed = rules.MAY_INCLUDE[owner]
    if any(_inside(name, directory) for directory in allowed):
        return None
    if "*" in allowed and target not in rules.NEVER_INCLUDED:
        return None
    return f'{owner} may not include "{name}"'


def _system_include(path, name, exists):
    owner = _owner(path, rules.MAY_INCLUDE) or path
    pure = _owner(path, rules.PURE) is not None
    for library, (pattern, users) in rules.LIBRARIES.items():
        if re.fullmatch(pattern, name):
            if not any(_inside(path, user) for user in users):
                return f"{owner} may not use {library}: <{name}>"
            if name == "infiniband/driver.h" and not path.endswith((".c", ".h")):
                return f"<{name}> is for C files only"
            return None
    if exists(name):
        return f'<{name}> is ours: "{name}"'
    if pure and name in rules.IMPURE_STANDARD:
        return f"<{name}> in a pure directory"
    if not rules.is_standard(name) and (pure or owner in ("abi", "raas")):
        return f"{owner} may include the language's own library only, not <{name}>"
    return None


def bans(path, text):
    """Banned words."""
    code = strip(text)
    for name, directories, pattern, why in rules.BANS:
        if any(_inside(path, d) for d in directories):
            for match in re.finditer(pattern, code):
                yield _line_of(code, match.start()), name, f"`{match.group(0)}`: {why}"


def shape(path, text):
    """Size of files, functions and lines; the include guard."""
    lines = text.count("\n")
    suffix = "." + path.rsplit(".", 1)[-1]
    is_script = "." not in path.rsplit("/", 1)[-1] and text.startswith("#!")
    if suffix in rules.COLUMNS_SUFFIXES or is_script:
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > rules.COLUMNS_MAX:
                yield number, "columns", f"{len(line)} columns, at most {rules.COLUMNS_MAX}"
    if (suffix in rules.COLUMNS_SUFFIXES or is_script) and lines > rules.LINES_MAX:
        yield lines, "file-length", f"{lines} lines, at most {rules.LINES_MAX}"
    if suffix in C_FAMILY:
        for first, length, name in functions(text):
            if length > rules.FUNCTION_LINES_MAX:
                limit = rules.FUNCTION_LINES_MAX
                yield first, "function-length", f"{name}: {length} lines, at most {limit}"
    if suffix in HEADERS:
        directive = re.search(r"^[ \t]*#.*$", strip(text), re.MULTILINE)
        if directive is None or directive.group(0).split() != ["#pragma", "once"]:
            yield 1, "pragma-once", "a header's first directive is `#pragma once`"


def machine_paths(_path, text):
    """Paths that exist on one machine only."""
    for match in rules.MACHINE_PATHS.finditer(text):
        yield _line_of(text, match.start()), "machine-path", f"`{match.group(0)}`"


def unbuilt(path, read):
    """A unit test that no meson.build names can never fail. `read(path)` is None for no file."""
    if not (path.startswith("tests/unit/") and path.endswith((".cpp", ".c"))):
        return
    parts = path.split("/")
    for above in range(len(parts) - 1, 2, -1):
        build_file = "/".join(parts[:above]) + "/meson.build"
        text = read(build_file)
        if text is not None and f"'{'/'.join(parts[above:])}'" in text:
            return
    yield 1, "unbuilt", f"no meson.build from {'/'.join(parts[:-1])} up names this file"
