"""Small breakages of congestion controls, which their unit tests must find.

As in mutants.py; files are those of cc/. They are headers, so that what is compiled again is the
test.
"""

from mutants import maker

_make = maker("cc-", "cc")


def _mutant(name, file, test, old, new, why):
    return _make(name, file, old, new, why, rebuild=[f"../tests/unit/cc/{test}"])


def _timely(name, *fields):
    return _mutant("timely-" + name, "timely_rate.hpp", "timely_rate_test.cpp", *fields)


MUTANTS = [
    _timely(
        "gradient-of-one-sample",
        "    difference_ += (step - difference_) * 7 / 8;\n",
        "    difference_ = step;\n",
        "one late acknowledgement cuts the rate as a queue does",
    ),
    _timely(
        "hyper-increase-at-once",
        "falling_ >= kHyperAfter ?",
        "falling_ >= 1 ?",
        "the queue is filled again before it is empty",
    ),
    _timely(
        "update-for-each-packet",
        "    if (ack.now < due_) return;\n",
        "",
        "a fast flow answers one queue many times",
    ),
    _timely(
        "weight-without-its-half",
        "2 * gradient + kOne / 2, 0",
        "2 * gradient, 0",
        "no fix point: the patched rate only grows on a steady queue",
    ),
    _timely(
        "falls-to-nothing",
        "std::max(rate_bps_, before_bps / 2)",
        "rate_bps_",
        "one stall of a host stops its flows",
    ),
    _timely(
        "starts-where-it-was",
        "  void reset() {\n    rate_bps_ = link_bps_;\n",
        "  void reset() {\n",
        "a new connection has the rate of an old one",
    ),
    _mutant(
        "base-of-the-former-connection",
        "base_delay.hpp",
        "timely_rate_test.cpp",
        "    if (measures_) rtt_ = kNone;\n",
        "",
        "over a longer path, an empty queue looks full",
    ),
]
