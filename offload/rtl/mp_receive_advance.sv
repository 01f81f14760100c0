// The second third of the receiver's step: rcv_nxt passes the slots that are contiguous (MP-RDMA
// paper, 3.3).
//
// Pure. Slots as in mp_receive_judge. While slot 0 is empty nothing changes.
//
// Latency 0 (combinational), initiation interval 1.
module mp_receive_advance (
    input  logic [ 23:0] rcv_nxt,
    input  logic [127:0] slots,
    output logic [ 23:0] rcv_nxt_after,
    output logic [127:0] slots_after,
    output logic [  6:0] passed  // slots: the lowest ones, 0 to 64
);

  // A tree over blocks of 1, 2, 4 .. 64 slots. Of each block: whether all of its slots are taken, and,
  // where they are not, how many of the lowest are. A block stands at its lowest slot.
  logic [ 63:0] full;
  logic [383:0] lowest;  // six bits for each slot

  always_comb begin
    lowest = 384'd0;
    for (int i = 0; i < 64; i++) full[i] = slots[2*i] | slots[2*i+1];
    for (int k = 0; k < 6; k++) begin
      for (int i = 0; i < 64; i += (2 << k)) begin
        if (full[i]) begin
          lowest[6*i+:6] = lowest[6*(i+(1<<k))+:6];
          lowest[6*i+k] = 1'b1;
        end
        full[i] = full[i] & full[i+(1<<k)];
      end
    end
  end

  assign slots_after = full[0] ? 128'd0 : slots >> {lowest[5:0], 1'b0};
  assign passed = full[0] ? 7'd64 : {1'b0, lowest[5:0]};
  assign rcv_nxt_after = rcv_nxt + {17'd0, passed};

endmodule
