// The highest bit that is set; 0 if none is.
//
// Pure. Latency 0 (combinational), initiation interval 1.
module mp_highest (
    input  logic [63:0] bits,
    output logic [ 5:0] at
);

  // From the highest bit on downwards all are set.
  logic [63:0] of2;
  logic [63:0] of4;
  logic [63:0] of8;
  logic [63:0] of16;
  logic [63:0] of32;
  logic [63:0] filled;
  logic [63:0] only;
  assign of2 = bits | (bits >> 1);
  assign of4 = of2 | (of2 >> 2);
  assign of8 = of4 | (of4 >> 4);
  assign of16 = of8 | (of8 >> 8);
  assign of32 = of16 | (of16 >> 16);
  assign filled = of32 | (of32 >> 32);
  assign only = filled & ~(filled >> 1);

  always_comb begin
    at = 6'd0;
    for (int i = 0; i < 64; i++) if (only[i]) at |= 6'(i);
  end

endmodule
