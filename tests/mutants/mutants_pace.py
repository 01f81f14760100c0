"""Small breakages of the rate of a connection and of its CNPs (transport/pace/), which the unit
tests of the transport must find. Fields: see mutants.py."""

from mutants import maker

_PACE = "pace/connection_pace.hpp"
_POINT = "pace/notification_point.hpp"
_PACER = "pace/pacer.hpp"

# Who compiles them in.
_BEGINS = ("qp.cpp", "roce/roce_connection.cpp")
_SENDS = ("roce/roce_connection.cpp",)
_PACER_TEST = ("../tests/unit/transport/pace/pacer_test.cpp",)

_mutant = maker("pace-", "unit")

MUTANTS = [
    # ---- Reaction point
    _mutant(
        "cnps-obeyed-only-by-choice",
        _PACE,
        "const bool obeys = params.protocol == Protocol::kRoce && params.link_mbps != 0;",
        "const bool obeys = false;",
        "an adapter that asks the default configuration for less is not heard",
        _BEGINS,
    ),
    _mutant(
        "rate-of-the-cnp-not-kept",
        _PACE,
        "    rate_.on_cnp(now);\n    pacer_.follow(now, rate_.bps());\n",
        "    rate_.on_cnp(now);\n",
        "a sender that was asked for less goes on until its next packet, or for ever",
        _SENDS,
    ),
    _mutant(
        "rate-never-raised",
        _PACE,
        "    rate_.on_sent(now, bytes);\n    pacer_.follow(now, rate_.bps());\n",
        "    rate_.on_sent(now, bytes);\n",
        "one CNP halves a connection for its life",
        _SENDS,
    ),
    _mutant(
        "acknowledgements-take-of-the-rate",
        _PACE,
        "    if (operation == wire::Operation::kAck || operation",
        "    if (operation",
        "who receives much may send little",
        _SENDS,
    ),
    _mutant(
        "gaps-of-the-wire-not-counted",
        _PACE,
        "8 + 14 + 20 + 8 + 4 + 4 + 12;",
        "8 + 14 + 20 + 8 + 4 + 4;",
        "small packets exceed the rate",
        _SENDS,
    ),
    # ---- Notification point
    _mutant(
        "a-cnp-for-each-mark",
        _POINT,
        "    next_ = now + interval_;\n",
        "",
        "a full queue cuts a rate to the least at once",
        _SENDS,
    ),
    _mutant(
        "cnps-only-from-who-has-a-rate",
        _PACE,
        "notifications_.reset(always ? kCnpInterval : named);",
        "notifications_.reset(named);",
        "a sender with DCQCN never hears of the marks that a receiver with TIMELY sees",
        _BEGINS,
    ),
    _mutant(
        "cnp-without-becn",
        _POINT,
        "  cnp.becn = true;\n",
        "",
        "an adapter takes a CNP for nothing",
        _SENDS,
    ),
    # ---- Pacer
    _mutant(
        "fractions-dropped",
        _PACER,
        "bytes * ns_per_byte_ + due_fraction_;",
        "bytes * ns_per_byte_;",
        "on a fast link the rate is a percent too high",
        _PACER_TEST,
    ),
    _mutant(
        "late-host-catches-up-with-all",
        _PACER,
        "std::max(due_, now - kPaceSlack)",
        "due_",
        "after a pause a burst as long as the pause leaves at the rate of the link",
        _SENDS,
    ),
    _mutant(
        "late-host-loses-its-time",
        _PACER,
        "std::max(due_, now - kPaceSlack)",
        "std::max(due_, now)",
        "the granularity of a host's timers limits the rate",
        _SENDS,
    ),
]
