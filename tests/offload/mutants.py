"""Small breakages of the RTL: the expression between backticks, in a text that its file
has once, and what it becomes. Lock-step with the software has to find each of them, and those in
the modules that are proved have to break the proof.

With --out, mutants.py writes the RTL with all of them built in, each behind its number, which
starts with 1: one build tries them all."""

import argparse
import collections
import pathlib
import sys

Mutant = collections.namedtuple("Mutant", "name file where new")

JUDGE = "mp_receive_judge.sv"
ADVANCE = "mp_receive_advance.sv"
MESSAGES = "mp_receive_messages.sv"
SHRINK = "mp_window_shrink.sv"
DIVIDE = "mp_reciprocal.sv"
STEP = "mp_window_step.sv"
WINDOW = "mp_window.sv"
WINDOW_FILES = (SHRINK, DIVIDE, STEP, WINDOW)
RECEIVER = "mp_receiver.sv"
LOWEST = "mp_lowest.sv"
HIGHEST = "mp_highest.sv"
SEND_JUDGE = "mp_send_judge.sv"
TIMES = "mp_send_times.sv"
MAPS = "mp_send_maps.sv"
LOSSES = "mp_send_losses.sv"
CREDITS = "mp_send_credits.sv"
BEGIN = "mp_send_begin.sv"
DECIDE = "mp_send_decide.sv"
SENDER = "mp_sender.sv"
SENDER_FILES = (
    LOWEST, HIGHEST, SEND_JUDGE, TIMES, MAPS, LOSSES, CREDITS, BEGIN, DECIDE, SENDER
)  # fmt: skip
OPCODE = "mp_opcode.sv"
ICRC = "mp_icrc.sv"
NETWORK = "mp_parse_network.sv"
TRANSPORT = "mp_parse_transport.sv"
PARSER = "mp_parser.sv"
PARSER_FILES = (OPCODE, ICRC, NETWORK, TRANSPORT, PARSER)
MAKE_TRANSPORT = "mp_build_transport.sv"
MAKE_NETWORK = "mp_build_network.sv"
BUILDER = "mp_builder.sv"
BUILDER_FILES = (MAKE_TRANSPORT, MAKE_NETWORK, BUILDER)

