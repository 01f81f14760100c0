"""Small breakages of the standard's connections (transport/roce/), which the unit tests of the
transport must find. Fields: see mutants.py."""

from mutants import maker

_REQUESTER = "roce/roce_requester.cpp"
_RESPONSES = "roce/roce_requester_responses.cpp"
_RESPONDER = "roce/roce_responder.cpp"
_ANSWERS = "roce/roce_responder_answers.cpp"

_mutant = maker("roce-", "unit")

MUTANTS = [
    # ---- Requester
    _mutant(
        "read-takes-one-psn",
        _REQUESTER,
        "const uint32_t psns = is_answered(work.opcode) ? work.packets : 1;",
        "const uint32_t psns = 1;",
        "the requests behind a READ have the PSNs of its response",
    ),
    _mutant(
        "read-repeated-from-its-start",
        _REQUESTER,
        "header.reth = {.va = work.remote_addr + offset,\n                   .rkey",
        "header.reth = {.va = work.remote_addr,\n                   .rkey",
        "the rest of the READ brings its beginning again",
    ),
    _mutant(
        "no-ack-asked-for-in-a-full-window",
        _REQUESTER,
        "  return (again ? repeated() : in_flight()) + 1 >= window_;\n",
        "  return false;\n",
        "a small window and a long message wait for each other until the timer ends it",
    ),
    _mutant(
        "window-not-told-of-losses",
        _REQUESTER,
        "    tell_lost(cause);\n",
        "    (void)cause;\n",
        "a congestion control goes on as if nothing were lost",
    ),
    _mutant(
        "window-in-use-without-being-filled",
        _RESPONSES,
        "const bool in_use = acked.at_or_before(filled_at_);",
        "const bool in_use = true;",
        "a window that nobody fills grows for ever, and then leaves at once",
    ),
    _mutant(
        "window-pays-for-a-read",
        _RESPONSES,
        "  if (is_answered(sends_.at(sends_.index_of(una_)).opcode)) return;\n",
        "",
        "what the peer's answers lose takes a window that nothing gives back",
    ),
    _mutant(
        "window-pays-for-each-timeout",
        _RESPONSES,
        "cause == Cause::kTimeout && timeouts_ == 1 &&",
        "cause == Cause::kTimeout &&",
        "one silence takes the whole window",
    ),
    _mutant(
        "window-control-does-not-ask",
        _REQUESTER,
        "|| control_.has_value() || fills_window();",
        "|| fills_window();",
        "a window that shrank below what is in flight waits for the transport timer",
    ),
    _mutant(
        "window-stays-as-it-began",
        _RESPONSES,
        "  window_ = control_->packets();\n}\n\n// A receiver",
        "}\n\n// A receiver",
        "a congestion control is asked, and nobody follows",
    ),
    _mutant(
        "timer-not-restarted-by-progress",
        _RESPONSES,
        "  rnr_until_ = Time::never();\n  restart_timer();\n}",
        "  rnr_until_ = Time::never();\n}",
        "a long transfer is sent again although all is well",
    ),
    _mutant(
        "retries-do-not-come-back",
        _RESPONSES,
        "  retries_left_ = core_.attributes.retry_cnt;\n",
        "",
        "a connection dies of its seventh loss",
    ),
    _mutant(
        "timeout-without-limit",
        _REQUESTER,
        "if (retries_left_ > 0) {\n    --retries_left_;",
        "if (retries_left_ > 0) {",
        "a dead peer is asked for ever",
    ),
    _mutant(
        "fence-forgotten",
        "work/send_queue.hpp",
        "if ((work.flags & kFence) != 0 && !reads_.empty()) return false;",
        "",
        "a WRITE changes what the READ before it was to bring",
        rebuild=[_REQUESTER],
    ),
    _mutant(
        "ack-completes-a-read",
        _RESPONSES,
        "if (!sends_.has_reads() || end.at_or_before(awaited_response())) {",
        "if (true) {",
        "a READ completes without its data when the response was lost",
    ),
    _mutant(
        "response-out-of-sequence-placed",
        _RESPONSES,
        "  if (packet.psn != awaited) {\n"
        "    ++core_.device.counters->drop_out_of_sequence;\n"
        "    miss_response();\n"
        "    return;\n"
        "  }\n",
        "",
        "what comes after a lost packet of a READ lands in its place",
    ),
    _mutant(
        "rnr-wait-ignored",
        _REQUESTER,
        "std::min(deadline_, rnr_until_)",
        "deadline_",
        "a requester that waits for a receiver never wakes up",
    ),
    _mutant(
        "sequence-nak-acknowledges-itself",
        _RESPONSES,
        "  if (una_.at_or_before(packet.psn) && !acknowledge(packet.psn)) return;\n",
        "  if (una_.at_or_before(packet.psn) && !acknowledge(packet.psn + 1)) return;\n",
        "the packet that the NAK asks for is never sent again",
    ),
    _mutant(
        "timeout-below-the-floor",
        _REQUESTER,
        "const Duration base = std::max(configured, core_.config.params.rto_floor);",
        "const Duration base = configured;",
        "an application that asks for the shortest timeout sends everything several times",
    ),
    _mutant(
        "answers-wait-for-all-requests",
        "roce/roce_connection.cpp",
        "  answers_first_ = !answers_first_;\n",
        "",
        "a peer waits for its READ until this side has nothing more to send",
    ),
    _mutant(
        "acknowledgements-ask-for-less",
        "roce/roce_connection.cpp",
        "packet.info().operation == wire::Operation::kAck || !pace_.cnp_due(now)",
        "!pace_.cnp_due(now)",
        "the receiver of data is asked to send fewer of the acknowledgements that it owes",
    ),
    _mutant(
        "round-trip-of-a-read",
        _REQUESTER,
        "header.ack_req && !is_answered(work.opcode) && !sends_.has_reads()",
        "header.ack_req && !is_answered(work.opcode)",
        "TIMELY takes the length of a READ for a queue",
    ),
    # ---- Responder
    _mutant(
        "read-without-a-resource",
        _RESPONDER,
        "  if (limit == 0) return nullptr;\n",
        "",
        "a READ of a queue pair that has none reads what is not there",
    ),
    _mutant(
        "duplicate-executed",
        _RESPONDER,
        "  } else if (ahead < 0) {\n    on_duplicate(packet);\n  } else {",
        "  } else {",
        "a message is delivered twice",
    ),
    _mutant(
        "atomic-executed-again",
        _ANSWERS,
        "out.header.atomic_original = resource.original;",
        "out.header.atomic_original = resource.original++;",
        "the answer that was lost and the one that comes are not the same",
    ),
    _mutant(
        "gap-taken",
        _RESPONDER,
        "  if (ahead > 0) {\n    on_gap();\n  } else if",
        "  if (ahead > 8) {\n    on_gap();\n  } else if",
        "a lost packet goes unnoticed",
    ),
    _mutant(
        "every-gap-answered",
        _RESPONDER,
        "  if (nak_made_) return;\n",
        "",
        "a loss in a full window costs the peer all of its retries at once",
    ),
    _mutant(
        "duplicate-not-acknowledged",
        _RESPONDER,
        "      if (reply_ == Reply::kNone) reply_ = Reply::kAck;\n",
        "",
        "a lost acknowledgement is lost for ever",
    ),
    _mutant(
        "ack-names-an-atomic",
        _ANSWERS,
        "    if (resource.first + resource.packets != end) break;\n",
        "    break;\n",
        "a peer whose response was lost takes the acknowledgement for it",
    ),
    _mutant(
        "ack-behind-the-response",
        _ANSWERS,
        "    if (newest && reply_ == Reply::kAck) reply_ = Reply::kNone, unacked_ = 0;\n",
        "    (void)newest;\n",
        "the response is acknowledgement enough",
    ),
    _mutant(
        "ack-overtakes-data",
        _ANSWERS,
        "  while (answers()) {",
        "  while (answers() && reply_ == Reply::kNone) {",
        "the peer takes the data for lost and asks for it again",
    ),
    _mutant(
        "resource-forgotten-with-its-answer",
        _ANSWERS,
        "resources_.at_index(cursor_++).answered = true;",
        "resources_.at_index(cursor_++) = Resource{};",
        "an answer that is lost cannot be given again",
    ),
    _mutant(
        "taken-back-by-a-late-duplicate",
        _RESPONDER,
        "if (!resources_.front().answered) return nullptr;",
        "if (answers()) return nullptr;",
        "a READ that the network repeats ends the connection",
    ),
    _mutant(
        "receive-of-write-with-immediate-before-its-data",
        _RESPONDER,
        "if (info.has_immdt && !begin_receive(packet)) return not_ready();",
        "if (info.has_immdt && !begin_receive(packet)) return true;",
        "a peer that is not ready is not told so, and nothing goes on",
    ),
    # ---- Go-back-0
    _mutant(
        "gb0-nothing-is-forgotten",
        _RESPONDER,
        "  if (may_forget()) forget_message();\n",
        "",
        "go-back-0 is go-back-N",
    ),
    _mutant(
        "gb0-a-timeout-is-a-duplicate",
        _RESPONDER,
        "  if (begins_again(packet)) [[unlikely]]\n",
        "  if (begins_again(packet) && nak_made_) [[unlikely]]\n",
        "after a timeout only the rest of a message is taken",
    ),
    _mutant(
        "gb0-una-stays",
        _REQUESTER,
        "  una_ = work.first;\n",
        "",
        "the message goes on where the receiver has forgotten it",
    ),
    _mutant(
        "gb0-responses-stay-counted",
        _REQUESTER,
        "  awaited_psns_ += work.responses;\n",
        "",
        "packets in flight go wrong by every response that comes again",
    ),
    _mutant(
        "gb0-read-of-the-rest",
        _REQUESTER,
        "  if (whole && goes_back_0(work.first, snd_nxt_)) snd_nxt_ = work.first;\n",
        "",
        "an answer that begins in the middle is a bad response later",
    ),
    _mutant(
        "gb0-repeats-beyond-the-window",
        "roce/roce_requester.hpp",
        "return !repetition_waits_ || repeated() <",
        "return true || repeated() <",
        "what is repeated overflows the queues of the network",
        (_REQUESTER, _RESPONSES, "roce/roce_connection.cpp"),
    ),
    _mutant(
        "gb0-retries-without-progress",
        _RESPONSES,
        "  if (furthest_.before(una)) {\n",
        "  if (true) {\n",
        "a message whose end never arrives is sent for ever",
    ),
    _mutant(
        "gb0-nak-is-stale",
        _RESPONSES,
        "  if (ahead < 0 && !forgets_message(packet)) {\n",
        "  if (ahead < 0) {\n",
        "each loss behind an acknowledgement costs a timeout",
    ),
]
