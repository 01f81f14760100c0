// The first third of the receiver's step: what becomes of a packet (MP-RDMA paper, 3.3 and 4).
//
// Pure: a context and a packet in, the context with the packet's slot and the answer out. Time,
// memory and the RoCE rules that judge a packet before this step (rights, receive requests, message
// numbers) are elsewhere. The reference is OffloadReceiver::receive()
// (transport/stream/offload_receiver.hpp), bit by bit.
//
// State: rcv_nxt (24 bits) and a slot of two bits for each of the 64 PSNs from there on, the lowest
// first: 0 empty, 1 received, 2 the tail of a message, 3 the tail of one that completes for the
// application. Slot 0 is empty between two packets.
//
// Latency 0 (combinational), initiation interval 1.
module mp_receive_judge (
    input  logic [ 23:0] rcv_nxt,
    input  logic [127:0] slots,
    // The packet.
    input  logic [ 23:0] psn,
    input  logic [  1:0] slot,            // what its slot becomes: 1, 2 or 3
    input  logic         synchronise,     // nothing of its message may be placed early
    input  logic [ 23:0] packets_before,  // of its message
    // The answer.
    output logic         placed,
    output logic         duplicate,
    output logic [  3:0] nack,            // wire::NackCode
    output logic         behind_hole,
    output logic [ 63:0] map,             // bit i: PSN psn - 64 + i has come
    output logic [127:0] slots_after  // with the packet's own; mp_receive_advance follows
);

  localparam logic [3:0] NackNone = 4'd0;
  localparam logic [3:0] NackWindowOverflow = 4'd1;
  localparam logic [3:0] NackSyncTooEarly = 4'd3;

  // Serial distance (RFC 1982): negative is before rcv_nxt.
  logic [23:0] ahead;
  logic        is_before;
  logic        beyond;
  logic [ 5:0] index;

  assign ahead = psn - rcv_nxt;
  assign is_before = ahead[23];
  assign beyond = !is_before && (ahead[22:6] != 17'd0);
  assign index = ahead[5:0];

  logic [63:0] taken;
  logic        was_taken;
  logic        too_early;
  logic [63:0] below;  // ones below the packet's place in the map, for what lies before rcv_nxt

  always_comb begin
    for (int i = 0; i < 64; i++) taken[i] = slots[2*i] | slots[2*i+1];
  end

  assign was_taken = taken[index];
  assign too_early = synchronise && ({18'd0, index} > packets_before);

  always_comb begin
    placed = 1'b0;
    duplicate = 1'b0;
    nack = NackNone;
    behind_hole = 1'b0;
    if (beyond) begin
      nack = NackWindowOverflow;
    end else if (is_before || was_taken) begin
      duplicate = 1'b1;
      behind_hole = !is_before && (index != 6'd0);
    end else if (too_early) begin
      nack = NackSyncTooEarly;
    end else begin
      placed  = 1'b1;
      behind_hole = index != 6'd0;
    end
  end

  // PSN psn - 64 + i is rcv_nxt + index - 64 + i.
  assign below = 64'hffff_ffff_ffff_ffff >> index;
  always_comb begin
    map = 64'd0;
    if (behind_hole) map = (taken << (7'd64 - {1'b0, index})) | below;
  end

  always_comb begin
    slots_after = slots;
    if (placed) slots_after = slots | ({126'd0, slot} << {index, 1'b0});
  end

endmodule
