// What the modules of headers and frames give each other (mp_parser.sv, mp_builder.sv): types alone.
package mp_wire;

  // What an opcode implies, as wire::OpcodeInfo (IBTA 9.2.1, table 38; mp: docs/wire-format.md).
  typedef struct packed {
    logic       valid;
    logic       is_rc;
    logic       is_cnp;
    logic       starts;          // a message
    logic       ends;
    logic       has_payload;
    logic       has_mp_data;
    logic       has_mp_ack;
    logic       has_mp_ack_map;
    logic       has_xrceth;
    logic       has_deth;
    logic       has_reth;
    logic       has_atomic_eth;
    logic       has_aeth;
    logic       has_atomic_ack;
    logic       has_immdt;
    logic       has_ieth;
    logic [5:0] header_bytes;    // BTH and extension headers
  } opcode_t;

  // Ethernet, IP and UDP, as wire::FrameAddress. IPv4 addresses are mapped ones.
  typedef struct packed {
    logic [47:0]  dst_mac;
    logic [47:0]  src_mac;
    logic         is_ipv6;
    logic [127:0] src_ip;
    logic [127:0] dst_ip;
    logic [5:0]   dscp;
    logic [1:0]   ecn;
    logic [7:0]   ttl;
    logic [15:0]  identification;  // IPv4
    logic [15:0]  vp;              // virtual path: UDP source port
  } address_t;

  // BTH and extension headers, as wire::Packet. What its opcode has not means nothing.
  typedef struct packed {
    logic [7:0]  opcode;
    logic        solicited;
    logic        mig_req;
    logic        fecn;
    logic        becn;
    logic        ack_req;
    logic        irn;
    logic [15:0] p_key;
    logic [23:0] dest_qpn;
    logic [23:0] psn;
    logic [15:0] payload_bytes;  // without pad
    // mp data extension.
    logic [3:0]  data_flags;
    logic [31:0] timestamp;
    logic [23:0] message_number;
    logic [31:0] offset;
    // mp acknowledgement extension, and its map.
    logic [6:0]  ack_flags;
    logic [3:0]  nack;
    logic [7:0]  detail;
    logic [31:0] echoed;
    logic [23:0] sack;
    logic [7:0]  run;
    logic [23:0] ack_msn;
    logic [7:0]  delay_us;
    logic [63:0] ack_map;
    // The standard's.
    logic [23:0] srqn;
    logic [31:0] q_key;
    logic [23:0] src_qpn;
    logic [63:0] va;        // of an AtomicETH, too
    logic [31:0] rkey;
    logic [31:0] dma_len;
    logic [63:0] swap_add;
    logic [63:0] compare;
    logic [63:0] original;
    logic [7:0]  syndrome;
    logic [23:0] msn;
    logic [31:0] immdt;     // its first byte on the wire highest
    logic [31:0] ieth;
  } packet_t;

endpackage
