"""Small breakages of the sender of a stream: verdicts that are taken back, and packets that are
spaced further than a round trip apart.

Fields: see mutants.py.
"""

from mutants import SENDER, mutant

MUTANTS = [
    mutant(
        "verdicts-stand-when-round-trips-grow",
        "stream/stream_sender.cpp",
        "    if (rtt_.largest() > judged_by_ && board_.due_count() > 0) acquit_young(now);\n",
        "",
        "a queue that grows at once has a burst of needless copies behind it",
        killer="unit",
    ),
    mutant(
        "acquitted-for-good",
        "stream/scoreboard.hpp",
        "    found(psn);\n    penalised_.clear(psn.value());\n",
        "    found(psn);\n",
        "a packet that is lost after all costs no window",
        SENDER,
        killer="unit",
    ),
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
        " || in_flight() + late_.count() > 0 || paused()) return;\n",
        " || paused()) return;\n",
        "a window that falls from twenty packets waits twenty times",
        killer="unit",
    ),
    mutant(
        "spacing-has-no-timer",
        "stream/stream_sender_timers.cpp",
        "  if (spaced() && (has_new || !idle())) return spaced_until_;\n",
        "",
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
        "(srtt() + spacing()) * kForgetCongestionRtts",
        "srtt() * kForgetCongestionRtts",
        "a thousand spaced senders begin with their initial windows at once",
        killer="unit",
    ),
    mutant(
        "spaced-post-waits-for-the-timer",
        "stream/stream_sender.hpp",
        "    if (spaced()) end_spacing(now);\n",
        "",
        "a message after a pause waits for a timer that has passed",
        ["../tests/unit/transport/stream/window_spacing_test.cpp"],
        killer="unit",
    ),
]
