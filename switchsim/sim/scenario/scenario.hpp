// A scenario: a network, flows on it, changes while it runs, what is measured. Plain data, made by
// hand (figures, tests) or from TOML (scenario_toml.hpp; schema: docs/simulator.md).
//
// Everything random is drawn from `seed`: the same scenario gives the same bytes. Hosts, links and
// flows are addressed by index here and by name in TOML; lookups by name are members below.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "switchsim/model/sim_time.hpp"
#include "switchsim/model/topology.hpp"
#include "switchsim/sim/scenario/size_distribution.hpp"
#include "transport/core/params.hpp"

namespace mprdma::switchsim {

enum class FlowOperation : uint8_t { kWrite, kSend, kRead };

// A message posted at a given time.
struct TimedMessage {
  SimTime at;
  uint64_t bytes = 0;  // <= 1 GiB
};

// A queue pair at `from` that works towards `to`. Payload goes from `from` to `to`; READ: from `to`
// to `from`, asked for by `from`.
//
// What is posted, from `start` on:
//   - timed_messages, if there are any, each at its time (open loop: the post queue is as deep as
//     it must be)
//   - else messages of message_bytes, `messages` of them (0: without end), post_depth outstanding
//     at most; think > 0: the next one `think` after a completion (closed loop; depth 1)
// Nothing is posted at or after `stop`; what is outstanding then still arrives.
struct FlowSpec {
  std::string name = {};  // unique; empty: "flow<index>"
  NodeId from = 0;        // hosts
  NodeId to = 0;
  FlowOperation operation = FlowOperation::kWrite;
  uint64_t message_bytes = 1 << 20;
  uint32_t post_depth = 4;
  uint64_t messages = 0;
  SimSpan think = {};
  std::vector<TimedMessage> timed_messages = {};
  SimTime start = {};
  SimTime stop = SimTime::never();
  // Share of the messages that have the synchronise flag, parts per million; drawn.
  uint32_t synchronise_ppm = 0;
  // Packets that the NIC takes of a queue pair at a turn. 1: as adapters do; 64: what segmentation
  // offload hands over at once.
  uint32_t turn_packets = 1;
  // SEND: false: the receiver never posts a receive, so that nothing of the flow is ever taken, and
  // its queue pair asks again and again (RNR).
  bool receives = true;
  // SEND: above 0: not a connection but a session of RPCs over UD with so many credits
  // (hosts/rpc_session.hpp). Each message is a request in one packet, and is complete when its
  // response comes. Nothing of `params` has an effect.
  uint32_t rpc_credits = 0;
  uint32_t rpc_response_bytes = 16;  // payload; at most path_mtu
  SimSpan rpc_timeout = SimSpan::ms(5);
  bool measure_flowlets = false;  // FlowResult::flowlet_pauses
  bool measure_paths = false;     // FlowResult::virtual_paths_series

  transport::Params params = {};  // of both ends; link_mbps is set from their links
  uint32_t path_mtu = 1024;       // payload bytes of a full packet
  // Link that the one virtual path of a kSingle or RoCE flow is chosen to cross; nullopt: drawn.
  std::optional<LinkId> pinned_link = {};
  uint8_t timeout = 14;  // of the verbs: 4.096 us * 2^timeout; 0: for ever
  uint8_t retry_cnt = 7;
  // With PFC: false: its packets may be dropped, and are not paused (in both directions).
  bool lossless = true;
  bool may_fail = false;  // an error completion is a result, not a mistake (Result::errors)
};

enum class TrafficKind : uint8_t { kPairs, kPermutation, kIncast, kAllToAll, kPoisson };
// Whom a message of Poisson traffic goes to.
enum class PartnerRule : uint8_t { kRandom, kPairs, kPermutation };

// Flows by a rule: traffic.hpp makes them when a simulation begins, from its seed.
struct TrafficSpec {
  TrafficKind kind = TrafficKind::kPairs;
  // What the flows have in common. Its name is the stem of theirs, with a number from 1; from, to
  // and timed_messages are theirs.
  FlowSpec flow = {};
  std::vector<NodeId> from = {};
  std::vector<NodeId> to = {};
  // Sizes of the messages (Poisson) or of the flows (the others), instead of flow.message_bytes.
  std::optional<SizeDistribution> sizes = {};

