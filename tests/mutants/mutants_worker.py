"""Small breakages of the engine's worker, each of which its unit tests must find: who may send to
whom in shared memory, payloads that are read in the sender's memory, what is offered to a peer,
acknowledgements that wait, and what a wait takes from a peer's time to answer.

Fields: see mutants.py; files are of dataplane/worker/.
"""

from mutants import maker

_mutant = maker("worker-", "worker")

# What a bare packet has to fulfil, in accept_bare().
_FROM_RING = "may_use_ring(*qp) && from.ring->peers.owns(Qpn(qp->attr.dest_qpn))\n" + " " * 28 + ":"
_FROM_PORT = (
    "qp->path != PathState::kNone && (from.port == &loop_) == qp->loop &&\n"
    + " " * 34
    + "qp->qp.service() != transport::QpService::kUd;"
)
_MAY_USE_RING = (
    "  return qp.path != PathState::kNone && !qp.loop && "
    "qp.qp.service() != transport::QpService::kUd;\n"
)

MUTANTS = [
    # ---- Who may send without addresses
    _mutant(
        "any-process-by-its-ring",
        "worker_receive.cpp",
        _FROM_RING,
        "may_use_ring(*qp)\n :",
        "a process writes into the connections of others",
    ),
    _mutant(
        "ring-reaches-who-has-none",
        "worker_receive.cpp",
        _FROM_RING,
        "from.ring->peers.owns(Qpn(qp->attr.dest_qpn))\n :",
        "packets for queue pairs without a path, or for datagrams, come in",
    ),
    _mutant(
        "ring-without-path",
        "worker_rings.cpp",
        _MAY_USE_RING,
        "  return !qp.loop && qp.qp.service() != transport::QpService::kUd;\n",
        "a queue pair that has no peer yet is reached",
    ),
    _mutant(
        "ring-for-own-process",
        "worker_rings.cpp",
        _MAY_USE_RING,
        "  return qp.path != PathState::kNone && "
        "qp.qp.service() != transport::QpService::kUd;\n",
        "a connection within a process has another sender",
    ),
    _mutant(
        "ring-for-datagrams",
        "worker_rings.cpp",
        _MAY_USE_RING,
        "  return qp.path != PathState::kNone && !qp.loop;\n",
        "a datagram without a source",
    ),
    _mutant(
        "port-without-path",
        "worker_receive.cpp",
        _FROM_PORT,
        "(from.port == &loop_) == qp->loop &&\n"
        "qp->qp.service() != transport::QpService::kUd;",
        "a queue pair that has no peer yet is reached",
    ),
    _mutant(
        "port-for-own-process",
        "worker_receive.cpp",
        _FROM_PORT,
        "qp->path != PathState::kNone &&\nqp->qp.service() != transport::QpService::kUd;",
        "a connection within a process has another sender",
    ),
    _mutant(
        "port-for-datagrams",
        "worker_receive.cpp",
        _FROM_PORT,
        "qp->path != PathState::kNone && (from.port == &loop_) == qp->loop;",
        "a datagram without a source",
    ),
    # ---- Payloads in the sender's memory
    _mutant(
        "run-is-taken-though-it-was-taken-back",
        "worker_pull.cpp",
        "  if (!read || !stand) {\n",
        "  if (!read) {\n",
        "what the application wrote after its request had failed is taken for the payload",
    ),
    _mutant(
        "run-stands-if-its-first-packet-does",
        "worker_pull.cpp",
        "  for (unsigned i = 0; i < run.count && stand; ++i) {\n",
        "  for (unsigned i = 0; i < 1; ++i) {\n",
        "as before, of all packets but the first",
    ),
    _mutant(
        "single-packet-is-taken-though-it-was-taken-back",
        "worker_pull.cpp",
        "  if (read && stands) {\n",
        "  if (read) {\n",
        "as before, of packets that are not in turn",
    ),
    _mutant(
        "whoever-takes-back-is-read-no-more",
        "worker_pull.cpp",
        "    if (stand) port.pull_no_more();\n",
        "    port.pull_no_more();\n",
        "one request that fails makes all later ones slow",
    ),
    _mutant(
        "whoever-takes-a-single-packet-back-is-read-no-more",
        "worker_pull.cpp",
        "    if (stands) from.port->pull_no_more();\n",
        "    from.port->pull_no_more();\n",
        "as before, of packets that are not in turn",
    ),
    _mutant(
        "last-bytes-with-the-others",
        "worker_pull.cpp",
        "  entry.ends = plan.message.operation == wire::Operation::kNone;\n",
        "  entry.ends = false;\n",
        "an application that polls on the last byte reads what was there before",
    ),
    # ---- What is offered to a peer
    _mutant(
        "segments-and-runs-for-the-paper",
        "worker_rings.cpp",
        "  if (mode == wire::PairMode::kMpPaper || mode == wire::PairMode::kIrn) return {};\n",
        "  if (mode == wire::PairMode::kIrn) return {};\n",
        "mp-paper is not the paper's algorithm on shared memory",
    ),
    _mutant(
        "offer-stands-though-the-peer-is-the-papers",
        "worker_negotiation.cpp",
        "\n  update_offer(*qp);\n",
        "\n  apply_offers(*qp);\n",
        "the peer is told that segments are taken which are not, and so is who reads the datagram",
    ),
    _mutant(
        "time-without-a-processor-counts-as-a-wait",
        "worker_negotiation.cpp",
        "    const Time end = std::min(now_, waits_until(qp));\n",
        "    const Time end = now_;\n",
        "a program that was stopped gives up a peer that it has hardly asked",
    ),
    _mutant(
        "sends-what-the-peer-does-not-take",
        "worker_rings.cpp",
        "std::min(own.segment, peer.segment);",
        "own.segment;",
        "segments to a peer that takes packets of the path MTU",
    ),
    _mutant(
        "runs-to-who-takes-none",
        "worker_rings.cpp",
        "own.runs && peer.runs ?",
        "own.runs ?",
        "acknowledgements that the peer does not understand",
    ),
    # ---- Acknowledgements that wait for an answer
    _mutant(
        "owed-for-ever",
        "worker_transmit.cpp",
        "  if (now_ - qp.qp.owed_since() < ack_patience_) return true;\n",
        "  return true;\n",
        "a peer whose request is not answered waits for its own timer",
    ),
    _mutant(
        "nobody-is-called-for-the-debt",
        "qp_life.cpp",
        "    next = std::min(next, qp->qp.owed_since() + ack_patience_);\n",
        "",
        "as before, where the application stops polling",
    ),
    _mutant(
        "owed-though-nobody-will-answer",
        "worker_transmit.cpp",
        "  if (ack_patience_ == Duration::zero()) return false;\n",
        "  if (ack_patience_ == Duration::zero()) return true;\n",
        "an application that sleeps keeps its peer waiting",
    ),
    _mutant(
        "debts-end-with-the-state",
        "qp_life.cpp",
        "  now_ = now;\n  send_owed_acks(qp);\n",
        "  now_ = now;\n",
        "the peer of a queue pair that ends reports an error for what has arrived",
    ),
    _mutant(
        "debts-end-with-the-queue-pair",
        "qp_life.cpp",
        "  now_ = now;\n  send_owed_acks(*qp);\n",
        "  now_ = now;\n",
        "as before, of one that is destroyed",
    ),
]
