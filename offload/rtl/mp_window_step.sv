// What an event makes of the congestion window, after the losses that it tells of (MP-RDMA paper,
// 3.2, and the deviations in cc/mp_window.hpp). The reference is cc::MpWindow, bit by bit.
//
// Pure. Windows are packets in Q16.16, what is owed in Q8.16. At most one of slow, marked and grows
// is given; unused may come with slow or marked; timeout, gives_back and recovers come alone, but for
// recovers, which may follow gives_back.
//
// Latency 0 (combinational), initiation interval 1.
module mp_window_step (
    input  logic [31:0] window,
    input  logic [23:0] owed,
    input  logic [16:0] reciprocal,  // of the window
    input  logic        slow,        // an acknowledgement of a path that is too slow
    input  logic        marked,      // one with ECE
    input  logic        grows,       // one without, while the window limits
    input  logic        unused,      // one that found nothing to send,
    input  logic [ 9:0] used,        // where the window has room for more packets than these
    input  logic        timeout,     // the first one of a silence
    input  logic        gives_back,  // the application has packets again
    input  logic        recovers,    // and congestion was long ago
    input  logic [31:0] initial_window,
    input  logic [31:0] max_window,
    output logic [31:0] window_after,
    output logic [23:0] owed_after
);

  localparam logic [31:0] One = 32'h0001_0000;
  localparam logic [23:0] OneTaken = 24'h01_0000;
  localparam logic [23:0] HalfTaken = 24'h00_8000;

  // ---- An acknowledgement
  logic [31:0] shrunk;
  logic [23:0] owed_shrunk;
  mp_window_shrink shrink (
      .window(window),
      .owed(owed),
      .by(slow ? OneTaken : marked ? HalfTaken : 24'd0),
      .window_after(shrunk),
      .owed_after(owed_shrunk)
  );

  // No carry: the reciprocal of a window that is so large is 1.
  logic [31:0] grown;
  logic [31:0] acked;
  assign grown = window + {15'd0, reciprocal};
  assign acked = !grows ? shrunk : grown > max_window ? max_window : grown;

  // ---- Use it or lose it (paper, 3.5); what is lost is owed
  logic        takes;
  logic [31:0] above;
  logic [23:0] taken;
  logic [24:0] owed_more;
  assign above = acked - One;
  assign takes = unused && acked[31:16] > {6'd0, used};
  assign taken = !takes ? 24'd0 : above > One ? OneTaken : above[23:0];
  assign owed_more = {1'b0, owed_shrunk} + {1'b0, taken};

  // ---- The other events
  logic [31:0] half;
  logic [31:0] after_timeout;
  logic [32:0] returned;
  logic [31:0] given_back;
  assign half = window >> 1;
  assign after_timeout = half < One ? One : half > initial_window ? initial_window : half;
  assign returned = {1'b0, window} + {9'd0, owed};
  always_comb begin
    given_back = window;
    if (gives_back && window < initial_window)
      given_back = returned > {1'b0, initial_window} ? initial_window : returned[31:0];
    if (recovers && given_back < initial_window) given_back = initial_window;
  end

  always_comb begin
    if (timeout) begin
      window_after = after_timeout;
      owed_after = 24'd0;
    end else if (gives_back || recovers) begin
      window_after = given_back;
      owed_after = gives_back ? 24'd0 : owed;
    end else begin
      window_after = acked - {8'd0, taken};
      owed_after = owed_more[24] ? 24'hff_ffff : owed_more[23:0];
    end
  end

endmodule
