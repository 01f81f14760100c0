#!/usr/bin/env python3
"""Every rule of tidy.py must be able to fail: bad snippets are flagged, good ones are not."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import circles
import compiled
import tidy

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONG_BODY = "  x();\n" * 60
WORK = "/wor" + "k"

# rule, path, text. The text is completed with what other rules ask for.
BAD = [
    ("include", "wire/a.cpp", '#include "transport/qp.hpp"\n'),
    ("include", "base/a.cpp", '#include "wire/bth.hpp"\n'),
    ("include", "cc/a.cpp", '#include "wire/bth.hpp"\n'),
    ("include", "transport/a.cpp", '#include "abi/mprdma_abi.h"\n'),
    ("include", "switchsim/model/a.cpp", '#include "transport/qp.hpp"\n'),
    ("include", "abi/a.c", '#include "base/check.hpp"\n'),
    ("include", "dataplane/a.cpp", '#include "tools/main.hpp"\n'),
    ("include", "dataplane/a.cpp", "#include <rte_mbuf.h>\n"),
    ("include", "dataplane/daemon/a.cpp", '#include "dataplane/worker/worker.hpp"\n'),
    ("include", "transport/core/a.cpp", '#include "transport/stream/stream_sender.hpp"\n'),
    ("clock", "dataplane/cm/a.cpp", "auto t = std::chrono::steady_clock::now();\n"),
    ("include", "dataplane/a.cpp", '#include "providers/mprdma/mprdma.h"\n'),
    ("include", "dataplane/a.cpp", "#include <infiniband/verbs.h>\n"),
    ("include", "providers/mprdma/a.c", '#include "dataplane/worker/worker.hpp"\n'),
    ("include", "providers/mprdma/a.c", "#include <rte_mbuf.h>\n"),
    ("include", "tests/unit/wire/a.cpp", '#include "bth.hpp"\n'),
    ("include", "tests/unit/wire/a.cpp", "#include <wire/bth.hpp>\n"),
    ("include", "tests/provider/a.cpp", "#include <infiniband/driver.h>\n"),
    ("include", "tools/a.cpp", '#include "tests/support/print.hpp"\n'),
    ("include", "transport/a.cpp", "#include <chrono>\n"),
    ("include", "transport/a.cpp", "#include <unistd.h>\n"),
    ("include", "wire/a.cpp", "#  include <sys/socket.h>\n"),
    ("include", "raas/a.cpp", '#include "abi/mprdma_abi.h"\n'),
    ("clock", "transport/a.cpp", "auto t = std::chrono::steady_clock::now();\n"),
    ("clock", "cc/a.cpp", "int f() { return clock_gettime(0, nullptr); }\n"),
    ("clock", "wire/a.cpp", "auto t = __rdtsc();\n"),
    ("thread", "base/a.cpp", "std::thread t;\n"),
    ("thread", "transport/a.cpp", "thread_local int x;\n"),
    ("exception", "wire/a.cpp", "void f() { throw 1; }\n"),
    ("exception", "transport/a.cpp", "void f() { try { g(); } catch (...) {} }\n"),
    ("std-function", "transport/a.cpp", "std::function<void()> f;\n"),
    ("floating-point", "cc/a.cpp", "double rate;\n"),
    ("floating-point", "transport/a.cpp", "float rate = 1;\n"),
    ("rand", "tests/unit/wire/a.cpp", "int x = rand();\n"),
    ("rand", "dataplane/a.cpp", "std::mt19937 generator;\n"),
    ("using-namespace", "tools/a.cpp", "using namespace std;\n"),
    ("sleep", "tests/unit/wire/a.cpp", "void f() { std::this_thread::sleep_for(x); }\n"),
    ("file-length", "dataplane/a.cpp", "int x;\n" * 501),
    ("file-length", "tests/apps/run", "#!/usr/bin/env python3\n" + "x = 1\n" * 500),
    ("function-length", "dataplane/a.cpp", "void f() {\n" + LONG_BODY + "}\n"),
    ("function-length", "dataplane/a.cpp", "A::A(int a)\n  : a_{a}, b_{1} {\n" + LONG_BODY + "}\n"),
    ("function-length", "tools/a.cpp", "struct A {\n int f() const {\n" + LONG_BODY + "}\n};\n"),
    ("function-length", "dataplane/a.cpp", "TEST(A, B) {\n" + LONG_BODY + "}\n"),
    ("function-length", "abi/a.c", 'extern "C" {\nstruct a *f(void)\n{\n' + LONG_BODY + "}\n}\n"),
    ("columns", "dataplane/a.cpp", "int " + "x" * 100 + ";\n"),
    ("columns", "scripts/a", "#!/usr/bin/env bash\n# " + "x" * 100 + "\n"),
    ("pragma-once", "wire/a.hpp", "int x;\n"),
    ("pragma-once", "wire/a.hpp", "// #pragma once\n#ifndef A\n#define A\n#endif\n"),
    ("machine-path", "docs/a.md", f"see {WORK}/x.md\n"),
    ("machine-path", "dataplane/a.cpp", f'const char* p = "{WORK}";\n'),
    ("unbuilt", "tests/unit/wire/a_test.cpp", "int x;\n"),
]

GOOD = [
    ("transport/a.cpp", '#include "base/psn.hpp"\n#include <array>\n#include <stdint.h>\n'),
    ("transport/a.cpp", "// throw rand() double using namespace\n/* std::chrono */\n"),
    ("transport/a.cpp", 'const char* s = "double \\" throw"; char c = \'"\';\nint n = 1\'000;\n'),
    ("cc/a.cpp", "int retry; int time_of(int); int x = y.time(); int double_it;\n"),
    ("dataplane/a.cpp", "#include <chrono>\n#include <unistd.h>\n"),
    ("dataplane/port/dpdk/a.cpp", "#include <rte_mbuf.h>\n"),
    ("providers/mprdma/a.c", "#include <infiniband/driver.h>\n#include <pthread.h>\n"),
    ("dataplane/a.cpp", "namespace a {\n" + "void f() {\n  x();\n}\n" * 100 + "}\n"),
    ("dataplane/a.cpp", "const int kTable[] = {\n" + "    1,\n" * 100 + "};\n"),
    ("dataplane/a.cpp", "struct alignas(64) A {\n" + "  int x;\n" * 100 + "};\n"),
    ("wire/a.hpp", "// What it is.\n#pragma once\nint x;\n"),
    ("docs/a.md", "networking, framework, a/workflow\n"),
]

_KNOWS = '#include "{}"\n'
_CLASS = "#pragma once\nclass A {{\n  void f();\n{}}};\n"

# What hangs together, and the files: {path: text}.
BAD_CIRCLES = [
    (
        {"wire/a", "wire/b"},
        {"wire/a.cpp": _KNOWS.format("wire/b.hpp"), "wire/b.hpp": _KNOWS.format("wire/a.hpp"),
         "wire/a.hpp": "#pragma once\n"},
    ),
    (  # a piece of a class
        {"wire/a", "wire/b"},
        {"wire/a.hpp": _CLASS.format(""), "wire/b.hpp": _KNOWS.format("wire/a.hpp"),
         "wire/a_more.cpp": _KNOWS.format("wire/a.hpp") + _KNOWS.format("wire/b.hpp")
         + "void A::f() {}\n"},
    ),
    (
        {"providers/mprdma/a", "providers/mprdma/b", "providers/mprdma/c"},
        {"providers/mprdma/a.c": "int mprdma_a(void) {\n  return mprdma_b();\n}\n",
         "providers/mprdma/b.c": "int mprdma_b(void) {\n  return mprdma_c;\n}\n",
         "providers/mprdma/c.c": "int mprdma_c;\nstatic int (*call)(void) = mprdma_a;\n"},
    ),
    (  # the hook of a function of libc
        {"providers/mprdma/preload/a", "providers/mprdma/preload/b"},
        {"providers/mprdma/preload/a.c": "REAL(int, stat)\n\n"
         "int stat(void) {\n  return mprdma_b();\n}\n",
         "providers/mprdma/preload/b.c": "int mprdma_b(void) {\n  return stat();\n}\n"},
    ),
]  # fmt: skip
GOOD_CIRCLES = [
    {"wire/a.cpp": _KNOWS.format("wire/a.hpp") + _KNOWS.format("wire/b.hpp"),
     "wire/a.hpp": "#pragma once\n", "wire/b.hpp": "#pragma once\n"},
    # Pieces of one class: what is nested in it, and bodies of a template.
    {"wire/a.hpp": _CLASS.format("  struct State;\n"),
     "wire/a.cpp": _KNOWS.format("wire/a.hpp") + _KNOWS.format("wire/state.hpp"),
     "wire/state.hpp": _KNOWS.format("wire/a.hpp") + "struct A::State {\n  int x;\n};\n",
     "wire/more.cpp": _KNOWS.format("wire/state.hpp") + "void A::State::f() {}\n"},
    {"wire/a.hpp": "template <class T>\n" + _CLASS.format("") + _KNOWS.format("wire/a_inl.hpp"),
     "wire/a_inl.hpp": _KNOWS.format("wire/a.hpp") + "template <class T>\nvoid A<T>::f() {}\n"},
    # Names of one's own, words that only look alike, and a function that came as an argument.
    {"providers/mprdma/a.c": "static int own(void) {\n  return 1;\n}\n"
     "int mprdma_a(void) {\n  return 1;\n}\n"
     "int stat(void) {\n  return own() + mprdma_b(mprdma_a);\n}\n",
     "providers/mprdma/b.c": "static int own(void) {\n  return 1;\n}\n"
     "/* mprdma_a() */\nint mprdma_b(int (*f)(void)) {\n"
     "  struct stat s;\n  return own() + x->stat() + f();\n}\n"},
]  # fmt: skip

# Headers for the checks that run tools; each is written out for real.
BAD_COMPILED = [
    ("header-alone", "wire/a.hpp", "#pragma once\nstd::vector<int> f();\n"),
    ("header-alone", "abi/a.h", "#pragma once\nclass A {};\n"),
    ("header-alone", "abi/b.h", "#pragma once\nint f(int class);\n"),
    ("header-alone", "providers/mprdma/a.h", "#pragma once\nnamespace a {}\n"),
    ("format", "wire/b.hpp", "#pragma once\nint  f( );\n"),
]
GOOD_COMPILED = [
    ("wire/good.hpp", "#pragma once\n\n#include <vector>\n\nstd::vector<int> f();\n"),
    ("abi/good.h", "#pragma once\n\n#include <stdint.h>\n\nuint32_t f(uint32_t x);\n"),
    ("providers/mprdma/good.h", "#pragma once\n\nint f(int class);\n"),
]
# Files that the snippets include.
TREE = [
    "abi/mprdma_abi.h", "base/check.hpp", "base/psn.hpp", "dataplane/worker/worker.hpp",
    "providers/mprdma/mprdma.h", "tests/support/print.hpp", "tools/main.hpp", "transport/qp.hpp",
    "transport/stream/stream_sender.hpp", "wire/bth.hpp",
]  # fmt: skip


def write(root, path, text):
    """Writes one file of a tree."""
    target = pathlib.Path(root) / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return pathlib.PurePosixPath(path)


class Rules(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        for path in TREE:
            write(self.root, path, "#pragma once\n")
        write(self.root, ".clang-format", (ROOT / ".clang-format").read_text())

    def found(self, path, text):
        findings = tidy.text_findings(self.root, write(self.root, path, text))
        return {rule for _, _, rule, _ in findings}

    def test_each_bad_snippet_is_flagged(self):
        for rule, path, text in BAD:
            with self.subTest(rule=rule, path=path, text=text[:80]):
                self.assertIn(rule, self.found(path, text))

    def test_good_snippets_pass(self):
        for path, text in GOOD:
            with self.subTest(path=path, text=text[:80]):
                self.assertEqual(self.found(path, text), set())

    def test_function_of_exactly_the_limit_passes(self):
        self.assertEqual(self.found("tools/a.cpp", "void f() {\n" + "  x();\n" * 58 + "}\n"), set())
        self.assertEqual(
            self.found("tools/a.cpp", "void f() {\n" + "  x();\n" * 59 + "}\n"), {"function-length"}
        )

    def test_circles_are_flagged(self):
        for knot, texts in BAD_CIRCLES:
            with self.subTest(texts=texts):
                self.assertEqual(circles.knots(circles.edges(texts)[0]), [knot])
        for texts in GOOD_CIRCLES:
            with self.subTest(texts=texts):
                self.assertEqual(list(circles.findings(texts)), [])

    def test_a_circle_is_spelled_out(self):
        write(self.root, "wire/b.hpp", "#pragma once\n" + _KNOWS.format("wire/c.hpp"))
        write(self.root, "wire/c.hpp", "#pragma once\n" + _KNOWS.format("wire/b.hpp"))
        files = [pathlib.PurePosixPath("wire/b.hpp")]
        found = [message for *_, message in tidy.circle_findings(self.root, files)]
        way = 'wire/b -> wire/c ("wire/c.hpp") -> wire/b ("wire/b.hpp")'
        self.assertEqual(found, [way])

    def test_unit_test_that_meson_names_passes(self):
        write(self.root, "tests/unit/wire/meson.build", "x = ['a_test.cpp']\n")
        self.assertEqual(self.found("tests/unit/wire/a_test.cpp", "int x;\n"), set())

    def test_headers_are_compiled_and_formatted(self):
        bad = [write(self.root, path, text) for _, path, text in BAD_COMPILED]
        files = bad + [write(self.root, path, text) for path, text in GOOD_COMPILED]
        found = [*compiled.headers(self.root, files), *compiled.formatting(self.root, files)]
        flagged = {(rule, str(path)) for path, _, rule, _ in found}
        for rule, path, _ in BAD_COMPILED:
            self.assertIn((rule, path), flagged)
        for path, _ in GOOD_COMPILED:
            self.assertNotIn(path, {p for _, p in flagged})

    def test_headers_that_changed_since_a_revision(self):
        """With those that include one, and those that git does not know yet; not the others."""
        bad = "#pragma once\ninline Unknown x;\n"
        write(self.root, "wire/old.hpp", bad)
        write(self.root, "wire/user.hpp", '#pragma once\n#include "wire/changed.hpp"\n' + bad[13:])
        write(self.root, "wire/changed.hpp", "#pragma once\n")
        for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
            who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
            subprocess.run(["git", "-C", str(self.root), *who, *command], check=True)
        write(self.root, "wire/changed.hpp", bad)
        write(self.root, "wire/new.hpp", bad)
        names = ("wire/changed.hpp", "wire/new.hpp", "wire/old.hpp", "wire/user.hpp")
        files = [pathlib.PurePosixPath(name) for name in names]
        found = {str(path) for path, *_ in compiled.headers(self.root, files, "HEAD")}
        self.assertEqual(found, {"wire/changed.hpp", "wire/new.hpp", "wire/user.hpp"})

    def test_every_rule_has_a_bad_snippet(self):
        covered = {rule for rule, _, _ in BAD + BAD_COMPILED}
        self.assertLessEqual({name for name, *_ in tidy.checks.rules.BANS}, covered)


if __name__ == "__main__":
    sys.exit(unittest.main())