MUTANTS = (
    # Where a packet lies.
    Mutant("window-twice-as-long", JUDGE, "(`ahead[22:6] != 17'd0`)", "ahead[22:7] != 16'd0"),
    Mutant("2^22-ahead-is-near", JUDGE, "(`ahead[22:6] != 17'd0`)", "ahead[21:6] != 16'd0"),
    Mutant("nothing-is-beyond", JUDGE, "beyond = `!is_before`", "1'b0"),
    Mutant("distance-of-23-bits", JUDGE, "is_before = `ahead[23]`", "ahead[22]"),
    # What becomes of it.
    Mutant("a-stale-packet-is-placed", JUDGE, "(`is_before || was_taken`)", "was_taken"),
    Mutant("a-copy-is-placed", JUDGE, "(`is_before || was_taken`)", "is_before"),
    Mutant("a-tail-is-not-taken", JUDGE, "= `slots[2*i] | slots[2*i+1]`", "slots[2*i]"),
    Mutant("synchronise-one-late", JUDGE, "`{18'd0, index} > packets_before`",
           "{18'd0, index} > packets_before + 24'd1"),
    Mutant("synchronise-one-early", JUDGE, "`{18'd0, index} > packets_before`",
           "{18'd0, index} >= packets_before"),
    Mutant("six-bits-of-packets-before", JUDGE, "`{18'd0, index} > packets_before`",
           "index > packets_before[5:0]"),
    Mutant("synchronise-is-not-asked", JUDGE, "= `synchronise` &&", "1'b0"),
    Mutant("every-packet-synchronises", JUDGE, "= `synchronise` &&", "1'b1"),
    Mutant("overflow-has-another-code", JUDGE, "nack = `NackWindowOverflow`", "4'd2"),
    Mutant("too-early-has-another-code", JUDGE, "nack = `NackSyncTooEarly`", "4'd2"),
    Mutant("a-stale-packet-is-behind-a-hole", JUDGE, "= `!is_before && (index != 6'd0)`",
           "index != 6'd0"),
    Mutant("a-copy-is-behind-no-hole", JUDGE, "= `!is_before && (index != 6'd0)`", "1'b0"),
    Mutant("the-head-is-behind-a-hole", JUDGE, "behind_hole = `index != 6'd0`", "1'b1"),
    # Its map and its slot.
    Mutant("map-one-low", JUDGE, "(`7'd64 - {1'b0, index}`)", "7'd63 - {1'b0, index}"),
    Mutant("map-of-what-has-passed-one-low", JUDGE, "below = `64'hffff_ffff_ffff_ffff`",
           "64'h7fff_ffff_ffff_ffff"),
    Mutant("a-kind-is-lost", JUDGE, "{126'd0, `slot`}", "2'd1"),
    Mutant("other-slots-are-lost", JUDGE, "slots_after = `slots` |", "128'd0"),
    # What rcv_nxt passes.
    Mutant("a-tail-is-not-passed", ADVANCE, "full[i] = `slots[2*i] | slots[2*i+1]`",
           "slots[2*i]"),
    Mutant("a-block-is-full-by-its-lower-half", ADVANCE, "= `full[i] & full[i+(1<<k)]`", "full[i]"),
    Mutant("a-block-is-full-by-its-upper-half", ADVANCE, "= `full[i] & full[i+(1<<k)]`",
           "full[i+(1<<k)]"),
    Mutant("the-lower-half-does-not-count", ADVANCE, "lowest[6*i+k] = `1'b1`", "1'b0"),
    Mutant("the-upper-half-does-not-count", ADVANCE, "= `lowest[6*(i+(1<<k))+:6]`", "6'd0"),
    Mutant("a-full-window-stays", ADVANCE, "slots_after = `full[0]` ?", "1'b0"),
    Mutant("a-full-window-is-not-passed", ADVANCE, "passed = `full[0]` ?", "1'b0"),
    Mutant("slots-shift-by-one-bit", ADVANCE, "slots >> `{lowest[5:0], 1'b0}`", "lowest[5:0]"),
    Mutant("rcv-nxt-misses-a-full-window", ADVANCE, "rcv_nxt + {17'd0, `passed`}",
           "passed & 7'd63"),
    Mutant("tails-of-six-bits", MESSAGES, "7'(`$countones(ends)`)", "6'($countones(ends))"),
    Mutant("completions-of-six-bits", MESSAGES, "7'(`$countones(completes)`)",
           "6'($countones(completes))"),
    Mutant("message-numbers-of-22-bits", MESSAGES, "`msn + {17'd0, tails}`",
           "{msn[23:22], msn[21:0] + {15'd0, tails}}"),
    Mutant("messages-miss-the-last", MESSAGES, "<< `passed`)", "passed[5:0]"),
    Mutant("only-completions-count-as-messages", MESSAGES, "7'(`$countones(ends)`)",
           "$countones(completes)"),
    Mutant("every-tail-completes", MESSAGES, "7'(`$countones(completes)`)", "$countones(ends)"),
    # The pipeline.
    Mutant("waits-for-every-packet", RECEIVER, "`judge_connection == in_connection`", "1'b1"),
    Mutant("is-ready-in-reset", RECEIVER, "in_ready = `!reset` &&", "1'b1"),
    Mutant("answers-through-a-reset", RECEIVER, "out_valid <= advance_valid && `!reset`", "1'b1"),
    Mutant("advances-through-a-reset", RECEIVER, "advance_valid <= judge_valid && `!reset`",
           "1'b1"),
    Mutant("packets-before-of-20-bits", JUDGE, "`{18'd0, index} > packets_before`",
           "{18'd0, index} > (packets_before & 24'h0fffff)"),
    Mutant("no-wait-for-what-is-judged", RECEIVER, "!(`judge_valid` &&", "1'b0"),
    Mutant("no-wait-for-what-advances", RECEIVER, "!(`advance_valid` &&", "1'b0"),
    Mutant("waits-for-one-of-two-connections", RECEIVER,
           "`judge_connection == in_connection`",
           "judge_connection[0] == in_connection[0] && in_connection[1]"),
    Mutant("slots-are-not-loaded", RECEIVER, "advance_slots <= `judge_load` ?", "1'b0"),
    Mutant("rcv-nxt-is-not-loaded", RECEIVER, "advance_rcv_nxt <= `judge_load` ?", "1'b0"),
    Mutant("the-message-number-is-not-loaded", RECEIVER, ".msn(`messages_load` ?", "1'b0"),
    Mutant("a-load-is-placed", RECEIVER, "advance_placed <= placed && `!judge_load`", "1'b1"),
    Mutant("a-load-is-refused", RECEIVER, "advance_nack <= `judge_load` ?", "1'b0"),
    Mutant("a-load-is-a-copy", RECEIVER, "duplicate && `!judge_load`", "1'b1"),
    Mutant("the-write-goes-elsewhere", RECEIVER, " memory[`advance_connection`] <=",
           "judge_connection"),
    Mutant("the-write-forgets-the-move", RECEIVER, "<= {slots_after, `rcv_nxt_after`}",
           "advance_rcv_nxt"),
    Mutant("the-number-of-another-connection", RECEIVER, "message_numbers[`advance_connection`]",
           "messages_connection"),
    Mutant("the-number-is-written-elsewhere", RECEIVER, "message_numbers[`messages_connection`]",
           "advance_connection"),
    Mutant("a-number-is-written-without-a-packet", RECEIVER, "if (`out_valid`)", "1'b1"),
    # ---- The congestion window
    Mutant("window-may-be-zero", SHRINK, "above = `window - One`", "window"),
    Mutant("window-below-its-floor", SHRINK, "floors = `{8'd0, by} > above`",
           "{8'd0, by} > window"),
    Mutant("owed-gives-all", SHRINK, "`by - above[23:0]`", "by"),
    Mutant("owed-gives-nothing", SHRINK, "over = `floors` ?", "1'b0"),
    Mutant("owed-wraps", SHRINK, "owed_after = `owed > over` ?", "1'b1"),
    Mutant("one-is-not-its-own-reciprocal", DIVIDE, "equal = `window == 32'h0001_0000`", "1'b0"),
    Mutant("rest-begins-one-bit-high", DIVIDE, "33'd0 : `33'h0_0001_0000`", "33'h0_0002_0000"),
    Mutant("high-digit-rounds-down", DIVIDE, "high = `twice >= by`", "twice > by"),
    Mutant("low-digit-rounds-down", DIVIDE, "low = `again >= by`", "again > by"),
    Mutant("rest-of-the-low-digit-stays", DIVIDE, "rest <= `low` ?", "1'b0"),
    Mutant("digits-change-places", DIVIDE, "<= `{g_stage[k-1].quotient[14:0], high, low}`",
           "{g_stage[k-1].quotient[14:0], low, high}"),
    Mutant("a-slow-path-takes-a-half", STEP, ".by(slow ? `OneTaken` :", "HalfTaken"),
    Mutant("a-mark-takes-one", STEP, "marked ? `HalfTaken` :", "OneTaken"),
    Mutant("grows-beyond-the-largest", STEP, "`grown > max_window`", "1'b0"),
    Mutant("growth-of-16-bits", STEP, "+ {15'd0, `reciprocal`}", "{1'b0, reciprocal[15:0]}"),
    Mutant("unused-takes-the-last-packet", STEP, "above > One ? OneTaken : `above[23:0]`",
           "OneTaken"),
    Mutant("unused-takes-all", STEP, "`above > One` ?", "1'b0"),
    Mutant("unused-is-not-owed", STEP, "+ {1'b0, `taken`}", "24'd0"),
    Mutant("owed-wraps-at-its-end", STEP, "owed_after = `owed_more[24]` ?", "1'b0"),
    Mutant("a-timeout-takes-all", STEP, "half = `window >> 1`", "window >> 2"),
    Mutant("a-timeout-may-leave-nothing", STEP, "`half < One` ?", "1'b0"),
    Mutant("a-timeout-leaves-more-than-the-first-window", STEP, "`half > initial_window` ?",
           "1'b0"),
    Mutant("a-timeout-leaves-what-is-owed", STEP, "after_timeout;\n      owed_after = `24'd0`",
           "owed"),
    Mutant("gives-back-above-the-first-window", STEP, "gives_back && `window < initial_window`",
           "1'b1"),
    Mutant("gives-back-too-much", STEP, "`returned > {1'b0, initial_window}` ?", "1'b0"),
    Mutant("gives-back-twice", STEP, "owed_after = `gives_back` ?", "1'b0"),
    Mutant("recovers-downwards", STEP, "recovers && `given_back < initial_window`", "1'b1"),
    Mutant("losses-are-free", WINDOW, ".by(`in_cost`)", "24'd0"),
    Mutant("reciprocal-of-another-window", WINDOW, ".window(`line[31:0]`)", "line[159:128]"),
    Mutant("window-answers-through-a-reset", WINDOW, "if (`reset`) for", "1'b0"),
    Mutant("window-answers-through-nothing", WINDOW, "`in_valid`, in_used", "1'b1"),
    Mutant("all-room-is-used", STEP, "takes = `unused` &&", "1'b0"),
    Mutant("what-is-in-use-is-unused", STEP, "`acked[31:16] > {6'd0, used}`", "1'b1"),
    Mutant("what-is-used-has-eight-bits", STEP, "`acked[31:16] > {6'd0, used}`",
           "acked[31:16] > {8'd0, used[7:0]}"),
    # ---- The sender: what an acknowledgement says.
    Mutant("acks-of-the-future-are-true", SEND_JUDGE, "refused = `aack_after_nxt` ||", "1'b0"),
    Mutant("sacks-of-the-future-are-true", SEND_JUDGE,
           "(`sack_to_nxt[23] || sack_to_nxt == 24'd0`)",
           "sack_to_nxt[23]"),
    Mutant("a-sack-beyond-the-window-is-true", SEND_JUDGE, "(`received && beyond`)", "1'b0"),
    Mutant("an-old-ack-goes-back", SEND_JUDGE, "advanced = `!refused && una_before_aack`",
           "!refused && una_to_aack != 24'd0"),
    Mutant("a-nack-is-news", SEND_JUDGE, "received = `sack_valid && !nacks`", "sack_valid"),
    Mutant("what-arrived-twice-is-news", SEND_JUDGE, "(`sack_before_aack || !was_sacked`)",
           "1'b1"),
    Mutant("what-is-passed-is-no-news", SEND_JUDGE, "(`sack_before_aack || !was_sacked`)",
           "!was_sacked"),
    Mutant("the-furthest-stays", SEND_JUDGE, "`ooh - by[6:0]`", "ooh"),
    Mutant("the-furthest-is-the-last", SEND_JUDGE, "`marks && at >= ooh_left` ?", "marks"),
    Mutant("a-path-may-lag-one-less", SEND_JUDGE, "`{16'd0, delta} + 24'd1`", "{16'd0, delta}"),
    Mutant("copies-show-slow-paths", SEND_JUDGE, "slow = is_new && `!copy` &&", "1'b1"),
    # Times.
    Mutant("a-clock-of-another-counts", TIMES, "&& `!since_echo[31]` &&", "1'b1"),
    Mutant("who-waited-long-counts", TIMES, "`delay_us != DelayMax`", "1'b1"),
    Mutant("the-wait-counts", TIMES, "`since_echo - kept`", "since_echo"),
    Mutant("srtt-rounds-down", TIMES, "`error[32] ? 33'sd7 : 33'sd0`", "33'sd0"),
    Mutant("srtt-wraps", TIMES, "srtt_after = `srtt_wide[31:24] != 8'd0` ?", "1'b0"),
    Mutant("the-first-sample-is-smoothed", TIMES, "`rtt_known` ? smoothed", "1'b1"),
    Mutant("old-rounds-are-young", TIMES, "round_ago = `round_old` ?", "1'b0"),
    Mutant("old-acks-are-young", TIMES, "ack_ago = `ack_old` ?", "1'b0"),
    Mutant("an-epoch-is-a-round-trip", TIMES, "{3'd0, `srtt_wide[31:2]`}", "30'd0"),
    Mutant("bursts-come-after-a-round-trip", TIMES, "{8'd0, `srtt[23:1]`}", "srtt[22:0]"),
    Mutant("recovery-after-sixteen", TIMES, "`29'd30` *", "29'd16"),
    # Maps, losses and what leaves.
    Mutant("losses-stay-behind", MAPS, "(`lost >> by`) &", "lost"),
    Mutant("what-arrived-is-lost", MAPS, "& `~{64'd0, mark}`",
           "128'hffff_ffff_ffff_ffff_ffff_ffff_ffff_ffff"),
    Mutant("epochs-of-the-maps-mix", MAPS, "resent_before_after = `resent_before >> by`",
           "resent >> by"),
    Mutant("suspects-were-just-copied", LOSSES, "`arrived | lost | resent | resent_before`",
           "arrived | lost"),
    Mutant("the-head-is-judged-again", LOSSES, "&& `!resent[0] && !resent_before[0]`", "1'b1"),
    Mutant("the-head-never-asks", LOSSES, "asks = `head_judged && sacked[0]`", "1'b0"),
    Mutant("a-drop-is-lost-twice", LOSSES, "`!(head_lost && at == 7'd0)`", "1'b1"),
    Mutant("far-is-one-nearer", LOSSES, "`{1'b0, ooh} - delta`", "{1'b0, ooh} - delta + 8'd1"),
    Mutant("losses-cost-twice", LOSSES, "costs = `holes & ~penalised`", "holes"),
    Mutant("drops-cost-twice", LOSSES, "drop_costs = `drops && (drop_bit & penalised) == 128'd0`",
           "drops"),
    Mutant("what-had-no-room-costs", LOSSES, "told = `no_room` &&", "1'b0"),
    Mutant("a-timeout-spares-what-was-copied", LOSSES, "in_use & `~(arrived | lost)`", "~known"),
    Mutant("an-epoch-keeps-its-copies", LOSSES, "resent_after = `timeout || epoch_over` ?",
           "timeout"),
    Mutant("silent-senders-fill-the-network", LOSSES, "!(`silent && in_flight`)", "1'b0"),
    Mutant("the-last-try-is-the-head", LOSSES, "`asks_head || !sacked[0]` ?", "1'b1"),
    Mutant("copies-come-from-the-end", LOWEST, "only = filled & `~(filled << 1)`", "(filled >> 1)"),
    Mutant("the-highest-is-wrong", HIGHEST, "only = filled & `~(filled >> 1)`", "(filled << 1)"),
    # Credits.
    Mutant("three-leave-at-once", CREDITS, "`room > BurstMax ? 2'd2 : room[1:0]`",
           "room > 10'd3 ? 2'd3 : room[1:0]"),
    Mutant("slow-paths-are-granted", CREDITS, "!acknowledged || `slow` ||", "1'b0"),
    Mutant("credits-without-work", CREDITS, "|| `!work` ?", "1'b0"),
    Mutant("paths-come-first", CREDITS, "takes_path = clocked && `pathless == 8'd0`",
           "with_path != 2'd0"),
    Mutant("credits-beyond-the-room", CREDITS, "excess = `used_now > limit` ?", "1'b0"),
    Mutant("paths-are-withdrawn-first", CREDITS, "`drop > pathless_now ? pathless_now : drop`",
           "drop > with_path_now ? drop - with_path_now : 10'd0"),
    Mutant("an-idle-window-stays-shut", CREDITS, "fills = `in_flight == 8'd0` &&", "1'b0"),
    Mutant("a-window-in-flight-opens", CREDITS, "fills = `in_flight == 8'd0` &&", "1'b1"),
    # State and pipeline.
    Mutant("credits-keep-their-path", BEGIN, "timed.with_path = `2'd0`", "held.with_path"),
    Mutant("any-port-is-a-path", BEGIN, "`happens.vp[15:14] == 2'd3` ?", "1'b1"),
    Mutant("explores-always", BEGIN, "timed.probe_due = `happens.explore`", "1'b1"),
    Mutant("asks-after-progress", BEGIN, "`advanced && held.asks_head`", "1'b0"),
    Mutant("wakes-without-a-timeout", BEGIN, "!idle && `held.backoff != 8'd0`", "1'b1"),
    Mutant("an-idle-head-asks", BEGIN, "kind == KindAsk && `!idle`", "1'b1"),
    Mutant("recovers-in-flight", BEGIN, "`idle && recovered`", "recovered"),
    Mutant("a-slow-path-is-no-sign", DECIDE, "(`lose.progress && lose.ece`)", "1'b0"),
    Mutant("progress-leaves-timeouts", DECIDE, "lost.backoff = `8'd0`", "held.backoff"),
    Mutant("progress-ends-asking", DECIDE, "if (`!lost.asks_head`)", "1'b1"),
    Mutant("nothing-begins", DECIDE, "begins = `takes_new && held.una == held.nxt`", "1'b0"),
    Mutant("nine-timeouts-are-silence", DECIDE, "`held.backoff >= SilentAfter`",
           "held.backoff > SilentAfter"),
    Mutant("grows-with-a-backlog", SENDER, "`work && count_state.pathless <= WireBacklogMax`",
           "work"),
    Mutant("each-timeout-halves", SENDER, "count.timeout && `count_state.backoff == 8'd1`", "1'b1"),
    Mutant("losses-cost-a-quarter", SENDER, "`{1'b0, cost_count, 15'd0}`",
           "{2'd0, cost_count, 14'd0}"),
    Mutant("a-burst-is-no-news", SENDER, "if (`last.burst && has_room`)", "1'b0"),
    Mutant("a-path-explores-for-ever", SENDER, "if (`takes_path`)", "1'b0"),
    Mutant("no-wait-for-the-line", SENDER, "if (`line_valid[k]` &&", "1'b0"),
    Mutant("no-wait-for-what-is-counted", SENDER, "(`count_valid` && count_connection", "1'b0"),
    Mutant("sends-through-a-reset", SENDER, "line_valid <= `reset` ?", "1'b0"),
    Mutant("maps-are-not-loaded", SENDER, "maps_before = `time_kind == KindLoad` ?", "1'b0"),

    # Opcodes.
    Mutant("uc-has-reads", OPCODE, "3'd1 && `code <= 5'h0b`", "code <= 5'h0c"),
    Mutant("ud-has-no-immediate", OPCODE, "(`code == 5'h04 || code == 5'h05`);", "code == 5'h04"),
    Mutant("rc-has-a-reserved-opcode", OPCODE, "known = `code <= 5'h14` ||", "code <= 5'h15"),
    Mutant("a-cnp-of-any-service", OPCODE, "cnp = `opcode == 8'h81`",
           "opcode[4:0] == 5'h01 && opcode[7]"),
    Mutant("a-middle-starts", OPCODE, "(`!middle` && !last);", "1'b1"),
    Mutant("a-first-ends", OPCODE, "(!middle && `!first`)", "1'b1"),
    Mutant("acks-have-payload", OPCODE, "(`code <= 5'h0b` || read_response", "code <= 5'h11"),
    Mutant("a-map-is-no-ack", OPCODE, "(`code == 5'h11 || with_map`);", "code == 5'h11"),
    Mutant("answers-of-xrc-name-a-queue", OPCODE, "xrc && `request`", "1'b1"),
    Mutant("mp-writes-as-rc-does", OPCODE, "(`mp` || info.starts)", "1'b0"),
    Mutant("reads-in-the-middle-have-an-aeth", OPCODE, "(read_response && `!middle`)", "1'b1"),
    Mutant("mp-answers-have-an-aeth", OPCODE, "mp ? `response_error`", "1'b1"),
    Mutant("no-immediate-behind-writes", OPCODE, "|| `code == 5'h09` || code == 5'h0b);", "1'b0"),
    Mutant("a-cnp-has-no-reserved-bytes", OPCODE, "cnp ? `6'd16`", "6'd0"),
    Mutant("a-map-of-four-bytes", OPCODE, "tail += `6'd8`", "6'd4"),
    # The invariant CRC.
    Mutant("one-byte-more-is-covered", ICRC, "`in_left > 17'(i)`", "in_left >= 17'(i)"),
    Mutant("ethernet-is-covered", ICRC, "masked[8*14-1:0] <= `112'd0`", "in_data[111:0]"),
    Mutant("tos-is-covered", ICRC, "masked[8*15+:8] <= `8'hff`", "in_data[8*15+:8]"),
    Mutant("ttl-is-covered", ICRC, "masked[8*22+:8] <= `8'hff`", "in_data[8*22+:8]"),
    Mutant("the-ip-checksum-is-covered", ICRC, "masked[8*24+:16] <= `16'hffff`",
           "in_data[8*24+:16]"),
    Mutant("fecn-is-covered", ICRC, "masked[8*46+:8] <= `8'hff`", "in_data[8*46+:8]"),
    Mutant("half-the-traffic-class-is-covered", ICRC, "masked[8*14+:4] <= `4'hf`",
           "in_data[8*14+:4]"),
    Mutant("the-flow-label-is-covered", ICRC, "masked[8*15+:24] <= `24'hffffff`",
           "in_data[8*15+:24]"),
    Mutant("the-hop-limit-is-covered", ICRC, "masked[8*21+:8] <= `8'hff`", "in_data[8*21+:8]"),
    Mutant("fecn-is-covered-in-ipv6", ICRC, "(second && `is_ipv6`)", "1'b0"),
    Mutant("any-second-beat-is-masked", ICRC, "(`second` && is_ipv6)", "1'b1"),
    Mutant("every-frame-goes-on", ICRC, "(`added_first` ? Start", "1'b0"),
    Mutant("two-zeros-stay", ICRC, ".Bytes(4)) unwind_4 (.register(`without_2`)", "register"),
    Mutant("zeros-of-a-word-stay", ICRC, "`summed_zeros[0]` ? back_4", "1'b0"),
    Mutant("zeros-of-32-bytes-stay", ICRC, "`summed_zeros[3]` ? back_32", "1'b0"),
    Mutant("the-register-runs-behind-the-end", ICRC, "covers = in_valid && `in_left != 17'd0`",
           "1'b1"),
    # Ethernet, IP and UDP.
    Mutant("carries-are-lost", NETWORK, "{1'b0, sum[15:0]} + `{13'd0, sum[19:16]}`", "17'd0"),
    Mutant("any-checksum-is-right", NETWORK, "(`folded != 17'h0ffff`)", "1'b0"),
    Mutant("options-are-taken", NETWORK, "`v4[155-:4] != 4'd5`", "v4[155-:4] < 4'd5"),
    Mutant("a-packet-may-be-longer-than-its-frame", NETWORK, "`{1'b0, total} > ip_bytes`",
           "{1'b0, total} > frame_bytes"),
    Mutant("an-ipv6-packet-may-be-longer", NETWORK, "`ip_bytes - 17'd40`", "ip_bytes"),
    Mutant("the-last-fragment-is-taken", NETWORK, "v4[109] || `v4[108-:13] != 13'd0`", "1'b0"),
    Mutant("the-first-fragment-is-taken", NETWORK, "(`v4[109]` || v4", "1'b0"),
    Mutant("an-ipv6-fragment-is-another-protocol", NETWORK, "`next_header == Fragment`", "1'b0"),
    Mutant("any-port-will-do", NETWORK, "`udp[31-:16] != RocePort`", "1'b0"),
    Mutant("udp-may-be-shorter", NETWORK, "`udp[15:0] != udp_bytes`", "udp[15:0] > udp_bytes"),
    Mutant("a-bth-without-its-icrc", NETWORK, "`udp_bytes < 16'd24`", "udp_bytes < 16'd20"),
    Mutant("ipv6-has-an-identification", NETWORK, "`is_ipv6` ? 16'd0", "1'b0"),
    # BTH and extensions.
    Mutant("any-version-of-the-transport", TRANSPORT, "`flags[3:0] != 4'd0`", "1'b0"),
    Mutant("headers-may-end-early", TRANSPORT, "`bytes < {10'd0, info.header_bytes}`", "1'b0"),
    Mutant("pad-may-be-more-than-there-is", TRANSPORT, "`{14'd0, pad} > body`", "1'b0"),
    Mutant("lengths-in-pairs", TRANSPORT, "`body[1:0] != 2'd0`", "body[0]"),
    Mutant("acks-may-have-payload", TRANSPORT, "`body != 16'd0` && !info.has_payload", "1'b0"),
    Mutant("any-version-of-acks", TRANSPORT, "(info.has_mp_data || `info.has_mp_ack`) && ext",
           "1'b0"),
    Mutant("one-nack-code-more", TRANSPORT, "`ext[111-:8] >= NackCodes`",
           "ext[111-:8] > NackCodes"),
    Mutant("pad-is-payload", TRANSPORT, "body - `{14'd0, pad}`", "16'd0"),
    Mutant("every-transport-has-irn", TRANSPORT, "transport[446-8*8] && `info.is_rc`", "1'b1"),
    Mutant("immediate-data-in-the-reth", TRANSPORT, "`info.has_reth` ? tail[223-8*16-:32]", "1'b0"),
    Mutant("atomics-of-any-length", TRANSPORT, "`info.has_atomic_eth` ? AtomicBytes",
           "1'b0"),
    # The pipeline of the parser.
    Mutant("every-beat-begins-a-frame", PARSER, "next_is_first <= `in_last`", "1'b1"),
    Mutant("a-last-beat-is-full", PARSER, "`in_last` ? in_bytes", "1'b0"),
    Mutant("the-second-beat-is-forgotten", PARSER, "second <= `beat_first`", "1'b0"),
    Mutant("a-long-frame-has-its-last-beat-second", PARSER, "`second && !beat_first` ? beat",
           "!beat_first"),
    Mutant("one-beat-is-covered", PARSER, "`left > 17'd64` ? left", "left > 17'd128"),
    Mutant("ipv6-ends-as-ipv4", PARSER, "`17'd54` +", "17'd14"),
    Mutant("crc-of-the-frame-before", PARSER, "`crc_valid` ? crc == Residue", "1'b0"),
    Mutant("an-early-end-is-forgotten", PARSER, "crc_was_good <= `crc_good`", "1'b0"),
    Mutant("any-crc-is-right", PARSER, "inner_reason == 5'd0 && `!crc_good`", "1'b0"),
    Mutant("the-crc-comes-first", PARSER, "`inner_reason == 5'd0` && !crc_good", "1'b1"),
    Mutant("parses-through-a-reset", PARSER, "outer_valid <= all_valid && `!reset`", "1'b1"),
    Mutant("goes-on-after-a-reset", PARSER, "if (`reset`) next_is_first", "1'b0"),
    Mutant("ipv6-headers-are-shorter", PARSER, "`7'd62` :", "7'd42"),
    # Building headers.
    Mutant("no-pad-is-said", MAKE_TRANSPORT, "`2'd0 - packet.payload_bytes[1:0]`", "2'd0"),
    Mutant("pad-is-what-is-over", MAKE_TRANSPORT, "`2'd0 - packet.payload_bytes[1:0]`",
           "packet.payload_bytes[1:0]"),
    Mutant("every-transport-says-irn", MAKE_TRANSPORT, "packet.irn && `info.is_rc`", "1'b1"),
    Mutant("atomic-answers-lie-in-the-aeth", MAKE_TRANSPORT,
           "if (`info.has_aeth`) tail[191", "1'b0"),
    Mutant("immediate-data-lies-in-the-reth", MAKE_TRANSPORT, "if (`info.has_reth`) tail[95",
           "1'b0"),
    Mutant("no-key-to-invalidate", MAKE_TRANSPORT, "`info.has_ieth` ? packet.ieth", "1'b0"),
    Mutant("xrc-names-no-queue", MAKE_TRANSPORT, "if (`info.has_xrceth`)", "1'b0"),
    Mutant("ecn-is-not-said", MAKE_NETWORK, "{address.dscp, `address.ecn`}", "2'd0"),
    Mutant("the-length-without-the-header", MAKE_NETWORK, "`16'd20 + bytes`", "bytes"),
    Mutant("a-carry-is-lost", MAKE_NETWORK, "once[15:0] + `{15'd0, once[16]}`", "16'd0"),
    Mutant("no-path-in-the-flow-label", MAKE_NETWORK, "4'd0, `address.vp`, bytes", "16'd0"),
    # The pipeline of the builder.
    Mutant("a-packet-is-written-over", BUILDER, "(`!packet_valid || packet_moves`)", "1'b1"),
    Mutant("headers-are-written-over", BUILDER, "packet_valid && (`!outer_valid || outer_moves`)",
           "1'b1"),
    Mutant("a-frame-is-written-over", BUILDER, "outer_valid && (`!streaming || ends`)", "1'b1"),
    Mutant("pad-is-not-counted", BUILDER, "{13'd0, `packet.payload_bytes[1:0] != 2'd0`}", "1'b0"),
    Mutant("ipv6-begins-earlier", BUILDER, "`7'd62` :", "7'd42"),
    Mutant("payload-beside-whole-headers", BUILDER, "needs = `!whole` &&", "1'b1"),
    Mutant("payload-is-not-waited-for", BUILDER, "(!needs || `payload_valid`)", "1'b1"),
    Mutant("payload-has-a-tail", BUILDER, "needs && `payload_left > 16'(i)` ?", "1'b1"),
    Mutant("the-icrc-always-fits", BUILDER, "two_more = `left == 17'd62`", "1'b0"),
    Mutant("the-icrc-of-56-has-no-room", BUILDER, "two_more = `left == 17'd62`", "left >= 17'd58"),
    Mutant("nothing-is-carried", BUILDER, ": `shifted[1023:512]`;", "512'd0"),
    Mutant("a-full-beat-ends-the-payload", BUILDER, "`payload_left > 16'd64` ?",
           "payload_left > 16'd128"),
    Mutant("the-icrc-is-not-turned", BUILDER, "{480'd0, `~crc`}", "crc"),
    Mutant("the-rest-is-the-first-half", BUILDER, "rest <= ~`crc[31:16]`", "crc[15:0]"),
    Mutant("builds-through-a-reset", BUILDER, "line_valid <= `reset` ? 3'd0", "1'b0"),
    Mutant("a-frame-goes-on-after-a-reset", BUILDER, "if (`reset`) streaming", "1'b0"),
    Mutant("a-packet-stays-in-a-reset", BUILDER, "if (`reset`) packet_valid", "1'b0"),
    Mutant("payload-is-taken-in-a-reset", BUILDER, "streaming && needs && `!reset`", "1'b1"),
)  # fmt: skip


