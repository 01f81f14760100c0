"""The files of the tree, and C/C++ text without what the compiler ignores."""

import pathlib
import re
import subprocess

C_FAMILY = {".c", ".cpp", ".h", ".hpp"}
HEADERS = {".h", ".hpp"}

_TOKEN = re.compile(
    r"""
      //(?:\\\n|[^\n])*                                # line comment
    | /\*.*?(?:\*/|\Z)                                 # block comment
    | (?:u8|[uUL])?R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"   # raw string
    | "(?:\\.|[^"\\\n])*"                              # string
    | (?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'             # character, not the ' of 1'000
    """,
    re.VERBOSE | re.DOTALL,
)


def strip(text, keep_strings=False):
    """Blanks comments and the contents of strings; every line stays where it is."""

    def blank(match):
        token = match.group(0)
        if token.startswith("/"):
            return " " + "\n" * token.count("\n")
        if keep_strings:
            return token
        return '""' + "\n" * token.count("\n")

    return _TOKEN.sub(blank, text)


def without_preprocessor(code):
    """Blanks directives (with their continuation lines) and every branch but the first."""
    out = []
    hidden = []  # for each open #if: whether its current branch is blanked
    continues = False
    for line in code.split("\n"):
        directive = re.match(r"\s*#\s*(\w+)", line)
        if continues or directive:
            if directive and not continues:
                word = directive.group(1)
                if word.startswith("if"):
                    hidden.append(False)
                elif word in ("else", "elif") and hidden:
                    hidden[-1] = True
                elif word == "endif" and hidden:
                    hidden.pop()
            continues = line.endswith("\\")
            out.append("")
        else:
            out.append("" if any(hidden) else line)
    return "\n".join(out)


def tree_files(root):
    """Paths relative to root of every file that belongs to the project, in order."""
    root = pathlib.Path(root)
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        names = listed.stdout.decode().split("\0")
        files = {pathlib.PurePosixPath(n) for n in names if n and (root / n).is_file()}
    else:  # an unpacked archive
        found = (p.relative_to(root) for p in root.rglob("*") if p.is_file())
        files = {
            pathlib.PurePosixPath(p)
            for p in found
            if not p.parts[0].startswith("build") and ".git" not in p.parts
        }
    return sorted(files)
