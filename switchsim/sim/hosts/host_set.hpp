// The hosts of a simulation: queue pairs of the real transport behind a model of a NIC.
//
// The NIC has no queue of data. When the wire can take a packet, the NIC first sends the
// acknowledgements that wait, and then asks the queue pairs in turn, for one packet or for
// FlowSpec::turn_packets each. Payload has a length and no bytes: the one memory region of a
// simulation has addresses without memory, and placements are only counted. A flow has two queue
// pairs, endpoints 2 * flow (the requester) and 2 * flow + 1.
//
// Timers: one for each endpoint (the deadline of its transport), one for each flow (its application
// posts), one for each host (it delays acknowledgements), and if the scenario has receivers another
// one for each host (its NIC is done with a packet). An endpoint's timer is moved to an
// earlier time only; a timer that expires before the deadline is set again.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/key.hpp"
#include "base/prng.hpp"
#include "base/qpn.hpp"
#include "base/zeroed_array.hpp"
#include "switchsim/model/network.hpp"
#include "switchsim/sim/hosts/capture.hpp"
#include "switchsim/sim/hosts/contents.hpp"
#include "switchsim/sim/hosts/flow.hpp"
#include "switchsim/sim/hosts/slow_receiver.hpp"
#include "switchsim/sim/hosts/trace_file.hpp"
#include "switchsim/sim/scenario/scenario.hpp"
#include "transport/core/held_pool.hpp"
#include "transport/core/memory_table.hpp"
#include "transport/qp.hpp"

namespace mprdma::switchsim {

class HostSet {
 public:
  using Net = Network<HostSet>;

  // `trace`: open, outlives this; nullptr: nothing is traced.
  explicit HostSet(const Scenario& scenario, TraceFile* trace = nullptr);

  // The size of the network that these hosts need.
  [[nodiscard]] uint32_t packets_max() const { return packets_max_; }
  [[nodiscard]] uint32_t timers() const;
  // Connects the queue pairs and sets the timers of the flows; called once, before the first event.
  void start(Net& network);
  // Called when switches changed their routes: virtual paths may use other links now.
  void on_routes_changed();
  // `capture` gets every packet that arrives at a host or, if it has a link, every packet that the
  // link's two ports send. The caller taps these ports (Network::tap).
  void set_capture(Capture* capture);

  // ---- For the network
  void prefetch(PacketId id) const;
  void on_packet(NodeId host, PacketId id);
  bool pull(NodeId host);
  void on_timer(TimerId timer);
  void on_transmit(PortId port, PacketId id);
  void on_copy(PacketId from, PacketId to) { contents_.put(to, contents_[from]); }

