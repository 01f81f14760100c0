"""Small breakages of congestion controls, which their unit tests must find.

As in mutants.py; files are those of cc/. They are headers, so that what is compiled again is the
test.
"""

from mutants import maker

_make = maker("cc-", "cc")


def _mutant(name, file, test, old, new, why):
    return _make(name, file, old, new, why, rebuild=[f"../tests/unit/cc/{test}"])


def _nscc(name, *fields, file="nscc_window.hpp"):
    return _mutant("nscc-" + name, file, "nscc_window_test.cpp", *fields)


def _swift(name, *fields):
    return _mutant("swift-" + name, "swift_window.hpp", "swift_window_test.cpp", *fields)


def _mp(name, *fields):
    return _mutant("mp-" + name, "mp_window.hpp", "window_test.cpp", *fields)


def _timely(name, *fields):
    return _mutant("timely-" + name, "timely_rate.hpp", "timely_rate_test.cpp", *fields)


def _dcqcn(name, *fields):
    return _mutant("dcqcn-" + name, "dcqcn.hpp", "dcqcn_test.cpp", *fields)


def _tuned(name, *fields):
    return _mutant("dcqcn-tuned-" + name, "dcqcn_presets.hpp", "dcqcn_step_test.cpp", *fields)


def _aimd(name, *fields):
    return _mutant("aimd-" + name, "aimd_window.hpp", "aimd_window_test.cpp", *fields)


