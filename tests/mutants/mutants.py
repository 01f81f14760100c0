"""Small breakages of the sender of a stream, each of which the swarm, or the unit tests, must
find; and the fields of all mutants.

name    of the breakage
file    in transport/
old     exact text, found exactly once
new     what it becomes
why     what would go wrong in a data centre
rebuild files to compile again, where `file` is a header (default: `file`); tests that are among
        them are the only ones that have to find it
killer  the tests that must find it: "swarm", or those of a library (run.py has the list)
"""

from collections import namedtuple

Mutant = namedtuple("Mutant", "name file old new why rebuild killer")

# Who compiles the stream's receiver in.
RECEIVER = (
    "mp/requester.cpp",
    "mp/requester_responses.cpp",
    "mp/responder.cpp",
    "mp/responder_plain.cpp",
)

# Who compiles the stream's sender in; but for send_steady(), which is in mp/requester*.cpp.
SENDER = (
    "stream/stream_sender.cpp",
    "stream/stream_sender_credits.cpp",
    "stream/stream_sender_hardware.cpp",
    "stream/stream_sender_map.cpp",
    "stream/stream_sender_offload.cpp",
    "stream/stream_sender_steady.cpp",
    "stream/stream_sender_sync.cpp",
    "stream/stream_sender_timers.cpp",
    "stream/stream_sender_undo.cpp",
)


def mutant(name, file, old, new, why, rebuild=(), killer="swarm"):
    return Mutant(name, file, old, new, why, tuple(rebuild) or (file,), killer)


def maker(prefix, killer):
    """Returns what makes the mutants of one list: names begin with `prefix`, tests are `killer`."""

    def make(name, *fields, **others):
        return mutant(prefix + name, *fields, **others, killer=killer)

    return make


