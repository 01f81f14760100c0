// What the parser promises of a frame that it lets through, whatever the frame's bytes are;
// tests/offload/prove.py proves it. The steps are the RTL's own.
module parse_properties (
    input logic         clock,
    input logic [943:0] headers,
    input logic [ 16:0] frame_bytes
);

  localparam logic [16:0] IcrcBytes = 17'd4;

  logic [4:0] network_reason;
  logic [4:0] transport_reason;
  mp_wire::address_t address;
  logic [15:0] transport_bytes;
  logic [447:0] transport;
  mp_wire::opcode_t info;
  mp_wire::packet_t packet;
  mp_parse_network network (
      .headers(headers),
      .frame_bytes(frame_bytes),
      .reason(network_reason),
      .address(address),
      .transport_bytes(transport_bytes),
      .transport(transport)
  );
  mp_parse_transport inner (
      .transport(transport),
      .bytes(transport_bytes),
      .reason(transport_reason),
      .info(info),
      .packet(packet)
  );

  logic passes;
  logic [16:0] before;     // the BTH
  logic [16:0] body_ends;  // payload and pad
  logic [16:0] payload_ends;
  logic [1:0] pad;
  assign passes = network_reason == 5'd0 && transport_reason == 5'd0;
  assign before = address.is_ipv6 ? 17'd62 : 17'd42;
  assign payload_ends = before + {11'd0, info.header_bytes} + {1'b0, packet.payload_bytes};
  assign body_ends = before + {1'b0, transport_bytes};
  assign pad = transport[437:436];

  always_ff @(posedge clock) begin
    if (passes) begin
      // Headers, payload, pad and invariant CRC lie within the frame, and nothing lies between.
      assert (body_ends + IcrcBytes <= frame_bytes);
      assert (payload_ends + {15'd0, pad} == body_ends);
      assert (before + {11'd0, info.header_bytes} <= payload_ends);
      // The CRC's beat ends two bytes behind a multiple of four, as mp_icrc needs it.
      assert (body_ends[1:0] == 2'd2);
      // All that a packet is made of is what its opcode has.
      assert (info.valid && info.header_bytes >= 6'd12 && info.header_bytes <= 6'd56);
      assert (info.has_payload || packet.payload_bytes == 16'd0);
      assert (!(info.has_mp_data && info.has_mp_ack));
      assert (!info.has_mp_ack || packet.nack < 4'd9);
    end
  end

endmodule
