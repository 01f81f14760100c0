// The invariant CRC of frames as they pass, 64 bytes a cycle (IBTA 7.8.1, annex A17.3.3): over eight
// bytes of ones and the packet from its IP header on, with ones in the place of what may change on
// the way.
//
// The Ethernet header goes in as zeros, for which the register begins as much earlier, and so do the
// bytes behind what is covered in its last beat, which are taken back at the end. What is covered
// ends two bytes behind a multiple of four.
//
// Cycle by cycle: 0, a beat is given; 1, zeros and ones are in their places; 2, what the beat adds is
// known; 3, the register has it, and the zeros are taken back: the answer. Latency 3, initiation
// interval 1.
module mp_icrc (
    input  logic         clock,
    input  logic         reset,
    input  logic         in_valid,
    input  logic         in_first,  // beat of the frame
    input  logic [511:0] in_data,   // byte i at bits 8 i and up
    input  logic [ 16:0] in_left,   // bytes from this beat on, until what is covered ends
    output logic         out_valid,
    output logic [ 31:0] out_register
);

  localparam logic [15:0] Ipv6Type = 16'h86dd;
  // wire::icrc_init() before 14 bytes of zeros.
  localparam logic [31:0] Start = 32'hae0bacae;

  // ---- Cycle 1: what is covered, and what of it counts as ones
  logic second;   // the next beat is a frame's second
  logic is_ipv6;  // of the frame under way
  logic in_is_ipv6;
  assign in_is_ipv6 = {in_data[8*12+:8], in_data[8*13+:8]} == Ipv6Type;

  logic masked_valid;
  logic masked_first;
  logic masked_ends;
  logic [3:0] masked_zeros;  // behind what is covered, in four bytes; two bytes more always are
  logic [511:0] masked;
  logic covers;
  assign covers = in_valid && in_left != 17'd0;
  always_ff @(posedge clock) begin
    masked_valid <= covers && !reset;
    masked_first <= in_first;
    masked_ends <= in_left <= 17'd64;
    masked_zeros <= 4'd15 - in_left[5:2];
    for (int i = 0; i < 64; i++) begin
      masked[8*i+:8] <= in_left > 17'(i) ? in_data[8*i+:8] : 8'd0;
    end
    if (in_first) begin
      masked[8*14-1:0] <= 112'd0;
      if (in_is_ipv6) begin
        masked[8*14+:4] <= 4'hf;      // traffic class, flow label
        masked[8*15+:24] <= 24'hffffff;
        masked[8*21+:8] <= 8'hff;     // hop limit
        masked[8*60+:16] <= 16'hffff; // UDP checksum
      end else begin
        masked[8*15+:8] <= 8'hff;     // TOS
        masked[8*22+:8] <= 8'hff;     // TTL
        masked[8*24+:16] <= 16'hffff; // header checksum
        masked[8*40+:16] <= 16'hffff; // UDP checksum
        masked[8*46+:8] <= 8'hff;     // BTH: FECN, BECN, reserved
      end
    end else if (second && is_ipv6) masked[8*2+:8] <= 8'hff;  // BTH, likewise
    if (in_valid) begin
      second <= in_first;
      if (in_first) is_ipv6 <= in_is_ipv6;
    end
  end

  // ---- Cycle 2: what the beat adds
  logic added_valid;
  logic added_first;
  logic added_ends;
  logic [3:0] added_zeros;
  logic [31:0] added;
  logic [31:0] of_data;
  logic [31:0] of_register;
  logic [31:0] register;
  always_ff @(posedge clock) begin
    added_valid <= masked_valid && !reset;
    added_first <= masked_first;
    added_ends <= masked_ends;
    added_zeros <= masked_zeros;
    added <= of_data;
  end
  mp_crc_beat beat (
      .data(masked),
      .of_data(of_data),
      .register(added_first ? Start : register),
      .of_register(of_register)
  );

  // ---- Cycle 3: the register; the zeros are taken back
  logic summed_ends;
  logic [3:0] summed_zeros;
  always_ff @(posedge clock) begin
    summed_ends <= added_valid && added_ends && !reset;
    summed_zeros <= added_zeros;
    if (added_valid) register <= added ^ of_register;
  end

  logic [31:0] without_2;
  logic [31:0] back_4;
  logic [31:0] back_8;
  logic [31:0] back_16;
  logic [31:0] back_32;
  logic [31:0] without_4;
  logic [31:0] without_8;
  logic [31:0] without_16;
  mp_crc_unwind #(.Bytes(2)) unwind_2 (.register(register), .before_zeros(without_2));
  mp_crc_unwind #(.Bytes(4)) unwind_4 (.register(without_2), .before_zeros(back_4));
  assign without_4 = summed_zeros[0] ? back_4 : without_2;
  mp_crc_unwind #(.Bytes(8)) unwind_8 (.register(without_4), .before_zeros(back_8));
  assign without_8 = summed_zeros[1] ? back_8 : without_4;
  mp_crc_unwind #(.Bytes(16)) unwind_16 (.register(without_8), .before_zeros(back_16));
  assign without_16 = summed_zeros[2] ? back_16 : without_8;
  mp_crc_unwind #(.Bytes(32)) unwind_32 (.register(without_16), .before_zeros(back_32));
  assign out_register = summed_zeros[3] ? back_32 : without_16;
  assign out_valid = summed_ends;

endmodule
