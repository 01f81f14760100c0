"""Small breakages of how a connection begins: which paths it tries, and how its window grows.

Fields: see mutants.py.
"""

from mutants import SENDER, mutant

MUTANTS = [
    mutant(
        "answers-teach-no-path",
        "path/path_recycled.hpp",
        "    return peer_ != 0 ? std::exchange(peer_, 0) : random_path(prng);\n",
        "    return random_path(prng);\n",
        "READs whose acknowledgements are lost draw their paths anew for ever",
        (*SENDER, "../tests/unit/transport/path/path_recycled_test.cpp"),
        killer="unit",
    ),
    mutant(
        "requests-teach-answers-no-path",
        "mp/responder.cpp",
        "  response_sender_.on_peer_path(packet.vp);\n",
        "",
        "answers draw their paths anew where their acknowledgements are lost",
        killer="unit",
    ),
    mutant(
        "answers-to-atomics-teach-no-path",
        "mp/requester_responses.cpp",
        "  sender_.on_peer_path(packet.vp);\n  work.response_offset = work.length;\n",
        "  work.response_offset = work.length;\n",
        "atomic operations whose acknowledgements are lost draw their paths anew for ever",
        killer="unit",
    ),
    mutant(
        "an-answer-is-not-heard",
        "stream/stream_sender.cpp",
        "  heard_ = true;\n  advance(now, aack);\n",
        "  advance(now, aack);\n",
        "a peer that answers gets sixteen copies",
        SENDER,
        killer="unit",
    ),
    mutant(
        "the-first-round-trip-for-good",
        "stream/stream_sender_credits.cpp",
        "  if (most != window_max_ || wanted > most) follow(most);\n",
        "  if (most != window_max_) follow(most);\n",
        "a window goes on doubling beyond what a shorter round trip needs",
        SENDER,
        killer="unit",
    ),
    mutant(
        "a-timeout-has-one-try",
        "stream/stream_sender_timers.cpp",
        "  if (params_.timeout_tries == 1 || copies >= params_.timeout_tries) return 0;\n",
        "  if (copies > 0) return 0;\n",
        "a new connection with three of four paths dead waits for many timeouts",
        SENDER,
        killer="unit",
    ),
    mutant(
        "any-timeout-has-many-tries",
        "stream/stream_sender_timers.cpp",
        "|| heard_ || rto_.silent()) return 0;\n",
        "|| rto_.silent()) return 0;\n",
        "a crowd whose network was down for a moment sends sixteen copies of each message",
        SENDER,
        killer="unit",
    ),
    mutant(
        "an-answer-without-progress-is-not-heard",
        "stream/stream_sender_credits.cpp",
        "  heard_ = true;\n  if (now != use_.instant) {\n",
        "  if (now != use_.instant) {\n",
        "a receiver that is not ready gets sixteen copies",
        SENDER,
        killer="unit",
    ),
    mutant(
        "doubles-to-half-of-the-largest",
        "stream/stream_sender_credits.cpp",
        "std::min<uint64_t>({needed, uint64_t{most}, uint64_t{params_.window_slots}}));",
        "std::min<uint64_t>({needed, uint64_t{most / 2}, uint64_t{params_.window_slots}}));",
        "a fast and long network is full only after a hundred round trips",
        SENDER,
        killer="unit",
    ),
    mutant(
        "the-wire-ends-the-doubling",
        "stream/stream_sender_credits.cpp",
        "  if (wire && !window_.ramps()) return cc::LimitedBy::kWire;\n",
        "  if (wire) return cc::LimitedBy::kWire;\n",
        "windows grow by nine packets in a round trip, whatever the link could carry",
        SENDER,
        killer="unit",
    ),
]
