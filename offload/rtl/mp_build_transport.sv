// BTH and extension headers of a packet in their bytes (IBTA 9.2 and 9.3; of the mode mp:
// docs/wire-format.md).
//
// Pure. The reference is wire::encode_transport(). Reserved bits are zero.
//
// Latency 0 (combinational), initiation interval 1.
module mp_build_transport (
    input  mp_wire::packet_t packet,
    output logic [5:0]       header_bytes,
    output logic [447:0]     transport  // the first byte highest, zeros behind the last one
);

  localparam logic [3:0] MpVersion = 4'd1;

  /* verilator lint_off UNUSEDSIGNAL */
  mp_wire::opcode_t info;
  /* verilator lint_on UNUSEDSIGNAL */
  mp_opcode of_opcode (
      .opcode(packet.opcode),
      .info(info)
  );
  assign header_bytes = info.header_bytes;

  logic [95:0] bth;
  assign bth = {
    packet.opcode,
    packet.solicited,
    packet.mig_req,
    2'd0 - packet.payload_bytes[1:0],
    4'd0,
    packet.p_key,
    packet.fecn,
    packet.becn,
    6'd0,
    packet.dest_qpn,
    packet.ack_req,
    packet.irn && info.is_rc,
    6'd0,
    packet.psn
  };

  logic [127:0] ext;  // of mp
  always_comb begin
    if (info.has_mp_data) begin
      ext = {
        MpVersion, 8'd0, packet.data_flags, 16'd0,
        packet.timestamp,
        packet.message_number, 8'd0,
        packet.offset
      };
    end else begin
      ext = {
        MpVersion, 5'd0, packet.ack_flags, 4'd0, packet.nack, packet.detail,
        packet.echoed,
        packet.sack, packet.run,
        packet.ack_msn, packet.delay_us
      };
    end
  end

  // What follows it, or the XRCETH or the DETH; the parts do not meet.
  logic [223:0] tail;
  logic [31:0] last_word;  // immediate data, or the key to invalidate
  assign last_word = info.has_ieth ? packet.ieth : packet.immdt;
  always_comb begin
    tail = 224'd0;
    if (info.has_mp_ack_map) tail[223-:64] = packet.ack_map;
    if (info.has_reth) tail[223-:128] = {packet.va, packet.rkey, packet.dma_len};
    if (info.has_atomic_eth)
      tail = {packet.va, packet.rkey, packet.swap_add, packet.compare};
    if (info.has_aeth) tail[223-:32] = {packet.syndrome, packet.msn};
    if (info.has_atomic_ack) begin
      if (info.has_aeth) tail[191-:64] = packet.original;
      else tail[223-:64] = packet.original;
    end
    if (info.has_immdt || info.has_ieth) begin
      if (info.has_reth) tail[95-:32] = last_word;
      else tail[223-:32] = last_word;
    end
  end

  always_comb begin
    if (info.has_mp_data || info.has_mp_ack) transport = {bth, ext, tail};
    else if (info.has_deth)
      transport = {bth, packet.q_key, 8'd0, packet.src_qpn, tail, 64'd0};
    else if (info.has_xrceth) transport = {bth, 8'd0, packet.srqn, tail, 96'd0};
    else transport = {bth, tail, 128'd0};
  end

endmodule
