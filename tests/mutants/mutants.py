"""Small breakages of transport/, each of which the swarm, or the unit tests, must find.

name    of the breakage
file    in transport/
old     exact text, found exactly once
new     what it becomes
why     what would go wrong in a data centre
rebuild files to compile again, where `file` is a header (default: `file`)
killer  "swarm" or "unit"
"""

from collections import namedtuple

Mutant = namedtuple("Mutant", "name file old new why rebuild killer")

_RECEIVER = ("requester.cpp", "requester_responses.cpp", "responder.cpp")


_CLOCKS = ("stream_sender.cpp", "stream_sender_clocks.cpp", "stream_sender_sync.cpp")


def _mutant(name, file, old, new, why, rebuild=(), killer="swarm"):
    return Mutant(name, file, old, new, why, tuple(rebuild) or (file,), killer)


MUTANTS = [
    # ---- The receive window
    _mutant(
        "bitmap-slot-skipped",
        "stream_receiver.cpp",
        "  received_.set(packet.psn.value());\n  held_index_",
        "  if (packet.psn.value() % 64 != 63) received_.set(packet.psn.value());\n  held_index_",
        "a held packet is forgotten: its frame leaks",
    ),
    _mutant(
        "psn-compared-as-integer-by-receiver",
        "stream_receiver.hpp",
        "const int32_t ahead = rcv_nxt_.distance_to(packet.psn);",
        "const int32_t ahead = static_cast<int32_t>(packet.psn.value()) - "
        "static_cast<int32_t>(rcv_nxt_.value());",
        "off at the wrap: everything behind it is a duplicate",
        _RECEIVER,
    ),
    _mutant(
        "window-one-slot-too-wide",
        "stream_receiver.hpp",
        "if (ahead >= static_cast<int32_t>(slots_)) {",
        "if (ahead > static_cast<int32_t>(slots_)) {",
        "a packet beyond the window takes the slot of rcv_nxt",
        _RECEIVER,
    ),
    _mutant(
        "dropped-packet-acknowledged",
        "stream_receiver.hpp",
        "  if (!took_packet_) return verdict;\n",
        "",
        "the sender believes that a dropped packet arrived",
        _RECEIVER,
    ),
    _mutant(
        "old-duplicate-executed",
        "stream_receiver.hpp",
        "if (ahead < 0 || (ahead > 0 && received_.test(packet.psn.value()))) {",
        "if (ahead > 0 && received_.test(packet.psn.value())) {",
        "a late duplicate is placed and completed twice",
        _RECEIVER,
    ),
    _mutant(
        "held-duplicate-held-again",
        "stream_receiver.hpp",
        "if (ahead < 0 || (ahead > 0 && received_.test(packet.psn.value()))) {",
        "if (ahead < 0) {",
        "the first copy's frame is lost",
        _RECEIVER,
    ),
    _mutant(
        "held-frame-leaked",
        "stream_receiver.cpp",
        "  actions.released.push(held_at(psn).frame);\n",
        "  if (psn != rcv_nxt_) actions.released.push(held_at(psn).frame);\n",
        "the port runs out of frames",
    ),
    _mutant(
        "held-entry-leaked",
        "stream_receiver.cpp",
        "  held_->give_back(held_index_[psn.value() % kWindowSlotsMax]);\n",
        "",
        "the budget runs out",
    ),
    _mutant(
        "head-of-line-needs-budget",
        "stream_receiver.hpp",
        "    outcome = owner.execute(packet, frame, false);\n",
        "    if (held_->in_use() >= held_->budget()) return RxVerdict::kDone;\n"
        "    outcome = owner.execute(packet, frame, false);\n",
        "a spent budget stops everybody for ever",
        _RECEIVER,
    ),
    _mutant(
        "frames-kept-at-reset",
        "stream_receiver.cpp",
        "  for (uint32_t i = 0; i < slots_; ++i) {\n    const Psn psn",
        "  for (uint32_t i = 0; i + 1 < slots_; ++i) {\n    const Psn psn",
        "a reset queue pair keeps its last frame",
    ),
    _mutant(
        "ece-not-echoed",
        "stream_receiver.cpp",
        "  if (packet.ce) ext.flags |= wire::kMpAckEce;\n",
        "",
        "no congestion control",
    ),
    _mutant(
        "rnr-always-says-held",
        "stream_receiver.cpp",
        "    if (held) ext.flags |= wire::kMpAckHeld;\n",
        "    ext.flags |= held ? wire::kMpAckHeld : wire::kMpAckHeld;\n",
        "the sender waits for what was dropped",
    ),
    # ---- Placement on arrival
    _mutant(
        "placed-slot-not-taken",
        "stream_receiver.cpp",
        "  received_.set(packet.psn.value());\n  placed_.set(packet.psn.value());\n",
        "  placed_.set(packet.psn.value());\n",
        "a duplicate is placed again, over newer data",
    ),
    _mutant(
        "placed-mark-survives",
        "stream_receiver.cpp",
        "    placed_.clear(psn.value());\n",
        "",
        "the next packet of that slot waits in its frame and is never placed",
    ),
    _mutant(
        "placed-packet-placed-again-in-its-turn",
        "responder.cpp",
        "  const bool places = packet.payload_len > 0 && !placed;\n",
        "  const bool places = packet.payload_len > 0;\n",
        "bytes of a frame that belongs to somebody else",
    ),
    _mutant(
        "strict-memory-placed-early",
        "responder.cpp",
        "  const uint32_t access = forced ? kRemoteWrite : kRemoteWrite | kRelaxedOrdering;\n",
        "  const uint32_t access = forced ? kRemoteWrite : kRemoteWrite | 0;\n",
        "who polls on the last byte reads stale ones",
    ),
    _mutant(
        "strict-memory-of-a-read-placed-early",
        "requester_responses.cpp",
        "  const uint32_t access = forced ? kLocalWrite : kLocalWrite | kRelaxedOrdering;\n",
        "  const uint32_t access = forced ? kLocalWrite : kLocalWrite | 0;\n",
        "who polls on the last byte of a READ reads stale ones",
    ),
    _mutant(
        "early-placement-unchecked",
        "responder.cpp",
        "  if (!open_remote(reth, access, &base) ||\n",
        "  if (!open_remote({.va = reth.va, .rkey = reth.rkey, .dma_len = 1}, access, &base) ||\n",
        "memory behind the region is overwritten before anybody refuses",
    ),
    _mutant(
        "early-placement-at-the-start",
        "responder.cpp",
        "                           .addr = base + packet.mp_data.offset});\n  return Early",
        "                           .addr = base});\n  return Early",
        "what arrives early goes to the wrong place",
    ),
    _mutant(
        "receive-completed-on-arrival",
        "responder.cpp",
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
    _mutant(
        "early-packet-forgets-its-immediate",
        "stream_receiver.cpp",
        "  out.immdt = immdt;\n",
        "",
        "a receive completes with another's immediate",
    ),
    _mutant(
        "ordered-flag-lies",
        "stream_receiver.cpp",
        "return memory_->relaxed_regions() == 0;",
        "return true;",
        "the sender believes that synchronise operations need not wait",
    ),
    # ---- Synchronise
    _mutant(
        "synchronise-not-checked",
        "responder.cpp",
        "  if ((packet.mp_data.flags & wire::kMpDataSync) != 0 && "
        "receiver_.rcv_nxt().before(first)) {",
        "  if (false && receiver_.rcv_nxt().before(first)) {",
        "the flag is seen before its data",
    ),
    _mutant(
        "synchronise-checked-against-the-packet",
        "responder.cpp",
        "receiver_.rcv_nxt().before(first)) {",
        "receiver_.rcv_nxt().before(packet.psn)) {",
        "an operation refuses its own packets",
    ),
    _mutant(
        "synchronise-one-packet-too-soon",
        "responder.cpp",
        "receiver_.rcv_nxt().before(first)) {",
        "(receiver_.rcv_nxt() + 1).before(first)) {",
        "the last packet before it may be missing",
    ),
    _mutant(
        "synchronise-read-not-checked",
        "requester_responses.cpp",
        "  if ((work.flags & kSynchronise) != 0 &&\n"
        "      response_receiver_.rcv_nxt().before(work.response_first)) {",
        "  if (false && response_receiver_.rcv_nxt().before(work.response_first)) {",
        "READ data is seen before that of the READs before it",
    ),
    _mutant(
        "a-slow-path-sets-the-timeout",
        "stream_sender.cpp",
        "  return std::min(rto, timeout_limit_);\n",
        "  return rto;\n",
        "four tries in the time of eight retries, one path dead: a healthy peer is given up",
        killer="unit",
    ),
    _mutant(
        "back-off-beyond-the-verbs-timeout",
        "stream_sender.cpp",
        "                   std::max(base * 2, backoff_limit_)});\n",
        "                   Duration::infinite()});\n",
        "fewer tries than retries",
        killer="unit",
    ),
    _mutant(
        "the-requester-waits-unheard",
        "responder.cpp",
        "  if (!answers && ack.psn == response_sender_.una()) response_sender_.repeat_head();\n",
        "",
        "READ data is repeated by the responder's clock alone, which may be too slow",
        killer="unit",
    ),
    _mutant(
        "synchronise-too-early-counts-as-loss",
        "stream_sender.cpp",
        "  if (ext.nack == wire::NackCode::kWindowOverflow) take_nack(ack);\n",
        "  if (ext.nack == wire::NackCode::kWindowOverflow ||\n"
        "      ext.nack == wire::NackCode::kSyncTooEarly) {\n    take_nack(ack);\n  }\n",
        "reordering costs window",
    ),
    _mutant(
        "all-that-came-too-early-at-once",
        "stream_sender_sync.cpp",
        "  } while (psn.before(nxt_) && !followers_.test(psn.value()));\n",
        "  } while (psn.before(nxt_));\n",
        "an operation is refused for want of the one that goes with it",
        killer="unit",
    ),
    _mutant(
        "synchronise-follows-what-is-missing",
        "stream_sender_sync.cpp",
        "  return lost_count_ == 0 ? last_sent_ + sync_delay() : Time::never();\n",
        "  return last_sent_ + sync_delay();\n",
        "new operations are sent to be refused: most packets are repeats",
        killer="unit",
    ),
    _mutant(
        "refusals-stay-deferred",
        "stream_sender_sync.cpp",
        "    deferred_.clear(psn.value());\n",
        "",
        "what was refused once comes late or never",
        killer="unit",
    ),
    _mutant(
        "stop-and-wait-does-not-wait",
        "requester.cpp",
        "    return sender_.idle() && reads_.empty() ? Time() : Time::never();\n",
        "    return Time();\n",
        "the comparison compares nothing",
    ),
    _mutant(
        "stop-and-wait-forgets-reads",
        "requester.cpp",
        "    return sender_.idle() && reads_.empty() ? Time() : Time::never();\n",
        "    return sender_.idle() ? Time() : Time::never();\n",
        "READ data is under way still",
    ),
    # ---- The sender
    _mutant(
        "psn-compared-as-integer-by-sender",
        "stream_sender.cpp",
        "  if (ack.psn.after(nxt_)) return AckResult::kGhost;\n",
        "  if (ack.psn.value() > nxt_.value()) return AckResult::kGhost;\n",
        "off at the wrap: good acknowledgements are ghosts",
    ),
    _mutant(
        "ghost-ack-accepted",
        "stream_sender.cpp",
        "  if (ack.psn.after(nxt_)) return AckResult::kGhost;\n",
        "",
        "work completes that was never sent",
    ),
    _mutant(
        "stale-ack-moves-back",
        "stream_sender.cpp",
        "  const bool advanced = una_.before(ack.psn);\n",
        "  const bool advanced = una_ != ack.psn;\n",
        "snd_una goes back",
    ),
    _mutant(
        "sack-map-not-cleared",
        "stream_sender.cpp",
        "  for (Map* map : {&sacked_, &lost_, ",
        "  for (Map* map : {&lost_, ",
        "256 PSNs later a lost packet counts as received",
    ),
    _mutant(
        "lost-count-leaks",
        "stream_sender.cpp",
        "    lost_count_ -= lost_.test(pos) ? 1 : 0;\n",
        "",
        "in flight goes wrong: the window is no limit any more",
    ),
    _mutant(
        "sacked-count-leaks",
        "stream_sender.cpp",
        "    sacked_count_ -= sacked_.test(pos) ? 1 : 0;\n",
        "",
        "in flight goes wrong by every packet that came early",
    ),
    _mutant(
        "nack-names-one-psn-only",
        "stream_sender.cpp",
        "  const bool names_drop = (ext.flags & wire::kMpAckSackValid) != 0 && "
        "outstanding(ext.sack);\n",
        "  const bool names_drop = false;\n",
        "what the window dropped waits for a timeout",
    ),
    _mutant(
        "timeout-not-armed-again",
        "stream_sender.cpp",
        "  if (paused()) return paused_until_;\n",
        "  if (paused()) return paused_until_;\n  if (backoff_ > 0) return Time::never();\n",
        "the second loss of one packet is for ever",
    ),
    _mutant(
        "early-retransmission-of-the-tail",
        "stream_sender.cpp",
        "  const Psn end = psn_min(old_psn_, ooh_);\n",
        "  const Psn end = nxt_;\n",
        "copies on a clean path",
    ),
    # ---- ACK clocking, path selection
    _mutant(
        "clock-on-another-path",
        "path_select.hpp",
        "    vps_[(head_ + stored_++) % kStoredMax] = vp;\n",
        "    vps_[(head_ + stored_++) % kStoredMax] = vp ^ 1;\n",
        "packets leave on paths that nobody acknowledged",
        _CLOCKS,
    ),
    _mutant(
        "any-port-is-a-path",
        "path_select.hpp",
        "    if (vp < wire::kVirtualPathMin) return add_random(1);\n",
        "",
        "a forged acknowledgement makes us send from the ports of others",
        _CLOCKS,
    ),
    _mutant(
        "no-burst-control",
        "stream_sender_clocks.cpp",
        "paper_.recovering() ? 1 : kBurstPackets;",
        "paper_.recovering() ? 1 : 1000;",
        "after a cumulative acknowledgement one path gets a burst",
    ),
    _mutant(
        "clocks-beyond-the-window",
        "stream_sender_clocks.cpp",
        "  if (used > window && !paper_timeout) "
        "paths_.drop(std::min(used - window, paths_.clocks()));\n",
        "  (void)paper_timeout;\n",
        "a window that shrank is no limit",
    ),
    _mutant(
        "no-clock-when-nothing-is-in-flight",
        "stream_sender_clocks.cpp",
        "  paths_.add_random(std::max(unclocked_room(), paths_.clocks() == 0 ? 1u : 0u));\n",
        "",
        "no acknowledgement will come, and nothing is ever sent again",
    ),
    _mutant(
        "timeout-keeps-its-clocks",
        "stream_sender.cpp",
        "    paths_.clear();\n    paths_.add_random(window_.packets());\n",
        "    paths_.add_random(window_.packets());\n",
        "two windows leave after a timeout, on the paths that failed",
    ),
    _mutant(
        "burst-timer-releases-nothing",
        "stream_sender_clocks.cpp",
        "  burst_base_ = now;\n  paths_.add_random(unclocked_room());\n",
        "  burst_base_ = now;\n",
        "what burst control held back waits for a timeout",
        killer="unit",
    ),
    _mutant(
        "slow-path-clocked",
        "stream_sender_clocks.cpp",
        "  if (room > 0 && !slow) {",
        "  if (room > 0) {",
        "a slow path is used for ever: packets wait for it in the receiver's window",
        killer="unit",
    ),
    _mutant(
        "slow-path-costs-nothing",
        "stream_sender.cpp",
        "    window_.on_slow_path();\n",
        "",
        "the slow path's share goes to the others, which are full",
        killer="unit",
    ),
    _mutant(
        "retransmission-judged-by-its-psn",
        "stream_sender_clocks.cpp",
        "  if (!paths_.clocked() || (ext.flags & wire::kMpAckReTx) != 0) return false;\n",
        "  if (!paths_.clocked()) return false;\n",
        "every loss makes good paths look slow",
        killer="unit",
    ),
    _mutant(
        "furthest-sack-left-behind",
        "stream_sender.cpp",
        "  ooh_ = psn_max(ooh_, una_);\n",
        "",
        "a stale serial number inverts comparisons",
        killer="unit",
    ),
    _mutant(
        "never-probes-a-new-path",
        "stream_sender_clocks.cpp",
        "path_probe_due_ = paths_.chance(params_.path_probe_per_mille);",
        "path_probe_due_ = false;",
        "a path that is restored is never used again",
        killer="unit",
    ),
    _mutant(
        "window-never-reduced",
        "stream_sender_clocks.cpp",
        "      window_.on_unused_ack();\n",
        "",
        "old acknowledgements open a window for paths that are full by now",
        killer="unit",
    ),
    _mutant(
        "window-not-given-back",
        "stream_sender_clocks.cpp",
        "    window_.give_back();\n",
        "",
        "every message but the first starts with one packet",
        killer="unit",
    ),
    _mutant(
        "never-restarts",
        "stream_sender_clocks.cpp",
        "      return now - last_backlog_ > pause;\n",
        "      return false;\n",
        "after a pause the window is still that of an old congestion",
        killer="unit",
    ),
    _mutant(
        "busy-stream-restarts",
        "stream_sender_clocks.cpp",
        "  if (has_new) last_backlog_ = now;\n",
        "",
        "a stream that waits for the wire forgets its paths again and again",
        killer="unit",
    ),
    _mutant(
        "grows-while-the-wire-is-busy",
        "stream_sender_clocks.cpp",
        "  return (has_new || due_count() > 0) && !wire_waits_;\n",
        "  return has_new || due_count() > 0;\n",
        "a window of several times what the network holds, and no answer to loss",
        killer="unit",
    ),
    # ---- Timeouts that are undone
    _mutant(
        "timeout-undone-by-any-copy",
        "stream_sender.cpp",
        "  if ((ext.flags & wire::kMpAckReTx) == 0) undo_timeout();\n",
        "  undo_timeout();\n",
        "congestion that ends in a timeout costs no window",
        killer="unit",
    ),
    _mutant(
        "timeout-undone-by-what-was-known",
        "stream_sender.cpp",
        " || sacked_.test(ext.sack.value())) return;\n",
        ") return;\n",
        "a network that makes copies gives the window back",
        killer="unit",
    ),
    _mutant(
        "timeout-undone-by-new-data",
        "stream_sender.cpp",
        "  if (!timeout_open_) {\n    // What is sent",
        "  if (params_.sack_map) {\n    // What is sent",
        "a window that a real timeout took comes back",
        killer="unit",
    ),
    _mutant(
        "undone-timeout-sends-all-again",
        "stream_sender.cpp",
        "    if (timed_out_.test(psn.value())) clear_lost(psn);\n",
        "",
        "a host that was stopped sends a whole window twice",
        killer="unit",
    ),
    # ---- The paper's own recovery
    _mutant(
        "sweep-falls-behind",
        "recovery_paper.hpp",
        "    retx_ = psn_max(retx_, una);\n",
        "",
        "packets are sent again that nobody waits for",
        _CLOCKS,
    ),
    _mutant(
        "recovery-never-ends",
        "recovery_paper.hpp",
        "    if (recovery_ == una) recovering_ = false;\n",
        "",
        "the next loss waits for a timeout",
        _CLOCKS,
        "unit",
    ),
    _mutant(
        "recovery-left-behind",
        "recovery_paper.hpp",
        "    recovery_ = psn_max(recovery_, una);\n",
        "",
        "a stale serial number: recovery never ends",
        _CLOCKS,
        "unit",
    ),
    # ---- The requester
    _mutant(
        "rnr-timer-ignored",
        "requester_responses.cpp",
        "  sender_.pause(now + wire::rnr_timer(ack.mp_ack.detail));\n",
        "  sender_.pause(now);\n",
        "a receiver that asked for time gets none",
    ),
    _mutant(
        "fence-ignored",
        "requester.cpp",
        "  if ((work.flags & kFence) != 0 && !reads_.empty()) return false;\n",
        "",
        "a WRITE overtakes the READ before it",
    ),
    _mutant(
        "max-rd-atomic-ignored",
        "requester.cpp",
        "std::min<uint32_t>(attributes_.max_rd_atomic, config_.max_rd_atomic)",
        "config_.max_rd_atomic",
        "the responder's contexts overflow",
    ),
    _mutant(
        "read-complete-when-acknowledged",
        "requester.cpp",
        "  return !is_answered(work.opcode) || work.response_done;\n",
        "  return true;\n",
        "a READ completes before its data is there",
    ),
    _mutant(
        "completions-out-of-order",
        "requester.cpp",
        "  out.wr_id = work.wr_id;\n",
        "  out.wr_id = queue_.size() > 3 ? queue_.at_index(queue_.head_index() + 1).wr_id\n"
        "                                : work.wr_id;\n",
        "the application reuses a buffer that is still in use",
    ),
    _mutant(
        "flush-in-reverse",
        "requester.cpp",
        "  out.wr_id = work.wr_id;\n",
        "  out.wr_id = flushing_ ? queue_.at_index(queue_.tail_index() - 1).wr_id\n"
        "                        : work.wr_id;\n",
        "flushed work comes out in the wrong order",
    ),
    _mutant(
        "success-after-an-error",
        "requester.cpp",
        "  const bool success = !failed_ && complete(work);",
        "  const bool success = complete(work);",
        "work succeeds behind work that failed",
    ),
    _mutant(
        "unsignaled-completion-emitted",
        "requester.cpp",
        "  out.emit = !success || config_.signal_all || (work.flags & kSignaled) != 0;\n",
        "  out.emit = true;\n",
        "the completion queue overflows",
    ),
    _mutant(
        "silent-responder-never-asked",
        "requester.cpp",
        "    nudge_due_ = last_response_ + retry_interval() <= now;\n",
        "    nudge_due_ = false;\n",
        "READ data that a dormant responder owes never comes",
    ),
    # ---- The responder
    _mutant(
        "read-data-from-the-start",
        "responder.cpp",
        "  part.va += offset;\n",
        "",
        "every packet of a READ brings the first bytes",
    ),
    _mutant(
        "rkey-checked-on-first-packet-only",
        "responder.cpp",
        "  if (reth.dma_len > 0 && !open_remote(reth, kRemoteWrite, &base)) return",
        "  if (reth.dma_len > 0 && info.starts_message() &&\n"
        "      !open_remote(reth, kRemoteWrite, &base)) return",
        "later packets go where nobody allowed",
    ),
    _mutant(
        "access-right-not-checked",
        "responder.cpp",
        "!open_remote(reth, kRemoteWrite, &base)) return",
        "!open_remote(reth, 0, &base)) return",
        "a WRITE into memory that is open for reading only",
    ),
    _mutant(
        "last-byte-off-by-one",
        "memory_table.hpp",
        "if (offset > region.length - length) return false;",
        "if (offset > region.length - length + 1) return false;",
        "one byte beyond the region",
        _RECEIVER,
    ),
    _mutant(
        "receive-too-short-by-one",
        "responder.cpp",
        "  if (packet.payload_len > receive.capacity_bytes - message_.offset) {",
        "  if (packet.payload_len > receive.capacity_bytes - message_.offset + 1) {",
        "the last byte of a SEND is dropped in silence",
    ),
    _mutant(
        "write-imm-without-receive",
        "responder.cpp",
        "    if (!receive_ready(packet)) return not_ready();\n  }\n"
        "  if (places) {",
        "  }\n  if (places) {",
        "an immediate takes a receive that is not there",
    ),
    _mutant(
        "message-numbers-survive-reconnect",
        "responder.cpp",
        "  receive_number_ = read_number_ = 0;\n",
        "",
        "a reconnected queue pair refuses its peer",
    ),
    _mutant(
        "dormant-responder-never-wakes",
        "responder.cpp",
        "  if (dormant()) response_sender_.wake(now);\n",
        "",
        "READ data is owed for ever",
        killer="unit",
    ),
    _mutant(
        "loss-by-time-is-news",
        "stream_sender.cpp",
        "  return any_news || names_loss ? ",
        "  return any_news || lost_count_ != lost_before ? ",
        "a stale or forged acknowledgement decides how the peer places",
        killer="unit",
    ),
]
