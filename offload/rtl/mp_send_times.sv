// What the time says at an event of the sender: the round-trip time (RFC 6298, without variance),
// whether a round trip and an epoch of copies are over, and how long ago things were.
//
// Pure. Stored times have 24 bits in units of 64 ns; one that is old counts as 2^30 ns. The
// references are RttEstimator and OffloadSender (transport/stream), bit by bit.
//
// Latency 0 (combinational), initiation interval 1.
module mp_send_times (
    input  logic [31:0] now,  // ns
    input  logic [23:0] srtt,
    input  logic        rtt_known,
    input  logic [23:0] round_start,
    input  logic [23:0] epoch_start,
    input  logic [23:0] last_ack,
    input  logic [23:0] last_congestion,
    input  logic        round_old,
    input  logic        epoch_old,
    input  logic        ack_old,
    input  logic        congestion_old,
    // A sample: when the copy that arrived had left, and how long its acknowledgement was kept.
    input  logic        sampled,
    input  logic [31:0] echo,
    input  logic [ 7:0] delay_us,
    output logic [23:0] srtt_after,
    output logic        known_after,
    output logic        round_over,
    output logic        epoch_over,
    output logic        burst_due,   // half a round trip without an acknowledgement
    output logic        recovered    // 30 round trips without a sign of congestion
);

  localparam logic [7:0] DelayMax = 8'd255;  // as long, or longer

  // ---- The round trip
  logic [31:0] since_echo;
  logic [31:0] kept;
  logic [31:0] sample;
  logic        counts;
  logic signed [32:0] error;
  logic signed [32:0] rounded;  // towards zero once it is shifted
  logic [31:0] smoothed;
  logic [31:0] srtt_wide;

  assign since_echo = now - echo;
  assign kept = 32'd1000 * {24'd0, delay_us};
  assign sample = kept < since_echo ? since_echo - kept : since_echo;
  assign counts = sampled && !since_echo[31] && delay_us != DelayMax;
  assign error = $signed({1'b0, sample}) - $signed({9'd0, srtt});
  assign rounded = error + (error[32] ? 33'sd7 : 33'sd0);
  assign smoothed = {8'd0, srtt} + 32'(rounded >>> 3);
  assign srtt_wide = !counts ? {8'd0, srtt} : rtt_known ? smoothed : sample;
  assign srtt_after = srtt_wide[31:24] != 8'd0 ? 24'hff_ffff : srtt_wide[23:0];
  assign known_after = rtt_known || counts;

  // ---- How long ago, in units; an old time is as long ago as a number of 25 bits can say
  logic [23:0] units;
  logic [24:0] round_ago;
  logic [24:0] epoch_ago;
  logic [24:0] ack_ago;
  logic [24:0] congestion_ago;
  assign units = now[29:6];
  assign round_ago = round_old ? {1'b1, 24'd0} : {1'b0, units - round_start};
  assign epoch_ago = epoch_old ? {1'b1, 24'd0} : {1'b0, units - epoch_start};
  assign ack_ago = ack_old ? {1'b1, 24'd0} : {1'b0, units - last_ack};
  assign congestion_ago = congestion_old ? {1'b1, 24'd0} : {1'b0, units - last_congestion};

  logic [32:0] epoch;
  logic [28:0] long_ago;
  assign epoch = {1'b0, srtt_wide} + {3'd0, srtt_wide[31:2]};
  assign long_ago = 29'd30 * {5'd0, srtt};
  assign round_over = {round_ago, 6'd0} >= {7'd0, srtt};
  assign epoch_over = {2'd0, epoch_ago, 6'd0} >= epoch;
  assign burst_due = {ack_ago, 6'd0} >= {8'd0, srtt[23:1]};
  assign recovered = {congestion_ago, 6'd0} > {2'd0, long_ago};

endmodule
