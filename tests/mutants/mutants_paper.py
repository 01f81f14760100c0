"""Small breakages of the paper's own recovery.

Fields: see mutants.py.
"""

from mutants import SENDER, mutant

MUTANTS = [
    # ---- The paper's own recovery
    mutant(
        "sweep-falls-behind",
        "stream/recovery_paper.hpp",
        "    retx_ = psn_max(retx_, board.una());\n",
        "",
        "packets are sent again that nobody waits for",
        SENDER,
    ),
    mutant(
        "recovery-never-ends",
        "stream/recovery_paper.hpp",
        "    if (recovery_ == board.una()) recovering_ = false;\n",
        "",
        "the next loss waits for a timeout",
        SENDER,
        killer="unit",
    ),
    mutant(
        "recovery-left-behind",
        "stream/recovery_paper.hpp",
        "    recovery_ = psn_max(recovery_, board.una());\n",
        "",
        "a stale serial number: recovery never ends",
        SENDER,
        killer="unit",
    ),
    mutant(
        "early-copies-without-clock",
        "stream/recovery_paper.hpp",
        "recovering_ || clocked_ == 0 ||",
        "recovering_ ||",
        "what was just sent is sent again at once",
        SENDER,
        killer="unit",
    ),
    mutant(
        "early-copies-count-nothing",
        "stream/recovery_paper.hpp",
        "    --inflate_;\n",
        "",
        "each copy at the end of a message widens the window for good",
        SENDER,
        killer="unit",
    ),
    mutant(
        "early-copies-of-what-was-refused",
        "stream/recovery_paper.hpp",
        "    if (none || board.lost(retx_)) return std::nullopt;",
        "    if (none) return std::nullopt;",
        "a synchronise operation that waits for its turn is sent at once, and refused again",
        SENDER,
        killer="unit",
    ),
]
