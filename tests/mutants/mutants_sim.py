"""Small breakages of the simulator and of its network model, which their unit tests must find:
queues, marks, pauses, paths, the order of events, what a scenario may ask for, what is measured.

Fields: see mutants.py. Files of `_model` and `_header` are of switchsim/model/, those of `_sim` of
switchsim/sim/, those of `_base` of base/. Network is a template in headers, so that what is
compiled again is the test; so it is with the other headers.
"""

from mutants import maker

_model = maker("sim-", "model")
_sim = maker("sim-", "sim")
_base_mutant = maker("sim-", "base")


def _header(name, file, test, old, new, why):
    tests = [f"../../tests/unit/switchsim/model/{test}"]
    return _model(name, file, old, new, why, rebuild=tests)


def _base(name, file, test, old, new, why):
    return _base_mutant(name, file, old, new, why, rebuild=[f"../tests/unit/base/{test}"])


MUTANTS = [
    # ---- Queues and marks
    _header(
        "queue-longer-than-its-limit",
        "network_inl.hpp",
        "network_queue_test.cpp",
        "  if (port.queue.bytes + packet.wire_bytes > port.queue_bytes_max) {\n",
        "  if (port.queue.bytes >= port.queue_bytes_max) {\n",
        "a queue holds a packet more than a switch of that size would",
    ),
    _header(
        "buffer-one-byte-smaller",
        "shared_buffer.hpp",
        "network_queue_test.cpp",
        "return bytes_ + bytes <= rules_.bytes_max;",
        "return bytes_ + bytes < rules_.bytes_max;",
        "a packet that fits exactly is dropped",
    ),
    _header(
        "marks-by-a-queue-with-the-packet",
        "network_inl.hpp",
        "network_queue_test.cpp",
        "    mark(id, packets_[packet_id], queue.bytes);\n",
        "    mark(id, packets_[packet_id], queue.bytes + packets_[packet_id].wire_bytes);\n",
        "every threshold is a packet lower than a scenario says",
    ),
    _header(
        "marks-who-knows-no-marks",
        "network_inl.hpp",
        "network_queue_test.cpp",
        "  if (!packet.ect) return;\n",
        "",
        "counts of marks include packets that no sender is slowed by",
    ),
    _header(
        "marks-all-at-kmax",
        "output_port.hpp",
        "network_queue_test.cpp",
        "if (queue_bytes > red.kmax_bytes) return true;",
        "if (queue_bytes >= red.kmax_bytes) return true;",
        "a step marks a packet earlier than the curve of the paper",
    ),
    _header(
        "curve-begins-at-zero",
        "output_port.hpp",
        "network_queue_test.cpp",
        "draws.chance((queue_bytes - red.kmin_bytes) * red.pmax_ppm,",
        "draws.chance(queue_bytes * red.pmax_ppm,",
        "queues are shorter than those of any switch with this configuration",
    ),
    # ---- Time on the wire
    _header(
        "cut-through",
        "network_inl.hpp",
        "network_timing_test.cpp",
        "  SimTime arrival = port.busy_until + port.delay;\n",
        "  SimTime arrival = now_ + port.delay;\n",
        "every round trip is too short, the more so with large packets",
    ),
    _header(
        "rates-of-no-whole-number-are-faster",
        "sim_time.hpp",
        "network_change_test.cpp",
        "return kPicosecondsBits % bps_ == 0 && ps",
        "return ps",
        "links of 7, 15 or 30 Gb/s carry more than they can",
    ),
    _header(
        "overtakes-after-a-shorter-delay",
        "network_changes_inl.hpp",
        "network_change_test.cpp",
        "      std::max(extras.arrival_floor, ports_[port].busy_until + ports_[port].delay);\n",
        "      extras.arrival_floor;\n",
        "a change of the delay looks like reordering of the network",
    ),
    _header(
        "cut-link-loses-what-others-carry",
        "network_changes_inl.hpp",
        "network_change_test.cpp",
        "if (!wheel_.pending(event) || packets_[packet_id].next != id) continue;",
        "if (!wheel_.pending(event)) continue;",
        "one dead link empties the network",
    ),
    # ---- Pauses and shared memory
    _header(
        "signal-takes-the-way-there",
        "network_pfc_inl.hpp",
        "network_pause_test.cpp",
        "  pause.signals.push(now_ + ports_[id ^ 1].delay);\n",
        "  pause.signals.push(now_ + ports_[id].delay);\n",
        "where the two ways differ, pauses come too early or too late for the headroom",
    ),
    _header(
        "eighth-signal-is-forgotten",
        "pause.hpp",
        "network_pause_test.cpp",
        "    if (count_ == kMax) {\n      --count_;\n",
        "    if (count_ == kMax) {\n",
        "on a long link a port is paused for ever",
    ),
    _header(
        "empty-ingress-pauses",
        "network_pfc_inl.hpp",
        "network_pause_test.cpp",
        "  if (!ingress.pausing && ingress.ingress.total() > 0) set",
        "  if (!ingress.pausing) set",
        "a switch without room deadlocks",
    ),
    _header(
        "pause-ends-without-hysteresis",
        "network_pfc_inl.hpp",
        "network_pause_test.cpp",
        "ingress.ingress.bytes + pfc.hysteresis_bytes <= limit;",
        "ingress.ingress.bytes <= limit;",
        "a run has many times the pauses of a real switch",
    ),
    _header(
        "classes-share-packet-by-packet",
        "network_pfc_inl.hpp",
        "network_pause_test.cpp",
        "    if (both) pause.lead_bytes += turn ? bytes : -bytes;\n",
        "    if (both) pause.lead_bytes += turn ? 1 : -1;\n",
        "small packets of the other class get a fraction of their share",
    ),
    _model(
        "headroom-of-one-packet",
        "buffer_layout.cpp",
        "uint64_t{2} * pfc.mtu_bytes;",
        "pfc.mtu_bytes;",
        "a lossless network loses packets",
    ),
    _model(
        "headroom-out-of-what-all-share",
        "buffer_layout.cpp",
        "topology.reserve_bytes + headroom_bytes(topology, port);",
        "topology.reserve_bytes;",
        "a full buffer has no room left for what a pause is too late for",
    ),
    _header(
        "threshold-that-does-not-fall",
        "shared_buffer.hpp",
        "shared_buffer_test.cpp",
        "(((rules_.shared_max - shared) * rules_.alpha_q16) >> 16)",
        "((rules_.shared_max * rules_.alpha_q16) >> 16)",
        "one incast takes the memory of all other ports",
    ),
    # ---- Paths
    _header(
        "switches-choose-alike",
        "ecmp.hpp",
        "ecmp_test.cpp",
        "mix64(flow ^ switch_seed)",
        "mix64(flow)",
        "flows that meet at one switch meet at all: half of the paths are idle",
    ),
    _header(
        "source-port-not-hashed",
        "ecmp.hpp",
        "ecmp_test.cpp",
        "uint64_t{tuple.source_port} | uint64_t",
        "uint64_t",
        "all virtual paths of a flow are one",
    ),
    _model(
        "dead-link-is-chosen",
        "routes.cpp",
        "      if (!r_.usable_[neighbour.port / 2]) continue;\n",
        "",
        "routes converge, and packets go into the dead link all the same",
    ),
    # ---- Events
    _model(
        "far-event-only-sinks",
        "event_wheel.cpp",
        "if (position > 0 && last < far_[(position - 1) / kArity]) {",
        "if (false) {",
        "once in many cancelled timers, events come in a wrong order",
    ),
    _model(
        "insertion-behind-its-instant",
        "event_wheel.cpp",
        "std::upper_bound(begin, end, added);",
        "std::lower_bound(begin, end, Entry{added.time_ps});",
        "what happens at one instant happens in another order than it was caused in",
    ),
    _header(
        "timer-that-was-moved-expires",
        "network_inl.hpp",
        "network_test.cpp",
        "  if (deadlines_[timer] > now_) {\n",
        "  if (deadlines_[timer].is_never()) {\n",
        "packets are sent again though their acknowledgement came",
    ),
    # ---- Scenarios
    _sim(
        "reserves-beyond-the-buffer",
        "scenario/topology_check.cpp",
        "    if (dedicated <= bytes) continue;\n",
        "    continue;\n",
        "a scenario that no switch can hold ends in an abort instead of a message",
    ),
    _sim(
        "host-with-two-links",
        "scenario/topology_check.cpp",
        "if (links_of[host] == 1) continue;",
        "if (links_of[host] >= 1) continue;",
        "a scenario with a host on two switches ends in an abort instead of a message",
    ),
    _sim(
        "partner-of-itself",
        "scenario/traffic.cpp",
        "std::swap(out[i], out[prng.below(i)]);",
        "std::swap(out[i], out[prng.below(i + 1)]);",
        "some hosts of a permutation send to themselves",
    ),
    _sim(
        "pairs-each-offer-the-whole-load",
        "scenario/traffic.cpp",
        "rate_of[from] / (pairs.empty() ? 1 : pairs_of_host[from]);",
        "rate_of[from];",
        "a host with four partners offers four times the load that a figure names",
    ),
    _sim(
        "sizes-rounded-down",
        "scenario/size_distribution.cpp",
        "static_cast<uint64_t>(std::ceil(part * static_cast<double>(high.bytes - low.bytes)));",
        "static_cast<uint64_t>(part * static_cast<double>(high.bytes - low.bytes));",
        "more messages than the file says fit one packet",
    ),
    # ---- What is measured
    _base(
        "percentile-a-rank-lower",
        "percentile.hpp",
        "percentile_test.cpp",
        "static_cast<size_t>(std::ceil(p * static_cast<double>(values.size())));",
        "static_cast<size_t>(p * static_cast<double>(values.size()));",
        "the slowest of a few messages shows in no percentile",
    ),
    _sim(
        "ideal-of-the-fastest-hop",
        "result/ideal_time.cpp",
        "    interval = std::max(interval, hop.together.time_of(full_wire));\n",
        "    interval = hop.together.time_of(full_wire);\n",
        "slowdowns behind a bottleneck are measured by what nobody could reach",
    ),
    _sim(
        "counts-since-the-beginning",
        "result/meter.cpp",
        "static_cast<double>(flow.delivered_bytes - state.delivered_at_warm_up);",
        "static_cast<double>(flow.delivered_bytes);",
        "goodput includes what was sent before measurement began",
    ),
    _sim(
        "frame-without-a-minimum",
        "scenario/wire_size.hpp",
        "std::max(frame, kFrameBytesMin)",
        "frame",
        "empty messages of the standard come faster than Ethernet carries them",
        rebuild=["scenario/scenario.cpp"],
    ),
    # ---- Faults that a scenario asks for
    _header(
        "drops-one-packet-late",
        "network_inl.hpp",
        "network_fault_test.cpp",
        "    extras.until_drop = extras.drop_every;\n    return true;\n",
        "    extras.until_drop = extras.drop_every + 1;\n    return true;\n",
        "the share of packets that is lost is not the one asked for",
    ),
    _header(
        "floods-where-it-came-from",
        "network_flood_inl.hpp",
        "network_fault_test.cpp",
        " || out == (packet.ingress ^ 1)) continue;\n",
        ") continue;\n",
        "a flood comes back to the host that sent it",
    ),
    _header(
        "floods-what-nobody-floods",
        "network_flood_inl.hpp",
        "network_fault_test.cpp",
        "  if (topology_.flood && ports_[id].to",
        "  if (ports_[id].to",
        "the cure of the deadlock is no cure",
    ),
    _header(
        "copies-reach-hosts",
        "network_inl.hpp",
        "network_fault_test.cpp",
        "  if (packet.flooded) [[unlikely]] {\n",
        "  if (packet.flooded && node >= topology_.hosts) [[unlikely]] {\n",
        "a host gets packets that are for another one",
    ),
    _header(
        "tag-survives-the-router",
        "network_inl.hpp",
        "network_fault_test.cpp",
        "  if (extras.untags) packets_[packet_id].priority = kLossyPriority;\n",
        "",
        "PCP protects beyond the first switch",
    ),
    _header(
        "global-pause-of-one-class",
        "network.hpp",
        "network_fault_test.cpp",
        " || topology_.pfc.global);",
        ");",
        "Global Pause is PFC",
    ),
    _header(
        "gives-up-the-port-alone",
        "network_pfc_inl.hpp",
        "network_fault_test.cpp",
        "  if (pfc_ && pauses_[id].discarding && lossless(packet)) {\n",
        "  if (false && pfc_ && pauses_[id].discarding && lossless(packet)) {\n",
        "packets pile up behind a host that was given up",
    ),
    _header(
        "deadlock-below-the-threshold",
        "network_pfc_inl.hpp",
        "deadlock_network_test.cpp",
        "  return stuck + pfc.hysteresis_bytes <= limit;\n",
        "  return false;\n",
        "a circle that ends by itself is called a deadlock",
    ),
    _header(
        "deadlock-of-a-threshold-that-is-now",
        "network_pfc_inl.hpp",
        "network_fault_test.cpp",
        " : buffer.limit_at(shared);\n  return stuck",
        " : UINT64_MAX;\n  return stuck",
        "no deadlock is found where the threshold is dynamic",
    ),
    _header(
        "deadlock-that-somebody-ends",
        "network_pfc_inl.hpp",
        "network_fault_test.cpp",
        "  if (stuck == ingress.total()) return false;\n",
        "",
        "a pause is thought to end although no packet of its ingress will leave",
    ),
    _header(
        "deadlock-of-what-is-on-the-wire",
        "network_pfc_inl.hpp",
        "network_fault_test.cpp",
        "  return now_ >= pause.paused_since + last && now_ >= extras.arrival_floor;\n",
        "  return true;\n",
        "packets that are to come end a pause that was thought to last",
    ),
    _header(
        "deadlock-of-what-can-be-dropped",
        "deadlock.hpp",
        "deadlock_test.cpp",
        "if (network.lossless(packet)) search",
        "search",
        "packets count that no pause stops",
    ),
    _header(
        "deadlock-in-an-empty-switch",
        "deadlock.hpp",
        "deadlock_test.cpp",
        "+= network.shared_of(port, stuck(port));",
        "= 0;",
        "a threshold of what is free forgets what is stuck",
    ),
    _header(
        "given-up-until-the-pause-ends",
        "network_pfc_inl.hpp",
        "network_fault_test.cpp",
        "!pause.paused && !pause.discarding && ",
        "!pause.paused && ",
        "a watchdog that drops stops when the storm has a gap",
    ),
    _header(
        "nic-sends-what-is-paused",
        "network.hpp",
        "network_fault_test.cpp",
        "(priority != kLosslessPriority && !topology_.pfc.global);",
        "priority != kLosslessPriority;",
        "a Global Pause leaves a host one class",
    ),
    _header(
        "deadlock-of-released-ports",
        "deadlock.hpp",
        "deadlock_test.cpp",
        "bytes += blocked_.contains(port) ? waiting : 0;",
        "bytes += waiting;",
        "ports count that were found to be released",
    ),
    # ---- Hosts that pause, and their watchdogs
    _header(
        "watchdog-of-many-pauses",
        "pause_watchdogs.hpp",
        "pause_watchdogs_test.cpp",
        "if (pausing != watched->pausing || pauses != watched->pauses) {",
        "if (pausing != watched->pausing) {",
        "a host that pauses often is taken for one that never ends",
    ),
    _header(
        "watchdog-never-takes-back",
        "pause_watchdogs.hpp",
        "pause_watchdogs_test.cpp",
        "    if (give_up == watched->given_up) return;\n",
        "    if (give_up == watched->given_up || !give_up) return;\n",
        "a host that was given up is lost for ever",
    ),
    _sim(
        "a-pause-stops-both-classes",
        "hosts/host_set_nic.cpp",
        "    if (!network_->nic_takes(number, priority)) continue;\n",
        "    if (!network_->nic_takes(number, 0)) continue;\n",
        "PFC stops what is not lossless",
    ),
]
