// floor(2^32 / window) of a window in Q16.16 that is at least one packet: 1 / w in Q16.16, rounded
// down, as Fixed16::reciprocal() (base/fixed_point.hpp).
//
// A restoring division. The quotient has 17 bits, the highest first; each cycle finds two of them by
// comparing and subtracting, the first cycle one.
//
// Latency 9 cycles, initiation interval 1.
module mp_reciprocal (
    input  logic        clock,
    input  logic [31:0] window,
    output logic [16:0] reciprocal
);

  localparam int Stages = 9;

  // Nobody reads what the last stage leaves, nor the quotient's highest bits before it.
  /* verilator lint_off UNUSEDSIGNAL */
  for (genvar k = 0; k < Stages; k++) begin : g_stage
    logic [31:0] divisor;
    logic [32:0] rest;
    logic [16:0] quotient;
    if (k == 0) begin : g_first
      // The dividend without its last 16 bits, which are zero, is 2^16.
      logic equal;
      assign equal = window == 32'h0001_0000;
      always_ff @(posedge clock) begin
        divisor <= window;
        rest <= equal ? 33'd0 : 33'h0_0001_0000;
        quotient <= {16'd0, equal};
      end
    end else begin : g_next
      logic [32:0] by;
      logic [32:0] twice;
      logic [32:0] again;
      logic        high;
      logic        low;
      assign by = {1'b0, g_stage[k-1].divisor};
      assign twice = g_stage[k-1].rest << 1;
      assign high = twice >= by;
      assign again = (high ? twice - by : twice) << 1;
      assign low = again >= by;
      always_ff @(posedge clock) begin
        divisor <= g_stage[k-1].divisor;
        rest <= low ? again - by : again;
        quotient <= {g_stage[k-1].quotient[14:0], high, low};
      end
    end
  end
  /* verilator lint_on UNUSEDSIGNAL */

  assign reciprocal = g_stage[Stages-1].quotient;

endmodule