def span(text, mutant):
    """Where the mutant's expression is: first and last offset. Its surroundings must be unique."""
    before, expression, after = mutant.where.split("`")
    whole = before + expression + after
    if text.count(whole) != 1:
        sys.exit(f"mutants: {mutant.name}: its text is {text.count(whole)} times in {mutant.file}")
    start = text.index(whole) + len(before)
    return start, start + len(expression)


def broken(text, mutant):
    """The text with this mutant alone."""
    start, end = span(text, mutant)
    return f"{text[:start]}({mutant.new}){text[end:]}"


def with_all(text, file):
    """The text with all mutants of the file, each behind its number."""
    spans = collections.defaultdict(list)
    for number, mutant in enumerate(MUTANTS, 1):
        if mutant.file == file:
            spans[span(text, mutant)].append((number, mutant))
    end_before = len(text)
    for (start, end), mutants in sorted(spans.items(), reverse=True):
        if end > end_before:
            sys.exit(f"mutants: {mutants[0][1].name} overlaps with another")
        end_before = start
        expression = f"({text[start:end]})"
        for number, mutant in mutants:
            expression = f"((mp_mutant::number == {number}) ? ({mutant.new}) : {expression})"
        text = text[:start] + expression + text[end:]
    return text


SELECT = """package mp_mutant;
  int number /* verilator public_flat_rw */;
endpackage
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("sources", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    (arguments.out / "mp_mutant.sv").write_text(SELECT)
    for source in arguments.sources:
        (arguments.out / source.name).write_text(with_all(source.read_text(), source.name))


if __name__ == "__main__":
    main()
