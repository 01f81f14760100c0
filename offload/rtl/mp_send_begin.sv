// The first stage of the sender's step: what the time and an acknowledgement say, and what of the
// state follows at once (MP-RDMA paper, 3.1 to 3.5).
//
// Pure. The reference is transport::OffloadSender, bit by bit.
//
// Latency 0 (combinational), initiation interval 1.
module mp_send_begin (
    input  logic [2:0]       kind,     // of mp_sender.sv
    input  mp_send::state_t  held,
    input  logic [63:0]      sacked,
    input  mp_send::event_t  happens,
    input  logic [7:0]       delta,
    output mp_send::state_t  timed,
    output mp_send::judged_t verdict,
    output logic [7:0]       by,       // packets that snd_una goes
    output logic             marks     // the acknowledgement's packet has arrived
);

  localparam logic [2:0] KindLoad = 3'd0;     // replaces the context
  localparam logic [2:0] KindAck = 3'd1;
  localparam logic [2:0] KindBurst = 3'd2;    // half a round trip without an acknowledgement
  localparam logic [2:0] KindTimeout = 3'd3;  // of the transport timer
  localparam logic [2:0] KindPost = 3'd4;     // there is something to send, and was not
  localparam logic [2:0] KindWake = 3'd5;     // the peer lives
  localparam logic [2:0] KindAsk = 3'd6;      // the receiver still waits for snd_una
  localparam logic [2:0] KindNext = 3'd7;     // the next packet

  localparam logic [3:0] NackNone = 4'd0;
  localparam logic [3:0] NackWindowOverflow = 4'd1;
  localparam logic [3:0] NackBudgetExhausted = 4'd2;

  logic idle;
  assign idle = held.una == held.nxt;

  logic refused;
  logic advanced;
  logic is_new;
  logic [7:0] goes;
  logic [23:0] una_after;
  logic [6:0] ooh_after;
  logic arrives;
  logic named;
  logic [6:0] at;
  logic slow;
  mp_send_judge judge (
      .una(held.una),
      .nxt(held.nxt),
      .sacked(sacked),
      .ooh(held.ooh),
      .aack(happens.aack),
      .sack_valid(happens.sack_valid),
      .sack(happens.sack),
      .nacks(happens.nack != NackNone),
      .copy(happens.copy),
      .delta(delta),
      .refused(refused),
      .advanced(advanced),
      .is_new(is_new),
      .by(goes),
      .una_after(una_after),
      .ooh_after(ooh_after),
      .marks(arrives),
      .named(named),
      .at(at),
      .slow(slow)
  );

  logic acked;  // by what can be true
  logic [23:0] srtt_after;
  logic known_after;
  logic round_over;
  logic epoch_over;
  logic burst_due;
  logic recovered;
  assign acked = kind == KindAck && !refused;
  mp_send_times times (
      .now(happens.now),
      .srtt(held.srtt),
      .rtt_known(held.rtt_known),
      .round_start(held.round_start),
      .epoch_start(held.epoch_start),
      .last_ack(held.last_ack),
      .last_congestion(held.last_congestion),
      .round_old(held.round_old),
      .epoch_old(held.epoch_old),
      .ack_old(held.ack_old),
      .congestion_old(held.congestion_old),
      .sampled(is_new && happens.sample),
      .echo(happens.echo),
      .delay_us(happens.delay_us),
      .srtt_after(srtt_after),
      .known_after(known_after),
      .round_over(round_over),
      .epoch_over(epoch_over),
      .burst_due(burst_due),
      .recovered(recovered)
  );

  // The credits that an event finds have no path, and one that a timer finds may have waited.
  logic [8:0] credits;
  logic timeout;
  logic wakes;
  logic asks_again;
  assign credits = {1'b0, held.pathless} + {7'd0, held.with_path};
  assign timeout = kind == KindTimeout && !idle;
  assign wakes = kind == KindWake && !idle && held.backoff != 8'd0;
  assign asks_again = kind == KindAsk && !idle;
  always_comb begin
    timed = held;
    if (kind != KindNext && kind != KindLoad) begin
      timed.pathless = credits[8] ? 8'd255 : credits[7:0];
      timed.with_path = 2'd0;
    end
    if (acked) begin
      timed.una = una_after;
      timed.ooh = ooh_after;
      timed.srtt = srtt_after;
      timed.rtt_known = known_after;
      timed.last_ack = happens.now[29:6];
      timed.ack_old = 1'b0;
      timed.vp = happens.vp[15:14] == 2'd3 ? happens.vp : 16'd0;  // what is no virtual path is none
      if (round_over) begin
        timed.round_start = happens.now[29:6];
        timed.round_old = 1'b0;
        timed.probe_due = happens.explore;
      end
      if (epoch_over) begin
        timed.epoch_start = happens.now[29:6];
        timed.epoch_old = 1'b0;
      end
      if (advanced && held.asks_head) begin
        timed.probes = 1'b0;
        timed.asks_head = 1'b0;
      end
    end
    if (timeout && held.backoff != 8'd255) timed.backoff = held.backoff + 8'd1;
    if (wakes) begin
      timed.backoff = 8'd0;
      timed.probes = 1'b1;
    end
    if (asks_again) begin
      timed.probes = 1'b1;
      timed.asks_head = 1'b1;
    end
  end

  assign verdict = {
    acked,
    acked && (advanced || is_new),
    kind == KindAck && refused,
    acked && slow,
    happens.ece,
    acked && happens.nack == NackWindowOverflow,
    una_after == happens.aack,
    acked && happens.nack == NackBudgetExhausted,
    acked && named,
    at,
    acked && epoch_over,
    kind == KindBurst && !idle && burst_due,
    timeout,
    wakes,
    kind == KindPost,
    idle && recovered,
    kind == KindNext,
    happens.has_new,
    happens.path,
    happens.now[29:6]
  };

  assign by = acked ? goes : 8'd0;
  assign marks = acked && arrives;

endmodule
