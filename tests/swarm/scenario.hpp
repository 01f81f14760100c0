// Everything that one seed decides about a run. The members are plain values, so that --verbose
// can print them and a directed test can set them by hand.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/psn.hpp"
#include "base/units.hpp"
#include "transport/core/params.hpp"
#include "transport/core/types.hpp"

namespace mprdma::swarm {

enum class Kind : uint8_t {
  kNormal,      // faults, then a perfect network: everything must succeed
  kClean,       // a perfect network from the start: no needless copies (World::check_copy)
  kAccess,      // a request that the responder must refuse
  kLocalError,  // a request that fails at home
  kSilent,      // the peer is not heard of again
  kRnrExhaust,  // the peer never posts a receive
  kTooLong,     // a SEND that does not fit its receive
  kReset,       // error state and reset in mid-run, then a new connection
  kGarbage,     // forged packets that look right: no promise but memory safety
  kCount
};
const char* kind_name(Kind kind);

// One of the paths that ECMP spreads virtual paths over; on top of what the link does.
struct LaneKnobs {
  Duration delay;
  uint32_t loss_ppm = 0;
};
inline constexpr uint32_t kLanes = 4;

// One direction of the wire.
struct LinkKnobs {
  uint32_t loss_data_ppm = 0;
  uint32_t loss_ack_ppm = 0;
  uint32_t burst_loss = 0;  // packets lost in a row once a loss happens, at most
  uint32_t duplicate_ppm = 0;
  Duration duplicate_delay_max;
  uint32_t reorder_ppm = 0;
  Duration reorder_delay_max;
  Duration delay;
  Duration jitter_max;
  uint64_t bits_per_us = 40'000;  // of the host's port
  uint64_t bottleneck_bits_per_us = 40'000;
  uint32_t queue_bytes = 0;  // 0: never full
  uint32_t mark_bytes = 0;   // 0: never marks
  uint32_t port_packets = 32;
  std::array<LaneKnobs, kLanes> lanes;
  uint32_t lane_salt = 0;  // of the hash that maps a virtual path to a lane
};

enum class SendPattern : uint8_t { kBulk, kPaced, kBursts, kOneByOne, kCount };
enum class RecvPattern : uint8_t { kEager, kLazy, kStarving, kCount };
enum class Sizes : uint8_t { kTiny, kAroundMtu, kUniform, kMixed, kCount };

// What applications post. The first kPlainOperations move data and need nothing from before.
inline constexpr uint32_t kPlainOperations = 5;
inline constexpr std::array kOpcodes = {
    transport::WorkOpcode::kSend,     transport::WorkOpcode::kSendImm,
    transport::WorkOpcode::kWrite,    transport::WorkOpcode::kWriteImm,
    transport::WorkOpcode::kRead,     transport::WorkOpcode::kCompareSwap,
    transport::WorkOpcode::kFetchAdd, transport::WorkOpcode::kSendInvalidate,
    transport::WorkOpcode::kBindMw,   transport::WorkOpcode::kLocalInvalidate};
inline constexpr uint32_t kOperations = kOpcodes.size();

struct SideKnobs {  // one queue pair at one node
  uint32_t operations = 0;
  SendPattern send_pattern = SendPattern::kBulk;
  RecvPattern recv_pattern = RecvPattern::kEager;
  Duration pace;
  uint32_t send_depth = 1;
  uint32_t recv_depth = 1;
  uint32_t send_sge = 1;
  uint32_t recv_sge = 1;
  bool signal_all = false;
  uint32_t signaled_ppm = 1'000'000;
  uint32_t fence_ppm = 0;
  uint32_t inline_ppm = 0;
  uint32_t sync_ppm = 0;
  bool relaxed_target = false;                  // this node's memory for the peer's WRITEs
  bool relaxed_sink = false;                    // and the targets of its own READs
  std::array<uint32_t, kOperations> weights{};  // in the order of kOpcodes
  bool window_type2 = false;                    // of the window over relaxed_target's memory
  bool window_zero_based = false;
  uint8_t max_rd_atomic = 1;
  transport::Params params;
  Psn sq_psn;
  uint16_t vp = 0;
  uint64_t path_seed = 0;
  // Runs with engines (engine_scenario.cpp); the attributes of the same names.
  uint32_t send_segment = 0;
  uint32_t take_segment = 0;
  uint32_t ack_run = 1;
};

// What the host of a run with engines does beside.
struct EngineKnobs {
  bool owes_acks = false;    // it takes owed acknowledgements
  Duration ack_patience;     // and sends each that late at the latest,
  uint32_t ack_packets = 1;  // or after so many packets, at the latest
  bool plain = false;        // it calls the functions for the common case first
};

// A queue pair gets new attributes in mid-run.
struct AttributeChange {
  Duration after;  // the start
  uint32_t node = 0;
  uint32_t queue_pair = 0;
  uint32_t send_segment = 0;
  uint32_t ack_run = 1;
};

struct Scenario {
  uint64_t seed = 0;
  Kind kind = Kind::kNormal;
  transport::Protocol protocol = transport::Protocol::kMp;
  uint32_t queue_pairs = 1;
  uint32_t path_mtu = 1024;
  uint32_t message_max = 4096;
  Sizes sizes = Sizes::kMixed;
  Time start;
  Time clean_at;
  Duration connect_skew;     // node 1 gets ready to receive that much later
  Duration hostile_gap;      // between forged packets; 0: none are forged
  uint32_t nap_percent = 0;  // share of time in which a node is not polled
  Duration nap_max;
  uint8_t timeout = 0;
  uint8_t retry_cnt = 7;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 1;
  std::array<uint32_t, 2> held_budget{};  // per node
  std::array<bool, 2> shared_receives{};  // per node: one receive queue for all its queue pairs
  std::array<LinkKnobs, 2> links;         // [i]: from node i to the other
  std::vector<std::array<SideKnobs, 2>> sides;
  bool engine = false;
  std::array<EngineKnobs, 2> engines;  // per node
  std::vector<AttributeChange> changes;
};

// Draws a run. With `want` below kCount the kind is given, else drawn too.
Scenario draw_scenario(uint64_t seed, Kind want = Kind::kCount,
                       transport::Protocol protocol = transport::Protocol::kMp);
std::string to_string(const Scenario& scenario);

// Turns a run of the mode mp into one between engines; the rest of the run stays as it was drawn.
void add_engines(Scenario& scenario);

// Turns the run into one between connections of the mode irn.
void make_irn(Scenario& scenario, Prng prng);
std::string engines_to_string(const Scenario& scenario);
// The time in which the segments of full windows pass the network.
Duration time_of_segments(const Scenario& scenario);

}  // namespace mprdma::swarm
