// The outer headers of a frame: Ethernet, IPv4 or IPv6, UDP (IBTA annex A17; RFC 791, 8200, 768).
//
// Pure. The reference is wire::decode_frame(), check by check, in its order.
//
// Latency 0 (combinational), initiation interval 1.
module mp_parse_network (
    input  logic [943:0]      headers,       // the frame's first 118 bytes, the first one highest
    input  logic [16:0]       frame_bytes,
    output logic [4:0]        reason,        // wire::DropReason, 0: none
    output mp_wire::address_t address,
    output logic [15:0]       transport_bytes,  // BTH to pad
    output logic [447:0]      transport      // the first 56 bytes from the BTH on
);

  localparam logic [15:0] Ipv4Type = 16'h0800;
  localparam logic [15:0] Ipv6Type = 16'h86dd;
  localparam logic [7:0] Udp = 8'd17;
  localparam logic [7:0] Fragment = 8'd44;   // IPv6 next header
  localparam logic [15:0] RocePort = 16'd4791;
  localparam logic [16:0] EthernetBytes = 17'd14;

  logic [15:0] ether_type;
  logic [159:0] v4;
  assign ether_type = headers[943-8*12-:16];
  assign v4 = headers[943-8*14-:160];

  logic is_ipv4;
  logic is_ipv6;
  logic [16:0] ip_bytes;
  assign is_ipv4 = ether_type == Ipv4Type;
  assign is_ipv6 = ether_type == Ipv6Type;
  assign ip_bytes = frame_bytes - EthernetBytes;

  // The IPv4 header's sum, of 16-bit words, with the carries added again: all ones, if it is right.
  // (Such a sum is a multiple of 0xffff, and has no carry the second time.)
  logic [19:0] sum;
  logic [16:0] folded;
  always_comb begin
    sum = 20'd0;
    for (int i = 0; i < 10; i++) sum += {4'd0, v4[159-16*i-:16]};
    folded = {1'b0, sum[15:0]} + {13'd0, sum[19:16]};
  end

  logic [15:0] total;    // of IPv4: header and all
  logic [15:0] payload;  // of IPv6: without the header
  logic [7:0] next_header;
  assign total = v4[143-:16];
  assign payload = headers[943-8*18-:16];
  assign next_header = headers[943-8*20-:8];

  logic [4:0] ip_reason;
  always_comb begin
    ip_reason = 5'd0;
    if (frame_bytes < EthernetBytes) ip_reason = 5'd1;  // kTruncatedEthernet
    else if (is_ipv4) begin
      if (ip_bytes < 17'd20) ip_reason = 5'd3;  // kTruncatedIp
      else if (v4[159-:4] != 4'd4) ip_reason = 5'd4;  // kBadIpVersion
      else if (v4[155-:4] != 4'd5) ip_reason = 5'd5;  // kBadIpHeaderLength
      else if (folded != 17'h0ffff) ip_reason = 5'd6;  // kBadIpChecksum
      else if (total < 16'd20 || {1'b0, total} > ip_bytes) ip_reason = 5'd7;  // kBadIpTotalLength
      else if (v4[109] || v4[108-:13] != 13'd0) ip_reason = 5'd8;  // kIpFragment
      else if (v4[87-:8] != Udp) ip_reason = 5'd9;  // kNotUdp
    end else if (is_ipv6) begin
      if (ip_bytes < 17'd40) ip_reason = 5'd3;
      else if (headers[943-8*14-:4] != 4'd6) ip_reason = 5'd4;
      else if ({1'b0, payload} > ip_bytes - 17'd40) ip_reason = 5'd7;
      else if (next_header == Fragment) ip_reason = 5'd8;
      else if (next_header != Udp) ip_reason = 5'd9;
    end else ip_reason = 5'd2;  // kUnknownEtherType
  end

  logic [47:0] udp;  // ports and length
  logic [15:0] udp_bytes;
  assign udp = is_ipv6 ? headers[943-8*54-:48] : headers[943-8*34-:48];
  assign udp_bytes = is_ipv6 ? payload : total - 16'd20;
  always_comb begin
    reason = ip_reason;
    if (ip_reason == 5'd0) begin
      if (udp_bytes < 16'd8) reason = 5'd10;  // kTruncatedUdp
      else if (udp[31-:16] != RocePort) reason = 5'd12;  // kWrongUdpPort
      else if (udp[15:0] != udp_bytes) reason = 5'd11;  // kBadUdpLength
      else if (udp_bytes < 16'd24) reason = 5'd13;  // kTruncatedBth
    end
  end

  assign transport_bytes = udp_bytes - 16'd12;
  assign transport = is_ipv6 ? headers[943-8*62-:448] : headers[943-8*42-:448];
  assign address = {
    headers[943-:48],
    headers[943-48-:48],
    is_ipv6,
    is_ipv6 ? headers[943-8*22-:128] : {80'd0, 16'hffff, v4[63-:32]},
    is_ipv6 ? headers[943-8*38-:128] : {80'd0, 16'hffff, v4[31-:32]},
    is_ipv6 ? headers[943-8*14-4-:8] : v4[151-:8],
    is_ipv6 ? headers[943-8*21-:8] : v4[95-:8],
    is_ipv6 ? 16'd0 : v4[127-:16],
    udp[47-:16]
  };

endmodule
