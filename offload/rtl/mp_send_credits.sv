// How many packets may leave after an event (MP-RDMA paper, 3.2 and 3.5): an acknowledgement grants
// two at most, on its own path; credits never exceed the room of the window; a packet takes one.
//
// Pure. The reference is OffloadSender (transport/stream/offload_sender.hpp), bit by bit: grant(),
// settle_credits(), clocked_path() and room().
//
// Latency 0 (combinational), initiation interval 1.
module mp_send_credits (
    input  logic [ 7:0] window,           // whole packets, after the event
    input  logic [ 7:0] in_flight,        // after the event
    input  logic [ 7:0] pathless,
    input  logic [ 1:0] with_path,
    // At most one of these.
    input  logic        acknowledged,
    input  logic        refills,          // a timer, or a post: all that the window has room for
    input  logic        restarts,         // a timeout: the window and no more
    input  logic        takes_probe,      // a packet leaves
    input  logic        takes_copy,
    input  logic        takes_new,
    // Of an acknowledgement.
    input  logic        has_path,
    input  logic        slow,
    input  logic        work,             // there is something to send
    output logic        has_room,         // before what is granted
    output logic        takes_path,       // the packet's credit has one
    output logic [ 7:0] pathless_after,
    output logic [ 1:0] with_path_after
);

  localparam logic [9:0] BurstMax = 10'd2;

  logic [9:0] limit;
  assign limit = {2'd0, window};

  // ---- Before the event's own
  logic [9:0] used;
  logic [9:0] room;
  logic [ 1:0] granted;
  assign used = {2'd0, in_flight} + {2'd0, pathless} + {8'd0, with_path};
  assign room = used < limit ? limit - used : 10'd0;
  assign has_room = room != 10'd0;
  assign granted = !acknowledged || slow || !work ? 2'd0 : room > BurstMax ? 2'd2 : room[1:0];

  // ---- What is granted, and what the packet takes
  logic clocked;  // not a probe, which asks nobody
  logic [9:0] pathless_now;
  logic [9:0] with_path_now;
  assign clocked = takes_new || takes_copy;
  assign takes_path = clocked && pathless == 8'd0;
  assign pathless_now = {2'd0, pathless} + (acknowledged && !has_path ? {8'd0, granted} : 10'd0) -
                        (clocked && !takes_path ? 10'd1 : 10'd0);
  assign with_path_now = {8'd0, with_path} +
                         (acknowledged && has_path ? {8'd0, granted} : 10'd0) -
                         (takes_path ? 10'd1 : 10'd0);

  // ---- No more than the room; while nothing is in flight, all of it
  logic settles;
  logic works;
  logic [9:0] credits_now;
  logic [9:0] used_now;
  logic [9:0] excess;
  logic [9:0] drop;
  logic [9:0] drop_pathless;
  logic [9:0] pathless_kept;
  logic [9:0] with_path_kept;
  logic [9:0] used_kept;
  logic [9:0] room_kept;
  logic fills;
  assign settles = acknowledged || takes_copy || takes_probe;
  assign works = work || !acknowledged;  // a copy leaves only where there is work
  assign credits_now = pathless_now + with_path_now;
  assign used_now = {2'd0, in_flight} + credits_now;
  assign excess = used_now > limit ? used_now - limit : 10'd0;
  assign drop = excess > credits_now ? credits_now : excess;
  assign drop_pathless = drop > pathless_now ? pathless_now : drop;
  assign pathless_kept = pathless_now - drop_pathless;
  assign with_path_kept = with_path_now - (drop - drop_pathless);
  assign used_kept = {2'd0, in_flight} + pathless_kept + with_path_kept;
  assign room_kept = used_kept < limit ? limit - used_kept : 10'd0;
  assign fills = in_flight == 8'd0 && !(works && pathless_kept + with_path_kept != 10'd0);

  logic [9:0] pathless_wide;
  always_comb begin
    pathless_wide = pathless_now;
    with_path_after = with_path_now[1:0];
    if (settles) begin
      pathless_wide = pathless_kept + (fills ? room_kept : 10'd0);
      with_path_after = with_path_kept[1:0];
    end else if (refills) begin
      pathless_wide = pathless_now + room;
    end else if (restarts) begin
      pathless_wide = limit;
    end
  end
  assign pathless_after = pathless_wide > 10'd255 ? 8'd255 : pathless_wide[7:0];

endmodule
