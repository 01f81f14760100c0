"""Small breakages of the transport that the exploration of its states (tests/explore) must find.

Fields: see mutants.py.
"""

from mutants import RECEIVER, maker

_mutant = maker("explore-", "explore")

MUTANTS = [
    _mutant(
        "duplicate-ahead-is-taken-again",
        "stream/stream_receiver.hpp",
        "if (ahead < 0 || (ahead > 0 && received_.test(packet.psn.value()))) {",
        "if (ahead < 0) {",
        "a packet that came early is placed twice",
        RECEIVER,
    ),
    _mutant(
        "missing-packet-is-passed",
        "stream/stream_receiver.hpp",
        "      ++rcv_nxt_;\n      if (!has_head()) [[likely]] {\n",
        "      ++rcv_nxt_;\n      if (taken_slots_ > 0 && !has_head()) ++rcv_nxt_;\n"
        "      if (!has_head()) [[likely]] {\n",
        "a hole is acknowledged, and its message delivered without it",
        RECEIVER,
    ),
    _mutant(
        "no-timer",
        "stream/stream_sender_timers.cpp",
        "  if (paused()) return paused_until_;\n",
        "  if (paused()) return paused_until_;\n  if (!has_new) return Time::never();\n",
        "what is lost at the end of a message is lost for ever",
    ),
    _mutant(
        "complete-when-sent",
        "mp/requester.cpp",
        "  if ((work.first + work.packets).after(sender_.una())) return false;\n",
        "  if ((work.first + work.packets).after(sender_.nxt())) return false;\n",
        "a message completes before its data has arrived",
    ),
    _mutant(
        "strict-memory-placed-early",
        "mp/responder.cpp",
        "  const uint32_t access = forced ? kRemoteWrite : kRemoteWrite | kRelaxedOrdering;\n",
        "  const uint32_t access = forced ? kRemoteWrite : kRemoteWrite | 0;\n",
        "who polls on the last byte reads stale ones",
    ),
    _mutant(
        "held-frame-leaked",
        "stream/stream_receiver.cpp",
        "  actions.released.push(held_at(psn).frame);\n",
        "  if (psn != rcv_nxt_) actions.released.push(held_at(psn).frame);\n",
        "the port runs out of frames",
    ),
    _mutant(
        "roce-duplicate-is-executed",
        "roce/roce_responder.cpp",
        "  } else if (ahead < 0) {\n    on_duplicate(packet);\n",
        "  } else if (ahead < -1) {\n    on_duplicate(packet);\n",
        "a WRITE of the standard is placed twice",
    ),
    _mutant(
        "roce-gap-is-passed",
        "roce/roce_responder.cpp",
        "  if (ahead > 0) {\n    on_gap();\n",
        "  if (ahead > 1) {\n    on_gap();\n",
        "a lost packet of the standard is not missed",
    ),
    _mutant(
        "roce-no-timer",
        "roce/roce_requester.cpp",
        "  return std::min(deadline_, rnr_until_);\n",
        "  return rnr_until_;\n",
        "a last packet that is lost is lost for ever",
    ),
]
