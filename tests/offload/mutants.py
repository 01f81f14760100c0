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
    Mutant("window-answers-through-nothing", WINDOW, "`in_valid`, in_event", "1'b1"),
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
