// Packets to frames: RoCEv2 over IPv4 and IPv6 with the extensions of the mode mp, and the invariant
// CRC, 64 bytes a cycle (docs/wire-format.md). The reference is wire::encode_frame() and
// wire::finish_frame(), byte by byte.
//
// A packet is given with the first beat of its payload, if it has any; the next beats follow in any
// later cycle that has in_ready. The frame leaves a beat a cycle, as far as the payload comes: a line
// that may not pause needs the whole payload before it.
//
// Cycle by cycle: 0, the packet is taken; 1, BTH and extensions; 2, Ethernet, IP and UDP; 3 and on, a
// beat of the frame in each; 4, the beat enters mp_icrc; 7, the invariant CRC is put behind the last
// one; 8, the answer. Latency 8, from packet to first beat; initiation interval the beats of the
// frame, of which there is one more where two bytes of the invariant CRC have no room.
module mp_builder (
    input logic clock,
    input logic reset,

    // A packet.
    input  logic              in_valid,
    output logic              in_ready,
    input  mp_wire::address_t in_address,
    input  mp_wire::packet_t  in_packet,
    // Its payload, a beat after the other, byte i at bits 8 i and up.
    input  logic              payload_valid,
    output logic              payload_ready,
    input  logic [511:0]      payload_data,

    output logic         out_valid,
    output logic [511:0] out_data,
    output logic         out_last,
    output logic [  6:0] out_bytes  // of the last beat, 1 to 64; the others are zero
);

  // ---- Cycle 0: take. A stage that is taken from takes the next packet in the same cycle.
  logic packet_valid;
  logic packet_moves;
  mp_wire::address_t address;
  mp_wire::packet_t packet;
  assign in_ready = !reset && (!packet_valid || packet_moves);
  always_ff @(posedge clock) begin
    if (in_ready) begin
      packet_valid <= in_valid;
      address <= in_address;
      packet <= in_packet;
    end
    if (reset) packet_valid <= 1'b0;
  end

  // ---- Cycle 1: BTH and extensions
  logic [5:0] transport_bytes;  // of headers
  logic [447:0] transport;
  mp_build_transport build_transport (
      .packet(packet),
      .header_bytes(transport_bytes),
      .transport(transport)
  );
  logic [15:0] padded;  // payload and pad
  assign padded = {packet.payload_bytes[15:2] + {13'd0, packet.payload_bytes[1:0] != 2'd0}, 2'd0};

  logic outer_valid;
  logic outer_moves;
  mp_wire::address_t outer_address;
  logic [447:0] outer_transport;
  logic [6:0] outer_bytes;  // of headers
  logic [15:0] outer_payload;
  logic [15:0] outer_padded;
  logic [15:0] udp_bytes;
  assign packet_moves = packet_valid && (!outer_valid || outer_moves);
  always_ff @(posedge clock) begin
    if (packet_moves || outer_moves) outer_valid <= packet_moves;
    if (packet_moves) begin
      outer_address <= address;
      outer_transport <= transport;
      outer_bytes <= (address.is_ipv6 ? 7'd62 : 7'd42) + {1'b0, transport_bytes};
      outer_payload <= packet.payload_bytes;
      outer_padded <= padded;
      udp_bytes <= 16'd12 + {10'd0, transport_bytes} + padded;
    end
    if (reset) outer_valid <= 1'b0;
  end

  // ---- Cycle 2: Ethernet, IP, UDP
  logic [943:0] headers;
  mp_build_network build_network (
      .address(outer_address),
      .transport(outer_transport),
      .bytes(udp_bytes),
      .headers(headers)
  );

  logic [943:0] turned;  // byte i at bits 8 i and up
  for (genvar i = 0; i < 118; i++) begin : g_byte
    assign turned[8*i+:8] = headers[943-8*i-:8];
  end

  // ---- Cycle 3 and on: beats. What does not fit behind the header is carried to the next beat.
  logic streaming;
  logic ends;             // the frame, with this beat
  logic first;
  logic whole;            // the beat is of headers alone
  logic tail;             // the invariant CRC's own beat
  logic is_last;          // of what is covered
  logic two_more;         // bytes of the invariant CRC do not fit behind it
  logic needs;            // payload
  logic moves;            // a beat of the frame
  logic [6:0] header_bytes;
  logic [943:0] header;
  logic [511:0] carried;
  logic [15:0] payload_left;
  logic [16:0] left;      // of what is covered, from this beat on
  assign whole = first && header_bytes[6];
  assign is_last = left <= 17'd64;
  assign two_more = left == 17'd62;
  assign needs = !whole && payload_left != 16'd0;
  assign payload_ready = streaming && needs && !reset;
  assign moves = streaming && (!needs || payload_valid);
  assign ends = moves && (tail || (is_last && !two_more));
  assign outer_moves = outer_valid && (!streaming || ends);

  logic [511:0] payload;  // zeros behind its end
  logic [1023:0] shifted;
  logic [511:0] behind;   // what comes before it in this beat
  always_comb begin
    for (int i = 0; i < 64; i++) begin
      payload[8*i+:8] = needs && payload_left > 16'(i) ? payload_data[8*i+:8] : 8'd0;
    end
  end
  assign shifted = {512'd0, payload} << {header_bytes[5:0], 3'd0};
  assign behind = first ? header[511:0] : carried;

  always_ff @(posedge clock) begin
    if (moves) begin
      first <= 1'b0;
      tail <= is_last;
      left <= left - 17'd64;
      carried <= whole ? {80'd0, header[943:512]} : shifted[1023:512];
      if (needs) payload_left <= payload_left > 16'd64 ? payload_left - 16'd64 : 16'd0;
    end
    if (outer_moves) begin
      first <= 1'b1;
      tail <= 1'b0;
      left <= {10'd0, outer_bytes} + {1'b0, outer_padded};
      payload_left <= outer_payload;
      header_bytes <= outer_bytes;
      header <= turned;
    end
    if (outer_moves || ends) streaming <= outer_moves;
    if (reset) streaming <= 1'b0;
  end

  // ---- The line beside the invariant CRC
  logic made_valid;
  logic made_last;         // of the frame
  logic made_first;
  logic [16:0] made_left;  // of what is covered
  logic [511:0] made;
  logic [2:0] line_valid;
  logic [2:0] line_last;
  logic [17:0] line_left;
  logic [1535:0] line;
  always_ff @(posedge clock) begin
    made_valid <= moves && !reset;
    made_last <= ends;
    made_first <= first;
    made_left <= tail ? 17'd0 : left;
    made <= behind | (whole ? 512'd0 : shifted[511:0]);
    line_valid <= reset ? 3'd0 : {line_valid[1:0], made_valid};
    line_last <= {line_last[1:0], made_last};
    line_left <= {line_left[11:0], made_left[5:0]};
    line <= {line[1023:0], made};
  end

  logic crc_valid;
  logic [31:0] crc;
  mp_icrc icrc (
      .clock(clock),
      .reset(reset),
      .in_valid(made_valid),
      .in_first(made_first),
      .in_data(made),
      .in_left(made_left),
      .out_valid(crc_valid),
      .out_register(crc)
  );

  // ---- Its answer: behind what it covers, or what of it did not fit, in a beat of its own
  logic [15:0] rest;
  logic [5:0] end_left;
  logic [511:0] end_beat;
  assign end_left = line_left[17:12];
  assign end_beat = line[1535:1024];
  always_ff @(posedge clock) begin
    rest <= ~crc[31:16];
    out_valid <= line_valid[2] && !reset;
    out_last <= line_last[2];
    out_bytes <= !line_last[2] ? 7'd64 : crc_valid ? {1'b0, end_left} + 7'd4 : 7'd2;
    if (crc_valid) out_data <= end_beat | ({480'd0, ~crc} << {end_left, 3'd0});
    else if (line_last[2]) out_data <= {496'd0, rest};
    else out_data <= end_beat;
  end

endmodule
