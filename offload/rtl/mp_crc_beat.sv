// What 64 bytes add to the register of the invariant CRC (CRC-32 of IEEE 802.3, reflected).
//
// The register after a beat is what the beat's bytes give for a register of zeros, and what the
// register before gives for a beat of zeros: the first four bytes do the same as the register. Both
// are sums modulo 2 of fixed bits.
//
// Pure. Latency 0 (combinational), initiation interval 1.
module mp_crc_beat (
    input  logic [511:0] data,    // byte i at bits 8 i and up
    output logic [ 31:0] of_data,
    input  logic [ 31:0] register,
    output logic [ 31:0] of_register
);

  localparam logic [31:0] Polynomial = 32'hedb88320;

  // The bits of a beat that bit `of` of the register is the sum of: the last one that comes in adds
  // the polynomial, the one before it what a step makes of that.
  function automatic logic [511:0] summands(input logic [4:0] of);
    logic [31:0] adds;
    adds = Polynomial;
    for (int i = 511; i >= 0; i--) begin
      summands[i] = adds[of];
      adds = {1'b0, adds[31:1]} ^ (adds[0] ? Polynomial : 32'd0);
    end
  endfunction

  for (genvar j = 0; j < 32; j++) begin : g_bit
    localparam logic [511:0] Summands = summands(5'(j));
    assign of_data[j] = ^(data & Summands);
    assign of_register[j] = ^(register & Summands[31:0]);
  end

endmodule
