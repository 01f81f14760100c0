// The register of the invariant CRC as it was before so many bytes of zeros came in.
//
// Pure. Latency 0 (combinational), initiation interval 1.
module mp_crc_unwind #(
    parameter int Bytes = 1
) (
    input  logic [31:0] register,
    output logic [31:0] before_zeros
);

  localparam logic [31:0] Polynomial = 32'hedb88320;

  // The step backwards is linear, too: the bits of the register that each bit is the sum of. Bit 31
  // of the polynomial is set, so that bit 31 of a register says which bit fell out of it.
  function automatic logic [1023:0] all_summands();
    logic [31:0] becomes;
    for (int k = 0; k < 32; k++) begin
      becomes = 32'd1 << k;
      for (int i = 0; i < 8 * Bytes; i++) begin
        becomes = becomes[31] ? {becomes[30:0] ^ Polynomial[30:0], 1'b1} : {becomes[30:0], 1'b0};
      end
      for (int j = 0; j < 32; j++) all_summands[32*j+k] = becomes[j];
    end
  endfunction
  localparam logic [1023:0] Summands = all_summands();

  for (genvar j = 0; j < 32; j++) begin : g_bit
    assign before_zeros[j] = ^(register & Summands[32*j+:32]);
  end

endmodule
