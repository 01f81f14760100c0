// The congestion window shrinks, never below one packet; what it cannot give is taken from the window
// that is owed (MP-RDMA paper, 3.2). The reference is cc::MpWindow (cc/mp_window.hpp).
//
// Pure. Windows are packets in Q16.16, what is owed and taken in Q8.16. A window is at least one.
//
// Latency 0 (combinational), initiation interval 1.
module mp_window_shrink (
    input  logic [31:0] window,
    input  logic [23:0] owed,
    input  logic [23:0] by,
    output logic [31:0] window_after,
    output logic [23:0] owed_after
);

  localparam logic [31:0] One = 32'h0001_0000;

  logic [31:0] above;  // one packet
  logic        floors;
  logic [23:0] over;  // what the window cannot give

  assign above = window - One;
  assign floors = {8'd0, by} > above;
  assign over = floors ? by - above[23:0] : 24'd0;
  assign window_after = floors ? One : window - {8'd0, by};
  assign owed_after = owed > over ? owed - over : 24'd0;

endmodule
