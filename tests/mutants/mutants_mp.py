"""Small breakages of the requester and the responder of the mode `mp`.

Fields: see mutants.py.
"""

from mutants import RECEIVER, mutant

MUTANTS = [
    # ---- The requester
    mutant(
        "rnr-timer-ignored",
        "mp/requester_responses.cpp",
        "  sender_.pause(now, now + wire::rnr_timer(ack.mp_ack.detail));\n",
        "  sender_.pause(now, now);\n",
        "a receiver that asked for time gets none",
    ),
    mutant(
        "late-turn-ends-the-peer",
        "mp/requester.cpp",
        "  return std::max(end, core_.listening_since + retry_interval());\n",
        "  return end;\n",
        "a peer is given up whose answer had no turn to be seen",
        killer="unit",
    ),
    mutant(
        "late-turns-for-ever",
        "mp/requester.cpp",
        "  if (core_.listening_since - last_progress > kStarvedMax) return end;\n",
        "",
        "on a host that is always late a dead peer is never told",
        killer="unit",
    ),
    mutant(
        "fence-ignored",
        "work/send_queue.hpp",
        "  if ((work.flags & kFence) != 0 && !reads_.empty()) return false;\n",
        "",
        "a WRITE overtakes the READ before it",
        ("mp/requester.cpp",),
    ),
    mutant(
        "max-rd-atomic-ignored",
        "work/send_queue.hpp",
        "std::min<uint32_t>(core_.attributes.max_rd_atomic, core_.config.max_rd_atomic)",
        "core_.config.max_rd_atomic",
        "the responder's contexts overflow",
        ("mp/requester.cpp",),
    ),
    mutant(
        "read-complete-when-acknowledged",
        "mp/requester.cpp",
        "  return !is_answered(work.opcode) || work.response_done;\n",
        "  return true;\n",
        "a READ completes before its data is there",
    ),
    mutant(
        "completions-out-of-order",
        "work/send_queue.hpp",
        "  out.wr_id = work.wr_id;\n",
        "  out.wr_id = queue_.size() > 3 ? queue_.at_index(queue_.head_index() + 1).wr_id\n"
        "                                : work.wr_id;\n",
        "the application reuses a buffer that is still in use",
        ("mp/requester.cpp",),
    ),
    mutant(
        "flush-in-reverse",
        "work/send_queue.hpp",
        "  out.wr_id = work.wr_id;\n",
        "  out.wr_id = failed() ? queue_.at_index(queue_.tail_index() - 1).wr_id\n"
        "                        : work.wr_id;\n",
        "flushed work comes out in the wrong order",
        ("mp/requester.cpp",),
    ),
    mutant(
        "success-after-an-error",
        "work/send_queue.hpp",
        "  const bool success = !failed() && complete;",
        "  const bool success = complete;",
        "work succeeds behind work that failed",
        ("mp/requester.cpp",),
    ),
    mutant(
        "unsignaled-completion-emitted",
        "work/send_queue.hpp",
        "  out.emit = !success || core_.config.signal_all || (work.flags & kSignaled) != 0;\n",
        "  out.emit = true;\n",
        "the completion queue overflows",
        ("mp/requester.cpp",),
    ),
    mutant(
        "silent-responder-never-asked",
        "mp/requester.cpp",
        "    keepalive_due_ = last_response_ + retry_interval() <= now;\n",
        "    keepalive_due_ = false;\n",
        "READ data that a dormant responder owes never comes",
    ),
    # ---- The responder
    mutant(
        "read-data-from-the-start",
        "work/incoming_request.hpp",
        "  part.va += offset;\n",
        "",
        "every packet of a READ brings the first bytes",
        ("mp/responder.cpp",),
    ),
    mutant(
        "rkey-checked-on-first-packet-only",
        "mp/responder.cpp",
        "  if (reth.dma_len > 0 && !open_remote(core_, config_.pd, reth, kRemoteWrite, "
        "&base)) {",
        "  if (reth.dma_len > 0 && info.starts_message() &&\n"
        "      !open_remote(core_, config_.pd, reth, kRemoteWrite, &base)) {",
        "later packets go where nobody allowed",
    ),
    mutant(
        "access-right-not-checked",
        "mp/responder.cpp",
        "!open_remote(core_, config_.pd, reth, kRemoteWrite, &base)",
        "!open_remote(core_, config_.pd, reth, 0, &base)",
        "a WRITE into memory that is open for reading only",
    ),
    mutant(
        "last-byte-off-by-one",
        "core/memory_table.hpp",
        "if (offset > region.length - length) return false;",
        "if (offset > region.length - length + 1) return false;",
        "one byte beyond the region",
        RECEIVER,
    ),
    mutant(
        "receive-too-short-by-one",
        "mp/responder.cpp",
        "receives.current().capacity_bytes - message_.offset) {",
        "receives.current().capacity_bytes - message_.offset + 1) {",
        "the last byte of a SEND is dropped in silence",
    ),
    mutant(
        "write-imm-without-receive",
        "mp/responder.cpp",
        "    if (!receive_ready(packet)) return not_ready();\n  }\n"
        "  if (places) {",
        "  }\n  if (places) {",
        "an immediate takes a receive that is not there",
    ),
    mutant(
        "message-numbers-survive-reconnect",
        "mp/responder.cpp",
        "  receive_number_ = read_number_ = 0;\n",
        "",
        "a reconnected queue pair refuses its peer",
    ),
    mutant(
        "dormant-responder-never-wakes",
        "mp/responder.hpp",
        "    response_sender_.wake(now);\n",
        "",
        "READ data is owed for ever",
        ("mp/mp_connection.cpp", "qp.cpp"),
        killer="unit",
    ),
    mutant(
        "loss-by-time-is-news",
        "stream/stream_sender.cpp",
        "  if (any_progress || names_loss) return",
        "  if (any_progress || board_.lost_count() != lost_before) return",
        "a stale or forged acknowledgement decides how the peer places",
        killer="unit",
    ),
    mutant(
        "planned-writes-need-no-order",
        "mp/responder_plain.cpp",
        "  if (packet.psn != plan.next.value() || !continues_plain(",
        "  if (!continues_plain(",
        "a WRITE behind a lost one is acknowledged as if that had come",
        killer="unit",
    ),
]
