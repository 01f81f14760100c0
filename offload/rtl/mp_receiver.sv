// The receiving half of many connections: the step (mp_receive_judge, mp_receive_advance,
// mp_receive_messages) around the context memory.
//
// A request is a packet of a connection, or a load that replaces its context (import, or the start of
// a connection). Every request has one answer, in order. An answer to a packet has the context after
// it, from which an acknowledgement is made: AACK is rcv_nxt, SACK the packet's PSN.
//
// Cycle by cycle: 0, the request is taken; rcv_nxt and the slots are read; 1, the packet is judged; 2,
// rcv_nxt advances and is written with the slots; the message number is read; 3, the messages count,
// their number is written, the answer is given. Latency 4 cycles, the request's and the answer's
// among them. Initiation interval 1 for different connections; a request waits while one of the same
// connection is judged or advances (same connection: 3). The message number is read after the one
// before it was written even so: that is one cycle later than the slots are written, and the read two
// cycles later.
//
// In reset no request is taken. What the memories hold of requests that were under way is undefined
// after it: such a connection needs a load, as every connection does to begin. Slot 0 of what is
// loaded is empty, as of every context at rest, so that only a packet for rcv_nxt moves anything.
module mp_receiver #(
    parameter int Connections = 1024,
    localparam int ConnectionBits = $clog2(Connections)
) (
    input logic clock,
    input logic reset,

    input  logic                      in_valid,
    output logic                      in_ready,
    input  logic [ConnectionBits-1:0] in_connection,
    input  logic                      in_load,
    input  logic [             175:0] in_context,  // slots, msn, rcv_nxt
    input  logic [              23:0] in_psn,
    input  logic [               1:0] in_slot,
    input  logic                      in_synchronise,
    input  logic [              23:0] in_packets_before,

    output logic                      out_valid,
    output logic [ConnectionBits-1:0] out_connection,
    output logic                      out_placed,
    output logic                      out_duplicate,
    output logic [               3:0] out_nack,
    output logic                      out_behind_hole,
    output logic [              63:0] out_map,
    output logic [               6:0] out_completions,
    output logic [             175:0] out_context
);

  logic [151:0] memory[Connections];           // slots, rcv_nxt
  logic [ 23:0] message_numbers[Connections];

  // ---- Cycle 0: take
  logic judge_valid;
  logic advance_valid;
  logic [ConnectionBits-1:0] judge_connection;
  logic [ConnectionBits-1:0] advance_connection;
  logic taken;

  assign in_ready = !reset && !(judge_valid && judge_connection == in_connection) &&
                    !(advance_valid && advance_connection == in_connection);
  assign taken = in_valid && in_ready;

  logic [151:0] judge_read;
  logic         judge_load;
  logic [175:0] judge_loaded;
  logic [ 23:0] judge_psn;
  logic [  1:0] judge_slot;
  logic         judge_synchronise;
  logic [ 23:0] judge_packets_before;

  always_ff @(posedge clock) begin
    judge_read <= memory[in_connection];
    judge_valid <= taken;
    judge_connection <= in_connection;
    judge_load <= in_load;
    judge_loaded <= in_context;
    judge_psn <= in_psn;
    judge_slot <= in_slot;
    judge_synchronise <= in_synchronise;
    judge_packets_before <= in_packets_before;
  end

  // ---- Cycle 1: judge
  logic         placed;
  logic         duplicate;
  logic [  3:0] nack;
  logic         behind_hole;
  logic [ 63:0] map;
  logic [127:0] slots;

  mp_receive_judge judge (
      .rcv_nxt(judge_read[23:0]),
      .slots(judge_read[151:24]),
      .psn(judge_psn),
      .slot(judge_slot),
      .synchronise(judge_synchronise),
      .packets_before(judge_packets_before),
      .placed(placed),
      .duplicate(duplicate),
      .nack(nack),
      .behind_hole(behind_hole),
      .map(map),
      .slots_after(slots)
  );

  logic         advance_load;
  logic [ 23:0] advance_loaded;  // of a load
  logic [ 23:0] advance_rcv_nxt;
  logic [127:0] advance_slots;
  logic         advance_placed;
  logic         advance_duplicate;
  logic [  3:0] advance_nack;
  logic         advance_behind_hole;
  logic [ 63:0] advance_map;

  always_ff @(posedge clock) begin
    advance_valid <= judge_valid && !reset;
    advance_connection <= judge_connection;
    advance_load <= judge_load;
    advance_loaded <= judge_loaded[47:24];
    advance_rcv_nxt <= judge_load ? judge_loaded[23:0] : judge_read[23:0];
    advance_slots <= judge_load ? judge_loaded[175:48] : slots;
    advance_placed <= placed && !judge_load;
    advance_duplicate <= duplicate && !judge_load;
    advance_nack <= judge_load ? 4'd0 : nack;
    advance_behind_hole <= behind_hole && !judge_load;
    advance_map <= judge_load ? 64'd0 : map;
  end

  // ---- Cycle 2: advance
  logic [ 23:0] rcv_nxt_after;
  logic [127:0] slots_after;
  logic [  6:0] passed;

  mp_receive_advance advance (
      .rcv_nxt(advance_rcv_nxt),
      .slots(advance_slots),
      .rcv_nxt_after(rcv_nxt_after),
      .slots_after(slots_after),
      .passed(passed)
  );

  logic                      messages_load;
  logic [ConnectionBits-1:0] messages_connection;
  logic [              23:0] messages_loaded;
  logic [              23:0] messages_read;
  logic [             127:0] messages_slots;
  logic [               6:0] messages_passed;
  logic [              23:0] messages_rcv_nxt;
  logic [             127:0] messages_slots_after;

  always_ff @(posedge clock) begin
    if (advance_valid) memory[advance_connection] <= {slots_after, rcv_nxt_after};
    messages_read <= message_numbers[advance_connection];
    out_valid <= advance_valid && !reset;
    messages_connection <= advance_connection;
    messages_load <= advance_load;
    messages_loaded <= advance_loaded;
    messages_slots <= advance_slots;
    messages_passed <= passed;
    messages_rcv_nxt <= rcv_nxt_after;
    messages_slots_after <= slots_after;
    out_placed <= advance_placed;
    out_duplicate <= advance_duplicate;
    out_nack <= advance_nack;
    out_behind_hole <= advance_behind_hole;
    out_map <= advance_map;
  end

  // ---- Cycle 3: messages
  logic [23:0] msn_after;

  mp_receive_messages messages (
      .msn(messages_load ? messages_loaded : messages_read),
      .slots(messages_slots),
      .passed(messages_passed),
      .msn_after(msn_after),
      .completions(out_completions)
  );

  assign out_connection = messages_connection;
  assign out_context = {messages_slots_after, msn_after, messages_rcv_nxt};

  always_ff @(posedge clock) begin
    if (out_valid) message_numbers[messages_connection] <= msn_after;
  end

endmodule