  // ---- Getters
  [[nodiscard]] const std::vector<Flow>& flows() const { return flows_; }
  [[nodiscard]] std::vector<Flow>& flows() { return flows_; }
  // Statistics of the stream that carries the payload of a flow.
  [[nodiscard]] transport::StreamStats stats(uint32_t flow) const;
  [[nodiscard]] const transport::TransportCounters& requester_counters(uint32_t flow) const;
  [[nodiscard]] const transport::TransportCounters& responder_counters(uint32_t flow) const;
  // True if every flow has failed, or has posted all its messages and completed them.
  [[nodiscard]] bool all_done() const;
  [[nodiscard]] SimTime last_completion() const { return last_completion_; }
  // Packets that were not sent because the network's pool was empty, which packets_max() should
  // prevent.
  [[nodiscard]] uint64_t pool_empty() const { return pool_empty_; }
  // Packets that found the buffer of a slow receiver full.
  [[nodiscard]] uint64_t receiver_drops() const { return receiver_drops_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // Of endpoint 0; the others' follow it.
  static constexpr Qpn kFirstQpn{0x100};
  static constexpr Qpn qpn_of(uint32_t endpoint) { return Qpn(kFirstQpn.value() + endpoint); }
  static constexpr uint32_t endpoint_of(Qpn qpn) { return qpn.value() - kFirstQpn.value(); }
  static constexpr Key kKey = transport::MemoryTable::make_key(1, 0);
  static constexpr uint32_t kQkey = 0x11111111;  // of all datagrams
  struct Endpoint {
    Endpoint(const transport::QpConfig& config, const transport::Device& device)
        : qp(config, device) {}
    transport::Qp qp;
    uint32_t number = 0;
    NodeId host = 0;
    NodeId peer = 0;
    SimTime armed_at = SimTime::never();
    uint32_t next_active = kNone;
    bool active = false;         // in its host's list of endpoints that may have a packet
    bool takes_payload = false;  // the end at which the flow's payload arrives
    bool takes_syncs = false;    // and some of the flow's messages have the synchronise flag
    bool measured = false;       // sends payload, and the flow is measured where it leaves
    bool rpc = false;            // an end of a session of RPCs
    uint8_t priority = kLosslessPriority;  // of its packets
    uint32_t turn_packets = 1;
    uint32_t turn_left = 1;
    std::unique_ptr<transport::TransportCounters> counters;
  };

  // What waits in a host for the wire, of one class.
  struct Waiting {
    // Endpoints that may have a packet to send, in the order of their turns.
    uint32_t active_head = kNone;
    uint32_t active_tail = kNone;
    // Acknowledgements (RxActions::ack), oldest first, linked by ack_next_.
    PacketId ack_head = kNoPacket;
    PacketId ack_tail = kNoPacket;
    SimTime ack_ready;  // when the newest of them may leave
    [[nodiscard]] bool any() const { return active_head != kNone || ack_head != kNoPacket; }
  };
  static constexpr uint8_t kClasses = kLossyPriority + 1;
  struct Host {
    std::array<Waiting, kClasses> waiting;
    uint8_t turn = 0;  // the class that is asked first; classes alternate, packet by packet
  };

  [[nodiscard]] uint32_t agreed_slots(const Flow& flow) const;
  [[nodiscard]] static uint32_t receives_of(const Flow& flow, bool requester);
  void make_endpoint(uint32_t number);
  void connect(uint32_t flow, Prng prng);
  [[nodiscard]] uint16_t choose_path(Flow& flow, Prng& prng);
  [[nodiscard]] static uint64_t flow_of(NodeId from, NodeId to, uint16_t vp);
  // The ports that payload of the flow crosses now on virtual path `vp`, until the next call; empty
  // if there is no way.
  [[nodiscard]] std::span<const PortId> ports_of_path(const Flow& flow, uint16_t vp);

  // host_set_application.cpp
  void post_more(uint32_t flow);
  void post(Flow& flow, uint32_t number, uint64_t bytes, SimTime at);
  void post_receive(Endpoint& endpoint);
  void drain(Endpoint& endpoint);
  void complete(Flow& flow, const transport::Completion& completion);

  // host_set_rpc.cpp
  static void configure_rpc(const Flow& flow, bool client, transport::QpConfig* config);
  void send_requests(uint32_t flow);
  bool send_datagram(Endpoint& endpoint, uint32_t number, uint32_t bytes);
  void drain_rpc(Endpoint& endpoint);
  void on_request(Endpoint& endpoint, const transport::Completion& completion);
  void on_response(Endpoint& endpoint, const transport::Completion& completion);
  [[nodiscard]] transport::StreamStats rpc_stats(uint32_t flow) const;

  // host_set_receivers.cpp
  void make_receivers();
  [[nodiscard]] TimerId receiver_timer(NodeId host) const;
  void receive_slowly(NodeId host, PacketId id);
  void begin_receiving(NodeId host);
  void end_receiving(NodeId host);

  // host_set_nic.cpp
  void take(NodeId host, PacketId id);
  PacketId make_packet(const Endpoint& endpoint, const wire::Packet& header);
  void queue_ack(const Endpoint& endpoint, const wire::Packet& ack);
  bool send_ack(NodeId host);
  bool send_ack(NodeId host, uint8_t priority);
  void arm_ack(NodeId host, SimTime at);
  bool send_data(NodeId host, Waiting& waiting);
  void activate(Endpoint& endpoint);
  void end_or_keep_turn(Endpoint& endpoint);
  void do_actions(Endpoint& endpoint);
  // Called after every fact and command of the endpoint's queue pair.
  void service(Endpoint& endpoint);
  [[nodiscard]] bool wire_is_limit(const Endpoint& endpoint) const;
  [[nodiscard]] SimTime deadline_of(const Endpoint& endpoint) const;
  void arm(Endpoint& endpoint, bool later);
  void observe(Endpoint& endpoint, const wire::Packet& packet);
  void observe_departure(Endpoint& endpoint, uint32_t packet_bytes);
  void observe_refusals(Endpoint& endpoint, const wire::Packet& packet);
  [[nodiscard]] uint8_t path_class(const Flow& flow, uint32_t number, uint16_t vp);

  [[nodiscard]] Flow& flow_of_endpoint(const Endpoint& e) { return flows_[e.number / 2]; }
  [[nodiscard]] const Flow& flow_of_endpoint(const Endpoint& e) const {
    return flows_[e.number / 2];
  }
  [[nodiscard]] Time time() const { return network_->now().to_time(); }

  const Scenario& scenario_;
  Net* network_ = nullptr;
  Capture* arrivals_ = nullptr;
  Capture* departures_ = nullptr;
  transport::MemoryTable memory_;
  uint32_t packets_max_;
  Contents contents_;
  transport::HeldPool held_;  // for all hosts: the sum of their receive windows, at most 2^24
  std::vector<Host> hosts_;
  TraceFile* trace_;
  std::vector<HostTrace> host_traces_;  // by host; empty if nothing is traced
  std::vector<uint32_t> host_mbps_;     // rate of each host's link, at least 1 Mb/s
  std::vector<PortId> path_ports_;      // of ports_of_path(); a path visits no switch twice
  std::vector<Flow> flows_;
  mutable size_t first_undone_ = 0;  // flows before this one are done, and stay done
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<PathCache> paths_;          // by flow; empty if the scenario names no paths
  std::unique_ptr<PacketId[]> ack_next_;  // by packet; not touched before it is used
  std::vector<SimTime> ack_ready_;        // by packet; empty if hosts delay no acknowledgement
  Prng ack_prng_;

  ZeroedArray<transport::Placement> placement_storage_;
  ZeroedArray<transport::FrameHandle> released_storage_;
  transport::RxActions actions_;
  transport::TxPacket tx_;
  SimTime last_completion_;
  uint64_t pool_empty_ = 0;
  std::vector<std::unique_ptr<SlowReceiver>> receivers_;  // by host; empty without any
  uint64_t receiver_drops_ = 0;
};

}  // namespace mprdma::switchsim
