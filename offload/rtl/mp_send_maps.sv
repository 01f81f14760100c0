// The sender's maps follow snd_una, and the packet that has arrived is neither lost nor in flight.
//
// Pure. Bit i is PSN snd_una + i: 64 for what has arrived, which lies within the receiver's window,
// and 128 for what is lost, has cost window, was sent again in this epoch, and in the one before.
//
// Latency 0 (combinational), initiation interval 1.
module mp_send_maps (
    input  logic [ 63:0] sacked,
    input  logic [127:0] lost,
    input  logic [127:0] penalised,
    input  logic [127:0] resent,
    input  logic [127:0] resent_before,
    input  logic [  7:0] by,
    input  logic         marks,
    input  logic [  5:0] at,             // after the move
    output logic [ 63:0] sacked_after,
    output logic [127:0] lost_after,
    output logic [127:0] penalised_after,
    output logic [127:0] resent_after,
    output logic [127:0] resent_before_after
);

  logic [63:0] mark;

  assign mark = marks ? 64'd1 << at : 64'd0;
  assign sacked_after = (sacked >> by) | mark;
  assign lost_after = (lost >> by) & ~{64'd0, mark};
  assign penalised_after = penalised >> by;
  assign resent_after = resent >> by;
  assign resent_before_after = resent_before >> by;

endmodule
