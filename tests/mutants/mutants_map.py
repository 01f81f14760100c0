"""Small breakages of what acknowledgements tell of other packets, and of what their sender makes of
it.

Fields: see mutants.py.
"""

from mutants import RECEIVER, SENDER, mutant

MAP = ("stream/stream_sender_map.cpp",)

MUTANTS = [
    mutant(
        "map-one-packet-off",
        "stream/stream_receiver.cpp",
        "received_.next_64((packet.psn - wire::MpAckMap::kPackets).value())",
        "received_.next_64((packet.psn - wire::MpAckMap::kPackets + 1).value())",
        "a lost packet counts as received",
    ),
    mutant(
        "map-of-the-lap-before",
        "stream/stream_receiver.cpp",
        "  if (ahead < kPackets) received |= (uint64_t{1} << (kPackets - ahead)) - 1;\n",
        "",
        "slots that are free again tell of packets that were executed",
    ),
    mutant(
        "map-for-who-does-not-ask",
        "stream/stream_receiver.cpp",
        "  if (ahead <= 0 || (packet.mp_data.flags & wire::kMpDataTakesMaps) == 0) return;\n",
        "  if (ahead <= 0) return;\n",
        "a peer of an earlier version drops the acknowledgement",
    ),
    mutant(
        "common-packets-ask-for-no-map",
        "mp/requester.cpp",
        "  header.dest_qpn = attributes_.dest_qpn;\n"
        "  header.mp_data.flags = asks_for_map(config_.params);\n"
        "  header.mp_data.timestamp",
        "  header.dest_qpn = attributes_.dest_qpn;\n  header.mp_data.timestamp",
        "maps only come once something else was wrong",
    ),
    mutant(
        "told-is-lost-all-the-same",
        "stream/stream_sender.cpp",
        "  if (board_.told(psn)) return give_up_ack(psn, cause);\n",
        "",
        "a lost acknowledgement sends its packet again",
        SENDER,
        killer="unit",
    ),
    mutant(
        "told-at-once-for-good",
        "stream/stream_sender_map.cpp",
        "      board_.tell(psn);\n",
        "      board_.sack(psn);\n",
        "the room of a packet is used on the path of another",
        killer="unit",
    ),
    mutant(
        "told-and-lost-stays-lost",
        "stream/stream_sender_map.cpp",
        "    } else if (!board_.held(psn)) {\n",
        "    } else if (false) {\n",
        "a packet is sent again although the map came in time",
        killer="unit",
    ),
    mutant(
        "room-of-a-lost-acknowledgement-is-lost",
        "stream/stream_sender_map.cpp",
        "  board_.give_up(psn);\n  ++counters_->acks_lost_told;\n"
        "  if (params_.own_ack_credit",
        "  ++counters_->acks_lost_told;\n  if (params_.own_ack_credit",
        "a dead path takes the window, acknowledgement by acknowledgement",
        killer="unit",
    ),
    mutant(
        "given-up-acknowledgement-not-heard",
        "stream/stream_sender.cpp",
        "  if (given_up) return judge_lag(sack, board_.sack_end());\n",
        "",
        "a path that is only slow costs its acknowledgements again and again",
        killer="unit",
    ),
    mutant(
        "told-by-an-old-map",
        "stream/scoreboard.hpp",
        "    return ahead < kPackets ? unheard & ~uint64_t{0} << (kPackets - ahead) : unheard;\n",
        "    return unheard;\n",
        "what was acknowledged long ago marks packets a lap later",
        MAP,
        killer="unit",
    ),
    mutant(
        "head-of-line-not-asked-for",
        "stream/stream_sender_map.cpp",
        "  if (psn == una() && !paused()) ask_head();\n",
        "",
        "a receiver that was not ready is asked after a timeout only",
        killer="unit",
    ),
    mutant(
        "lost-though-not-ready",
        "stream/stream_sender.cpp",
        "  if (!paused() && !probe_.head) {\n",
        "  if (true) {\n",
        "an RNR NAK costs window and counts as a loss",
        killer="unit",
    ),
    mutant(
        "late-though-asked",
        "stream/stream_sender_timers.cpp",
        "    return probe_.head ? Time::never() : recovery_.deadline();  // as in detect()\n",
        "    return recovery_.deadline();\n",
        "the head of line counts as lost where the question waits for room",
        killer="unit",
    ),
    mutant(
        "new-packets-beyond-a-refused-operation",
        "stream/stream_sender.hpp",
        "    return refused_ && psn.at_or_after(*refused_ + params_.window_slots);\n",
        "    return false;\n",
        "the receiver's window drops what comes behind an operation that came too early",
        SENDER,
        killer="unit",
    ),
    mutant(
        "paths-wait-behind-the-window",
        "stream/stream_sender.hpp",
        "    return pathless > 0 && paths_.keeps_spares();\n",
        "    return false;\n",
        "where the window has room, half of what is read comes over dead paths",
        SENDER,
        killer="unit",
    ),
    mutant(
        "paths-that-the-window-left-are-kept",
        "stream/stream_sender_credits.cpp",
        "  if (progress && !slow && (!work || (keep && room))) note_spare(vp, ece);\n",
        "  if (progress && !slow && (!work || keep)) note_spare(vp, ece);\n",
        "a stream with a backlog comes back to the path that is full",
        killer="unit",
    ),
    mutant(
        "first-probes-far-apart",
        "stream/stream_sender_timers.cpp",
        "  if (!rtt_.measured()) {\n    interval",
        "  if (false) {\n    interval",
        "where the first message meets dead paths, it waits for milliseconds",
        killer="conformance",
    ),
    mutant(
        "what-the-window-dropped-avoids-its-path",
        "stream/stream_sender.cpp",
        "    if (cause == LossCause::kNack && vp != 0) note_path_of(psn, 0);\n",
        "",
        "beside a fuller path the clock of another one runs dry",
        killer="unit",
    ),
    mutant(
        "first-burst-waits-for-three-round-trips",
        "stream/stream_sender_timers.cpp",
        "  if (detector != nullptr && detector->end_arrives(",
        "  if (false && detector->end_arrives(",
        "a tail that was dropped in the first burst waits for three times the queue",
        killer="unit",
    ),
    mutant(
        "marks-say-nothing-of-the-first-queue",
        "stream/stream_sender_timers.cpp",
        "(stats_.ece_received > 0 ? 5 : 3)",
        "3",
        "needless probes in the first burst of an incast",
        killer="unit",
    ),
]