MUTANTS = [
    # ---- The sender
    mutant(
        "psn-compared-as-integer-by-sender",
        "stream/stream_sender.cpp",
        "  if (ack.psn.after(nxt()) || (",
        "  if (ack.psn.value() > nxt().value() || (",
        "off at the wrap: good acknowledgements are ghosts",
    ),
    mutant(
        "ghost-ack-accepted",
        "stream/stream_sender.cpp",
        "  if (ack.psn.after(nxt()) || (",
        "  if ((",
        "work completes that was never sent",
    ),
    mutant(
        "stale-ack-moves-back",
        "stream/stream_sender.cpp",
        "  const bool advanced = una().before(ack.psn);\n",
        "  const bool advanced = una() != ack.psn;\n",
        "snd_una goes back",
    ),
    mutant(
        "sack-map-not-cleared",
        "stream/scoreboard.hpp",
        "{&sacked_, &told_, &lost_, ",
        "{&told_, &lost_, ",
        "256 PSNs later a lost packet counts as received",
        SENDER,
    ),
    mutant(
        "lost-count-leaks",
        "stream/scoreboard.hpp",
        "      lost_count_ -= lost_.test(pos) ? 1 : 0;\n",
        "",
        "in flight goes wrong: the window is no limit any more",
        SENDER,
    ),
    mutant(
        "sacked-count-leaks",
        "stream/scoreboard.hpp",
        "      sacked_count_ -= sacked_.test(pos) ? 1 : 0;\n",
        "",
        "in flight goes wrong by every packet that came early",
        SENDER,
    ),
    mutant(
        "nack-names-one-psn-only",
        "stream/stream_sender.cpp",
        "  const bool names_drop = (ext.flags & wire::kMpAckSackValid) != 0 && "
        "board_.outstanding(ext.sack);\n",
        "  const bool names_drop = false;\n",
        "what the window dropped waits for a timeout",
    ),
    mutant(
        "timeout-not-armed-again",
        "stream/stream_sender_timers.cpp",
        "  if (paused()) return paused_until_;\n",
        "  if (paused()) return paused_until_;\n  if (rto_.backoff() > 0) return Time::never();\n",
        "the second loss of one packet is for ever",
    ),
    mutant(
        "nack-spares-the-hole",
        "stream/loss_detector.hpp",
        "        report.lose(una, LossCause::kNack);\n",
        "",
        "a hole before a full window waits for a timeout that each NACK restarts",
        SENDER,
    ),
    mutant(
        "late-by-the-latest-round-trip",
        "stream/rtt_estimator.hpp",
        "    if (sample_ns > largest_ns_) largest_ns_ = sample_ns;\n",
        "    largest_ns_ = sample_ns;\n",
        "every packet of a longer path is lost, as RFC 8985 has it",
        SENDER,
        killer="unit",
    ),
    mutant(
        "late-though-nothing-later-came",
        "stream/recovery_mp.hpp",
        "      if (passed && is_late(",
        "      if (is_late(",
        "copies on a clean path",
        SENDER,
        killer="unit",
    ),
    mutant(
        "what-the-window-dropped-goes-at-once",
        "stream/recovery_mp.hpp",
        "    return copy_is_coming(board.una()) ? psn : std::nullopt;\n",
        "    return psn;\n",
        "it is dropped again, and takes the room of what would not be",
        SENDER,
        killer="unit",
    ),
    mutant(
        "one-round-of-probes",
        "stream/stream_sender.hpp",
        "kProbeRounds = 12;",
        "kProbeRounds = 1;",
        "a closed loop on a dead path waits for the timeout",
        SENDER,
        killer="unit",
    ),
    mutant(
        "copies-where-they-were-lost",
        "stream/stream_sender_credits.cpp",
        "  if (granted && *granted != lost_on) return *granted;\n",
        "  if (granted) return *granted;\n",
        "a window of one packet tries the dead path for ever",
        SENDER,
        killer="unit",
    ),
    mutant(
        "paths-are-not-recycled",
        "stream/stream_sender_credits.cpp",
        "  if (ack.vp != 0) paths_.on_spare(ack, srtt());\n",
        "",
        "each message draws its paths anew, a dead one among them",
        SENDER,
        killer="unit",
    ),
    # ---- ACK clocking, path selection
    mutant(
        "credit-on-another-path",
        "stream/gate_ack_clock.hpp",
        "    vps_[(head_ + stored_++) % kStoredMax] = vp;\n",
        "    vps_[(head_ + stored_++) % kStoredMax] = vp ^ 1;\n",
        "packets leave on paths that nobody acknowledged",
        SENDER,
    ),
    mutant(
        "any-port-is-a-path",
        "path/echoed_path.hpp",
        "  return vp >= wire::kVirtualPathMin ? vp : uint16_t{0};\n",
        "  return vp;\n",
        "a forged acknowledgement makes us send from the ports of others",
        SENDER,
    ),
    mutant(
        "no-burst-control",
        "stream/loss_detector.hpp",
        "uint32_t burst() const { return kBurstPackets; }",
        "uint32_t burst() const { return 1000; }",
        "after a cumulative acknowledgement one path gets a burst",
        SENDER,
    ),
    mutant(
        "credits-beyond-the-window",
        "stream/gate_ack_clock.hpp",
        "    if (used > window && !f.exceeds_window()) drop(std::min(used - window, credits()));\n",
        "    (void)used;\n    (void)window;\n",
        "a window that shrank is no limit",
        SENDER,
    ),
    mutant(
        "no-credit-when-nothing-is-in-flight",
        "stream/gate_ack_clock.hpp",
        "    pathless_ += std::max(room(f), credits() == 0 ? 1u : 0u);\n",
        "",
        "no acknowledgement will come, and nothing is ever sent again",
        SENDER,
    ),
    mutant(
        "timeout-keeps-its-credits",
        "stream/gate_ack_clock.hpp",
        "    clear();\n    pathless_ = f.window();\n",
        "    pathless_ += f.window();\n",
        "two windows leave after a timeout, on the paths that failed",
        SENDER,
    ),
    mutant(
        "burst-timer-releases-nothing",
        "stream/gate_ack_clock.hpp",
        "    burst_base_ = now;\n    refill(f);\n",
        "    burst_base_ = now;\n",
        "what burst control held back waits for a timeout",
        SENDER,
        killer="unit",
    ),
    mutant(
        "slow-path-clocked",
        "stream/stream_sender_credits.cpp",
        "work && !ack.slow ? recovery_.burst() : 0",
        "work ? recovery_.burst() : 0",
        "a slow path is used for ever: packets wait for it in the receiver's window",
        killer="unit",
    ),
    mutant(
        "slow-path-costs-nothing",
        "stream/stream_sender.cpp",
        "    window_.on_slow_path(sample);\n",
        "",
        "the slow path's share goes to the others, which are full",
        killer="unit",
    ),
    mutant(
        "retransmission-judged-by-its-psn",
        "stream/stream_sender.cpp",
        "  if (gate_.clocked() && (ext.flags & wire::kMpAckReTx) == 0) {\n",
        "  if (gate_.clocked()) {\n",
        "every loss makes good paths look slow",
        killer="unit",
    ),
    mutant(
        "furthest-sack-left-behind",
        "stream/scoreboard.hpp",
        "    sack_end_ = psn_max(sack_end_, una_);\n",
        "",
        "a stale serial number inverts comparisons",
        SENDER,
        killer="unit",
    ),
    mutant(
        "never-probes-a-new-path",
        "stream/stream_sender_credits.cpp",
        "round_.explore = paths_.chance(explore_per_mille(alone));",
        "round_.explore = false;",
        "a path that is restored is never used again",
        killer="unit",
    ),
    mutant(
        "explores-by-rounds-alone",
        "stream/stream_sender_credits.cpp",
        "  const uint32_t per_mille = std::max(by_rounds, static_cast<uint32_t>(by_time));\n",
        "  const uint32_t per_mille = by_rounds;\n",
        "where round trips are long, a path that is restored is found after seconds",
        killer="unit",
    ),
    mutant(
        "only-packets-explore-as-others",
        "stream/stream_sender_credits.cpp",
        "  if (!params_.tail_probe || !alone) return per_mille;\n",
        "  if (per_mille > 0) return per_mille;\n",
        "a short loop beside dead paths waits for tail probes: .94 of its speed",
        killer="unit",
    ),
    mutant(
        "all-packets-explore-rarely",
        "stream/stream_sender_credits.cpp",
        "  if (!params_.tail_probe || !alone) return per_mille;\n",
        "  if (!params_.tail_probe) return per_mille;\n",
        "a path that is repaired is found late where packets show each other's losses",
        killer="unit",
    ),
    mutant(
        "an-only-packet-never-explores",
        "stream/stream_sender_credits.cpp",
        "  return std::clamp(static_cast<uint32_t>(rare), 1U, per_mille);\n",
        "  return std::min(static_cast<uint32_t>(rare), per_mille);\n",
        "where a round trip is short beside the probe floor, a lone loop never finds a path again",
        killer="unit",
    ),
    mutant(
        "first-rounds-of-probes-back-off-at-once",
        "stream/stream_sender_timers.cpp",
        "  constexpr uint32_t kSame = 4;",
        "  const uint32_t kSame = rtt_.measured() ? 4 : 1;",
        "beside two dead paths of four a connection takes milliseconds to begin",
        killer="unit",
    ),
    mutant(
        "no-late-acks",
        "stream/stream_sender_credits.cpp",
        "    late_.expect(psn, judge_lag(psn, end));\n",
        "",
        "the first acknowledgement takes the credits of the paths whose own are still under way",
        killer="unit",
    ),
    mutant(
        "late-acks-judge-no-path",
        "stream/stream_sender.cpp",
        "    if (late) lag = *late;\n",
        "",
        "a slow path whose packets are covered before their own acknowledgement keeps its credits",
        killer="unit",
    ),
    mutant(
        "a-lagging-path-grows",
        "stream/stream_sender_credits.cpp",
        "params_.own_ack_credit && lag > delta * 3 / 4",
        "false",
        "a slow path fills until its packets are further behind than delta",
        killer="unit",
    ),
    mutant(
        "late-acks-of-anything",
        "stream/late_acks.hpp",
        "      return lag;\n    }\n    return std::nullopt;\n",
        "      return lag;\n    }\n    return Lag::kSmall;\n",
        "a stranger's acknowledgement of any old packet gives a round-trip time",
        SENDER,
        killer="unit",
    ),
    mutant(
        "silence-keeps-room",
        "stream/stream_sender_timers.cpp",
        "    late_.forget(una());\n",
        "",
        "the burst timer runs and runs, and nothing leaves",
        killer="unit",
    ),
    mutant(
        "lost-packets-keep-room",
        "stream/stream_sender_credits.cpp",
        " || board_.lost(psn)",
        "",
        "after a timeout the copies wait for acknowledgements that nobody sends",
        killer="unit",
    ),
    mutant(
        "late-acks-are-never-lost",
        "stream/late_acks.hpp",
        "    drop_before(round_una_);\n",
        "",
        "each acknowledgement that is lost takes a packet from the window for ever",
        SENDER,
        killer="unit",
    ),
    mutant(
        "room-of-lost-packets-stays-on-the-path",
        "stream/gate_ack_clock.hpp",
        "    if (orphans_ > 0 && granted > 1) {\n",
        "    if (false) {\n",
        "the credits of a dead path all go to the one whose acknowledgement came next",
        SENDER,
        killer="unit",
    ),
    mutant(
        "copies-take-any-path",
        "stream/gate_ack_clock.hpp",
        "if (pathless_ > 0 && (stored_ == 0 || !on_path)) {",
        "if (pathless_ > 0) {",
        "what a dead path lost is sent on it again",
        SENDER,
        killer="unit",
    ),
    mutant(
        "window-never-reduced",
        "stream/stream_sender_credits.cpp",
        "    window_.on_unused_ack();\n",
        "",
        "old acknowledgements open a window for paths that are full by now",
        killer="unit",
    ),
    mutant(
        "window-not-given-back",
        "stream/stream_sender_credits.cpp",
        "  if (params_.window_give_back) window_.give_back();\n",
        "",
        "every message but the first starts with one packet",
        killer="unit",
    ),
    mutant(
        "never-restarts",
        "stream/stream_sender_credits.cpp",
        "    window_.recover();\n",
        "",
        "after a pause the window is still that of an old congestion",
        killer="unit",
    ),
    mutant(
        "congestion-is-forgotten-at-once",
        "stream/stream_sender_credits.cpp",
        "now - last_congestion_ > srtt() * kForgetCongestionRtts &&",
        "true &&",
        "64 closed loops fill the buffer of their receiver's port",
        killer="unit",
    ),
    mutant(
        "grows-while-the-wire-is-busy",
        "stream/stream_sender_credits.cpp",
        "  const bool wire = clocked ? use_.wire_waits : use_.wire_limited;\n",
        "  const bool wire = !clocked && use_.wire_limited;\n",
        "a window of several times what the network holds, and no answer to loss",
        killer="unit",
    ),
    # ---- What a path policy hears
    mutant(
        "path-policy-hears-no-loss",
        "stream/stream_sender.cpp",
        "    paths_.on_loss(cause == LossCause::kNack ? vp : path_of(psn));\n",
        "",
        "a policy stays on a path that loses everything",
        killer="unit",
    ),
    mutant(
        "path-policy-hears-no-round",
        "stream/stream_sender_credits.cpp",
        "  paths_.on_round();\n",
        "",
        "a policy stays on a path that is full",
        killer="unit",
    ),
    # ---- Timeouts that are undone
    mutant(
        "timeout-undone-by-any-copy",
        "stream/stream_sender_undo.cpp",
        "  if ((ext.flags & wire::kMpAckReTx) == 0) undo_timeout(now);\n",
        "  undo_timeout(now);\n",
        "congestion that ends in a timeout costs no window",
        killer="unit",
    ),
    mutant(
        "timeout-undone-by-what-was-known",
        "stream/stream_sender_undo.cpp",
        "  const bool known = board_.sacked(ext.sack) && !board_.given_up(ext.sack);\n",
        "  const bool known = false;\n",
        "a network that makes copies gives the window back",
        killer="unit",
    ),
    mutant(
        "timeout-undone-by-new-data",
        "stream/stream_sender.cpp",
        "  if (!undo_.open()) undo_.begin(",
        "  if (recovery_.exact()) undo_.begin(",
        "a window that a real timeout took comes back",
        killer="unit",
    ),
    mutant(
        "undone-timeout-sends-all-again",
        "stream/stream_sender_undo.cpp",
        "    if (undo_.lost_by_timeout(psn)) board_.found(psn);\n",
        "",
        "a host that was stopped sends a whole window twice",
        killer="unit",
    ),
]
