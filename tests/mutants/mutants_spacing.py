"""Small breakages of the sender of a stream: packets further than a round trip apart.

Fields: see mutants.py.
"""

from mutants import SENDER, mutant

MUTANTS = [
    mutant(
        "spacing-ends-at-any-deadline",
        "stream/stream_sender_timers.cpp",
        "  if (now < spaced_until_) return;\n",
        "",
        "each timer of another stream ends the wait",
        killer="unit",
    ),
    mutant(
        "spacing-beside-packets-in-flight",
        "stream/stream_sender_timers.cpp",
        "spaced() || paused() || in_flight() + late_.count() > 0;",
        "spaced() || paused();",
        "a window that falls from twenty packets waits twenty times",
        killer="unit",
    ),
    mutant(
        "spacing-has-no-timer",
        "stream/stream_sender_timers.cpp",
        "has_new && spaced() ? spaced_until_ : Time::never();",
        "Time::never();",
        "what waits for its turn waits for ever",
    ),
    mutant(
        "spaced-requester-sleeps",
        "mp/requester.hpp",
        "(!sender_.idle() || sender_.spaced())",
        "!sender_.idle()",
        "an idle stream with work posted never sends it",
        ("mp/requester.cpp", "mp/requester_plain.cpp", "mp/requester_responses.cpp"),
    ),
    mutant(
        "spacing-seems-to-be-peace",
        "stream/stream_sender_credits.cpp",
        " &&\n                        (plain_ || !window_.has_deficit());\n",
        ";\n",
        "a thousand spaced senders begin with their initial windows at once",
        killer="unit",
    ),
    mutant(
        "spacing-seems-to-be-a-rest",
        "stream/stream_sender_timers.cpp",
        "spaced_round() * kForgetCongestionRtts",
        "srtt() * 3",
        "who waits for its turn forgets why",
        killer="unit",
    ),
    mutant(
        "no-mark-seems-to-be-a-rest",
        "stream/stream_sender_timers.cpp",
        "idle() && now - last_progress_ > spaced_round()",
        "idle() && now - last_congestion_ > spaced_round()",
        "loops over Swift fill the buffer of a port that marks nothing",
        killer="unit",
    ),
    mutant(
        "spaced-post-waits-for-the-timer",
        "stream/stream_sender_timers.cpp",
        "  if (spaced()) end_spacing(now);\n  const bool rested",
        "  const bool rested",
        "a message after a pause waits for a timer that has passed",
        killer="unit",
    ),
    mutant(
        "spacing-without-a-bound",
        "stream/stream_sender.hpp",
        "std::min(Duration::ns(wait_ns), base_rto() / 2);",
        "Duration::ns(wait_ns);",
        "a requester takes a responder that is spaced for silent",
        SENDER,
        killer="unit",
    ),
    mutant(
        "spacing-beside-a-pause",
        "stream/stream_sender_timers.cpp",
        "  spaced_until_ = Time::never();\n  set_asking(false);\n",
        "  set_asking(false);\n",
        "a receiver that is not ready for long ends the connection",
        killer="unit",
    ),
    mutant(
        "spacing-is-never-forgotten",
        "stream/stream_sender_timers.cpp",
        "  window_.forget_deficit();\n",
        "",
        "after an hour of silence a connection on one path remembers a crowd",
        killer="unit",
    ),
    mutant(
        "spaced-credits-lose-their-paths",
        "stream/stream_sender_credits.cpp",
        "gate_.consume(now, spaced_round() * kRestartRtts,",
        "gate_.consume(now, srtt() * kRestartRtts,",
        "in a crowd a quarter of all packets leaves on a path that is dead",
        killer="unit",
    ),
]
