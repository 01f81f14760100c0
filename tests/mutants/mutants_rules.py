"""Small breakages of rules of the standard, which the conformance scripts must find.

As in mutants.py.
"""

from mutants import maker

_mutant = maker("rule-", "conformance")

_RESPONDER = "roce/roce_responder.cpp"
_RESPONSES = "roce/roce_requester_responses.cpp"

MUTANTS = [
    # ---- The responder
    _mutant(
        "nak-never-again",
        _RESPONDER,
        "    nak_made_ = false;\n",
        "",
        "the second loss of a connection is found by the timer only",
    ),
    _mutant(
        "read-again-from-its-start",
        _RESPONDER,
        "  const auto begin = static_cast<uint32_t>(resource.first.distance_to(packet.psn));\n",
        "  const uint32_t begin = 0;\n",
        "the rest of a READ is answered with its beginning",
    ),
    _mutant(
        "last-packet-may-be-empty",
        "work/work_opcode.hpp",
        "(info.only || packet.payload_len > 0)",
        "true",
        "a length that the standard forbids",
        rebuild=[_RESPONDER],
    ),
    _mutant(
        "outdated-nak-takes-the-ack-along",
        _RESPONDER,
        "reply_ = ack_owed_ ? Reply::kAck : Reply::kNone;",
        "reply_ = Reply::kNone;",
        "an acknowledgement that was asked for is never sent",
    ),
    _mutant(
        "xrc-receiver-never-says-its-last-wqe",
        "qp.cpp",
        "last_wqe_event_due_ = core_.config.shares_receives();",
        "last_wqe_event_due_ = core_.config.shared != nullptr;",
        "an application waits for ever before it may take the queue pair down",
    ),
    _mutant(
        "write-beyond-its-length",
        _RESPONDER,
        "end <= reth.dma_len &&",
        "true &&",
        "a peer writes beyond the range that was checked",
    ),
    _mutant(
        "qp-access-ignored",
        _RESPONDER,
        "  if ((core_.attributes.access & kRemoteWrite) == 0) "
        "return refuse(NakCode::kInvalidRequest);\n",
        "",
        "a queue pair that allows no WRITE is written through",
    ),
    _mutant(
        "rnr-timer-code-lost",
        _RESPONDER,
        "wire::rnr_nak_syndrome(core_.attributes.min_rnr_timer)",
        "wire::rnr_nak_syndrome(0)",
        "everybody waits for 655 ms",
    ),
    _mutant(
        "reset-remembers-a-refusal",
        _RESPONDER,
        "  nak_made_ = receiving_ = refused_ = false;\n",
        "",
        "a queue pair that was reset never serves again",
    ),
    # ---- The requester
    _mutant(
        "rnr-is-for-ever",
        "work/send_queue.hpp",
        "    --rnr_left_;\n",
        "",
        "a peer that is never ready is asked for ever",
        rebuild=[_RESPONSES],
    ),
    _mutant(
        "rnr-nak-counts-twice",
        _RESPONSES,
        "  if (!rnr_until_.is_never()) return;  // a duplicate: the wait has begun already\n",
        "",
        "a copy of a NAK costs the connection its only RNR retry",
    ),
    _mutant(
        "implied-nak-missed",
        _RESPONSES,
        "  set_una(awaited_response());\n  miss_response();\n",
        "  set_una(awaited_response());\n",
        "lost READ data is found by the timer only",
    ),
    _mutant(
        "ghost-ack-taken",
        _RESPONSES,
        "  if (ahead >= una_.distance_to(snd_max_)) {\n",
        "  if (false) {\n",
        "an acknowledgement of what was never sent completes what comes",
    ),
    # ---- Unreliable services
    _mutant(
        "uc-goes-on-after-a-loss",
        "unreliable/uc_connection.cpp",
        "  if (!in_order || info.starts_message()) abandon();\n",
        "  if (info.starts_message()) abandon();\n",
        "a message with a hole is delivered",
    ),
    _mutant(
        "ud-qkey-ignored",
        "unreliable/ud_connection.cpp",
        "packet.deth.q_key != core_.attributes.qkey",
        "false",
        "anybody reaches every datagram queue pair",
    ),
    _mutant(
        "ud-datagram-that-does-not-fit-is-placed",
        "unreliable/ud_connection.cpp",
        "  } else if (kGrhBytes + packet.payload_len > room) {\n",
        "  } else if (room == 0) {\n",
        "one datagram ends a server's queue pair",
    ),
    _mutant(
        "refused-invalidation-is-answered",
        "mp/responder.cpp",
        "  result.silent = true;\n",
        "",
        "class J has no NAK",
    ),
    _mutant(
        "refused-invalidation-is-answered-roce",
        _RESPONDER,
        "      return refuse_invalidate();\n",
        "      return refuse_receive(WcStatus::kRemoteInvalidRequestError, "
        "NakCode::kRemoteAccessError);\n",
        "class J has no NAK",
    ),
    _mutant(
        "refused-write-with-immediate-takes-no-receive",
        "mp/responder.cpp",
        "  if (packet.info().has_immdt && receive_ready(packet)) {\n"
        "    return refuse_receive(WcStatus::kLocalAccessError",
        "  if (false) {\n    return refuse_receive(WcStatus::kLocalAccessError",
        "the application never learns which receive was in question",
    ),
    _mutant(
        "key-of-an-atomic-before-its-address",
        "work/incoming_request.hpp",
        "  if (reth.va % wire::kAtomicBytes != 0) return AtomicTarget::kMisaligned;\n",
        "",
        "a misaligned address is reported as a wrong key",
        rebuild=[_RESPONDER],
    ),
    _mutant(
        "four-timeouts-a-retry",
        "core/qp_config.hpp",
        "(int64_t{retry_cnt} + 1) * 7 / 4",
        "(int64_t{retry_cnt} + 1) * 4",
        "a silent peer is given up four times later than asked for",
        ("mp/requester.cpp",),
    ),
    _mutant(
        "ud-datagram-longer-than-a-packet",
        "unreliable/ud_connection.cpp",
        "  if (work.length > core_.attributes.path_mtu) return WcStatus::kLocalLengthError;\n",
        "",
        "a packet that no wire carries",
    ),
    # ---- All queue pairs
    _mutant(
        "drained-by-an-error",
        "qp.cpp",
        "  drain_event_due_ = false;  // what is flushed did not drain\n",
        "",
        "an application believes that its sends are done",
    ),
]
