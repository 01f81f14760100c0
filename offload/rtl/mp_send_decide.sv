// The middle stage of the sender's step: which packets are lost and which one leaves, and what of the
// state follows (MP-RDMA paper, 3.3 and 3.4).
//
// Pure. The reference is transport::OffloadSender, bit by bit.
//
// Latency 0 (combinational), initiation interval 1.
module mp_send_decide (
    input  mp_send::state_t   held,
    input  logic [575:0]      maps,     // as mp_send_maps has them, the first lowest
    input  mp_send::judged_t  lose,
    input  logic [7:0]        delta,
    output mp_send::state_t   lost,
    output logic [575:0]      judged,   // maps
    output logic [127:0]      costs,    // half a packet of window each
    output mp_send::decided_t decided
);

  localparam logic [7:0] SilentAfter = 8'd8;  // timeouts in a row

  logic [23:0] span;
  logic drop_costs;
  logic loses;
  logic asks;
  logic takes_probe;
  logic takes_copy;
  logic takes_new;
  logic [6:0] packet_at;
  assign span = held.nxt - held.una;
  assign judged[63:0] = maps[63:0];
  mp_send_losses losses (
      .sacked(maps[63:0]),
      .lost(maps[191:64]),
      .penalised(maps[319:192]),
      .resent(maps[447:320]),
      .resent_before(maps[575:448]),
      .span(span[23:8] != 16'd0 ? 8'd128 : span[7:0]),
      .ooh(held.ooh),
      .delta(delta),
      .overflow(lose.overflow),
      .of_head(lose.of_head),
      .no_room(lose.no_room),
      .named(lose.named),
      .at(lose.at),
      .timeout(lose.timeout),
      .epoch_over(lose.epoch_over),
      .next(lose.next),
      .probes(held.probes),
      .asks_head(held.asks_head),
      .silent(held.backoff >= SilentAfter),
      .has_credits(held.pathless != 8'd0 || held.with_path != 2'd0),
      .has_new(lose.has_new),
      .lost_after(judged[191:64]),
      .penalised_after(judged[319:192]),
      .resent_after(judged[447:320]),
      .resent_before_after(judged[575:448]),
      .costs(costs),
      .drop_costs(drop_costs),
      .loses(loses),
      .asks(asks),
      .takes_probe(takes_probe),
      .takes_copy(takes_copy),
      .takes_new(takes_new),
      .packet_at(packet_at)
  );

  logic begins;  // nothing was in flight
  logic congested;
  assign begins = takes_new && held.una == held.nxt;
  assign congested = loses || lose.timeout || (lose.progress && lose.ece);
  always_comb begin
    lost = held;
    if (congested) begin
      lost.last_congestion = lose.now;
      lost.congestion_old = 1'b0;
    end
    if (asks) begin
      lost.probes = 1'b1;
      lost.asks_head = 1'b1;
    end
    if (lose.progress) begin
      lost.backoff = 8'd0;
      if (!lost.asks_head) lost.probes = 1'b0;
    end
    if (lose.timeout) begin
      lost.probes = maps[0];
      lost.asks_head = maps[0];
    end
    if (takes_new) lost.nxt = held.nxt + 24'd1;
    if (begins) begin
      lost.epoch_start = lose.now;
      lost.epoch_old = 1'b0;
    end
    if (takes_probe || begins) begin
      lost.probes = 1'b0;
      lost.asks_head = 1'b0;
    end
  end

  assign decided = {
    lose.acked,
    lose.progress,
    lose.refused,
    lose.slow,
    lose.ece,
    lose.burst,
    lose.timeout,
    lose.post,
    lose.recovers,
    lose.has_new,
    takes_probe,
    takes_copy,
    takes_new,
    packet_at,
    lose.progress || loses || lose.timeout || lose.wakes || begins,
    lose.progress || begins,
    drop_costs,
    lose.path,
    lose.now
  };

endmodule
