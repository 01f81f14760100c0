// The sending half of many connections (MP-RDMA paper, 3.1 to 3.5): the step (mp_send_times,
// mp_send_judge, mp_send_maps, mp_send_losses, mp_send_credits, and mp_window) around the context
// memory. The reference is transport::OffloadSender, bit by bit.
//
// A request is an event of a connection (in_kind), the request for the next packet of that event, or
// a load that replaces the context. After each event requests for the next packet follow until one
// has no packet; the event ends with the next event, and the credits that are left lose their path.
// Random draws are inputs, and so is the expiry of the transport timer, which a RoCE connection has
// anyway: out_restarts says that it counts from now, out_progresses that retries count anew. What
// offload_params() switches off, synchronise operations and receivers that are not ready are
// software's.
//
// Cycle by cycle: 0, the request is taken, and the context is read; 1, what the time and an
// acknowledgement say; 2, the maps follow snd_una; 3, losses, and the packet that leaves; 4, counts,
// and the maps are written; 4 to 14, the congestion window; 15, credits, and the rest is written and
// the answer given. Latency 16 cycles, the request's and the answer's among them. Initiation interval
// 1 for different connections, 16 for one.
//
// In reset no request is taken. What the memories hold of requests that were under way is undefined
// after it: such a connection needs a load, as every connection does to begin.
module mp_sender #(
    parameter int Connections = 1024,
    localparam int ConnectionBits = $clog2(Connections)
) (
    input logic clock,
    input logic reset,

    // Of all connections: the first and the largest window (Q16.16, 255 packets at most), and the
    // packets that a path may lag.
    input logic [31:0] initial_window,
    input logic [31:0] max_window,
    input logic [ 7:0] delta,

    input  logic                      in_valid,
    output logic                      in_ready,
    input  logic [ConnectionBits-1:0] in_connection,
    input  logic [               2:0] in_kind,
    input  logic [             272:0] in_state,       // of a load, as mp_send::state_t
    input  logic [             575:0] in_maps,
    input  logic [              31:0] in_now,         // ns
    input  logic                      in_has_new,     // there is a packet for snd_nxt
    input  logic                      in_explore,     // drawn: this round trip explores a path
    input  logic [              15:0] in_path,        // drawn
    // An acknowledgement.
    input  logic [              23:0] in_aack,
    input  logic                      in_sack_valid,
    input  logic [              23:0] in_sack,
    input  logic [               3:0] in_nack,        // wire::NackCode
    input  logic                      in_ece,
    input  logic                      in_copy,
    input  logic                      in_sample,
    input  logic [              31:0] in_echo,
    input  logic [               7:0] in_delay_us,
    input  logic [              15:0] in_vp,

    output logic                      out_valid,
    output logic [ConnectionBits-1:0] out_connection,
    output logic                      out_refused,     // the acknowledgement cannot be true
    output logic [               1:0] out_packet,      // leaves: 0 none, 1 new, 2 copy, 3 probe
    output logic [              23:0] out_psn,
    output logic [              15:0] out_vp,
    output logic                      out_restarts,
    output logic                      out_progresses,
    output logic [             272:0] out_state,

    // The maps, as they are written.
    output logic                      maps_valid,
    output logic [ConnectionBits-1:0] maps_connection,
    output logic [             575:0] maps_written
);

  localparam logic [2:0] KindLoad = 3'd0;  // the others: mp_send_begin.sv
  localparam logic [7:0] WireBacklogMax = 8'd8;   // credits that wait for the wire

  logic [272:0] states[Connections];
  logic [575:0] maps[Connections];

  // ---- Cycle 0: take
  localparam int Stages = 11;  // of the line beside the window
  logic taken;
  logic busy;  // a request of this connection is under way
  assign in_ready = !reset && !busy;
  assign taken = in_valid && in_ready;

  logic                      time_valid;
  logic [ConnectionBits-1:0] time_connection;
  logic [2:0]                time_kind;
  logic [272:0]              time_read;
  logic [575:0]              time_maps_read;
  logic [272:0]              time_loaded;
  logic [575:0]              time_maps_loaded;
  mp_send::event_t                    happens;

  always_ff @(posedge clock) begin
    time_valid <= taken;
    time_connection <= in_connection;
    time_kind <= in_kind;
    time_read <= states[in_connection];
    time_maps_read <= maps[in_connection];
    time_loaded <= in_state;
    time_maps_loaded <= in_maps;
    happens <= {
      in_now, in_has_new, in_explore, in_path, in_aack, in_sack_valid, in_sack, in_nack, in_ece,
      in_copy, in_sample, in_echo, in_delay_us, in_vp
    };
  end

  // ---- Cycle 1: what the time and an acknowledgement say
  mp_send::state_t held;
  logic [575:0] maps_before;
  assign held = time_kind == KindLoad ? time_loaded : time_read;
  assign maps_before = time_kind == KindLoad ? time_maps_loaded : time_maps_read;

  mp_send::state_t timed;
  mp_send::judged_t verdict;
  logic [7:0] by;
  logic marks;
  mp_send_begin begin_event (
      .kind(time_kind),
      .held(held),
      .sacked(maps_before[63:0]),
      .happens(happens),
      .delta(delta),
      .timed(timed),
      .verdict(verdict),
      .by(by),
      .marks(marks)
  );

  logic                      move_valid;
  logic [ConnectionBits-1:0] move_connection;
  mp_send::state_t                    move_state;
  logic [575:0]              move_maps;
  logic [7:0]                move_by;
  logic                      move_marks;
  mp_send::judged_t                   move_judged;

  always_ff @(posedge clock) begin
    move_valid <= time_valid && !reset;
    move_connection <= time_connection;
    move_state <= timed;
    move_maps <= maps_before;
    move_by <= by;
    move_marks <= marks;
    move_judged <= verdict;
  end

  // ---- Cycle 2: the maps follow
  logic [575:0] moved;
  mp_send_maps move (
      .sacked(move_maps[63:0]),
      .lost(move_maps[191:64]),
      .penalised(move_maps[319:192]),
      .resent(move_maps[447:320]),
      .resent_before(move_maps[575:448]),
      .by(move_by),
      .marks(move_marks),
      .at(move_judged.at[5:0]),
      .sacked_after(moved[63:0]),
      .lost_after(moved[191:64]),
      .penalised_after(moved[319:192]),
      .resent_after(moved[447:320]),
      .resent_before_after(moved[575:448])
  );

  logic                      lose_valid;
  logic [ConnectionBits-1:0] lose_connection;
  mp_send::state_t                    lose_state;
  logic [575:0]              lose_maps;
  mp_send::judged_t                   lose;

  always_ff @(posedge clock) begin
    lose_valid <= move_valid && !reset;
    lose_connection <= move_connection;
    lose_state <= move_state;
    lose_maps <= moved;
    lose <= move_judged;
  end

  // ---- Cycle 3: losses, and the packet that leaves
  mp_send::state_t lost;
  logic [575:0] judged;
  logic [127:0] costs;
  mp_send::decided_t decided;
  mp_send_decide decide (
      .held(lose_state),
      .maps(lose_maps),
      .lose(lose),
      .delta(delta),
      .lost(lost),
      .judged(judged),
      .costs(costs),
      .decided(decided)
  );

  logic                      count_valid;
  logic [ConnectionBits-1:0] count_connection;
  mp_send::state_t                    count_state;
  logic [575:0]              count_maps;
  logic [127:0]              count_costs;
  mp_send::decided_t                  count;

  always_ff @(posedge clock) begin
    count_valid <= lose_valid && !reset;
    count_connection <= lose_connection;
    count_state <= lost;
    count_maps <= judged;
    count_costs <= costs;
    count <= decided;
  end

  // ---- Cycle 4: counts; the window begins
  logic [7:0] lost_count;
  logic [7:0] sacked_count;
  logic [7:0] cost_count;
  logic [7:0] in_flight;
  logic [9:0] used;
  logic work;
  logic limits;
  logic [23:0] cost;
  logic [6:0] window_event;
  assign lost_count = 8'($countones(count_maps[191:64]));
  assign sacked_count = 8'($countones(count_maps[63:0]));
  assign cost_count = 8'($countones(count_costs));
  assign in_flight = count_state.nxt[7:0] - count_state.una[7:0] - lost_count - sacked_count;
  assign used = {2'd0, in_flight} + {2'd0, count_state.pathless} + {8'd0, count_state.with_path};
  assign work = count.has_new || lost_count != 8'd0;
  // Credits wait only where nothing may leave: the window is not what limits.
  assign limits = work && count_state.pathless <= WireBacklogMax;
  assign cost = {1'b0, cost_count, 15'd0} + (count.drop_costs ? 24'h00_4000 : 24'd0);
  assign window_event = {
    count.post && count.recovers,
    count.post,
    count.timeout && count_state.backoff == 8'd1,
    count.progress && !count.slow && !work,
    count.progress && !count.slow && !count.ece && limits,
    count.progress && !count.slow && count.ece,
    count.slow
  };

  assign maps_valid = count_valid;
  assign maps_connection = count_connection;
  assign maps_written = count_maps;
  always_ff @(posedge clock) begin
    if (count_valid) maps[count_connection] <= count_maps;
  end

  logic window_valid;
  logic [31:0] window_now;
  logic [23:0] owed_now;
  logic settle_valid;
  logic [31:0] window_after;
  logic [23:0] owed_after;
  mp_window window (
      .clock(clock),
      .reset(reset),
      .in_valid(count_valid),
      .in_window(count_state.window),
      .in_owed(count_state.owed),
      .in_cost(cost),
      .in_used(used),
      .in_event(window_event),
      .in_initial(initial_window),
      .in_max(max_window),
      .out_valid(window_valid),
      .out_window(window_now),
      .out_owed(owed_now)
  );

  always_ff @(posedge clock) begin
    window_after <= window_now;
    owed_after <= owed_now;
    settle_valid <= window_valid;
  end

  // ---- Cycles 5 to 15: a line of registers beside it
  typedef struct packed {
    logic        refused;
    logic        restarts;
    logic        progresses;
    logic        acked;
    logic        slow;
    logic        work;
    logic        burst;
    logic        timeout;
    logic        post;
    logic        takes_probe;
    logic        takes_copy;
    logic        takes_new;
    logic [6:0]  packet_at;
    logic [15:0] path;
    logic [23:0] now;
    logic [7:0]  in_flight;
    logic [272:0] state;
  } line_t;
  localparam int LineBits = 340;
  line_t line_in;
  line_t last;
  logic [LineBits*Stages-1:0] line;
  logic [Stages-1:0] line_valid;
  logic [ConnectionBits*Stages-1:0] line_connection;

  assign line_in = {
    count.refused, count.restarts, count.progresses, count.acked, count.slow, work, count.burst,
    count.timeout, count.post, count.takes_probe, count.takes_copy, count.takes_new,
    count.packet_at, count.path, count.now, in_flight, count_state
  };
  always_ff @(posedge clock) begin
    line <= {line[LineBits*(Stages-1)-1:0], line_in};
    line_connection <= {line_connection[ConnectionBits*(Stages-1)-1:0], count_connection};
    line_valid <= reset ? '0 : {line_valid[Stages-2:0], count_valid};
  end
  assign last = line[LineBits*Stages-1-:LineBits];

  always_comb begin
    busy = (time_valid && time_connection == in_connection) ||
           (move_valid && move_connection == in_connection) ||
           (lose_valid && lose_connection == in_connection) ||
           (count_valid && count_connection == in_connection);
    for (int k = 0; k < Stages; k++) begin
      if (line_valid[k] && line_connection[ConnectionBits*k+:ConnectionBits] == in_connection)
        busy = 1'b1;
    end
  end

  // ---- Cycle 15: credits, and the answer
  mp_send::state_t settled;
  mp_send::state_t after;
  logic has_room;
  logic takes_path;
  logic [7:0] pathless_after;
  logic [1:0] with_path_after;
  assign settled = last.state;
  mp_send_credits grant (
      .window(window_after[23:16]),
      .in_flight(last.in_flight),
      .pathless(settled.pathless),
      .with_path(settled.with_path),
      .acknowledged(last.acked),
      .refills(last.burst || last.post),
      .restarts(last.timeout),
      .takes_probe(last.takes_probe),
      .takes_copy(last.takes_copy),
      .takes_new(last.takes_new),
      .has_path(settled.vp != 16'd0),
      .slow(last.slow),
      .work(last.work),
      .has_room(has_room),
      .takes_path(takes_path),
      .pathless_after(pathless_after),
      .with_path_after(with_path_after)
  );

  always_comb begin
    after = settled;
    after.window = window_after;
    after.owed = owed_after;
    after.pathless = pathless_after;
    after.with_path = with_path_after;
    if (last.burst && has_room) begin
      after.last_ack = last.now;
      after.ack_old = 1'b0;
    end
    if (takes_path) after.probe_due = 1'b0;
  end

  assign out_valid = line_valid[Stages-1] && settle_valid;
  assign out_connection = line_connection[ConnectionBits*Stages-1-:ConnectionBits];
  assign out_refused = last.refused;
  assign out_restarts = last.restarts;
  assign out_progresses = last.progresses;
  assign out_packet = last.takes_probe ? 2'd3 : last.takes_copy ? 2'd2 : {1'b0, last.takes_new};
  assign out_psn = last.takes_new ? settled.nxt - 24'd1 : settled.una + {17'd0, last.packet_at};
  assign out_vp = takes_path && !settled.probe_due ? settled.vp : last.path;
  assign out_state = after;

  always_ff @(posedge clock) begin
    if (out_valid) states[out_connection] <= after;
  end

endmodule
