"""README's table of the verbs names every function of the installed <infiniband/verbs.h>."""

import fnmatch
import pathlib
import re
import sys

HEADER = pathlib.Path("/usr/include/infiniband/verbs.h")
NOT_FUNCTIONS = {"ibv_wc_opcode"}  # an enumeration, which a cast in the header makes look like one


def declared():
    found = set(re.findall(r"\bibv_[a-z_0-9]+(?=\s?\()", HEADER.read_text()))
    return found - NOT_FUNCTIONS


def named(readme):
    table = readme.split("\n## The verbs\n", 1)[1].split("\n## ", 1)[0]
    first_columns = (line.split("|")[1:3] for line in table.splitlines() if line.startswith("|"))
    words = re.findall(r"`([a-z_0-9*]+)`", " ".join(" ".join(cells) for cells in first_columns))
    return {word if word.startswith("ibv_") else "ibv_" + word for word in words}


def main():
    patterns = named(pathlib.Path(sys.argv[1]).read_text())
    functions = declared()
    if len(functions) < 100:
        print(f"{HEADER} is read wrongly: {len(functions)} functions")
        return 1
    missing = [f for f in sorted(functions) if not any(fnmatch.fnmatch(f, p) for p in patterns)]
    for function in missing:
        print(f"README.md does not say whether {function} works")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
