// What the sender promises of its credits, for any window and any event; tests/offload/prove.py proves
// it of the RTL's own step.
module credit_properties (
    input logic        clock,
    input logic [ 7:0] window,
    input logic [ 7:0] in_flight,
    input logic [ 7:0] pathless,
    input logic [ 1:0] with_path,
    input logic        acknowledged,
    input logic        refills,
    input logic        restarts,
    input logic        takes_probe,
    input logic        takes_copy,
    input logic        takes_new,
    input logic        has_path,
    input logic        slow,
    input logic        work
);

  logic has_room;
  logic takes_path;
  logic [7:0] pathless_after;
  logic [1:0] with_path_after;
  mp_send_credits step (
      .window(window),
      .in_flight(in_flight),
      .pathless(pathless),
      .with_path(with_path),
      .acknowledged(acknowledged),
      .refills(refills),
      .restarts(restarts),
      .takes_probe(takes_probe),
      .takes_copy(takes_copy),
      .takes_new(takes_new),
      .has_path(has_path),
      .slow(slow),
      .work(work),
      .has_room(has_room),
      .takes_path(takes_path),
      .pathless_after(pathless_after),
      .with_path_after(with_path_after)
  );

  logic [15:0] limit;
  logic [15:0] before;
  logic [15:0] after;
  logic [15:0] used;
  logic [15:0] used_after;
  logic [2:0] events;
  assign limit = {8'd0, window};
  assign before = {8'd0, pathless} + {14'd0, with_path};
  assign after = {8'd0, pathless_after} + {14'd0, with_path_after};
  assign used = {8'd0, in_flight} + before;
  assign used_after = {8'd0, in_flight} + after;
  assign events = {2'd0, acknowledged} + {2'd0, refills} + {2'd0, restarts} + {2'd0, takes_probe} +
                  {2'd0, takes_copy} + {2'd0, takes_new};

  always_ff @(posedge clock) begin
    assume (events <= 3'd1);
    assume (window != 8'd0 && in_flight <= 8'd128);
    // An event begins without credits that have a path; a packet leaves by a credit.
    if (acknowledged || refills || restarts) assume (with_path == 2'd0);
    if (takes_copy || takes_new) assume (before != 16'd0);
    assert (has_room == (used < limit));
    // In flight and to leave: never more than the window, unless it has shrunk below what is in
    // flight: then nothing may leave.
    if (acknowledged || takes_copy || takes_probe) assert (used_after <= limit || after == 16'd0);
    // An acknowledgement grants two at most while something is in flight, and none on a slow path.
    if (acknowledged && in_flight != 8'd0) begin
      assert (after <= before + (slow || !work ? 16'd0 : 16'd2));
      assert (has_path || with_path_after == 2'd0);
    end
    // Credits without a path are taken back first.
    if (takes_probe && with_path_after < with_path) assert (pathless_after == 8'd0);
    // A new packet takes one credit, the oldest kind first.
    if (takes_new) begin
      assert (after == before - 16'd1);
      assert (takes_path == (pathless == 8'd0));
    end
    // While nothing is in flight and nothing may leave, the whole window may.
    if (acknowledged && in_flight == 8'd0) assert (after != 16'd0);
    if (acknowledged && in_flight == 8'd0 && !work) assert (after == limit);
    // A timer or a post fills what there is room for, and a timeout begins with the whole window.
    if (refills) assert (used >= limit ? after == before : used_after == limit);
    if (restarts) assert (after == limit);
    if (events == 3'd0) assert (after == before);
  end

endmodule
