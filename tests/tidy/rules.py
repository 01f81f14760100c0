"""The rules, as data. Who may include whom, and which words are banned where."""

import re

PURE = (
    "base", "wire", "cc", "transport", "dataplane/cm", "dataplane/mgmt", "switchsim/model",
    "switchsim/fluid",
)

BELOW_CONNECTIONS = (
    "base", "wire", "cc", "transport/path", "transport/core", "transport/pace", "transport/work",
    "transport/stream",
)

BELOW_SIMULATION = (
    "base", "wire", "cc", "transport", "switchsim/model", "switchsim/config",
)

# Directories of ours that the files of a directory may include, besides itself.
# The longest matching directory counts. "*" means any but the ones in NEVER_INCLUDED.
MAY_INCLUDE = {
    "base": (),
    "abi": (),
    "wire": ("base",),
    "cc": ("base",),
    # path < core < pace, work, stream < mp, roce, unreliable < qp
    "transport/path": ("base", "wire"),
    "transport/core": ("base", "wire", "cc", "transport/path"),
    "transport/pace": ("base", "wire", "cc", "transport/path", "transport/core"),
    "transport/stream": ("base", "wire", "cc", "transport/path", "transport/core"),
    "transport/work": ("base", "wire", "transport/core"),
    "transport/mp": (*BELOW_CONNECTIONS,),
    "transport/roce": (*BELOW_CONNECTIONS,),
    "transport/unreliable": (*BELOW_CONNECTIONS,),
    "transport": (
        *BELOW_CONNECTIONS, "transport/mp", "transport/roce", "transport/unreliable",
    ),
    # The transport's parameters from files, the same for the engine and for the simulator.
    "config": ("base", "transport/core"),
    "switchsim/model": ("base", "wire"),
    "switchsim/fluid": ("base",),
    "switchsim/config": ("base", "switchsim/model"),
    # scenario < hosts < result
    "switchsim/sim/scenario": (*BELOW_SIMULATION, "config"),
    "switchsim/sim/hosts": (*BELOW_SIMULATION, "switchsim/sim/scenario"),
    "switchsim/sim/result": (
        *BELOW_SIMULATION, "switchsim/sim/scenario", "switchsim/sim/hosts",
    ),
    "switchsim/sim": (
        *BELOW_SIMULATION, "switchsim/sim/scenario", "switchsim/sim/hosts", "switchsim/sim/result",
    ),
    # The fabric is the peer at the other end of a port: of the dataplane it knows the port seam and
    # what a host is called, never the engine behind it.
    "switchsim/fabric": (
        "base", "wire", "switchsim/model", "switchsim/config", "dataplane/port", "dataplane/sys",
        "dataplane/open_port.hpp",
    ),
    # Which ports there are, texts and numbers that all folders share.
    "dataplane": (
        "base", "abi", "wire", "config/toml_keys.hpp", "dataplane/sys", "dataplane/port",
        "dataplane/client",
    ),
    "dataplane/sys": ("base", "wire"),
    "dataplane/port": ("base", "wire", "dataplane/sys"),
    "dataplane/port/dpdk": ("base", "wire", "dataplane/sys", "dataplane/port"),
    "dataplane/cm": ("base", "wire", "abi"),
    "dataplane/mgmt": ("base", "wire"),
    "dataplane/client": (
        "base", "abi", "wire", "dataplane/sys", "dataplane/port", "dataplane/qpn.hpp",
    ),
    "dataplane/worker": (
        "base", "wire", "cc", "transport", "abi", "dataplane/sys", "dataplane/port", "dataplane/cm",
        "dataplane/mgmt", "dataplane/client/daemon.hpp", "dataplane/qpn.hpp",
    ),
    "dataplane/engine": (
        "base", "wire", "cc", "transport", "abi", "config", "dataplane/sys", "dataplane/port",
        "dataplane/cm", "dataplane/mgmt", "dataplane/client", "dataplane/worker",
        "dataplane/qpn.hpp", "dataplane/device_text.hpp", "dataplane/device_toml.hpp",
        "dataplane/open_port.hpp",
    ),
    # Never the worker, the engine or the transport.
    "dataplane/daemon": (
        "base", "wire", "abi", "config/text_file.hpp", "config/toml_keys.hpp", "dataplane/sys",
        "dataplane/port", "dataplane/cm", "dataplane/mgmt", "dataplane/client",
        "dataplane/qpn.hpp", "dataplane/device_text.hpp", "dataplane/device_toml.hpp",
        "dataplane/open_port.hpp",
    ),
    "evaluation": (
        "base", "cc", "transport", "switchsim/config", "switchsim/fluid", "switchsim/model",
        "switchsim/sim",
    ),
    "offload": ("base", "wire", "cc", "transport", "abi"),
    "providers/mprdma": ("abi", "dataplane/engine/engine.h"),
    "raas": (),
    "tools": ("*",),
    "bench": ("*",),
    "tests": ("*", "tools", "bench"),
}
NEVER_INCLUDED = ("tools", "bench", "tests")

