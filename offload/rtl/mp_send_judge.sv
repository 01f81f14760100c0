// What an acknowledgement says of the packets in flight (MP-RDMA paper, 3.1 and 3.3): whether it can
// be true, how far snd_una goes, which packet arrived, and whether its path is too slow (3.4).
//
// Pure. The reference is OffloadSender::on_ack() (transport/stream/offload_sender.hpp), bit by bit.
//
// Latency 0 (combinational), initiation interval 1.
module mp_send_judge (
    input  logic [23:0] una,
    input  logic [23:0] nxt,
    input  logic [63:0] sacked,      // bit i: una + i has arrived
    input  logic [ 6:0] ooh,         // packets from una to the furthest that has arrived
    input  logic [23:0] aack,
    input  logic        sack_valid,
    input  logic [23:0] sack,
    input  logic        nacks,
    input  logic        copy,        // of a packet that was sent again
    input  logic [ 7:0] delta,       // packets that a path may lag
    output logic        refused,     // it acknowledges what was never sent, or could not be taken
    output logic        advanced,
    output logic        is_new,
    output logic [ 7:0] by,          // packets that snd_una goes
    output logic [23:0] una_after,
    output logic [ 6:0] ooh_after,
    output logic        marks,       // the packet at `at` arrived
    output logic        named,       // the NACK's packet, at `at`, is not acknowledged yet
    output logic [ 6:0] at,          // from una_after
    output logic        slow
);

  localparam logic [23:0] Slots = 24'd64;

  // Serial distances (RFC 1982); of two PSNs that are 2^23 apart each is after the other.
  logic        aack_after_nxt;
  logic [23:0] sack_to_nxt;
  logic [23:0] una_to_aack;
  logic [23:0] sack_to_una;
  logic [23:0] sack_to_aack;
  logic [23:0] first_to_sack;
  logic [23:0] una_to_sack;
  logic        una_before_aack;
  logic        sack_before_una;
  logic        sack_before_aack;
  logic        beyond;  // what a receiver takes

  assign aack_after_nxt = (nxt - aack) >= 24'h80_0000;
  assign sack_to_nxt = nxt - sack;
  assign una_to_aack = aack - una;
  assign sack_to_una = una - sack;
  assign sack_to_aack = aack - sack;
  assign una_to_sack = sack - una;
  assign una_before_aack = !una_to_aack[23] && una_to_aack != 24'd0;
  assign sack_before_una = !sack_to_una[23] && sack_to_una != 24'd0;
  assign sack_before_aack = !sack_to_aack[23] && sack_to_aack != 24'd0;
  assign first_to_sack = una_before_aack ? sack - aack : una_to_sack;
  assign beyond = !first_to_sack[23] && first_to_sack >= Slots;

  logic received;
  logic was_sacked;
  assign received = sack_valid && !nacks;
  assign was_sacked = una_to_sack[22:6] == 17'd0 && !una_to_sack[23] && sacked[una_to_sack[5:0]];
  assign refused = aack_after_nxt ||
                   (sack_valid && (sack_to_nxt[23] || sack_to_nxt == 24'd0)) ||
                   (received && beyond);
  assign advanced = !refused && una_before_aack;
  assign is_new = !refused && received && !sack_before_una && (sack_before_aack || !was_sacked);

  assign by = advanced ? una_to_aack[7:0] : 8'd0;
  assign una_after = advanced ? aack : una;
  assign marks = is_new && !sack_before_aack;

  // From snd_una as it is afterwards.
  logic [23:0] sack_to_after;
  assign sack_to_after = advanced ? sack_to_aack : sack_to_una;
  assign at = sack[6:0] - una_after[6:0];
  assign named = !refused && sack_valid && (sack_to_after[23] || sack_to_after == 24'd0);

  logic [6:0] ooh_left;
  logic [23:0] lag;  // from the packet to the end of what has arrived
  assign ooh_left = {1'b0, ooh} > by ? ooh - by[6:0] : 7'd0;
  assign ooh_after = marks && at >= ooh_left ? at + 7'd1 : ooh_left;
  assign lag = sack_to_after + {17'd0, ooh_after};
  assign slow = is_new && !copy && lag > {16'd0, delta} + 24'd1;

endmodule
