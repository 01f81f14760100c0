// BTH and extension headers of a packet (IBTA 9.2 and 9.3; of the mode mp: docs/wire-format.md).
//
// Pure. The reference is wire::decode_transport(), check by check, in its order. Reserved bits are
// ignored.
//
// Latency 0 (combinational), initiation interval 1.
module mp_parse_transport (
    // The first 56 bytes, the first one highest; reserved bits are not looked at.
    /* verilator lint_off UNUSEDSIGNAL */
    input  logic [447:0]     transport,
    /* verilator lint_on UNUSEDSIGNAL */
    input  logic [15:0]      bytes,      // BTH to pad
    output logic [4:0]       reason,     // wire::DropReason, 0: none
    output mp_wire::opcode_t info,
    output mp_wire::packet_t packet
);

  localparam logic [3:0] MpVersion = 4'd1;
  localparam logic [7:0] NackCodes = 8'd9;
  localparam logic [31:0] AtomicBytes = 32'd8;

  mp_opcode of_opcode (
      .opcode(transport[447-:8]),
      .info(info)
  );

  logic [7:0] flags;  // of the BTH
  logic [127:0] ext;  // mp extension
  assign flags = transport[447-8*1-:8];
  assign ext = transport[351-:128];

  logic [15:0] body;
  logic [1:0] pad;
  assign body = bytes - {10'd0, info.header_bytes};
  assign pad = flags[5:4];
  always_comb begin
    reason = 5'd0;
    if (flags[3:0] != 4'd0) reason = 5'd14;  // kBadTransportVersion
    else if (!info.valid) reason = 5'd15;  // kUnknownOpcode
    else if (bytes < {10'd0, info.header_bytes}) reason = 5'd16;  // kTruncatedExtension
    else if ({14'd0, pad} > body) reason = 5'd17;  // kBadPad
    else if (body[1:0] != 2'd0) reason = 5'd18;  // kBadLength
    else if (body != 16'd0 && !info.has_payload) reason = 5'd19;  // kUnexpectedPayload
    else if ((info.has_mp_data || info.has_mp_ack) && ext[127-:4] != MpVersion) reason = 5'd20;
    else if (info.has_mp_ack && ext[111-:8] >= NackCodes) reason = 5'd21;  // kUnknownNackCode
  end

  // What follows the extension of mp, the XRCETH or the DETH.
  logic [223:0] tail;
  logic [31:0] behind_reth;
  logic [63:0] behind_aeth;
  always_comb begin
    if (info.has_mp_data || info.has_mp_ack) tail = transport[447-8*28-:224];
    else if (info.has_deth) tail = transport[447-8*20-:224];
    else if (info.has_xrceth) tail = transport[447-8*16-:224];
    else tail = transport[447-8*12-:224];
  end
  assign behind_reth = info.has_reth ? tail[223-8*16-:32] : tail[223-:32];
  assign behind_aeth = info.has_aeth ? tail[223-8*4-:64] : tail[223-:64];

  assign packet = {
    transport[447-:8],
    flags[7],
    flags[6],
    transport[447-8*4],
    transport[446-8*4],
    transport[447-8*8],
    transport[446-8*8] && info.is_rc,
    transport[447-8*2-:16],
    transport[447-8*5-:24],
    transport[447-8*9-:24],
    body - {14'd0, pad},
    ext[115:112],
    ext[95-:32],
    ext[63-:24],
    ext[31:0],
    ext[118:112],
    ext[107:104],
    ext[103:96],
    ext[95-:32],
    ext[63-:24],
    ext[39:32],
    ext[31-:24],
    ext[7:0],
    tail[223-:64],
    ext[119-:24],
    ext[127-:32],
    ext[87-:24],
    tail[223-:64],
    tail[159-:32],
    info.has_atomic_eth ? AtomicBytes : tail[127-:32],
    tail[127-:64],
    tail[63:0],
    behind_aeth,
    tail[223-:8],
    tail[215-:24],
    behind_reth,
    tail[223-:32]
  };

endmodule