_RUN = ("tools", "bench", "tests")
_HOSTS = (
    "config", "dataplane", "switchsim/config", "switchsim/sim", "switchsim/fabric", "evaluation",
    "raas", *_RUN,
)

# Libraries: a pattern for the name between the angle brackets, and who may use it.
LIBRARIES = {
    "DPDK": (r"rte_\w+\.h|bus_\w+_driver\.h", ("dataplane/port/dpdk", "switchsim/fabric", *_RUN)),
    "rdma-core": (r"(infiniband|rdma|ccan|util)/.*", ("providers/mprdma", "raas", *_RUN)),
    "fmt": (r"fmt/.*", ("offload/lockstep", *_HOSTS)),
    "toml++": (r"toml\+\+/.*", _HOSTS),
    "json": (r"nlohmann/.*", _HOSTS),
    "prometheus-cpp": (r"prometheus/.*", ("dataplane/daemon", *_RUN)),
    "CLI11": (r"CLI/.*", ("offload/lockstep", "raas", *_RUN)),
    "GoogleTest": (r"(gtest|gmock)/.*", ("tests",)),
    "vector instructions": (r"\w+intrin\.h", ("wire/icrc_clmul.cpp",)),
    "Verilator": (r"(verilated\w*|Vmp_\w+)\.h", ("offload", *_RUN)),
    "Google Benchmark": (r"benchmark/.*", ("bench",)),
}

C_STANDARD = set(
    "assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h locale.h "
    "math.h setjmp.h signal.h stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h "
    "stdlib.h stdnoreturn.h string.h tgmath.h threads.h time.h uchar.h wchar.h wctype.h".split()
)
# The language's own headers that bring a clock, a thread, an exception or the outside world.
IMPURE_STANDARD = set(
    "atomic barrier chrono condition_variable ctime exception filesystem fstream future iostream "
    "latch mutex random semaphore shared_mutex stdexcept stop_token syncstream thread csignal "
    "signal.h threads.h time.h stdatomic.h setjmp.h csetjmp".split()
)


def is_standard(name):
    """C++ headers have neither a slash nor a suffix."""
    return name in C_STANDARD or re.fullmatch(r"[a-z0-9_]+", name) is not None


# name, where ("" is everywhere), pattern on code without comments and strings, why.
BANS = [
    (
        "clock",
        PURE,
        r"\bstd::(chrono|time|clock)\b|(?<![.>:\w])(clock_gettime|gettimeofday|clock|time)\s*\("
        r"|\b_*(rte_)?rdtscp?\b|\brte_get_\w*cycles\b",
        "the host passes the time in",
    ),
    (
        "thread",
        PURE,
        r"\bstd::(j?thread|mutex|atomic\w*|condition_variable)\b|\bpthread_\w+|\bthread_local\b",
        "pure code runs in one thread and knows no other",
    ),
    (
        "exception",
        PURE,
        r"\b(throw|try|catch)\b",
        "errors are values; our own bugs are CHECK",
    ),
    (
        "std-function",
        PURE,
        r"\bstd::function\b",
        "it allocates; use a template or an interface",
    ),
    (
        "floating-point",
        ("cc", "transport"),
        r"\b(float|double)\b",
        "software and hardware agree bit by bit: base/fixed_point.hpp",
    ),
    (
        "rand",
        ("",),
        r"(?<![.>\w])(s?rand(om)?(_r)?|[dlm]rand48)\s*\(|\bstd::(random_device|mt19937\w*)\b",
        "use base/prng.hpp, which replays",
    ),
    (
        "using-namespace",
        ("",),
        r"\busing\s+namespace\b",
        "name what you use",
    ),
    (
        "sleep",
        ("tests/unit", "tests/swarm", "tests/mutants"),
        r"\b(u|nano)?sleep\s*\(|\bsleep_(for|until)\b",
        "wait for a condition: tests/support/eventually.hpp",
    ),
]

# In any text. Written in parts, so that this file is not its own finding.
_MACHINE_DIRECTORIES = ("wor" + "k", "roo" + "t", "hom" + r"e/\w+")
MACHINE_PATHS = re.compile(r"(?<![\w.}])/(" + "|".join(_MACHINE_DIRECTORIES) + r")\b")

# Where C files share headers, so that circles.py asks who names whose functions.
SYMBOL_ROOMS = ("providers/mprdma",)

LINES_MAX = 500
FUNCTION_LINES_MAX = 60
COLUMNS_MAX = 100
COLUMNS_SUFFIXES = {".c", ".cpp", ".h", ".hpp", ".py", ".sh", ".lua"}
