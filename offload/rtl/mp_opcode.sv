// What an opcode implies (IBTA 9.2.1, table 38; for the mode mp docs/wire-format.md). The three high
// bits name the transport, the low five the operation.
//
// Pure, and total: an opcode that is not known is not valid. The reference is wire::opcode_info().
//
// Latency 0 (combinational), initiation interval 1.
module mp_opcode (
    input  logic [7:0]       opcode,
    output mp_wire::opcode_t info
);

  logic [4:0] code;
  logic rc;
  logic uc;
  logic ud;
  logic xrc;
  logic mp;
  logic cnp;
  assign code = opcode[4:0];
  assign rc = opcode[7:5] == 3'd0;
  assign uc = opcode[7:5] == 3'd1 && code <= 5'h0b;
  assign ud = opcode[7:5] == 3'd3 && (code == 5'h04 || code == 5'h05);
  assign xrc = opcode[7:5] == 3'd5;
  assign mp = opcode[7:5] == 3'd6;
  assign cnp = opcode == 8'h81;

  // The operation, as RC has it.
  logic write;
  logic request;
  logic read_response;
  logic invalidates;
  logic atomic;
  logic first;
  logic middle;
  logic last;
  logic known;
  assign write = code >= 5'h06 && code <= 5'h0b;
  assign invalidates = code == 5'h16 || code == 5'h17;
  assign atomic = code == 5'h13 || code == 5'h14;
  assign read_response = code >= 5'h0d && code <= 5'h10;
  assign request = code <= 5'h0c || atomic || invalidates;
  assign first = code == 5'h00 || code == 5'h06 || code == 5'h0d;
  assign middle = code == 5'h01 || code == 5'h07 || code == 5'h0e;
  assign last = code == 5'h02 || code == 5'h03 || code == 5'h08 || code == 5'h09 ||
                code == 5'h0f || code == 5'h16;
  assign known = code <= 5'h14 || invalidates;

  logic response_error;  // of mp alone, as is the acknowledgement with a map
  logic with_map;
  assign response_error = mp && code == 5'h18;
  assign with_map = mp && code == 5'h19;

  logic [5:0] before_tail;
  logic [5:0] tail;
  always_comb begin
    info.valid = ((rc || xrc || mp) && known) || response_error || with_map || uc || ud || cnp;
    info.is_rc = rc;
    info.is_cnp = cnp;
    info.starts = cnp || (!middle && !last);
    info.ends = cnp || (!middle && !first);
    info.has_payload = !cnp && (code <= 5'h0b || read_response || invalidates);
    info.has_mp_ack = mp && (code == 5'h11 || with_map);
    info.has_mp_data = mp && !info.has_mp_ack;
    info.has_mp_ack_map = with_map;
    info.has_xrceth = xrc && request;
    info.has_deth = ud;
    // In mp every packet of a WRITE has it, so that whichever comes first can be judged.
    info.has_reth = !cnp && ((write && (mp || info.starts)) || code == 5'h0c);
    info.has_atomic_eth = !cnp && atomic;
    info.has_aeth = mp ? response_error
                       : !cnp && ((read_response && !middle) || code == 5'h11 || code == 5'h12);
    info.has_atomic_ack = !cnp && code == 5'h12;
    info.has_immdt = !cnp && (code == 5'h03 || code == 5'h05 || code == 5'h09 || code == 5'h0b);
    info.has_ieth = !cnp && invalidates;
    before_tail = mp ? 6'd28 : ud ? 6'd20 : info.has_xrceth ? 6'd16 : 6'd12;
    tail = info.has_reth ? 6'd16 : info.has_atomic_eth ? 6'd28 : cnp ? 6'd16 : 6'd0;
    if (info.has_aeth) tail += 6'd4;
    if (info.has_atomic_ack || info.has_mp_ack_map) tail += 6'd8;
    if (info.has_immdt || info.has_ieth) tail += 6'd4;
    info.header_bytes = before_tail + tail;
  end

endmodule
