// The headers of a frame in their bytes: Ethernet, IPv4 or IPv6, UDP, and what the transport has
// (IBTA annex A17; RFC 791, 8200, 768).
//
// Pure. The reference is wire::encode_frame(). Switches that hash the flow label of IPv6 in place of
// the ports see the virtual path there, too.
//
// Latency 0 (combinational), initiation interval 1.
module mp_build_network (
    input  mp_wire::address_t address,
    input  logic [447:0]      transport,
    input  logic [15:0]       bytes,      // of UDP: header, transport, payload, pad, invariant CRC
    output logic [943:0]      headers     // the first byte highest
);

  localparam logic [15:0] Ipv4Type = 16'h0800;
  localparam logic [15:0] Ipv6Type = 16'h86dd;
  localparam logic [7:0] UdpProtocol = 8'd17;
  localparam logic [15:0] RocePort = 16'd4791;
  localparam logic [15:0] DontFragment = 16'h4000;

  logic [7:0] tos;
  logic [63:0] udp;
  assign tos = {address.dscp, address.ecn};
  assign udp = {address.vp, RocePort, bytes, 16'd0};

  // The IPv4 header with a checksum of zero, its sum, and the carries added again.
  logic [159:0] v4;
  logic [19:0] sum;
  logic [16:0] once;
  logic [15:0] twice;
  assign v4 = {
    8'h45,
    tos,
    16'd20 + bytes,
    address.identification,
    DontFragment,
    address.ttl,
    UdpProtocol,
    16'd0,
    address.src_ip[31:0],
    address.dst_ip[31:0]
  };
  always_comb begin
    sum = 20'd0;
    for (int i = 0; i < 10; i++) sum += {4'd0, v4[159-16*i-:16]};
    once = {1'b0, sum[15:0]} + {13'd0, sum[19:16]};
    twice = once[15:0] + {15'd0, once[16]};
  end

  always_comb begin
    if (address.is_ipv6) begin
      headers = {
        address.dst_mac, address.src_mac, Ipv6Type,
        4'd6, tos, 4'd0, address.vp, bytes, UdpProtocol, address.ttl, address.src_ip, address.dst_ip,
        udp, transport
      };
    end else begin
      headers = {
        address.dst_mac, address.src_mac, Ipv4Type,
        v4[159:80], ~twice, v4[63:0],
        udp, transport, 160'd0
      };
    end
  end

endmodule
