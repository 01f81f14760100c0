"""Small breakages of what receives a stream: its window, placement on arrival, synchronise.

Fields: see mutants.py.
"""

from mutants import RECEIVER, SENDER, mutant

MUTANTS = [
    # ---- The receive window
    mutant(
        "bitmap-slot-skipped",
        "stream/stream_receiver.cpp",
        "  received_.set(packet.psn.value());\n  ++taken_slots_;\n  ++held_slots_;\n",
        "  if (packet.psn.value() % 64 != 63) received_.set(packet.psn.value());\n"
        "  ++taken_slots_;\n  ++held_slots_;\n",
        "a held packet is forgotten: its frame leaks",
    ),
    mutant(
        "psn-compared-as-integer-by-receiver",
        "stream/stream_receiver.hpp",
        "const int32_t ahead = rcv_nxt_.distance_to(packet.psn);",
        "const int32_t ahead = static_cast<int32_t>(packet.psn.value()) - "
        "static_cast<int32_t>(rcv_nxt_.value());",
        "off at the wrap: everything behind it is a duplicate",
        RECEIVER,
    ),
    mutant(
        "window-one-slot-too-wide",
        "stream/stream_receiver.hpp",
        "if (ahead >= static_cast<int32_t>(slots_)) {",
        "if (ahead > static_cast<int32_t>(slots_)) {",
        "a packet beyond the window takes the slot of rcv_nxt",
        RECEIVER,
    ),
    mutant(
        "dropped-packet-acknowledged",
        "stream/stream_receiver.hpp",
        "  if (!took_packet_) {\n",
        "  if (false) {\n",
        "the sender believes that a dropped packet arrived",
        RECEIVER,
    ),
    mutant(
        "windows-follow-nothing",
        "stream/stream_sender_credits.cpp",
        "  if (params_.window_rtt == Duration::zero() || !rtt_.measured()) return;\n",
        "  return;\n",
        "one connection cannot fill a fast link",
        SENDER,
        killer="unit",
    ),
    mutant(
        "windows-follow-the-latest-round-trip",
        "stream/rtt_estimator.hpp",
        "    if (sample_ns < least_ns_) least_ns_ = sample_ns;\n",
        "    least_ns_ = sample_ns;\n",
        "a queue makes the windows that make the queue",
        SENDER,
        killer="unit",
    ),
    mutant(
        "an-undone-timeout-forgets-the-network",
        "stream/stream_sender_undo.cpp",
        "  if (window_max_ != params_.window_max) follow(window_max_);\n",
        "",
        "the connection keeps the window that it had before anything was measured",
        killer="unit",
    ),
    mutant(
        "no-share-of-frames",
        "stream/stream_receiver.cpp",
        "held_->allocate(packet, frame, held_slots_, ready())",
        "held_->allocate(packet, frame, 0, true)",
        "one stream takes every frame",
        killer="unit",
    ),
    mutant(
        "no-frame-is-congestion",
        "stream/stream_sender.cpp",
        "  (void)board_.penalise(psn);\n",
        "",
        "a receiver without frames shrinks the window",
        SENDER,
        killer="unit",
    ),
    mutant(
        "the-window-follows-the-question",
        "stream/stream_sender.cpp",
        "  if (asking_ || spaced()) return {};\n",
        "  if (spaced()) return {};\n",
        "after each wait a window of packets goes to a receiver that is not ready",
        SENDER,
        killer="unit",
    ),
    mutant(
        "old-duplicate-executed",
        "stream/stream_receiver.hpp",
        "if (ahead == 0 && !refused() && !has_head()) [[likely]] {",
        "if (ahead <= 0 && !refused() && !has_head()) [[likely]] {",
        "a late duplicate is placed and completed twice",
        RECEIVER,
    ),
    mutant(
        "held-duplicate-held-again",
        "stream/stream_receiver.hpp",
        "if (ahead < 0 || (ahead > 0 && received_.test(packet.psn.value()))) {",
        "if (ahead < 0) {",
        "the first copy's frame is lost",
        RECEIVER,
    ),
    mutant(
        "held-frame-leaked",
        "stream/stream_receiver.cpp",
        "  actions.released.push(held_at(psn).frame);\n",
        "  if (psn != rcv_nxt_) actions.released.push(held_at(psn).frame);\n",
        "the port runs out of frames",
    ),
    mutant(
        "held-entry-leaked",
        "stream/stream_receiver.cpp",
        "  held_->give_back(held_index_[psn.value() & (slots_ - 1)]);\n",
        "",
        "the budget runs out",
    ),
    mutant(
        "head-of-line-needs-budget",
        "stream/stream_receiver.hpp",
        "    const ExecuteResult result = owner.execute(packet, frame, false);\n",
        "    if (held_->in_use() >= held_->budget()) return RxVerdict::kDone;\n"
        "    const ExecuteResult result = owner.execute(packet, frame, false);\n",
        "a spent budget stops everybody for ever",
        RECEIVER,
    ),
    mutant(
        "frames-kept-at-reset",
        "stream/stream_receiver.cpp",
        "  for (uint32_t i = 0; i < slots_; ++i) {\n    const Psn psn",
        "  for (uint32_t i = 0; i + 1 < slots_; ++i) {\n    const Psn psn",
        "a reset queue pair keeps its last frame",
    ),
    mutant(
        "ece-not-echoed",
        "stream/stream_receiver.cpp",
        "  if (packet.ce) ext.flags |= wire::kMpAckEce;\n",
        "",
        "no congestion control",
    ),
    mutant(
        "rnr-always-says-held",
        "stream/stream_receiver.cpp",
        "    if (held) ext.flags |= wire::kMpAckHeld;\n",
        "    ext.flags |= held ? wire::kMpAckHeld : wire::kMpAckHeld;\n",
        "the sender waits for what was dropped",
    ),
    # ---- Placement on arrival
    mutant(
        "placed-slot-not-taken",
        "stream/stream_receiver.cpp",
        "  received_.set(packet.psn.value());\n  ++taken_slots_;\n  placed_",
        "  ++taken_slots_;\n  placed_",
        "a duplicate is placed again, over newer data",
    ),
    mutant(
        "placed-mark-survives",
        "stream/stream_receiver.cpp",
        "    placed_.clear(psn.value());\n",
        "",
        "the next packet of that slot waits in its frame and is never placed",
    ),
    mutant(
        "placed-packet-placed-again-in-its-turn",
        "mp/responder.cpp",
        "  const bool places = packet.payload_len > 0 && !placed;\n",
        "  const bool places = packet.payload_len > 0;\n",
        "bytes of a frame that belongs to somebody else",
    ),
    mutant(
        "strict-memory-placed-early",
        "mp/responder.cpp",
        "  const uint32_t access = forced ? kRemoteWrite : kRemoteWrite | kRelaxedOrdering;\n",
        "  const uint32_t access = forced ? kRemoteWrite : kRemoteWrite | 0;\n",
        "who polls on the last byte reads stale ones",
    ),
    mutant(
        "strict-memory-of-a-read-placed-early",
        "mp/requester_responses.cpp",
        "  const uint32_t access = forced ? kLocalWrite : kLocalWrite | kRelaxedOrdering;\n",
        "  const uint32_t access = forced ? kLocalWrite : kLocalWrite | 0;\n",
        "who polls on the last byte of a READ reads stale ones",
    ),
    mutant(
        "early-placement-unchecked",
        "mp/responder.cpp",
        "  if (!open_remote(core_, config_.pd, reth, access, &base) ||\n",
        "  if (!open_remote(core_, config_.pd, {.va = reth.va, .rkey = reth.rkey, .dma_len = "
        "1},\n"
        "                   access, &base) ||\n",
        "memory behind the region is overwritten before anybody refuses",
    ),
    mutant(
        "early-placement-at-the-start",
        "mp/responder.cpp",
        "                           .addr = base + packet.mp_data.offset});\n"
        "  return PlacementVerdict",
        "                           .addr = base});\n"
        "  return PlacementVerdict",
        "what arrives early goes to the wrong place",
    ),
    mutant(
        "receive-completed-on-arrival",
        "mp/responder.cpp",
        "  actions.placements.push({.frame = frame,\n"
        "                           .payload_offset = 0,\n"
        "                           .length = packet.payload_len,\n"
        "                           .addr = base + packet",
        "  if (packet.info().has_immdt && core_.receives.waiting() > 0) {\n"
        "    const_cast<Responder*>(this)->complete_receive(\n"
        "        packet, WcOpcode::kRecvWriteImm, reth.dma_len);\n"
        "  }\n"
        "  actions.placements.push({.frame = frame,\n"
        "                           .payload_offset = 0,\n"
        "                           .length = packet.payload_len,\n"
        "                           .addr = base + packet",
        "a receive completes before the data before it is there",
    ),
    mutant(
        "early-packet-forgets-its-immediate",
        "stream/stream_receiver.cpp",
        "  out.immdt = immdt;\n",
        "",
        "a receive completes with another's immediate",
    ),
    mutant(
        "ordered-flag-lies",
        "stream/stream_receiver.cpp",
        "return memory_->relaxed_regions() == 0;",
        "return true;",
        "the sender believes that synchronise operations need not wait",
    ),
    # ---- Synchronise
    mutant(
        "synchronise-not-checked",
        "mp/responder.cpp",
        "    if (receiver_.rcv_nxt().before(first)) return",
        "    if (false && receiver_.rcv_nxt().before(first)) return",
        "the flag is seen before its data",
    ),
    mutant(
        "synchronise-checked-against-the-packet",
        "mp/responder.cpp",
        "receiver_.rcv_nxt().before(first)) return",
        "receiver_.rcv_nxt().before(packet.psn)) return",
        "an operation refuses its own packets",
    ),
    mutant(
        "synchronise-one-packet-too-soon",
        "mp/responder.cpp",
        "receiver_.rcv_nxt().before(first)) return",
        "(receiver_.rcv_nxt() + 1).before(first)) return",
        "the last packet before it may be missing",
    ),
    mutant(
        "synchronise-read-not-checked",
        "mp/requester_responses.cpp",
        "  if ((work.flags & kSynchronise) != 0 &&\n"
        "      response_receiver_.rcv_nxt().before(work.response_first)) {",
        "  if (false && response_receiver_.rcv_nxt().before(work.response_first)) {",
        "READ data is seen before that of the READs before it",
    ),
    mutant(
        "a-slow-path-sets-the-timeout",
        "stream/retransmission_timer.hpp",
        "    return std::min(std::max({params.rto_floor, rtt.srtt() * 4, variance}), "
        "limit_);\n",
        "    return std::max({params.rto_floor, rtt.srtt() * 4, variance});\n",
        "four tries in the time of eight retries, one path dead: a healthy peer is given up",
        SENDER,
        killer="unit",
    ),
    mutant(
        "back-off-beyond-the-verbs-timeout",
        "stream/retransmission_timer.hpp",
        "                     std::max(base * 2, backoff_limit_)});\n",
        "                     Duration::infinite()});\n",
        "fewer tries than retries",
        SENDER,
        killer="unit",
    ),
    mutant(
        "the-requester-waits-unheard",
        "mp/responder.cpp",
        "  if (!answers && ack.psn == response_sender_.una()) response_sender_.repeat_head();\n",
        "",
        "READ data is repeated by the responder's clock alone, which may be too slow",
        killer="unit",
    ),
    mutant(
        "synchronise-too-early-counts-as-loss",
        "stream/stream_sender.cpp",
        "  if (ack.mp_ack.nack == wire::NackCode::kWindowOverflow) return take_overflow",
        "  if (ack.mp_ack.nack == wire::NackCode::kWindowOverflow ||\n"
        "      ack.mp_ack.nack == wire::NackCode::kSyncTooEarly) return take_overflow",
        "reordering costs window",
    ),
    mutant(
        "a-nack-speaks-of-any-copy",
        "stream/recovery_mp.hpp",
        "    SelectiveRepeat::on_nack(board, answered ? Nack{.aack = nack.aack} : nack, report);\n",
        "    SelectiveRepeat::on_nack(board, nack, report);\n",
        "a NACK that the network copied has the packet sent once more",
        SENDER,
        killer="unit",
    ),
    mutant(
        "what-was-not-lost-costs-window",
        "stream/stream_sender_undo.cpp",
        "  window_.on_loss_undone();\n",
        "",
        "a packet that only took long shrinks the window for good",
        killer="unit",
    ),
    mutant(
        "synchronise-follows-what-is-missing",
        "stream/stream_sender_sync.cpp",
        "  return board_.lost_count() == 0 ? last_sent_ + sync_delay() : Time::never();\n",
        "  return last_sent_ + sync_delay();\n",
        "new operations are sent to be refused: most packets are repeats",
        killer="unit",
    ),
    mutant(
        "refusals-stay-deferred",
        "stream/scoreboard.hpp",
        "    held_.clear(psn.value());\n",
        "",
        "a peer that takes what it refused has a packet sent that was never posted",
        SENDER,
        killer="unit",
    ),
    mutant(
        "stop-and-wait-does-not-wait",
        "mp/requester.cpp",
        "    return sender_.idle() && !sends_.has_reads() ? Time() : Time::never();\n",
        "    return Time();\n",
        "the comparison compares nothing",
    ),
    mutant(
        "stop-and-wait-forgets-reads",
        "mp/requester.cpp",
        "    return sender_.idle() && !sends_.has_reads() ? Time() : Time::never();\n",
        "    return sender_.idle() ? Time() : Time::never();\n",
        "READ data is under way still",
    ),
]
