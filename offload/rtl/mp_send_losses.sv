// Which packets are lost now, and which one leaves (MP-RDMA paper, 3.3): what the receiver's full
// window dropped, what a timeout gives up, the end of an epoch of copies; the probe, the copy or the
// new packet of a request for the next one.
//
// Pure. The reference is OffloadSender (transport/stream/offload_sender.hpp), bit by bit: its
// take_overflow(), take_no_room(), on_timeout(), roll_epoch() and next().
//
// Latency 0 (combinational), initiation interval 1.
module mp_send_losses (
    input  logic [ 63:0] sacked,
    input  logic [127:0] lost,
    input  logic [127:0] penalised,
    input  logic [127:0] resent,
    input  logic [127:0] resent_before,
    input  logic [  7:0] span,           // packets from snd_una to snd_nxt
    input  logic [  6:0] ooh,
    input  logic [  7:0] delta,
    // A NACK of a full window; its AACK is snd_una; its packet, or that of no room, lies at `at`.
    input  logic         overflow,
    input  logic         of_head,
    input  logic         no_room,
    input  logic         named,
    input  logic [  6:0] at,
    input  logic         timeout,
    input  logic         epoch_over,
    // The next packet.
    input  logic         next,
    input  logic         probes,
    input  logic         asks_head,
    input  logic         silent,         // eight timeouts in a row
    input  logic         has_credits,
    input  logic         has_new,
    output logic [127:0] lost_after,
    output logic [127:0] penalised_after,
    output logic [127:0] resent_after,
    output logic [127:0] resent_before_after,
    output logic [127:0] costs,          // half a packet each
    output logic         drop_costs,     // a quarter
    output logic         loses,
    output logic         asks,           // the head is to ask
    output logic         takes_probe,    // what leaves: one of three, or nothing
    output logic         takes_copy,
    output logic         takes_new,
    output logic [  6:0] packet_at
);

  logic [127:0] arrived;
  logic [127:0] in_use;  // the PSNs that were sent
  logic [127:0] known;   // that need no verdict
  assign arrived = {64'd0, sacked};
  assign in_use = ~(128'hffff_ffff_ffff_ffff_ffff_ffff_ffff_ffff << span);
  assign known = arrived | lost | resent | resent_before;

  // ---- The receiver's window was full
  logic         head_judged;
  logic         head_lost;
  logic [127:0] named_bit;
  logic         drops;
  logic [127:0] far;  // behind what has arrived
  logic [127:0] suspects;
  logic [  7:0] behind;
  assign head_judged = overflow && of_head && span != 8'd0 && !resent[0] && !resent_before[0];
  assign head_lost = head_judged && !sacked[0] && !lost[0];
  assign asks = head_judged && sacked[0];
  assign named_bit = 128'd1 << at;
  assign drops = overflow && named && (named_bit & (arrived | lost)) == 128'd0 &&
                 !(head_lost && at == 7'd0);
  assign behind = {1'b0, ooh} > delta ? {1'b0, ooh} - delta : 8'd0;
  assign far = ~(128'hffff_ffff_ffff_ffff_ffff_ffff_ffff_ffff << behind);

  logic [127:0] head_bit;
  logic [127:0] drop_bit;
  assign head_bit = {127'd0, head_lost};
  assign drop_bit = drops ? named_bit : 128'd0;
  assign suspects = overflow ? far & ~(known | head_bit | drop_bit) : 128'd0;

  // Each costs once.
  logic [127:0] holes;
  assign holes = head_bit | suspects;
  assign costs = holes & ~penalised;
  assign drop_costs = drops && (drop_bit & penalised) == 128'd0;
  assign loses = head_lost || drops || suspects != 128'd0;

  // ---- The next packet
  logic         idle;
  logic         in_flight;
  logic [ 63:0] hides;  // what may be the last try
  logic [  6:0] lowest;
  logic [  5:0] highest;
  assign idle = span == 8'd0;
  assign in_flight = (in_use & ~(lost | arrived)) != 128'd0;
  assign hides = in_use[63:0] & ~sacked;

  mp_lowest low (
      .bits(lost),
      .at (lowest)
  );
  mp_highest high (
      .bits(hides),
      .at (highest)
  );

  always_comb begin
    takes_probe = 1'b0;
    takes_copy = 1'b0;
    takes_new = 1'b0;
    packet_at = 7'd0;
    if (next && probes && !idle) begin
      takes_probe = 1'b1;
      packet_at = asks_head || !sacked[0] ? 7'd0 : {1'b0, highest};
    end else if (next && has_credits && !(silent && in_flight)) begin
      takes_copy = lost != 128'd0;
      takes_new = !takes_copy && has_new;
      packet_at = lowest;
    end
  end

  // ---- Afterwards
  logic [127:0] leaves;
  logic [127:0] told;  // had no room: it costs nothing later
  logic [127:0] given_up;
  assign leaves = takes_probe || takes_copy ? 128'd1 << packet_at : 128'd0;
  assign told = no_room && named && (named_bit & arrived) == 128'd0 ? named_bit : 128'd0;
  assign given_up = timeout ? in_use & ~(arrived | lost) : 128'd0;
  assign lost_after = (lost | holes | drop_bit | given_up) & ~leaves;
  assign penalised_after = penalised | holes | drop_bit | told;
  assign resent_after = timeout || epoch_over ? 128'd0 : resent | leaves;
  assign resent_before_after = timeout ? 128'd0 : epoch_over ? resent : resent_before;

endmodule