def _dctcp(name, *fields):
    return _mutant("dctcp-" + name, "dctcp_window.hpp", "dctcp_window_test.cpp", *fields)


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
    _nscc(
        "cut-by-the-last-delay",
        "    const int64_t mean_ns = mean_delay().count_ns();\n",
        "    const int64_t mean_ns = 8 * base_.target().count_ns();\n",
        "one burst on one of many paths cuts the window as a full network does",
    ),
    _nscc(
        "cut-for-each-mark",
        "    state_.may_cut = now + base_.rtt();\n",
        "",
        "one full queue cuts a window to one packet",
    ),
    _nscc(
        "delay-of-a-host-is-congestion",
        "!marked && delay > base_.target() ? base_.rtt() / 4 : delay",
        "delay",
        "where nothing marks, the next mark costs half of the window",
    ),
    _nscc(
        "no-patience-in-quick-adapt",
        "base.target() * kPatience",
        "base.target()",
        "every full queue is answered as a collapse",
        file="quick_adapt.hpp",
    ),
    _nscc(
        "quick-adapt-of-what-delivers",
        " || arrived >= gate_",
        "",
        "a window that carries the network's rate is thrown away",
        file="quick_adapt.hpp",
    ),
    _nscc(
        "old-marks-count-again",
        "    ignored_ = in_flight_;\n",
        "",
        "what was in flight at an adaptation is answered twice",
        file="quick_adapt.hpp",
    ),
    _nscc(
        "a-mark-without-delay-cuts",
        "if (ack.ece && much)",
        "if (ack.ece)",
        "one full path of many slows all down",
    ),
    _nscc(
        "fast-increase-through-a-full-network",
        "    state_.calm = 0;\n    const int64_t mean_ns",
        "    const int64_t mean_ns",
        "after a cut the window goes on growing as in an empty network",
    ),
    _nscc(
        "increase-outlives-a-timeout",
        "    set(kOne);\n    state_.calm = 0;\n    state_.increase.forget();\n",
        "    set(kOne);\n",
        "a silent network gets many packets at once",
    ),
    _nscc(
        "quick-adapt-hears-no-loss",
        "    quick_.on_loss();\n",
        "",
        "where switches drop early, an incast costs one packet for each loss",
    ),
    _nscc(
        "loss-answered-again",
        "    heard_ = 0;\n    lost_ = false;\n",
        "    heard_ = 0;\n",
        "after one loss every thin period cuts the window",
        file="quick_adapt.hpp",
    ),
    _nscc(
        "loss-of-the-former-connection",
        "    quick_.reset();\n",
        "",
        "a new connection begins with what an old one had left",
    ),
    _swift(
        "cut-for-each-packet",
        "    if (was_cut_ && now - last_cut_ < std::max(rtt_, Duration::ns(1))) return;\n",
        "",
        "one full queue cuts a window to one packet",
    ),
    _swift(
        "one-target-for-all-windows",
        "std::max<int64_t>(inverse - kInverseAtMost, 0)",
        "int64_t{0}",
        "an incast of many flows keeps no queue, and no fairness",
    ),
    _swift(
        "cut-without-a-bound",
        "std::min(share, kMostTaken)",
        "share",
        "a stall of a host empties the window",
    ),
    _swift(
        "packets-of-silent-acknowledgements-are-lost",
        "    acknowledged_ += ack.packets;\n",
        "    acknowledged_ = ack.packets;\n",
        "where one acknowledgement answers a run, the window grows too slowly",
    ),
    _swift(
        "grows-for-an-application-that-rests",
        "} else if (ack.may_grow()) {",
        "} else {",
        "after a pause the whole maximum leaves at once",
    ),
    _mp(
        "unused-window-outlives-the-first-mark",
        "      if (guessed_) judge_guess(ack.in_use);\n",
        "",
        "an incast fills its buffer five times",
    ),
    _mp(
        "every-mark-is-the-first-one",
        "    guessed_ = false;\n    if (window_ > initial_",
        "    if (window_ > initial_",
        "each mark takes the window to what the application used",
    ),
    _mp(
        "deficit-of-a-window-that-pays",
        "      if (spaces_ && window_ == kOne && owed_ == Fixed16()) deficit",
        "      if (spaces_) deficit",
        "a window of ten packets waits after each",
    ),
    _mp(
        "deficit-is-never-paid-back",
        "      deficit_.on_ack();\n",
        "",
        "one crowd, and a connection is slow for ever",
    ),
    _mp(
        "deficit-paid-by-who-was-the-limit-alone",
        "    } else if (deficit_.any()) {\n",
        "    } else if (deficit_.any() && ack.may_grow()) {\n",
        "loops of single packets stay slow after one crowd",
    ),
    _mp(
        "first-mark-spaces",
        "return deficit_.spacing();",
        "return deficit_.value();",
        "small messages beside bulk wait for a round trip after each mark",
    ),
    _mp(
        "deficit-outlives-congestion",
        "  void forget_deficit() { deficit_.forget(); }\n",
        "  void forget_deficit() {}\n",
        "after an hour of silence a connection remembers a crowd",
    ),
    _swift(
        "window-of-one-packet-at-least",
        "    below_ = kOne - std::max(exact, least_);\n",
        "",
        "a thousand senders fill a port's buffer",
    ),
    _swift(
        "grows-below-one-packet-only-if-limited",
        "    if (exact() < kOne) {\n",
        "    if (exact() < kOne && ack.may_grow()) {\n",
        "loops of single packets stay slow after one crowd",
    ),
    _dcqcn(
        "recovery-goes-on-after-a-notification",
        "    timer_steps_ = byte_steps_ = 0;\n    bytes_left_",
        "    bytes_left_",
        "a flow that is told to slow down is soon in hyper increase again",
    ),
    _dcqcn(
        "hyper-increase-of-the-faster-count",
        "const bool hyper = least > constants_->fast_steps;",
        "const bool hyper = most > constants_->fast_steps;",
        "after a pause, a flow takes ten times its share of what is free",
    ),
    _dcqcn(
        "never-at-its-target",
        "(rate_bps_ + target_bps_ + 1) / 2;",
        "(rate_bps_ + target_bps_) / 2;",
        "one notification leaves a flow limited for ever",
    ),
    _dcqcn(
        "late-timer-expires-once",
        "    while (next_increase_ <= now) {\n",
        "    if (next_increase_ <= now) {\n",
        "a flow that sends little stays slow for as long as it sends little",
    ),
    _dcqcn(
        "alpha-does-not-fall",
        "    alpha_ = alpha_at(now);\n",
        "",
        "one mark in a second halves the rate as a full queue does",
    ),
    _dcqcn(
        "target-of-the-first-notification",
        "    target_bps_ = rate_bps_;\n    rate_bps_ = std::max(",
        "    rate_bps_ = std::max(",
        "in lasting congestion, each recovery goes back to the rate of the link",
    ),
    _mutant(
        "dcqcn-bytes-not-counted",
        "dcqcn_rate.hpp",
        "rate_test.cpp",
        "    dcqcn_.on_bytes(bytes);\n",
        "    (void)bytes;\n",
        "a fast flow recovers no faster than a slow one, and is never in hyper increase",
    ),
    _tuned(
        "alpha-timer-of-the-paper",
        ".alpha_timer = Duration::us(1),",
        ".alpha_timer = Duration::us(55),",
        "a mark costs half of the rate long after the queue is empty",
    ),
    _tuned(
        "timer-of-the-paper",
        ".increase_timer = Duration::us(300),",
        ".increase_timer = Duration::us(55),",
        "the rate rises five times as fast as HPCC's comparisons say",
    ),
    _tuned(
        "fast-recovery-of-the-paper",
        ".fast_steps = 1,",
        ".fast_steps = 5,",
        "the rate rises after 1.8 ms, not after 0.6",
    ),
    _tuned(
        "hyper-increase-of-the-paper",
        ".hyper_bps = 50'000'000,",
        ".hyper_bps = 250'000'000,",
        "a flow that is alone for a while takes five times its step",
    ),
    _tuned(
        "gain-of-dctcp",
        ".gain_shift = 8,\n     .fast_steps = 1,",
        ".gain_shift = 4,\n     .fast_steps = 1,",
        "three marks in a row cut as a full queue does",
    ),
    _timely(
        "update-for-each-segment",
        "std::max(segment_ns, base_.rtt().count_ns())",
        "segment_ns",
        "on a fast link a queue is answered before its sender can know the answer",
    ),
    _aimd(
        "marks-are-nothing",
        "    if (ack.ece) return set(window().half());\n",
        "",
        "the queue is full until it drops",
    ),
    _aimd(
        "grows-with-every-acknowledgement",
        "grow();",
        "set(window() + kOne);",
        "the window doubles in a round trip, for ever",
    ),
    _dctcp(
        "cut-for-each-mark",
        "    settling_ = window_.floor();\n",
        "",
        "one full queue cuts a window to one packet",
    ),
    _dctcp(
        "alpha-of-one-packet",
        "    if (acked_ < round_) return;\n",
        "",
        "a mark costs what the last packets say, not the share of the last round trips",
    ),
    _dctcp(
        "marks-of-all-rounds",
        "acked_ = marked_ = 0;",
        "acked_ = 0;",
        "alpha only grows: the first queue is answered for ever",
    ),
    _dctcp(
        "timeout-spares-the-next-cut",
        "    window_ = kOne;\n    settling_ = 0;\n",
        "    window_ = kOne;\n",
        "after a timeout the window grows through marks and losses",
    ),
    _dctcp(
        "a-loss-costs-what-a-mark-does",
        "{ cut(Fixed16::kOneRaw); }",
        "{ cut(alpha_raw_); }",
        "where nothing marks, losses slow nobody down",
    ),
    _dctcp(
        "alpha-of-the-former-connection",
        "    window_ = initial_;\n    alpha_raw_ = Fixed16::kOneRaw;\n",
        "    window_ = initial_;\n",
        "the first queue of a new connection is hardly answered",
    ),
]
