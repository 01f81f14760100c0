// The congestion window of an event, in a pipeline: what losses cost, the reciprocal of what is left,
// and the step (mp_window_shrink, mp_reciprocal, mp_window_step). The caller has the context memory.
//
// Cycle by cycle: 0, the losses are taken from the window; 1 to 9, the division; 10, the step and the
// answer. Latency 11 cycles, the request's and the answer's among them; initiation interval 1.
//
// Reset empties the pipeline.
module mp_window (
    input logic clock,
    input logic reset,

    input logic        in_valid,
    input logic [31:0] in_window,
    input logic [23:0] in_owed,
    input logic [23:0] in_cost,   // what the losses of this event take together, Q8.16
    input logic [ 9:0] in_used,   // in flight, or to leave: more room than that is unused
    input logic [ 6:0] in_event,  // recovers, gives_back, timeout, unused, grows, marked, slow
    input logic [31:0] in_initial,
    input logic [31:0] in_max,

    output logic        out_valid,
    output logic [31:0] out_window,
    output logic [23:0] out_owed
);

  localparam int Stages = 10;  // registers between the losses and the step

  logic [31:0] left;
  logic [23:0] owed_left;
  mp_window_shrink losses (
      .window(in_window),
      .owed(in_owed),
      .by(in_cost),
      .window_after(left),
      .owed_after(owed_left)
  );

  // A line of registers: valid, what is used, event, initial and largest window, what is owed, the window.
  localparam int Width = 138;
  logic [Width*Stages-1:0] line;
  logic [       Width-1:0] last;

  always_ff @(posedge clock) begin
    line <= {
      line[Width*(Stages-1)-1:0], in_valid, in_used, in_event, in_initial, in_max, owed_left, left
    };
    if (reset) for (int k = 0; k < Stages; k++) line[Width*k+Width-1] <= 1'b0;
  end
  assign last = line[Width*Stages-1-:Width];

  logic [16:0] reciprocal;
  mp_reciprocal divide (
      .clock(clock),
      .window(line[31:0]),
      .reciprocal(reciprocal)
  );

  mp_window_step step (
      .window(last[31:0]),
      .owed(last[55:32]),
      .reciprocal(reciprocal),
      .slow(last[120]),
      .marked(last[121]),
      .grows(last[122]),
      .unused(last[123]),
      .used(last[136:127]),
      .timeout(last[124]),
      .gives_back(last[125]),
      .recovers(last[126]),
      .initial_window(last[119:88]),
      .max_window(last[87:56]),
      .window_after(out_window),
      .owed_after(out_owed)
  );

  assign out_valid = last[137];

endmodule
