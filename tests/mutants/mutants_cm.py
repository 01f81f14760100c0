"""Small breakages of connection management, each of which its unit tests must find.

Fields: see mutants.py; files are of dataplane/cm/.
"""

from mutants import maker

_mutant = maker("cm-", "cm")

MUTANTS = [
    # ---- Messages that come again
    _mutant(
        "repeated-req-is-a-new-request",
        "passive.cpp",
        "    ++counters.cm_duplicates;\n    return on_repeated_req(*known, origin);\n",
        "    ++counters.cm_duplicates;\n",
        "a lost REP makes a second connection",
    ),
    _mutant(
        "repeated-req-gets-no-rep",
        "passive.cpp",
        "      return send_kept(id, Room::kAnswer);\n",
        "      return;\n",
        "a lost REP costs the passive side's timeout as well",
    ),
    _mutant(
        "repeated-rep-gets-no-rtu",
        "active.cpp",
        "return send_kept(id, Room::kAnswer);  // its RTU",
        "return;",
        "one lost RTU, and the passive side gives up a good connection",
    ),
    _mutant(
        "repeated-dreq-gets-no-drep",
        "ending.cpp",
        "      return send_drep(*id, origin.transaction, Room::kAnswer);\n",
        "      return;\n",
        "one lost DREP, and the peer repeats its DREQ for a minute",
    ),
    _mutant(
        "unknown-dreq-gets-no-drep",
        "ending.cpp",
        "    return answer(origin, wire::CmDrep{.local_comm_id = dreq.remote_comm_id,\n",
        "    if (false) answer(origin, wire::CmDrep{.local_comm_id = dreq.remote_comm_id,\n",
        "the same after TIME WAIT, and after a restart a wild pointer",
    ),
    _mutant(
        "sidr-request-answered-once",
        "sidr.cpp",
        "    if (known->state == CmState::kIdle) send_kept(*known, Room::kAnswer);\n",
        "",
        "a lost SIDR_REP is lost for good",
    ),
    # ---- Who says it
    _mutant(
        "messages-from-anywhere",
        "agent.cpp",
        "id != nullptr && id->remote == origin.from && ",
        "id != nullptr && ",
        "any host ends any connection",
    ),
    _mutant(
        "rep-from-anywhere",
        "active.cpp",
        "id->remote != origin.from || id->passive ||",
        "id->passive ||",
        "any host answers for the server",
    ),
    _mutant(
        "rej-from-anywhere",
        "ending.cpp",
        "if (id == nullptr || id->remote != origin.from) return",
        "if (id == nullptr) return",
        "any host rejects any connection",
    ),
    _mutant(
        "sidr-rep-from-anywhere",
        "sidr.cpp",
        "id->state != CmState::kSidrAsking || id->remote != origin.from",
        "id->state != CmState::kSidrAsking",
        "any host redirects datagrams",
    ),
    _mutant(
        "dreq-for-any-queue-pair",
        "ending.cpp",
        "  if (dreq.remote_qpn != id->local_qpn) return drop_unexpected();\n",
        "",
        "12.6.10: the queue pair says which connection is meant",
    ),
    _mutant(
        "sender-may-name-another-gid",
        "passive.cpp",
        "req.remote_gid != config.address || req.local_gid != origin.from",
        "req.remote_gid != config.address",
        "a request in the name of somebody else",
    ),
    _mutant(
        "ids-of-others",
        "commands.cpp",
        "!id->orphan && id->client == client ?",
        "!id->orphan ?",
        "a process ends the connections of another one",
    ),
    # ---- Rejects
    _mutant(
        "backlog-without-end",
        "passive.cpp",
        "  if (queue.waiting.size() >= queue.backlog) return nullptr;\n",
        "",
        "LISTEN's backlog means nothing",
    ),
    _mutant(
        "requests-take-all-ids",
        "passive.cpp",
        "config.ids_max / kRequestsShare",
        "config.ids_max",
        "a flood leaves clients without ids",
    ),
    _mutant(
        "answered-request-still-waits",
        "passive.cpp",
        "  if (listener != nullptr) listener->listener->waiting.erase(id.id);\n",
        "",
        "the backlog fills up with connections that are long made",
    ),
    _mutant(
        "mtu-unchecked",
        "passive.cpp",
        "req.path_mtu == 0 || req.path_mtu > config.path_mtu",
        "req.path_mtu == 0",
        "a connection whose packets do not fit",
    ),
    _mutant(
        "given-up-req-untold",
        "timers.cpp",
        "  if (id.state != CmState::kSidrAsking) {\n",
        "  if (false) {\n",
        "the passive side waits for one who has gone",
    ),
    _mutant(
        "unseen-request-is-delivered-and-rejected",
        "ending.cpp",
        "      if (!id->delivered) return end_of(*id);\n",
        "",
        "an event for a request that was taken back",
    ),
    _mutant(
        "listener-leaves-its-requests",
        "ending.cpp",
        "      end_listener(id);\n",
        "",
        "who waits is never answered",
    ),
    _mutant(
        "half-a-connection-untold",
        "passive.cpp",
        "    if (ids.find_comm(rtu.remote_comm_id) != nullptr) return;\n",
        "    return;\n",
        "the active side keeps a connection that the other gave up",
    ),
    # ---- Stale connections and TIME WAIT
    _mutant(
        "stale-connection-unseen",
        "ending.cpp",
        "  if (old == nullptr || old == besides) return false;\n",
        "  return false;\n",
        "a restarted peer gets a second connection to the same queue pair",
    ),
    _mutant(
        "stale-connection-lives-on",
        "ending.cpp",
        "  if (old->state == CmState::kConnected) send_dreq(*old);\n",
        "",
        "a restarted peer is rejected for ever",
    ),
    _mutant(
        "request-to-nobody-ends-a-connection",
        "passive.cpp",
        "    refuse(req, origin, kInvalidServiceId);\n    return nullptr;\n",
        "    stale(origin.from, req.qpn, nullptr);\n"
        "    refuse(req, origin, kInvalidServiceId);\n    return nullptr;\n",
        "who guesses queue pair numbers ends connections without a service that he could ask",
    ),
    _mutant(
        "no-queue-pair-is-stale",
        "ending.cpp",
        "  if (qpn == Qpn(0)) return false;\n",
        "",
        "two connections of programs that name no queue pair end each other",
    ),
    _mutant(
        "no-time-wait",
        "ending.cpp",
        "  set_timer(id, config.time_wait);\n",
        "  set_timer(id, Duration::zero());\n",
        "late messages of the old connection meet a new one",
    ),
    _mutant(
        "time-wait-keeps-the-queue-pair",
        "ending.cpp",
        "  // The peer may use its queue pair again; what it called the connection stays known.\n"
        "  ids.forget(id, Remote::kQpn);\n",
        "",
        "a restarted peer is told that it is stale, twice",
    ),
    _mutant(
        "simultaneous-end-unanswered",
        "ending.cpp",
        "      send_drep(*id, origin.transaction);\n      emit(*id",
        "      emit(*id",
        "both repeat their DREQ until they give up",
    ),
    _mutant(
        "destroyed-id-is-not-hung-up-for",
        "ending.cpp",
        "      send_dreq(id);\n      break;\n",
        "      break;\n",
        "the peer of a killed process waits for ever",
    ),
    _mutant(
        "orphan-never-goes",
        "timers.cpp",
        "      if (id.orphan) return end_of(id);\n",
        "",
        "ids leak",
    ),
    _mutant(
        "events-of-the-destroyed",
        "events.cpp",
        "    if (!is_for_somebody(*out_event)) continue;\n",
        "    if (ids.find(out_event->event.id) == nullptr &&\n"
        "        out_event->event.type == MPRDMA_ABI_CM_EVENT_REQUEST) {\n"
        "      continue;\n"
        "    }\n",
        "a client is told of an id that it has forgotten",
    ),
    # ---- Time
    _mutant(
        "one-repetition-less",
        "timers.cpp",
        "  id.retries_left = id.retries;\n",
        "  id.retries_left = static_cast<uint8_t>(id.retries - 1);\n",
        "12.7.27: a peer that would have answered is given up",
    ),
    _mutant(
        "mra-unheard",
        "active.cpp",
        "<< std::min(mra.service_timeout, most)) + id->timeout",
        "<< 0) + id->timeout",
        "a slow server is asked again and again, and given up",
    ),
    _mutant(
        "mra-unsaid",
        "timers.cpp",
        "      return ask_for_time(id, Room::kOwn);\n",
        "      return;\n",
        "a server that thinks for a minute loses its client",
    ),
    _mutant(
        "client-that-sleeps-holds-the-peer",
        "timers.cpp",
        "      send_drep(id, id.transaction);\n      return to_time_wait(id);\n",
        "      return;\n",
        "who hangs up waits for a program that does not look",
    ),
    # ---- Values
    _mutant(
        "xrc-target-in-the-qpn",
        "passive.cpp",
        "(xrc ? rep.ee_context : rep.qpn)",
        "rep.qpn",
        "Linux reads the EE context",
    ),
    _mutant(
        "rdma-cm-header-is-private-data",
        "passive.cpp",
        "copy_private(req.private_data, &params, wire::CmIpHeader::kBytes);",
        "copy_private(req.private_data, &params);",
        "the application finds 36 bytes in front of its own",
    ),
    _mutant(
        "established-unsaid-before-the-end",
        "ending.cpp",
        "      established(*id, nullptr);  // the RTU was lost\n",
        "",
        "a server hears of the end of what never began",
    ),
    # ---- Ports
    _mutant(
        "port-of-a-listener-reused",
        "port_table.cpp",
        "if (!listens && !old.listening && old.reuse",
        "if (!listens && old.reuse",
        "a port is taken away from who listens",
    ),
    _mutant(
        "listen-on-a-shared-port",
        "port_table.cpp",
        "    const int error = other.id != id ? collision(other, *own, true) : 0;\n"
        "    if (error != 0) return error;\n",
        "",
        "two listeners, one of them deaf",
    ),
    _mutant(
        "ipv4-address-is-for-both-families",
        "commands.cpp",
        "  if (!id.family_said) id.family_only = is_ipv4(address);\n",
        "",
        "a server that binds both families at one port is refused",
    ),
    _mutant(
        "dreq-as-patient-as-a-req",
        "ending.cpp",
        "std::min(config.retries, kDreqRetries)",
        "config.retries",
        "a dead peer holds rdma_disconnect up for minutes",
    ),
    _mutant(
        "ipv6-only-listener-takes-ipv4",
        "port_table.cpp",
        "(!is_ipv4(claim.address) && !claim.family_only)",
        "!is_ipv4(claim.address)",
        "AFONLY means nothing",
    ),
    _mutant(
        "port-never-free-again",
        "commands.cpp",
        "  if (id.has_port) ports.release(id.port_space, id.local_port, id.id);\n",
        "",
        "a server cannot be started twice",
    ),
    _mutant(
        "resolved-once-too-often",
        "commands.cpp",
        "  waiting->second.erase(id.id);\n",
        "",
        "an address's answer goes to an id that is gone",
    ),
    _mutant(
        "answers-without-end",
        "timers.cpp",
        "if (out.size() < kAnswersMax + own) out.push_back(mad);",
        "out.push_back(mad);",
        "who repeats a message fills the memory",
    ),
    _mutant(
        "orphans-do-not-give-way",
        "commands.cpp",
        "ids.full() && orphan != nullptr) end_of(*orphan);",
        "false) end_of(*orphan);",
        "connections that nobody has keep clients from making new ones",
    ),
]
