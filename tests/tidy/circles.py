"""Circles between files: a file either knows another or is known by it.

A node is a path without its suffix, so a header and its source are one. The pieces of a class are
one, too: a file without a partner that only defines members of a class, or a class nested in it,
belongs to the header that declares the class.

A file knows what it includes. The C files below rules.SYMBOL_ROOMS share their headers; such a file
knows, besides, who defines a function or variable that it names. That is read from the text: a call
through a pointer is not seen, and it is what cuts a circle.
"""

import collections
import re

import rules
from functions import functions
from source import strip, without_preprocessor

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
# What a class is nested in, and its name; no parameter of a template.
_CLASS = re.compile(
    r"(?<![<,]\s)(?<!<)\b(?:class|struct)\s+(?:alignas\([^)]*\)\s*)?((?:\w+::)*)(\w+)[^;{}()]*\{"
)
_VARIABLE = re.compile(
    r"^(?!static|extern|(?:struct|union|enum) \w+;)\w[\w *]*[ *](mprdma_\w+)\s*[;=\[]", re.MULTILINE
)


def _stem(path):
    return path.rsplit(".", 1)[0]


def _includes(text):
    return _INCLUDE.findall(strip(text, keep_strings=True))


def _completes(path, text):
    """What is before the last `::` of each name that the file defines for a class elsewhere."""
    code = strip(text)
    while (plain := re.sub(r"<[^<>;{}]*>(?=::)", "", code)) != code:
        code = plain
    if path.endswith(".hpp"):
        nested = [outer.split("::")[:-1] for outer, _ in _CLASS.findall(code) if outer]
        if nested or _CLASS.search(code):
            return nested
    return [name.split("::")[:-1] for _, _, name in functions(code) if "::" in name]


def _piece_of(path, texts):
    """The header whose class a file without a partner completes, or None."""
    classes = _completes(path, texts[path])
    for header in _includes(texts[path]) if classes else ():
        declared = {name for _, name in _CLASS.findall(strip(texts.get(header, "")))}
        if all(declared & set(names) for names in classes):
            return header
    return None


def _nodes(texts):
    """path: node."""
    files = collections.Counter(_stem(path) for path in texts)
    wholes = {p: _piece_of(p, texts) for p in texts if files[_stem(p)] == 1}

    def whole_of(path):
        seen = set()
        while wholes.get(path) and path not in seen:
            seen.add(path)
            path = wholes[path]
        return path

    return {path: _stem(whole_of(path)) for path in texts}


def _is_symbol_source(path):
    return path.endswith(".c") and path.startswith(tuple(room + "/" for room in rules.SYMBOL_ROOMS))


def _defined(code):
    """Functions and variables that other files may name."""
    lines = code.split("\n")
    for first, _, name in functions(code):
        if not re.search(r"\bstatic\b", lines[first - 1]):
            yield name
    yield from _VARIABLE.findall(code)


def _named(text):
    """What the file may mean of others: words of ours, and what it calls."""
    whole = strip(text)  # with the bodies of macros
    words = set(re.findall(r"\bmprdma_\w+", whole))
    for prefix in re.findall(r"\b(mprdma_\w*)##", whole):  # pasted in a macro
        words |= {prefix + word for word in re.findall(r"\b\w+", whole)}
    # `struct stat` is no use of stat(), nor is `link->open()` one of open().
    return words | set(re.findall(r"(?<![.>\w])\w+(?=\()", without_preprocessor(whole)))


def _symbol_edges(texts, nodes):
    """(from, to, through) of the C files that share their headers."""
    sources = {path: text for path, text in texts.items() if _is_symbol_source(path)}
    owner = {
        name: path
        for path, text in sources.items()
        for name in _defined(without_preprocessor(strip(text)))
    }
    for path, text in sources.items():
        for name in sorted(_named(text) & owner.keys()):
            yield nodes[path], nodes[owner[name]], name


def _include_edges(texts, nodes):
    for path, text in texts.items():
        for header in _includes(text):
            if header in nodes:
                yield nodes[path], nodes[header], f'"{header}"'


def edges(texts):
    """{node: {node: through what}}, and {path: node}."""
    nodes = _nodes(texts)
    graph = collections.defaultdict(dict)
    for source, target, through in (*_include_edges(texts, nodes), *_symbol_edges(texts, nodes)):
        if source != target:
            graph[source].setdefault(target, through)
    return graph, nodes


def _shortest(graph, start):
    """The shortest way from a node back to itself, or None."""
    before = {}
    queue = collections.deque([start])
    while queue:
        node = queue.popleft()
        for target in sorted(graph.get(node, ())):
            if target == start:
                way = [start, node]
                while way[-1] != start:
                    way.append(before[way[-1]])
                return way[::-1]
            if target not in before:
                before[target] = node
                queue.append(target)
    return None


def _reached(graph, start):
    seen, todo = set(), [start]
    while todo:
        for target in graph.get(todo.pop(), ()):
            if target not in seen:
                seen.add(target)
                todo.append(target)
    return seen


def knots(graph):
    """Sets of nodes of which each knows, through others, each."""
    reached = {node: _reached(graph, node) for node in list(graph)}
    found = []
    for node in sorted(graph):
        if node in reached[node] and not any(node in knot for knot in found):
            found.append({n for n in reached[node] if node in reached.get(n, ())})
    return found


def findings(texts):
    """Yields (path, line, rule, message) for each knot; texts is {path: text} of all C and C++."""
    graph, nodes = edges(texts)
    for knot in knots(graph):
        ways = [_shortest(graph, node) for node in sorted(knot)]
        way = min((w for w in ways if w), key=len)
        steps = [f"{b} ({graph[a][b]})" for a, b in zip(way, way[1:])]
        others = f"; {len(knot)} files hang together" if len(knot) > len(way) - 1 else ""
        path = min(p for p, node in nodes.items() if node == way[0])
        yield path, 1, "circle", " -> ".join([way[0], *steps]) + others
