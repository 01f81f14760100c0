// What the congestion window promises, for any state and any event; tests/offload/prove.py proves it.
// The step is the RTL's own, the losses first and the rest after them.
module window_properties (
    input logic        clock,
    input logic [31:0] window,
    input logic [23:0] owed,
    input logic [23:0] cost,
    input logic [16:0] reciprocal,
    input logic        slow,
    input logic        marked,
    input logic        grows,
    input logic        unused,
    input logic [ 9:0] used,
    input logic        timeout,
    input logic        gives_back,
    input logic        recovers,
    input logic [31:0] initial_window,
    input logic [31:0] max_window
);

  localparam logic [31:0] One = 32'h0001_0000;

  logic [31:0] left;
  logic [23:0] owed_left;
  mp_window_shrink losses (
      .window(window),
      .owed(owed),
      .by(cost),
      .window_after(left),
      .owed_after(owed_left)
  );

  logic [31:0] window_after;
  logic [23:0] owed_after;
  mp_window_step step (
      .window(left),
      .owed(owed_left),
      .reciprocal(reciprocal),
      .slow(slow),
      .marked(marked),
      .grows(grows),
      .unused(unused),
      .used(used),
      .timeout(timeout),
      .gives_back(gives_back),
      .recovers(recovers),
      .initial_window(initial_window),
      .max_window(max_window),
      .window_after(window_after),
      .owed_after(owed_after)
  );

  // As a device configures it, and as mp_window_step allows.
  logic bounded;
  logic other;
  assign bounded = window >= One && window <= max_window && initial_window >= One &&
                   initial_window <= max_window && max_window <= 32'hffff_0000;
  assign other = timeout || gives_back || recovers;

  logic [31:0] half;
  assign half = {1'b0, window[31:1]};

  // What there is: the window and what is owed.
  logic [32:0] before;
  logic [32:0] after;
  assign before = {1'b0, window} + {9'd0, owed};
  assign after = {1'b0, window_after} + {9'd0, owed_after};

  logic [31:0] by_ack;
  logic [31:0] taken;  // by this event
  assign by_ack = other ? 32'd0 : slow ? One : marked ? 32'h0000_8000 : 32'd0;
  assign taken = {8'd0, cost} + by_ack;

  always_ff @(posedge clock) begin
    assume (bounded);
    assume ({1'b0, slow} + {1'b0, marked} + {1'b0, grows} <= 2'd1);
    assume (!(grows && unused));
    assume (reciprocal <= 17'h1_0000 && (left <= 32'h8000_0000 || reciprocal <= 17'd1));
    assume (!(other && cost != 24'd0));
    // Never below one packet, never above the largest window.
    assert (window_after >= One);
    assert (window_after <= max_window);
    if (!other) begin
      // An acknowledgement takes what it says, from the window first and then from what is owed, and
      // nothing else: what is unused is owed, until the count of that is full.
      if (!grows && owed_after != 24'hff_ffff)
        assert (after == (before > {1'b0, taken} + {1'b0, One} ? before - {1'b0, taken} : {1'b0, One}));
      if (!grows) assert (after <= before && window_after <= window);
      // What is unused costs a packet at most.
      assert (grows || left - window_after <= by_ack + (unused ? One : 32'd0));
      if (grows) begin
        assert (window_after == (max_window - left < {15'd0, reciprocal} ? max_window
                                                                         : left + {15'd0, reciprocal}));
        assert (owed_after == owed_left);
      end
    end
    // A timeout leaves half, at most the first window, at least a packet.
    if (timeout) begin
      assert (owed_after == 24'd0);
      assert (window_after == (half >= initial_window ? initial_window : half <= One ? One : half));
    end
    // What comes back was owed, and fills the first window at most.
    if (gives_back && !recovers && !timeout) begin
      assert (window_after >= window && after <= before && owed_after == 24'd0);
      assert (window_after == window || window_after <= initial_window);
    end
    if (recovers && !timeout)
      assert (window_after == (window >= initial_window ? window : initial_window));
  end

endmodule