  // ---- Not Poisson
  uint32_t senders = 0;       // incast: number of senders, drawn from `from`; 0: all
  SimSpan start_every = {};   // flow i begins i times this span later
  SimSpan start_jitter = {};  // largest further delay of each flow's start, drawn
  SimSpan last_for = {};      // span in which a flow posts; 0: to flow.stop

  // ---- Poisson: messages arrive in [flow.start, flow.stop), whatever became of those before
  double load = 0;  // payload, as a share of the rate of the senders' links
  PartnerRule partners = PartnerRule::kRandom;
  // A queue pair of its own for each message; else those of a pair of hosts share one.
  bool queue_pair_per_message = false;
};

enum class Direction : uint8_t { kBoth, kAb, kBa };

// A change of one link at a time; what is not set stays.
struct LinkEvent {
  SimTime at = {};
  LinkId link = 0;
  Direction direction = Direction::kBoth;  // of everything but `up`
  std::optional<bool> up = {};
  std::optional<LinkRate> rate = {};
  std::optional<uint32_t> loss_ppm = {};
  std::optional<SimSpan> delay = {};
  std::optional<RedConfig> red = {};
  std::optional<uint64_t> queue_bytes_max = {};
  // With PFC, of a host's link: the host pauses its switch, without end, or ends that.
  std::optional<bool> pausing = {};
};

// NICs that need time for each packet, and more of it where they do not know where it goes: the
// page's address (memory translation table) has to be fetched from the host first. A packet that
// comes meanwhile waits in the NIC's buffer.
struct ReceiverSpec {
  std::vector<NodeId> hosts = {};
  SimSpan packet_time = SimSpan::ns(100);
  SimSpan miss_time = SimSpan::ns(1000);
  uint32_t entries = 2048;  // of the NIC's cache of addresses
  uint64_t page_bytes = 4096;
  uint64_t memory_bytes = 4ULL << 30;  // registered; each message goes to a random place of it
  // With PFC the NIC pauses its switch while more than half of it is taken. What does not fit is
  // dropped.
  uint64_t buffer_bytes = 512 << 10;
};

struct Scenario {
  std::string name;
  std::string description;
  uint64_t seed = 1;
  SimSpan duration = SimSpan::ms(10);
  // Rates, means and percentiles of the result are over [warm_up, duration].
  SimSpan warm_up;
  // One point of every time series.
  SimSpan sample = SimSpan::ms(1);
  // How often queues are looked at for their mean, deviation and maximum.
  SimSpan queue_sample = SimSpan::us(10);
  // End as soon as every message of every flow is complete (flows without end never are).
  bool end_when_idle = false;

  Topology topology;
  std::vector<std::string> host_names;
  std::vector<std::string> switch_names;  // of an explicit topology
  // Links whose share in each flow is told apart (one per equal-cost path): FlowResult::path_bytes.
  std::vector<LinkId> paths;

  bool reroute = false;  // as NetworkConfig
  SimSpan reroute_after;
  // A host thinks so long before an acknowledgement leaves, plus up to the jitter (uniform).
  SimSpan ack_delay;
  SimSpan ack_jitter;
  // Frames that may wait for their turn in all hosts together, for the budget that an engine has
  // (design 3.2); 0: as many as there can be.
  uint32_t held_frames = 0;

  std::vector<FlowSpec> flows;
  std::vector<TrafficSpec> traffic;
  std::vector<LinkEvent> events;
  std::vector<ReceiverSpec> receivers;
  // With PFC: a host that has paused its switch for so long is told to end that (by the NIC's
  // watchdog), or is given up: the switch drops what is for it until the pause has been gone for as
  // long. 0: no watchdog.
  SimSpan nic_watchdog;
  SimSpan switch_watchdog;

  // Where it came from, for whoever reads a result: the file, and what was put over it. Empty if it
  // was made by hand.
  std::string text;
  std::vector<std::string> overrides;

