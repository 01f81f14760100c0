// The lowest bit that is set; 0 if none is.
//
// Pure. Latency 0 (combinational), initiation interval 1.
module mp_lowest (
    input  logic [127:0] bits,
    output logic [  6:0] at
);

  // From the lowest bit on upwards all are set.
  logic [127:0] of2;
  logic [127:0] of4;
  logic [127:0] of8;
  logic [127:0] of16;
  logic [127:0] of32;
  logic [127:0] of64;
  logic [127:0] filled;
  logic [127:0] only;
  assign of2 = bits | (bits << 1);
  assign of4 = of2 | (of2 << 2);
  assign of8 = of4 | (of4 << 4);
  assign of16 = of8 | (of8 << 8);
  assign of32 = of16 | (of16 << 16);
  assign of64 = of32 | (of32 << 32);
  assign filled = of64 | (of64 << 64);
  assign only = filled & ~(filled << 1);

  always_comb begin
    at = 7'd0;
    for (int i = 0; i < 128; i++) if (only[i]) at |= 7'(i);
  end

endmodule
