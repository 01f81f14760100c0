// What the sender promises of its packets, for any state and any event; tests/offload/prove.py proves
// it. The steps are the RTL's own: what an acknowledgement says, the maps, losses and what leaves.
module send_properties (
    input logic         clock,
    // The state.
    input logic [ 23:0] una,
    input logic [ 23:0] nxt,
    input logic [  6:0] ooh,
    input logic [ 63:0] sacked,
    input logic [127:0] lost,
    input logic [127:0] penalised,
    input logic [127:0] resent,
    input logic [127:0] resent_before,
    input logic         probes,
    input logic         asks_head,
    input logic         silent,
    input logic         has_credits,
    // The event: one of three.
    input logic         ack,
    input logic         timeout,
    input logic         next,
    input logic [ 23:0] aack,
    input logic         sack_valid,
    input logic [ 23:0] sack,
    input logic         overflow,
    input logic         no_room,
    input logic         copy,
    input logic         epoch_over,
    input logic         has_new,
    input logic [  7:0] delta
);

  localparam logic [127:0] All = 128'hffff_ffff_ffff_ffff_ffff_ffff_ffff_ffff;

  logic refused;
  logic advanced;
  logic is_new;
  logic [7:0] by;
  logic [23:0] una_after;
  logic [6:0] ooh_after;
  logic marks;
  logic named;
  logic [6:0] at;
  logic slow;
  mp_send_judge judge (
      .una(una),
      .nxt(nxt),
      .sacked(sacked),
      .ooh(ooh),
      .aack(aack),
      .sack_valid(sack_valid),
      .sack(sack),
      .nacks(overflow || no_room),
      .copy(copy),
      .delta(delta),
      .refused(refused),
      .advanced(advanced),
      .is_new(is_new),
      .by(by),
      .una_after(una_after),
      .ooh_after(ooh_after),
      .marks(marks),
      .named(named),
      .at(at),
      .slow(slow)
  );

  // As mp_send_begin has them: without an acknowledgement nothing moves.
  logic acked;
  logic [7:0] goes;
  logic [23:0] begins;
  logic [6:0] furthest;
  assign acked = ack && !refused;
  assign goes = acked ? by : 8'd0;
  assign begins = acked ? una_after : una;
  assign furthest = acked ? ooh_after : ooh;

  logic [63:0] sacked_after;
  logic [127:0] lost_moved;
  logic [127:0] penalised_moved;
  logic [127:0] resent_moved;
  logic [127:0] before_moved;
  mp_send_maps maps (
      .sacked(sacked),
      .lost(lost),
      .penalised(penalised),
      .resent(resent),
      .resent_before(resent_before),
      .by(goes),
      .marks(acked && marks),
      .at(at[5:0]),
      .sacked_after(sacked_after),
      .lost_after(lost_moved),
      .penalised_after(penalised_moved),
      .resent_after(resent_moved),
      .resent_before_after(before_moved)
  );

  logic [23:0] span;
  logic [23:0] left;  // after the acknowledgement
  assign span = nxt - una;
  assign left = nxt - begins;

  logic [127:0] lost_after;
  logic [127:0] penalised_after;
  logic [127:0] resent_after;
  logic [127:0] before_after;
  logic [127:0] costs;
  logic drop_costs;
  logic loses;
  logic asks;
  logic takes_probe;
  logic takes_copy;
  logic takes_new;
  logic [6:0] packet_at;
  mp_send_losses losses (
      .sacked(sacked_after),
      .lost(lost_moved),
      .penalised(penalised_moved),
      .resent(resent_moved),
      .resent_before(before_moved),
      .span(left[7:0]),
      .ooh(furthest),
      .delta(delta),
      .overflow(acked && overflow),
      .of_head(una_after == aack),
      .no_room(acked && no_room),
      .named(acked && named),
      .at(at),
      .timeout(timeout && left != 24'd0),
      .epoch_over(acked && epoch_over),
      .next(next),
      .probes(probes),
      .asks_head(asks_head),
      .silent(silent),
      .has_credits(has_credits),
      .has_new(has_new),
      .lost_after(lost_after),
      .penalised_after(penalised_after),
      .resent_after(resent_after),
      .resent_before_after(before_after),
      .costs(costs),
      .drop_costs(drop_costs),
      .loses(loses),
      .asks(asks),
      .takes_probe(takes_probe),
      .takes_copy(takes_copy),
      .takes_new(takes_new),
      .packet_at(packet_at)
  );

  logic [127:0] used;        // the PSNs that were sent
  logic [127:0] used_after;
  logic [127:0] packet_bit;
  assign used = ~(All << span[7:0]);
  assign used_after = ~(All << left[7:0]);
  assign packet_bit = 128'd1 << packet_at;

  always_ff @(posedge clock) begin
    // A state as the sender keeps it.
    assume (span <= 24'd128);
    assume (({64'd0, sacked} & ~used) == 128'd0);
    assume ((lost & ~used) == 128'd0);
    assume (({64'd0, sacked} & lost) == 128'd0);
    assume (ooh <= 7'd64 && {17'd0, ooh} <= span && (sacked >> ooh) == 64'd0);
    assume ({1'b0, ack} + {1'b0, timeout} + {1'b0, next} <= 2'd1);
    assume (!(overflow && no_room));
    // snd_una never goes back, nor beyond what was sent.
    assert ({16'd0, goes} <= span && begins - una == {16'd0, goes});
    // The maps stay within what was sent, and nothing is lost and has arrived.
    assert (({64'd0, sacked_after} & ~used_after) == 128'd0);
    assert ((lost_after & ~used_after) == 128'd0);
    assert (({64'd0, sacked_after} & lost_after) == 128'd0);
    assert ({17'd0, furthest} <= left && (sacked_after >> furthest) == 64'd0);
    // What has arrived stays so, and one packet more at most has.
    assert ((sacked_after & (sacked >> goes)) == (sacked >> goes));
    assert ((sacked_after ^ (sacked >> goes)) == 64'd0 || (is_new && acked));
    // Only a full window and a timeout lose packets; only what is sent again or arrives is not lost
    // any more.
    if (!timeout && !(acked && overflow)) assert ((lost_after & ~(lost >> goes)) == 128'd0);
    assert (((lost >> goes) & ~lost_after & ~{64'd0, sacked_after}) ==
            (takes_copy || takes_probe ? (lost & packet_bit) : 128'd0));
    // A packet costs window once.
    assert ((costs & (penalised >> goes)) == 128'd0);
    assert ((costs & ~penalised_after) == 128'd0);
    assert (((penalised >> goes) & ~penalised_after) == 128'd0);
    // One packet leaves at most: a copy of the lowest that is lost, or a new one if none is.
    assert ({1'b0, takes_probe} + {1'b0, takes_copy} + {1'b0, takes_new} <= 2'd1);
    assert (next || !(takes_probe || takes_copy || takes_new));
    if (takes_copy) assert ((lost & packet_bit) != 128'd0 && (lost & (packet_bit - 128'd1)) == 128'd0);
    if (takes_new) assert (has_new && lost == 128'd0);
    if (takes_copy || takes_new) assert (has_credits);
    if (takes_probe) begin
      assert ((packet_bit & used) != 128'd0);
      assert (asks_head || ({64'd0, sacked} & packet_bit) == 128'd0 || packet_at == 7'd0);
    end
    // To a silent peer one packet at a time is sent.
    if (silent && (used & ~lost & ~{64'd0, sacked}) != 128'd0) assert (!takes_copy && !takes_new);
    // What is sent again is not judged again in this epoch and the next one, unless the receiver names
    // it; a timeout gives up all.
    if (takes_copy || takes_probe) assert ((resent_after & packet_bit) != 128'd0);
    if (!timeout)
      assert ((lost_after & ~(lost >> goes) & (resent_moved | before_moved) & ~(128'd1 << at)) == 128'd0);
    if (timeout) assert ((lost_after | {64'd0, sacked_after}) == used_after);
    // What the receiver dropped costs once, too.
    if (drop_costs) assert (acked && named && ((penalised >> goes) & (128'd1 << at)) == 128'd0);
  end

endmodule
