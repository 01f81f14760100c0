"""Small breakages of the mode irn: its recovery, its timeouts, and the packets of the standard.

Fields: see mutants.py.
"""

from mutants import SENDER, maker
from mutants import mutant as any_mutant

mutant = maker("irn-", "unit")

CONNECTION = ("irn/irn_connection.cpp",)
CONNECTION_TEST = ("../tests/unit/transport/irn/irn_connection_test.cpp",)

MUTANTS = [
    # ---- Recovery
    mutant(
        "recovery-left-behind",
        "stream/recovery_irn.hpp",
        "    recovery_ = psn_max(recovery_, board.una());\n",
        "",
        "a recovery that never ends: each acknowledgement sends the next packet again",
        SENDER,
    ),
    mutant(
        "recovery-moves-on",
        "stream/recovery_irn.hpp",
        "      report.lose(judged_, cause);\n",
        "      report.lose(judged_, cause);\n      recovery_ = board.nxt();\n",
        "after a timeout that was too early every packet is sent twice",
        SENDER,
    ),
    mutant(
        "partial-acknowledgements-say-nothing",
        "stream/recovery_irn.hpp",
        "psn_max(board.sack_end(), head_end)",
        "board.sack_end()",
        "each packet of a lost tail waits for a timeout of its own",
        SENDER,
    ),
    mutant(
        "holes-are-lost-again",
        "stream/recovery_irn.hpp",
        "    judged_ = psn_max(judged_, board.una());\n",
        "    judged_ = board.una();\n",
        "each acknowledgement sends every hole again",
        SENDER,
    ),
    mutant(
        "copies-wait-for-the-window",
        "stream/recovery_irn.hpp",
        "static constexpr bool kCopiesWait = false;",
        "static constexpr bool kCopiesWait = true;",
        "SACKed packets fill a window that shrank, and what is lost is never sent again",
        SENDER,
    ),
    mutant(
        "sacked-packets-give-room",
        "stream/recovery_irn.hpp",
        "{ return board.span(); }",
        "{ return board.in_flight(); }",
        "BDP-FC does not bound the maps",
        SENDER,
    ),
    # ---- Timeouts
    mutant(
        "one-timeout",
        "stream/retransmission_timer.hpp",
        "few ? params.rto_low : params.rto_high",
        "params.rto_high",
        "a short message waits for RTO_high",
        SENDER,
    ),
    mutant(
        "copies-end-the-back-off",
        "stream/stream_sender_timers.cpp",
        "  if (keeps_backoff()) rto_.ease_backoff(backoff);\n",
        "",
        "where a round trip takes longer than RTO_low every packet is sent twice for ever",
        SENDER,
    ),
    # ---- Packets
    mutant(
        "copies-give-round-trips",
        "irn/send_clock.hpp",
        ".state = again ? State::kAgain : State::kOnce",
        ".state = State::kOnce",
        "the acknowledgement of the first copy is taken for that of the second one",
        CONNECTION_TEST,
    ),
    mutant(
        "other-packets-give-round-trips",
        "irn/send_clock.hpp",
        "    if (entry.psn == psn && entry.state == State::kOnce) return entry.left;\n",
        "    if (entry.state == State::kOnce) return entry.left;\n",
        "an acknowledgement is timed by a packet that left since",
        CONNECTION_TEST,
    ),
    any_mutant(
        "irn-errors-look-like-data",
        "irn/irn_connection.cpp",
        "    if (header.irn && header.info().has_aeth) {\n",
        "    if (header.info().has_aeth) {\n",
        "a READ that fails midway is answered by an error that says that all is well",
        killer="conformance",
    ),
    mutant(
        "middle-packets-have-no-place",
        "mp/responder.cpp",
        "    whole.mp_data.offset = message_.offset;\n",
        "",
        "a message of more than one packet is refused",
    ),
    mutant(
        "middle-packets-have-no-memory",
        "mp/responder.cpp",
        "    whole.reth = message_.reth;\n",
        "",
        "a WRITE of more than one packet is refused",
    ),
    mutant(
        "roce-takes-packets-of-irn",
        "roce/roce_connection.cpp",
        " ||\n      packet.irn) {",
        ") {",
        "a queue pair of roce places data that its peer never hears to be there",
    ),
]
