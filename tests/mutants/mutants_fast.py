"""Small breakages of the fast path, which unit tests must find: acknowledgements of runs and those
that wait, the common case in one piece, posts that send at once, direct rings; and of the paths and
controls that stand beside ours.

Fields: see mutants.py. Files of `_unit` are of transport/, those of `_worker` of dataplane/worker/,
those of `_daemon` of dataplane/daemon/, those of `_rings` of dataplane/client/.
"""

from mutants import maker

_unit = maker("fast-", "unit")
_worker = maker("fast-", "worker")
_daemon = maker("fast-", "daemon")
_rings = maker("rings-", "rings")
_cc = maker("fast-", "cc")


def _path(name, file, old, new, why):
    tests = ["../tests/unit/transport/path/path_select_test.cpp"]
    return _unit(name, file, old, new, why, rebuild=tests)


MUTANTS = [
    # ---- Runs, and acknowledgements that wait
    _unit(
        "run-says-one",
        "stream/stream_receiver.cpp",
        "  ext.run = owed_.run;\n",
        "  ext.run = 0;\n",
        "the packets of a run before its last are never acknowledged by themselves",
    ),
    _unit(
        "bare-run-says-one",
        "stream/stream_receiver.cpp",
        "owed_.last.value() | uint32_t{owed_.run} << 24;",
        "owed_.last.value();",
        "between two processes of a host a run acknowledges its last packet alone",
    ),
    _unit(
        "wait-is-not-told",
        "stream/stream_receiver.cpp",
        "  ext.delay_us = delay_of_owed(now);\n",
        "  ext.delay_us = 0;\n",
        "what the peer's application took counts as the network's round trip",
    ),
    _unit(
        "wait-is-not-told-in-a-bare-packet",
        "stream/stream_receiver.cpp",
        "msn_ | uint32_t{delay_of_owed(now)} << 24;",
        "msn_;",
        "between two processes of a host the wait counts as round trip",
    ),
    _unit(
        "run-is-its-last-packet",
        "stream/stream_sender.cpp",
        "  for (uint32_t left = ack.mp_ack.run + 1u; left-- > 0;) {\n",
        "  for (uint32_t left = 1; left-- > 0;) {\n",
        "the window grows by a packet for many",
    ),
    _unit(
        "every-packet-of-a-run-is-a-sample",
        "stream/stream_sender.cpp",
        "    samples_rtt_ = left == 0;\n",
        "    samples_rtt_ = true;\n",
        "the time of the last packet of a run is taken for that of its first",
    ),
    _unit(
        "wait-is-round-trip",
        "stream/stream_sender.cpp",
        "rtt_.on_echo(now, ext.echoed_timestamp, ext.delay_us);",
        "rtt_.on_echo(now, ext.echoed_timestamp, 0);",
        "timeouts follow what the peer's application took",
    ),
    # ---- The common case in one piece
    _unit(
        "run-ends-early",
        "stream/stream_sender_steady.cpp",
        "      left = std::min(left, 1U);\n",
        "      left = 0;\n",
        "the newest packet of a run stays outstanding",
    ),
    _unit(
        "steady-run-of-samples",
        "stream/stream_sender_steady.cpp",
        "    if (left == 0) sample.rtt = ",
        "    sample.rtt = ",
        "the common case measures what the general one does not",
    ),
    _unit(
        "paths-unheard-in-the-common-case",
        "stream/stream_sender_steady.cpp",
        "    if (recycled != nullptr) recycled->on_ack({.vp = sample.vp});\n",
        "",
        "copies go by paths of long ago",
    ),
    # ---- Paths
    _unit(
        "losses-without-a-path",
        "stream/stream_sender.cpp",
        "paths_.on_loss(cause == LossCause::kNack ? vp : path_of(psn));",
        "paths_.on_loss(vp);",
        "a stream leaves the path that it has just found for losses of the one before",
    ),
    _unit(
        "idle-streams-stay",
        "stream/stream_sender_credits.cpp",
        "paths_.draw(now, idle());",
        "paths_.draw(now);",
        "a closed loop waits four times as long on a congested path",
    ),
    _path(
        "reps-keeps-marked-paths",
        "path/path_reps.hpp",
        "    if (sample.vp == 0 || sample.ece) return;\n",
        "    if (sample.vp == 0) return;\n",
        "a path that is full is used again",
    ),
    _path(
        "reps-repeats-where-it-was-lost",
        "path/path_reps.hpp",
        "      if (vp != avoid) return vp;\n",
        "      return vp;\n",
        "copies follow the packet into a dead path",
    ),
    _path(
        "plb-leaves-at-any-rest",
        "path/path_plb.hpp",
        "    if (rounds_ >= kIdleRounds) rounds_ = kRounds;\n",
        "    if (rounds_ >= 1) rounds_ = kRounds;\n",
        "one congested round is enough to move",
    ),
    _cc(
        "swift-hears-marks-only",
        "swift_window.hpp",
        "    return rtt_ > Duration::zero() && rtt >= target();\n",
        "    return ack.ece;\n",
        "on switches that do not mark PLB never moves",
        rebuild=["../tests/unit/cc/swift_window_test.cpp"],
    ),
    # ---- The worker
    _worker(
        "ring-changes-under-way",
        "worker_rings.cpp",
        "  const bool must_stay = !waits && !gone && !stranded && qp.qp.busy();\n",
        "  const bool must_stay = false;\n",
        "packets overtake those that went by the daemon",
    ),
    _worker(
        "one-answer-is-a-habit",
        "qp_context.hpp",
        "unanswered_ && score_ >= kEnough;",
        "unanswered_ && score_ > 0;",
        "an acknowledgement waits for an answer that seldom comes",
        rebuild=["../../tests/unit/dataplane/worker/answer_habit_test.cpp"],
    ),
    _worker(
        "one-late-answer-ends-the-habit",
        "qp_context.hpp",
        "score_ > kPenalty ? score_ - kPenalty : 0);",
        "0);",
        "one slow answer of many costs each of the next a packet",
        rebuild=["../../tests/unit/dataplane/worker/answer_habit_test.cpp"],
    ),
    # ---- Posts that send at once
    _worker(
        "post-forgets-what-changed",
        "worker_transmit.cpp",
        "      if (taken) note_changes(*qp);\n",
        "",
        "a packet that a post sends has no timer",
    ),
    _worker(
        "post-takes-a-request-twice",
        "worker_transmit.cpp",
        "    if (done != transport::PlainSend::kNothing) ++sq.next;\n",
        "    if (done == transport::PlainSend::kSent) ++sq.next;\n",
        "one that the window lets not go yet is posted again",
    ),
    # ---- Direct rings: mprdmad
    _daemon(
        "rings-without-end",
        "server_rings.cpp",
        "  if (client.rings_left == 0) return EAGAIN;\n",
        "",
        "one process keeps mprdmad from its frames",
    ),
    _daemon(
        "ring-to-oneself",
        "server_rings.cpp",
        "  if (&client == &peer) return EINVAL;\n",
        "",
        "a process gets both ends of a ring",
    ),
    _daemon(
        "second-ring-for-requests-that-cross",
        "server_rings.cpp",
        "known->second != request.last_ring) return;",
        "false) return;",
        "the ring of one end replaces that of the other, again and again",
    ),
    # ---- Direct rings: the process
    _rings(
        "number-without-bound",
        "direct_rings.cpp",
        "  if (refuses_ || offer.block >= kBlocks || rings_.size() >= kRingsMax) {\n",
        "  if (refuses_ || offer.block >= kBlocks) {\n",
        "a process of many peers has no memory left",
    ),
    _rings(
        "child-keeps-all",
        "direct_rings.cpp",
        "  for (const auto& ring : rings_) ring->local->close_after_fork();\n",
        "",
        "the peer never learns that the process is gone while a child of it lives",
    ),
    _rings(
        "one-that-is-named-is-unused",
        "direct_rings.cpp",
        "  if (ring.users > 0 || frames != ring.frames_seen)",
        "  if (frames != ring.frames_seen)",
        "the ring of a queue pair that rests is closed under it",
    ),
    _rings(
        "asks-again-and-again",
        "direct_rings.cpp",
        "  if (peer.ring != nullptr || now - peer.asked_at < kRetryAfter) return false;\n",
        "  if (peer.ring != nullptr) return false;\n",
        "each packet asks mprdmad for a ring",
    ),
    _rings(
        "armed-though-a-frame-waits",
        "direct_rings.cpp",
        "    disarm();\n    return false;\n",
        "    continue;\n",
        "a frame waits until the next one comes",
    ),
    _rings(
        "frames-of-a-closed-ring-are-unmapped",
        "direct_rings.cpp",
        "ring.closed && ring.users == 0 && ring.local->frames_borrowed() == 0;",
        "ring.closed && ring.users == 0;",
        "a payload that is being read goes away",
    ),
]
