"""Small breakages of the paper's own recovery, and of what hardware keeps of a sender.

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
    # ---- Into hardware and back
    mutant(
        "offload-forgets-an-epoch",
        "stream/scoreboard.hpp",
        "    load(in.resent_before, resent_before_);\n",
        "",
        "what was just sent again is lost once more, after a move",
        SENDER,
        killer="unit",
    ),
    mutant(
        "offload-old-times-come-round",
        "stream/stream_sender_offload.cpp",
        "(old ? kTimeRange : ago)",
        "(old ? ago : ago)",
        "a mark of a minute ago is one of now",
        killer="unit",
    ),
    mutant(
        "offload-loses-the-path-probe",
        "stream/stream_sender_offload.cpp",
        "  round_.explore = is(OffloadContext::kPathProbeDue);\n",
        "",
        "a stream that is moved explores no path in that round",
        killer="unit",
    ),
    mutant(
        "offload-old-by-nanoseconds",
        "stream/stream_sender_offload.cpp",
        "units(now) - units(time) >= kTimeRange",
        "now - time >= Duration::ns(kTimeRange * kTimeUnitNs)",
        "a mark that is just too old comes back as one of now",
        killer="unit",
    ),
    mutant(
        "offload-cuts-what-is-too-large",
        "stream/stream_sender_offload.cpp",
        "std::min(value, (uint64_t{1} << 8 * bytes) - 1)",
        "value",
        "a round trip of 17 ms becomes one of 0.2 ms",
        killer="unit",
    ),
    mutant(
        "offload-of-any-stream",
        "stream/stream_sender_offload.cpp",
        "!fits_offload(params_) || ",
        "",
        "a stream with losses by time forgets them on its way",
        killer="unit",
    ),
]