  [[nodiscard]] std::optional<LinkId> link_named(std::string_view name) const;
  [[nodiscard]] std::optional<NodeId> host_named(std::string_view name) const;
  [[nodiscard]] std::optional<uint32_t> flow_named(std::string_view name) const;
  // A flow's own name; flow0, flow1 ... by its index if it has none.
  [[nodiscard]] std::string flow_name(uint32_t flow) const;
  // For what must exist: CHECKs.
  [[nodiscard]] LinkId link(std::string_view name) const;
  [[nodiscard]] NodeId host(std::string_view name) const;
};

// An error and its place in the scenario: a reader of files finds the line by the place and makes
// it a Status.
struct ScenarioError {
  enum class Of : uint8_t { kScenario, kTopology, kLink, kFlow, kTraffic, kEvent, kReceiver };
  Of of = Of::kScenario;
  size_t index = 0;  // in the scenario's list of links, flows, traffic, events or receivers
  std::string key;   // in its table of TOML; empty: the table as a whole
  std::string what;
};

// The first error in the scenario as a whole: an unknown host, an event after the end, and so on.
std::optional<ScenarioError> find_error(const Scenario& scenario);
// An error says what find_error() found.
Status validate(const Scenario& scenario);

// ---- Limits. A larger value is most likely a typing error, and would fill the memory unnoticed.

inline constexpr uint64_t kHostsMax = 200'000;
inline constexpr uint64_t kLinksMax = 500'000;
// Pairs of a switch and a switch with hosts: entries of the routing tables.
inline constexpr uint64_t kRoutesMax = 50'000'000;
inline constexpr uint64_t kFlowsMax = 2'000'000;
// Values in all series together, 8 bytes each.
inline constexpr double kSeriesValuesMax = 2.5e8;
// Looks at one queue. A sample of all queues costs kLookOverhead looks more than it has queues.
inline constexpr double kQueueLooksMax = 1e11;
inline constexpr double kLookOverhead = 100;

struct NetworkSize {
  uint64_t hosts = 0;
  uint64_t links = 0;
  uint64_t switches = 0;
  uint64_t leaves = 0;  // switches with hosts
};
// An error says which of them is too much.
Status too_large(const NetworkSize& size);

// ---- Topologies. They fill topology, host_names and paths of a scenario. least_rtt() is what
// serialisation alone takes of base_rtt; a base_rtt below it gives links without delay.

// `pairs` hosts on either side, l1.. and r1.., one bottleneck link between two switches. Links:
// "l1".. "r1".. and "bottleneck" (direction ab: left to right).
struct DumbbellSpec {
  uint32_t pairs = 2;
  LinkRate access = LinkRate::gbps(40);
  LinkRate bottleneck = LinkRate::gbps(40);
  // Round trip of a full data packet and its acknowledgement on an empty network, serialisation
  // included; every link gets the same propagation delay.
  SimSpan base_rtt = SimSpan::us(12);
  uint32_t path_mtu = 1024;  // of that packet
  RedConfig red = {};        // of every switch port
  uint64_t queue_bytes_max = 1'000'000;
};
SimSpan least_rtt(const DumbbellSpec& spec);
void make_dumbbell(const DumbbellSpec& spec, Scenario* scenario);

// The testbed of the MP-RDMA paper (section 6.1): `servers` under each of two ToRs (a1.. and b1..),
// equal-cost links between the ToRs (names "path1" .., direction ab: from a to b). Host links are
// named after their host.
struct TestbedSpec {
  uint32_t servers = 5;  // per ToR
  uint32_t paths = 4;
  LinkRate access = LinkRate::gbps(40);
  LinkRate path_rate = LinkRate::gbps(40);
  SimSpan base_rtt = SimSpan::us(12);
  uint32_t path_mtu = 1024;
  RedConfig red{.kmin_bytes = 20'000, .kmax_bytes = 20'000};
  uint64_t queue_bytes_max = 1'000'000;
};
SimSpan least_rtt(const TestbedSpec& spec);
void make_testbed(const TestbedSpec& spec, Scenario* scenario);

// Leaves and spines, hosts h1.. ; host links are named after the host, fabric links "leaf1-spine1".
struct LeafSpineSpec {
  uint32_t leaves = 32;
  uint32_t spines = 4;
  uint32_t hosts_per_leaf = 10;
  LinkRate access = LinkRate::gbps(40);
  LinkRate fabric = LinkRate::gbps(100);
  SimSpan base_rtt = SimSpan::us(16);  // between hosts under different leaves
  uint32_t path_mtu = 1024;
  RedConfig red{.kmin_bytes = 60'000, .kmax_bytes = 60'000};
  uint64_t queue_bytes_max = 1'000'000;
};
SimSpan least_rtt(const LeafSpineSpec& spec);
void make_leaf_spine(const LeafSpineSpec& spec, Scenario* scenario);

// Three tiers: pods of ToRs and aggregation switches, each ToR with each of its pod's; cores in
// planes, as many as a pod has aggregation switches: aggregation switch i of every pod has a link
// to each core of plane i. So between pods there is one path for each core, and within a pod one
// for each aggregation switch. Hosts h1.. ; host links are named after the host, the others
// "pod1-tor1-agg1" and "pod1-agg1-core1", cores being counted through all planes.
struct ThreeTierSpec {
  uint32_t pods = 4;
  uint32_t tors = 4;   // per pod
  uint32_t aggs = 2;   // per pod
  uint32_t cores = 4;  // a multiple of aggs
  uint32_t hosts_per_tor = 8;
  LinkRate access = LinkRate::gbps(40);
  LinkRate tor_rate = LinkRate::gbps(100);   // ToR to aggregation
  LinkRate core_rate = LinkRate::gbps(100);  // aggregation to core
  SimSpan base_rtt = SimSpan::us(20);        // between hosts of different pods
  uint32_t path_mtu = 1024;
  RedConfig red{.kmin_bytes = 60'000, .kmax_bytes = 60'000};
  uint64_t queue_bytes_max = 1'000'000;
};
SimSpan least_rtt(const ThreeTierSpec& spec);
void make_three_tier(const ThreeTierSpec& spec, Scenario* scenario);

// The fat-tree of Al-Fares et al. (2008) of switches with k ports: k pods of k/2 ToRs and k/2
// aggregation switches, k^2/4 cores, k^3/4 hosts; all links of one rate. `oversubscription` n: n
// times as many hosts at each ToR as it has links upwards. Names are those of three tiers.
struct FatTreeSpec {
  uint32_t k = 8;  // even
  uint32_t oversubscription = 1;
  LinkRate access = LinkRate::gbps(40);  // of every link
  SimSpan base_rtt = SimSpan::us(20);
  uint32_t path_mtu = 1024;
  RedConfig red{.kmin_bytes = 60'000, .kmax_bytes = 60'000};
  uint64_t queue_bytes_max = 1'000'000;
};
ThreeTierSpec three_tier_of(const FatTreeSpec& spec);
void make_fat_tree(const FatTreeSpec& spec, Scenario* scenario);

// ---- What a packet costs on a wire.

// Headers, payload, pad, ICRC, FCS, preamble and gap of a data packet, from the functions that the
// engine's frames are made with.
uint32_t data_wire_bytes(FlowOperation operation, uint32_t payload_bytes,
                         transport::Protocol protocol = transport::Protocol::kMp);
// Of a flow, which may be a session of RPCs.
uint32_t data_wire_bytes(const FlowSpec& flow, uint32_t payload_bytes);
// Of a datagram with immediate data.
uint32_t datagram_wire_bytes(uint32_t payload_bytes);
uint32_t ack_wire_bytes();
// No packet of any flow or traffic is longer.
uint32_t longest_packet_bytes(const Scenario& scenario);
// The ceiling: the most payload, in bits per second, that a link of `rate` carries in full packets.
double payload_ceiling_bps(LinkRate rate, FlowOperation operation, uint32_t path_mtu,
                           transport::Protocol protocol = transport::Protocol::kMp);
double payload_ceiling_bps(LinkRate rate, const FlowSpec& flow);

// What results call a flow's transport: "mp"; "roce", or its rate controller; "irn", with "+" and
// its rate controller.
std::string transport_name(const transport::Params& params);
// "ud" of a session of RPCs.
std::string transport_name(const FlowSpec& flow);

}  // namespace mprdma::switchsim
