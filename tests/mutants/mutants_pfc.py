"""Small breakages of priority flow control on the dataplane (`mprdma fabric`, the engine's worker,
the frame itself) and of the simulator's sessions of RPCs, each of which
unit tests must find.

Fields: see mutants.py. Files of `_fabric` are of switchsim/fabric/, those of `_worker` of
dataplane/worker/, those of `_wire` of wire/, those of `_rpc`
of switchsim/sim/.
"""

from mutants import maker

_fabric = maker("fabric-", "fabric")
_worker = maker("pause-", "worker")
_wire_mutant = maker("pause-", "wire")
_rpc_mutant = maker("rpc-", "sim")


def _wire(name, old, new, why):
    tests = ["../tests/unit/wire/pause_frame_test.cpp"]
    return _wire_mutant(name, "pause_frame.hpp", old, new, why, rebuild=tests)


def _rpc(name, old, new, why):
    tests = ["../../tests/unit/switchsim/sim/hosts/rpc_session_test.cpp"]
    return _rpc_mutant(name, "hosts/rpc_session.hpp", old, new, why, rebuild=tests)


MUTANTS = [
    # ---- The fabric pauses a host
    _fabric(
        "tells-a-host-once",
        "fabric_pfc.cpp",
        "    } else if (!paused || !host.told || now >= host.tell_at) {",
        "    } else if (!paused || !host.told) {",
        "a pause ends while the switch is still full",
    ),
    _fabric(
        "never-takes-a-pause-back",
        "fabric_pfc.cpp",
        "    if (!paused && !host.told) continue;",
        "    if (!paused) continue;",
        "a host waits for the end of its quanta, though there is room",
    ),
    _fabric(
        "tells-of-room-again-and-again",
        "fabric_pfc.cpp",
        "  host.told = paused;",
        "  host.told = true;",
        "frames that say nothing, for ever",
    ),
    # ---- A host pauses the fabric
    _fabric(
        "first-priority-stands-for-all",
        "fabric_pfc.cpp",
        "*std::max_element(host.paused_until.begin(), host.paused_until.end());",
        "host.paused_until[0];",
        "the pause of another priority is not heard",
    ),
    _fabric(
        "pauses-priorities-that-are-not-named",
        "fabric_pfc.cpp",
        " == 0 || !pause.concerns(priority)) continue;",
        " == 0) continue;",
        "the end of one priority's pause ends another's",
    ),
    _fabric(
        "pause-is-never-shortened",
        "fabric_pfc.cpp",
        "    host.paused_until[p] = now + wire::pause_time(pause.quanta[p], rate);",
        "    host.paused_until[p] =\n"
        "        std::max(host.paused_until[p], now + wire::pause_time(pause.quanta[p], rate));",
        "a host that has room again waits for the rest of its pause",
    ),
    _fabric(
        "dead-program-pauses-on",
        "fabric_pfc.cpp",
        "      host.paused_until.fill(host.pauses_until = Time());\n",
        "",
        "the next program of the host begins behind the pause of the last",
    ),
    _fabric(
        "full-host-is-no-paused-one",
        "fabric_pfc.cpp",
        "network_->set_host_pausing(i, host.pauses || host.full);",
        "network_->set_host_pausing(i, host.pauses);",
        "what a slow program has no room for is lost",
    ),
    _fabric(
        "each-turn-is-a-trip",
        "fabric_pfc.cpp",
        "    if (given_up && !host.given_up) ++",
        "    if (given_up) ++",
        "the watchdog counts turns and not storms",
    ),
    _fabric(
        "obeys-for-every-priority",
        "fabric_pfc.cpp",
        "!pause.concerns(config_.lossless_priorities) ||",
        "!pause.concerns(0xff) ||",
        "a pause of traffic that may be lost stops the lossless one",
    ),
    _fabric(
        "pause-waits-behind-data",
        "fabric_pfc.cpp",
        "    if (take_pause(index, frames[i], now)) {",
        "    if (!host.blocked && take_pause(index, frames[i], now)) {",
        "the pause that would make room waits behind what has none",
    ),
    _fabric(
        "blocked-host-keeps-the-loop-awake",
        "fabric_pfc.cpp",
        "  return has_pfc() && !host.blocked && host.backlog.count > 0;",
        "  return has_pfc() && host.backlog.count > 0;",
        "the fabric uses a core while it waits",
    ),
    _fabric(
        "given-up-host-keeps-its-frames",
        "fabric.cpp",
        "    if (up && frames_[packet].lossless && host->keeps_lossless()) {",
        "    if (up && frames_[packet].lossless) {",
        "the frames of a host that stands still fill the switch",
    ),
    _fabric(
        "no-share-of-the-buffers",
        "fabric.cpp",
        "  if (hosts_[index].frames_in_use + kBurst > share_) return true;\n",
        "",
        "one host that stands still stops all pairs",
    ),
    _fabric(
        "nic-watchdog-bites-no-frames",
        "fabric_pfc.cpp",
        "!pause.concerns(config_.lossless_priorities) || host.may_not_pause",
        "!pause.concerns(config_.lossless_priorities)",
        "a broken card goes on to pause, by frames, though its watchdog has ended that",
    ),
    _fabric(
        "nic-watchdog-bites-for-ever",
        "fabric_pfc.cpp",
        "      host.may_not_pause = false;\n",
        "",
        "the next program of the host has a broken card, too",
    ),
    _fabric(
        "full-host-waits-for-a-dead-nic",
        "fabric.cpp",
        "const bool waits = up && host.keeps_lossless();",
        "const bool waits = up && !host.given_up;",
        "a host that stands still stops the network, though its NIC may not pause",
    ),
    _fabric(
        "paused-priority-blocks-its-host",
        "fabric.cpp",
        "  if (only_lossless) waiting -= network_->lossless_bytes(own);\n",
        "",
        "what may be lost waits behind what is paused",
    ),
    _fabric(
        "global-pause-of-one-priority",
        "fabric.cpp",
        "!config_.topology.pfc.global && network_",
        "network_",
        "a pause of the link makes the fabric take what it cannot send",
    ),
    # ---- The engine is paused
    _worker(
        "end-after-the-begin",
        "worker_pause.cpp",
        "  end_pauses(ended, now);\n",
        "",
        "quanta of zero do not end a pause",
    ),
    _worker(
        "of-another-priority",
        "worker_pause.cpp",
        "!config_.pfc || !pause.concerns(ours)",
        "!config_.pfc",
        "traffic of another class stops ours",
    ),
    _worker(
        "nobody-asked-for",
        "worker_pause.cpp",
        "!config_.pfc || !pause.concerns(ours)",
        "!pause.concerns(ours)",
        "any neighbour stops a host that was not to obey",
    ),
    _worker(
        "for-ever",
        "worker_pause.cpp",
        "      over |= bit(p);\n",
        "",
        "one pause stops a host for good",
    ),
    _worker(
        "of-one-quantum",
        "worker_pause.cpp",
        "wire::pause_time(pause.quanta[p], rate)",
        "wire::pause_time(1, rate)",
        "a pause ends before there is room",
    ),
    _worker(
        "one-for-all",
        "worker_pause.cpp",
        "return (paused_ & bit(priority)) != 0",
        "return paused_ != 0",
        "a pause of one priority stops all",
    ),
    _worker(
        "the-first-end-is-of-all",
        "worker_pause.cpp",
        "  if (!next.is_never()) cq_wheel_.schedule(pause_timer_, next);\n",
        "",
        "of several pauses one has an end",
    ),
    _worker(
        "stops-the-burst",
        "worker_transmit.cpp",
        "    } else if (waits_for_pause(qp)) {\n",
        "    } else if (false) {\n",
        "paused queue pairs take the turns of the others",
    ),
    _worker(
        "is-parked-for-ever",
        "worker_pause.cpp",
        "  paused_to_look_ = paused_qps_.size();\n",
        "",
        "who has met a pause sends nothing more",
    ),
    _worker(
        "datagrams-go-on",
        "worker_datagrams.cpp",
        "    if (paused_ != 0 && waits_for_pause(qp)) return Turn::kRefused;\n",
        "",
        "a pause stops connections only",
    ),
    _worker(
        "a-lone-post-goes-on",
        "worker_transmit.cpp",
        "scheduler_.empty() && paused_ == 0 &&",
        "scheduler_.empty() &&",
        "a post by the short way leaves in a pause",
    ),
    _worker(
        "of-a-connection-to-ourselves",
        "worker_pause.cpp",
        "qp.ring == nullptr && !qp.loop && pause_stops(qp.outer)",
        "qp.ring == nullptr && paused_ != 0",
        "what stays in the host waits for the link",
    ),
    _worker(
        "nobody-is-woken-when-the-link-changes",
        "qp_life.cpp",
        "  if (paused_to_look_ > 0) cq_wheel_.schedule(pause_timer_, now);\n",
        "",
        "an application that sleeps does so until the next frame comes",
    ),
    _worker(
        "nobody-looks-at-the-paused",
        "qp_life.cpp",
        "      look_at_paused(qp);\n",
        "      (void)qp;\n",
        "datagrams wait behind one whose address has gone",
    ),
    # ---- The frame
    _wire(
        "frame-that-is-cut-off",
        "    if (frame.size() < kTimesAt + 2 * kPriorities) return PauseDrop::kTruncated;\n",
        "",
        "times are read from behind a frame",
    ),
    _wire(
        "times-of-priorities-that-are-not-named",
        "      if (out.concerns(static_cast<uint8_t>(1U << p))) {",
        "      if (p < kPriorities) {",
        "what the standard says to ignore",
    ),
    _wire(
        "addressed-to-somebody",
        "    if (to != kGroup) return PauseDrop::kWrongDestination;\n",
        "",
        "a frame that a switch passed on stops hosts far away",
    ),
    _wire(
        "time-rounded-down",
        "(bits * 1'000'000'000 + bits_per_second - 1)",
        "(bits * 1'000'000'000)",
        "a host goes on before the quanta are over",
    ),
    # ---- Sessions of RPCs
    _rpc(
        "a-credit-too-many",
        "in_flight() < credits_;",
        "in_flight() <= credits_;",
        "the receive queue has room for as many requests as there are credits",
    ),
    _rpc(
        "timeout-of-an-idle-session",
        "    if (in_flight() == 0) progress_ = now;\n",
        "",
        "the first request after a rest is sent twice",
    ),
    _rpc(
        "late-response-goes-back",
        "    next_ = std::max(next_, first_);\n",
        "",
        "a request that was answered is sent again",
    ),
    _rpc(
        "response-to-nothing",
        " || first_ == sent_to_)",
        ")",
        "a stray datagram completes a request that was never sent",
    ),
    _rpc(
        "timeout-a-moment-later",
        "    if (now < deadline()) return;\n",
        "    if (now <= deadline()) return;\n",
        "a timer that rings at its deadline finds nothing to do, for ever",
    ),
    _rpc(
        "timeout-repeats-nothing",
        "    next_ = first_;\n",
        "",
        "a lost request is lost",
    ),
    _rpc(
        "server-takes-what-is-ahead",
        "    if (ahead > 0) return RpcVerdict::kAhead;\n",
        "",
        "requests are executed out of order",
    ),
    _rpc_mutant(
        "header-is-payload",
        "hosts/host_set_rpc.cpp",
        "completion.byte_len - transport::kGrhBytes;",
        "completion.byte_len;",
        "each request counts forty bytes too many",
    ),
    _rpc_mutant(
        "copies-are-executed",
        "hosts/host_set_rpc.cpp",
        "  if (verdict == RpcVerdict::kTaken) {\n",
        "  {\n",
        "a request that was sent twice is executed twice",
    ),
]
