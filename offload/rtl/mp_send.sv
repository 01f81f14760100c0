// What the stages of the sender give each other (mp_sender.sv).
package mp_send;

  // What a connection has beside the maps: the fields of OffloadContext and RoceSender
  // (transport/stream/offload_context.hpp), but for the credits with a path and the path, which stay
  // until the event ends, and the times of the transport timer.
  typedef struct packed {
    logic [7:0]  backoff;          // timeouts in a row, 255 at most
    logic [23:0] last_congestion;  // times in units of 64 ns
    logic [23:0] last_ack;
    logic [23:0] epoch_start;
    logic [23:0] round_start;
    logic [23:0] srtt;             // ns
    logic        probes;           // OffloadContext::Flags
    logic        congestion_old;
    logic        ack_old;
    logic        epoch_old;
    logic        round_old;
    logic        asks_head;
    logic        rtt_known;
    logic        probe_due;
    logic [15:0] vp;
    logic [1:0]  with_path;
    logic [7:0]  pathless;
    logic [6:0]  ooh;
    logic [23:0] owed;
    logic [31:0] window;
    logic [23:0] nxt;
    logic [23:0] una;
  } state_t;

  // An event, or a request for the next packet.
  typedef struct packed {
    logic [31:0]  now;
    logic         has_new;
    logic         explore;
    logic [15:0]  path;
    logic [23:0]  aack;
    logic         sack_valid;
    logic [23:0]  sack;
    logic [3:0]   nack;
    logic         ece;
    logic         copy;
    logic         sample;
    logic [31:0]  echo;
    logic [7:0]   delay_us;
    logic [15:0]  vp;
  } event_t;

  // What an event is, once the time and an acknowledgement are judged.
  typedef struct packed {
    logic        acked;
    logic        progress;
    logic        refused;
    logic        slow;
    logic        ece;
    logic        overflow;
    logic        of_head;
    logic        no_room;
    logic        named;
    logic [6:0]  at;
    logic        epoch_over;
    logic        burst;
    logic        timeout;
    logic        wakes;
    logic        post;
    logic        recovers;
    logic        next;
    logic        has_new;
    logic [15:0] path;
    logic [23:0] now;
  } judged_t;

  // What becomes of it, once the packets are.
  typedef struct packed {
    logic        acked;
    logic        progress;
    logic        refused;
    logic        slow;
    logic        ece;
    logic        burst;
    logic        timeout;
    logic        post;
    logic        recovers;
    logic        has_new;
    logic        takes_probe;
    logic        takes_copy;
    logic        takes_new;
    logic [6:0]  packet_at;
    logic        restarts;
    logic        progresses;
    logic        drop_costs;
    logic [15:0] path;
    logic [23:0] now;
  } decided_t;

endpackage
