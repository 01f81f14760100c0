// The hosts of a simulation: queue pairs of the real transport behind a model of a NIC.
//
// The NIC has no queue of data. When the wire can take a packet it sends the acknowledgements that
// wait, first, and then asks the queue pairs in turn, a packet each. Payload is described, never
// there: all of a simulation's memory is one region of addresses behind which nothing lies, and a
// placement is only counted. A flow has two queue pairs, endpoints 2 * flow (it posts) and
// 2 * flow + 1.
//
// Timers: one for each endpoint (its transport's deadline, set lazily: an earlier expiry only looks
// again), one for each flow (the application posts), one for each host (acknowledgements that a
// host delays).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/prng.hpp"
#include "switchsim/model/network.hpp"
#include "switchsim/sim/capture.hpp"
#include "switchsim/sim/contents.hpp"
#include "switchsim/sim/flow.hpp"
#include "switchsim/sim/scenario.hpp"
#include "transport/held_pool.hpp"
#include "transport/memory_table.hpp"
#include "transport/qp.hpp"

namespace mprdma::switchsim {

class HostSet {
 public:
  using Net = Network<HostSet>;

  explicit HostSet(const Scenario& scenario);

  // How large the network has to be for these hosts.
  [[nodiscard]] uint32_t packets_max() const { return packets_max_; }
  [[nodiscard]] uint32_t timers() const;
  // Once, before the first event: connects the queue pairs and sets the timers of the flows.
  void start(Net& network);
  // Links changed: virtual paths may lead elsewhere now.
  void forget_paths();
  // Every packet that arrives at a host goes in there, or, if it is of a link, what that link's
  // ports send: the caller has tapped them.
  void set_capture(Capture* capture);

  // ---- For the network
  void prefetch(PacketId id) const;
  void on_packet(NodeId host, PacketId id);
  bool pull(NodeId host);
  void on_timer(TimerId timer);
  void on_transmit(PortId port, PacketId id);

  // ---- Getters
  [[nodiscard]] const std::vector<Flow>& flows() const { return flows_; }
  [[nodiscard]] std::vector<Flow>& flows() { return flows_; }
  // Of the stream that carries the payload of a flow.
  [[nodiscard]] transport::StreamStats stats(uint32_t flow) const;
  [[nodiscard]] const transport::TransportCounters& poster_counters(uint32_t flow) const;
  [[nodiscard]] const transport::TransportCounters& target_counters(uint32_t flow) const;
  // Flows that have not done everything that they were to do.
  [[nodiscard]] bool all_done() const;
  [[nodiscard]] SimTime last_completion() const { return last_completion_; }
  // Packets that could not be sent because the pool was empty: our own bug.
  [[nodiscard]] uint64_t pool_empty() const { return pool_empty_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // Endpoint numbers are queue pair numbers from here on.
  static constexpr uint32_t kFirstQpn = 0x100;
  static constexpr uint32_t kKey = transport::MemoryTable::make_key(1, 0);
  // Equal-cost paths are at most so many ports long.
  using PathPorts = std::array<PortId, 16>;

  struct Endpoint {
    Endpoint(const transport::QpConfig& config, const transport::Device& device)
        : qp(config, device) {}
    transport::Qp qp;
    uint32_t number = 0;
    NodeId host = 0;
    NodeId peer = 0;
    SimTime armed_at = SimTime::never();
    uint32_t next_active = kNone;
    bool active = false;         // in the host's turn
    bool takes_payload = false;  // the end at which the flow's payload arrives
    bool takes_syncs = false;    // .. and some of its messages have the synchronise flag
    bool measured = false;       // sends the payload of a flow that is measured where it leaves
    uint32_t turn_packets = 1;
    uint32_t turn_left = 1;
    std::unique_ptr<transport::TransportCounters> counters;
  };

  struct Host {
    // Endpoints that may have something to send, in turn.
    uint32_t active_head = kNone;
    uint32_t active_tail = kNone;
    // What answers at once (RxActions::ack), oldest first, linked through ack_next_.
    PacketId ack_head = kNoPacket;
    PacketId ack_tail = kNoPacket;
    SimTime ack_ready;  // of the newest
  };

  void make_endpoint(uint32_t number);
  void connect(uint32_t flow, Prng prng);
  [[nodiscard]] uint16_t choose_path(Flow& flow, Prng& prng) const;
  [[nodiscard]] static uint64_t flow_of(NodeId from, NodeId to, uint16_t vp);
  // What the payload of a flow crosses at the moment on that virtual path.
  [[nodiscard]] std::span<const PortId> ports_of_path(const Flow& flow, uint16_t vp,
                                                      PathPorts& storage) const;

  // host_set_application.cpp
  void post_more(uint32_t flow);
  void post(Flow& flow, uint32_t number, uint64_t bytes, SimTime at);
  void post_receive(Endpoint& endpoint);
  void drain(Endpoint& endpoint);
  void complete(Flow& flow, const transport::Completion& completion);

  // host_set_nic.cpp
  PacketId make_packet(const Endpoint& endpoint, const wire::Packet& header);
  void queue_ack(const Endpoint& endpoint, const wire::Packet& ack);
  bool send_ack(NodeId host);
  void activate(Endpoint& endpoint);
  void end_or_keep_turn(Endpoint& endpoint);
  void do_actions(Endpoint& endpoint);
  // After every fact and command.
  void service(Endpoint& endpoint);
  [[nodiscard]] bool wire_is_limit(const Endpoint& endpoint) const;
  void arm(Endpoint& endpoint, bool later);
  void observe(Endpoint& endpoint, const wire::Packet& packet);
  void observe_departure(Endpoint& endpoint, uint32_t packet_bytes);
  void observe_refusals(Endpoint& endpoint, const wire::Packet& packet);
  [[nodiscard]] uint8_t path_class(const Flow& flow, uint32_t number, uint16_t vp);

  [[nodiscard]] Flow& flow_of_endpoint(const Endpoint& e) { return flows_[e.number / 2]; }
  [[nodiscard]] Time time() const { return network_->now().to_time(); }

  const Scenario& scenario_;
  Net* network_ = nullptr;
  Capture* arrivals_ = nullptr;
  Capture* departures_ = nullptr;
  transport::MemoryTable memory_;
  uint32_t packets_max_;
  Contents contents_;
  transport::HeldPool held_;  // of all hosts together: it has room for every window
  std::vector<Host> hosts_;
  std::vector<uint32_t> host_mbps_;  // of their own ports
  std::vector<Flow> flows_;
  mutable size_t first_undone_ = 0;  // all before are done, and stay so: what all_done() has seen
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<PathCache> paths_;          // by flow; empty if no paths are told apart
  std::unique_ptr<PacketId[]> ack_next_;  // by packet; not touched before it is used
  std::vector<SimTime> ack_ready_;        // by packet; empty if no host delays them
  Prng ack_prng_;

  std::vector<transport::Placement> placement_storage_;
  std::vector<transport::FrameHandle> released_storage_;
  transport::RxActions actions_;
  transport::TxPacket tx_;
  SimTime last_completion_;
  uint64_t pool_empty_ = 0;
};

}  // namespace mprdma::switchsim
