// What the receiver's step promises, for any context at rest and any packet; tests/offload/prove.py
// proves it by induction. The step is the RTL's own, judge and advance one after the other.
module receive_properties (
    input logic        clock,
    input logic        arrives,
    input logic [23:0] psn,
    input logic [ 1:0] slot,
    input logic        synchronise,
    input logic [23:0] packets_before
);

  // Any start.
  (* anyconst *) logic [23:0] first_nxt;
  (* anyconst *) logic [125:0] first_slots;  // of a context at rest: its head is empty
  // One packet that is watched.
  (* anyconst *) logic [23:0] watched;
  // One bit of a map.
  (* anyconst *) logic [5:0] bit_at;

  logic [23:0] rcv_nxt;
  logic [127:0] slots;
  logic accepted;  // the watched packet has been placed
  logic started;

  initial begin
    started = 1'b0;
    accepted = 1'b0;
  end

  logic placed;
  logic duplicate;
  logic [3:0] nack;
  logic behind_hole;
  logic [63:0] map;
  logic [127:0] slots_judged;

  mp_receive_judge judge (
      .rcv_nxt(rcv_nxt),
      .slots(slots),
      .psn(psn),
      .slot(slot),
      .synchronise(synchronise),
      .packets_before(packets_before),
      .placed(placed),
      .duplicate(duplicate),
      .nack(nack),
      .behind_hole(behind_hole),
      .map(map),
      .slots_after(slots_judged)
  );

  logic [23:0] nxt_after;
  logic [127:0] slots_after;
  logic [6:0] passed;

  mp_receive_advance advance (
      .rcv_nxt(rcv_nxt),
      .slots(slots_judged),
      .rcv_nxt_after(nxt_after),
      .slots_after(slots_after),
      .passed(passed)
  );

  logic [23:0] moved;
  logic [23:0] ahead;    // of the watched packet, from rcv_nxt
  logic [23:0] ahead_after;
  logic [63:0] taken;
  logic [63:0] taken_after;

  always_comb begin
    for (int i = 0; i < 64; i++) begin
      taken[i] = slots[2*i] | slots[2*i+1];
      taken_after[i] = slots_after[2*i] | slots_after[2*i+1];
    end
  end

  assign moved = nxt_after - rcv_nxt;
  assign ahead = watched - rcv_nxt;
  assign ahead_after = watched - nxt_after;

  logic its;  // the packet is the watched one
  logic within;  // the watched PSN lies in the window
  logic fresh;   // and has not come
  logic early;
  assign its = psn == watched;
  assign within = ahead < 24'd64;
  assign fresh = within && !taken[ahead[5:0]];
  assign early = synchronise && ahead > packets_before;

  // Where the bit of the map lies, and what it has to say.
  logic [23:0] told;
  logic has_come;
  assign told = ahead - 24'd64 + {18'd0, bit_at};
  assign has_come = told[23] || taken[told[5:0]];

  // Serial numbers say what is before and what is ahead within half of their space. A PSN that
  // leaves this range may come round, and is another packet then.
  logic near_after;
  assign near_after = (ahead_after + 24'd4194304) < 24'd8388608;

  always_ff @(posedge clock) begin
    if (!started) begin
      started <= 1'b1;
      rcv_nxt <= first_nxt;
      slots <= {first_slots, 2'd0};
    end else if (arrives && slot != 2'd0) begin
      rcv_nxt <= nxt_after;
      slots <= slots_after;
      accepted <= (accepted || (placed && its)) && near_after;
    end
  end

  always_ff @(posedge clock) begin
    if (started && arrives && slot != 2'd0) begin
      // rcv_nxt never goes back, and passes at most the window.
      assert (moved <= 24'd64);
      // It never passes a hole: what it passes was taken, or is the packet itself.
      if (ahead < moved) assert (taken[ahead[5:0]] || (placed && its));
      // Nothing that was taken and is not passed is lost, nor its kind.
      if (within && ahead >= moved && taken[ahead[5:0]])
        assert (slots_after[{ahead_after[5:0], 1'b0} +: 2] == slots[{ahead[5:0], 1'b0} +: 2]);
      // No slot comes from nowhere.
      if (ahead_after < 24'd64 && taken_after[ahead_after[5:0]])
        assert ((within && taken[ahead[5:0]]) || (placed && its));
      // What is placed and not passed has the kind of its packet.
      if (placed && its && ahead_after < 24'd64)
        assert (slots_after[{ahead_after[5:0], 1'b0} +: 2] == slot);
      // A packet is placed once.
      if (placed && its) assert (!accepted);
      // What becomes of a packet.
      if (its) begin
        assert (placed == (fresh && !early));
        assert (duplicate == (ahead[23] || (within && taken[ahead[5:0]])));
        assert (nack == ((!ahead[23] && !within) ? 4'd1 : (fresh && early) ? 4'd3 : 4'd0));
        assert (behind_hole == ((placed || duplicate) && within && ahead != 24'd0));
        if (behind_hole) assert (map[bit_at] == has_come);
        else assert (map == 64'd0);
      end
    end
    if (!started) assert (!accepted);
    if (started) begin
      // The head is empty at rest: rcv_nxt has passed all that it can.
      assert (slots[1:0] == 2'd0);
      // What was placed is passed, or taken. (A helper, which the others need.)
      if (accepted) assert (ahead[23] || (within && taken[ahead[5:0]]));
    end
  end

endmodule
