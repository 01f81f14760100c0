"""Small breakages of neighbours, queue pair 1 and the negotiation of modes, each of which their
unit tests must find.

Fields: see mutants.py; files are of dataplane/mgmt/.
"""

from mutants import maker

_mutant = maker("mgmt-", "mgmt")

MUTANTS = [
    # ---- Neighbours
    _mutant(
        "answers-for-others",
        "neighbours.cpp",
        "arp.operation == wire::ArpOperation::kRequest && for_us;",
        "arp.operation == wire::ArpOperation::kRequest;",
        "every address of the subnet is at ours",
    ),
    _mutant(
        "multicast-senders-get-answers",
        "neighbours.cpp",
        "  if (wire::is_multicast(arp.sender_mac)) {",
        "  if (false) {",
        "one question makes everybody hear an answer, and a group becomes somebody's address",
    ),
    _mutant(
        "who-claims-our-address-is-believed",
        "neighbours.cpp",
        "  if (arp.sender_ip == ipv4_) {",
        "  if (false) {",
        "frames for ourselves go to whoever claims our address",
    ),
    _mutant(
        "strangers-fill-the-table",
        "neighbours.cpp",
        "table_.learn(sender, arp.sender_mac, for_us)",
        "table_.learn(sender, arp.sender_mac, true)",
        "the questions of a large subnet take the room of its peers",
    ),
    _mutant(
        "hole-ends-a-search",
        "neighbour_table.cpp",
        "    buckets_[hole] = buckets_[i];\n    hole = i;\n",
        "",
        "who lies behind a removed entry is not found",
    ),
    _mutant(
        "known-neighbour-is-asked-on",
        "neighbour_table.cpp",
        "  entry->state = State::kReachable;\n  entry->next_request = Time::never();\n",
        "  entry->state = State::kReachable;\n",
        "a neighbour that has answered is asked for ever",
    ),
    # ---- Queue pair 1
    _mutant(
        "any-q-key-is-good",
        "qp1.cpp",
        " && packet.deth.q_key == wire::kGeneralServicesQKey",
        "",
        "any datagram queue pair speaks as a management agent (IBTA 10.2.5)",
    ),
    _mutant(
        "psn-of-a-frame-without-room",
        "qp1.cpp",
        "  if (!host.send({frame, bytes})) return false;\n  psn_ += 1;\n",
        "  psn_ += 1;\n  if (!host.send({frame, bytes})) return false;\n",
        "a PSN is missing on the wire",
    ),
    _mutant(
        "every-probe-is-answered",
        "qp1.cpp",
        "  if (!probe_limit_.consume(now)) return",
        "  if (!probe_limit_.consume(now) && false) return",
        "probes of strangers take the link",
    ),
    # ---- Path probes
    _mutant(
        "anybody-answers-a-probe",
        "path_prober.cpp",
        "           open.ip == decoded.address.src_ip && ",
        "           ",
        "the times of one peer are taken for those of another",
    ),
    _mutant(
        "probe-waits-for-ever",
        "path_prober.cpp",
        "    if (open.until > now) return false;\n",
        "    return false;\n",
        "a client waits for an answer that was lost",
    ),
    _mutant(
        "probe-to-a-group",
        "path_prober.cpp",
        " && !wire::is_multicast_ipv4(question.peer) &&",
        " &&",
        "a client makes a whole group answer",
    ),
    # ---- The mode of a pair
    _mutant(
        "any-version-speaks-mp",
        "mode_negotiation.cpp",
        "  if (own.wire_version != peer.wire_version) "
        "return {PairMode::kRoce, own.window_slots};\n",
        "",
        "two versions of the wire format meet",
    ),
    _mutant(
        "earlier-window-is-ours",
        "mode_negotiation.cpp",
        "  own.window_slots = preferences_.window_slots;\n",
        "",
        "the sides agree on different windows when one of them starts again",
    ),
    _mutant(
        "silence-is-final",
        "mode_negotiation.cpp",
        "  doubts_left_ = kDoubts;\n",
        "",
        "a peer that was away for a moment never speaks mp",
    ),
    _mutant(
        "packet-does-not-decide",
        "mode_negotiation.cpp",
        "    info_.phase = PairPhase::kFixed;\n    if (!tells())",
        "    if (!tells())",
        "a mode that is in use can still change",
    ),
    _mutant(
        "known-silence-asks-late",
        "mode_negotiation.cpp",
        "    doubt_at_once(now);\n    return step;\n",
        "    return step;\n",
        "two sides that take each other for silent send packets of the standard, which fix it",
    ),
    _mutant(
        "stranger-decides",
        "mode_negotiation.cpp",
        "    if (!taken) return {};\n",
        "    (void)taken;\n",
        "a packet of a stranger keeps a queue pair in the standard's mode for ever",
    ),
    _mutant(
        "offer-is-told-once",
        "mode_negotiation.cpp",
        "  if (decided() && !tells()) {\n    if (doubts_left_ == 0) return {};",
        "  if (decided()) {\n    if (doubts_left_ == 0) return {};",
        "a peer that missed one datagram sends short packets ever after",
    ),
    _mutant(
        "packet-ends-telling",
        "mode_negotiation.cpp",
        "    if (!tells()) next_ask_ = Time::never();\n    return {};",
        "    next_ask_ = Time::never();\n    return {};",
        "a peer that sends at once never hears the offer",
    ),
    _mutant(
        "old-answer-ends-telling",
        "mode_negotiation.cpp",
        "  if (answers && told_ == Told::kAsked) {",
        "  if (answers) {",
        "the answer to an earlier question hides a new offer",
    ),
]
