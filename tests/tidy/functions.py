"""How long is each function? By its braces, which is exact enough for formatted code."""

import re

from source import strip, without_preprocessor

_SCOPE = re.compile(r"\b(namespace|struct|class|union|enum)\b|\bextern\s+\"\"\s*$")
_AFTER_PARAMETERS = re.compile(r"\)\s*(const|noexcept|override|final|->.*|:.*)*\s*$")


def _opens_function(header):
    """Whether the text before an opening brace, outside any function, is a function's head."""
    text = header.strip()
    if "(" not in text or text.count("(") != text.count(")"):
        return False  # no parameter list, or an initialiser inside a call
    if text.endswith(("=", ",", "return")):
        return False
    scope = _SCOPE.search(text)
    # `struct x f(void) {` is a function, `struct alignas(64) X {` is not.
    return scope is None or _AFTER_PARAMETERS.search(text) is not None


def functions(text):
    """Yields (first line, number of lines, name) of every function."""
    code = without_preprocessor(strip(text))
    depth = 0
    inside = None  # depth, first line and name of the function that we are in
    header, header_line, line = "", 0, 1  # the text since the last statement or block
    for position, char in enumerate(code):
        line += char == "\n"
        if char == "{":
            if inside is None:
                if _opens_function(header):
                    head = _without_macros(header)
                    first = header_line + header.count("\n") - head.count("\n")
                    inside = (depth, first, _name(head))
                else:
                    header = ""
            depth += 1
        elif char == "}":
            depth -= 1
            if inside is None:
                header = ""
            elif inside[0] == depth:
                # After a brace initialiser in a constructor's list the body is still to come.
                if code[position + 1 :].lstrip()[:1] not in (",", "{"):
                    yield inside[1], line - inside[1] + 1, inside[2]
                    header = ""
                inside = None
        elif inside is None:
            if char == ";" and header.count("(") == header.count(")"):
                header = ""
            else:
                if not header.strip():
                    header, header_line = "", line
                header += char


def _without_macros(header):
    """The head alone, where macros without a semicolon, and an empty line, stand before it."""
    parts = re.split(r"\n[ \t]*\n(?=\S)", header)
    return parts[-1] if _opens_function(parts[-1]) else header


def _name(header):
    match = re.search(r"([~\w:]+|operator\s*\S+)\s*\(", header)
    return match.group(1) if match else "?"
