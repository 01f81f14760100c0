// Frames to packets: RoCEv2 over IPv4 and IPv6 with the extensions of the mode mp, and the invariant
// CRC, 64 bytes a cycle (docs/wire-format.md). The reference is wire::decode_frame(): the same fields,
// or the same reason to drop the frame.
//
// A frame comes in beats of 64 bytes, the last of which says how many of its bytes count. It may
// follow the one before without a pause, or with pauses anywhere: a frame of a single beat has an
// answer a cycle.
//
// Cycle by cycle, from that of the last beat on: 0, it is taken; 1, the first 118 bytes are together;
// 2, Ethernet, IP and UDP are judged; 3, BTH and extensions; 4, the invariant CRC; 5, the answer.
// Latency 5, initiation interval 1.
module mp_parser (
    input logic clock,
    input logic reset,

    input logic         in_valid,
    input logic [511:0] in_data,   // byte i at bits 8 i and up
    input logic         in_last,
    input logic [  6:0] in_bytes,  // of the last beat, 1 to 64

    output logic              out_valid,
    output logic [4:0]        out_reason,         // wire::DropReason; the rest means nothing then
    output mp_wire::opcode_t  out_info,
    output mp_wire::address_t out_address,
    output mp_wire::packet_t  out_packet,
    output logic [6:0]        out_payload_offset
);

  localparam logic [15:0] Ipv6Type = 16'h86dd;
  localparam logic [31:0] Residue = 32'hdebb20e3;  // of a CRC that has itself behind it
  localparam logic [4:0] BadIcrc = 5'd22;

  // ---- Cycle 0: take
  logic beat_valid;
  logic beat_first;
  logic beat_last;
  logic [6:0] beat_bytes;
  logic [511:0] beat;
  logic next_is_first;
  always_ff @(posedge clock) begin
    beat_valid <= in_valid && !reset;
    beat_first <= next_is_first;
    beat_last <= in_last;
    beat_bytes <= in_last ? in_bytes : 7'd64;
    beat <= in_data;
    if (reset) next_is_first <= 1'b1;
    else if (in_valid) next_is_first <= in_last;
  end

  // ---- Cycle 1: the first two beats; how much there is; how far the invariant CRC goes
  logic second;                // the next beat is
  logic [511:0] first_beat;
  logic [431:0] second_beat;
  logic [16:0] bytes_before;
  logic [16:0] left_before;
  logic [16:0] bytes;
  logic [16:0] left;
  assign bytes = (beat_first ? 17'd0 : bytes_before) + {10'd0, beat_bytes};
  always_comb begin
    if (!beat_first) left = left_before;
    else if ({beat[8*12+:8], beat[8*13+:8]} == Ipv6Type)
      left = 17'd54 + {1'b0, beat[8*18+:8], beat[8*19+:8]};
    else left = 17'd14 + {1'b0, beat[8*16+:8], beat[8*17+:8]};
  end

  logic all_valid;
  logic [16:0] all_bytes;
  logic [943:0] all_data;  // the first 118 bytes
  always_ff @(posedge clock) begin
    all_valid <= beat_valid && beat_last && !reset;
    all_bytes <= bytes;
    all_data <= {
      second && !beat_first ? beat[431:0] : second_beat, beat_first ? beat : first_beat
    };
    if (beat_valid) begin
      second <= beat_first;
      bytes_before <= bytes;
      left_before <= left > 17'd64 ? left - 17'd64 : 17'd0;
      if (beat_first) first_beat <= beat;
      if (second) second_beat <= beat[431:0];
    end
  end

  logic crc_valid;
  logic [31:0] crc;
  mp_icrc icrc (
      .clock(clock),
      .reset(reset),
      .in_valid(beat_valid),
      .in_first(beat_first),
      .in_data(beat),
      .in_left(left),
      .out_valid(crc_valid),
      .out_register(crc)
  );

  // ---- Cycle 2: Ethernet, IP, UDP
  logic [943:0] headers;
  logic [4:0] network_reason;
  mp_wire::address_t address;
  logic [15:0] transport_bytes;
  logic [447:0] transport;
  for (genvar i = 0; i < 118; i++) begin : g_byte
    assign headers[943-8*i-:8] = all_data[8*i+:8];
  end
  mp_parse_network parse_network (
      .headers(headers),
      .frame_bytes(all_bytes),
      .reason(network_reason),
      .address(address),
      .transport_bytes(transport_bytes),
      .transport(transport)
  );

  logic outer_valid;
  logic [4:0] outer_reason;
  mp_wire::address_t outer_address;
  logic [15:0] outer_bytes;
  logic [447:0] outer_transport;
  always_ff @(posedge clock) begin
    outer_valid <= all_valid && !reset;
    outer_reason <= network_reason;
    outer_address <= address;
    outer_bytes <= transport_bytes;
    outer_transport <= transport;
  end

  // ---- Cycle 3: BTH and extensions
  logic [4:0] transport_reason;
  mp_wire::opcode_t info;
  mp_wire::packet_t packet;
  mp_parse_transport parse_transport (
      .transport(outer_transport),
      .bytes(outer_bytes),
      .reason(transport_reason),
      .info(info),
      .packet(packet)
  );

  logic inner_valid;
  logic [4:0] inner_reason;
  mp_wire::opcode_t inner_info;
  mp_wire::address_t inner_address;
  mp_wire::packet_t inner_packet;
  always_ff @(posedge clock) begin
    inner_valid <= outer_valid && !reset;
    inner_reason <= outer_reason != 5'd0 ? outer_reason : transport_reason;
    inner_info <= info;
    inner_address <= outer_address;
    inner_packet <= packet;
  end

  // ---- Cycle 4: the invariant CRC, whose end has come with the last beat, or before it
  logic crc_was_good;
  logic crc_good;
  assign crc_good = crc_valid ? crc == Residue : crc_was_good;
  always_ff @(posedge clock) begin
    crc_was_good <= crc_good;
    out_valid <= inner_valid && !reset;
    out_reason <= inner_reason == 5'd0 && !crc_good ? BadIcrc : inner_reason;
    out_info <= inner_info;
    out_address <= inner_address;
    out_packet <= inner_packet;
    out_payload_offset <= (inner_address.is_ipv6 ? 7'd62 : 7'd42) + {1'b0, inner_info.header_bytes};
  end

endmodule
