// The last third of the receiver's step: the messages that end among the slots that rcv_nxt passes
// count, and some of them complete for the application, in order (MP-RDMA paper, 3.3 and figure 6).
//
// Pure. Slots as in mp_receive_judge, before mp_receive_advance shifts them.
//
// Latency 0 (combinational), initiation interval 1.
module mp_receive_messages (
    input  logic [ 23:0] msn,
    input  logic [127:0] slots,
    input  logic [  6:0] passed,
    output logic [ 23:0] msn_after,
    output logic [  6:0] completions
);

  logic [63:0] lowest;     // as many ones as slots are passed
  logic [63:0] ends;       // slots that a message ends with
  logic [63:0] completes;  // of these, those that complete
  logic [ 6:0] tails;

  assign lowest = ~(64'hffff_ffff_ffff_ffff << passed);
  always_comb begin
    for (int i = 0; i < 64; i++) begin
      ends[i] = lowest[i] & slots[2*i+1];
      completes[i] = lowest[i] & slots[2*i+1] & slots[2*i];
    end
    tails = 7'($countones(ends));
    completions = 7'($countones(completes));
  end

  assign msn_after = msn + {17'd0, tails};

endmodule
