// One run: two nodes, the network between them, the applications on them, and the loop that moves
// virtual time from event to event until everything is done or something is wrong.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/prng.hpp"
#include "tests/swarm/event_queue.hpp"
#include "tests/swarm/flow.hpp"
#include "tests/swarm/link.hpp"
#include "tests/swarm/node.hpp"
#include "tests/swarm/scenario.hpp"

namespace mprdma::swarm {

// A harness that is broken on purpose: each must end in a finding, else the checkers sleep.
enum class Sabotage : uint8_t {
  kNone,
  kFlipByte,         // a byte of a packet changes under way
  kSkipPlacement,    // the host forgets to copy
  kPlaceTwice,       // copies twice
  kKeepFrame,        // a released frame is not taken back
  kLoseCompletion,   // a completion goes missing
  kSwapCompletions,  // two change places
  kDeafTimer,        // deadlines are ignored
  kForgetOwed,       // an owed acknowledgement is taken and not sent
  kLongRun,          // and one answers a packet too many
  kCount
};
const char* sabotage_name(Sabotage sabotage);

// The application of one queue pair at one node.
struct App {
  Prng prng{0};
  uint32_t ops_left = 0;
  uint64_t next_wr_id = 0;
  uint64_t next_recv = 0;
  uint64_t completed = 0;  // of garbage runs, which have no model
  uint64_t recv_completed = 0;
  bool send_event = false;
  bool recv_event = false;
  bool stopped = false;  // posts nothing more
  Psn base;              // of its requests, in this incarnation
};

// What is known of the paths of one stream: what acknowledgements echoed, and what they did not.
struct PathModel {
  std::map<uint16_t, uint64_t> credit;
  uint64_t unexplained = 0;
};

class SilentTrace final : public transport::TraceSink {
 public:
  void on_event(const transport::TraceEvent& /*event*/) override {}
};

// Something that a host did or saw, for the comparison of two runs.
struct Note {
  Time at;
  uint32_t node = 0;
  uint32_t queue_pair = 0;
  const char* what = nullptr;
  uint64_t hash = 0;
};

struct Options {
  bool verbose = false;
  // False: hosts call the general functions only, and these take no short way, as with a trace.
  bool plain = true;
  Sabotage sabotage = Sabotage::kNone;
  std::vector<std::string> settings;  // KEY=VALUE, overrides.hpp
  std::FILE* trace = nullptr;         // takes the transport's events, transport/core/trace_text.hpp
};

// What the transport gets as the host of a shared receive queue.
struct Taker {
  class World* world = nullptr;
  uint32_t node = 0;
  uint32_t queue_pair = 0;
  transport::SharedReceives receives;
};

class World {
 public:
  World(const Scenario& scenario, const Options& options);
  ~World();

  // Throws Failure.
  void run();
  [[nodiscard]] std::string summary() const;
  [[nodiscard]] const std::vector<Note>& notes() const { return notes_; }
  [[nodiscard]] transport::TransportCounters counters() const;
  // Packets that were sent again on a perfect network because the round trip had jumped.
  [[nodiscard]] uint64_t copies_after_jumps() const { return copies_after_jumps_; }

 private:
  friend class Script;
  static constexpr uint64_t kEventsMax = 3'000'000;
  static constexpr uint64_t kScriptConnect = 1000;  // script steps from here on: connect node 1

  // world.cpp: the loop
  void handle(const Event& event);
  void start_nodes();
  void clean_up();
  void nap(Node& node);
  [[nodiscard]] bool finished() const;
  [[nodiscard]] bool quiet() const;
  void check_end();
  void check_all_is_returned(const Node& node) const;
  void check_counters(const Node& node) const;
  void check_copies_of_paper(const Node& node) const;
  void check_timeouts(const Node& node) const;
  [[nodiscard]] Duration slack() const;
  [[nodiscard]] Time limit() const;
  [[nodiscard]] std::string what_is_left() const;

  // connect.cpp: queue pairs and their states
  void make_queue_pair(uint32_t node, uint32_t q);
  void make_flows(uint32_t q);
  transport::QpAttributes attributes_of(uint32_t node, uint32_t q) const;
  void set_state(uint32_t node, uint32_t q, transport::QpState state);
  void connect(uint32_t q);
  void finish_connect(uint32_t node, uint32_t q);
  void connect_late(Node& node, uint32_t q);

  // host_receive.cpp: what a dataplane does with what arrives
  void arrive(Node& node, const InFlight& packet);
  void deliver(Node& node, uint32_t q, const InFlight& packet, const wire::Packet& header);
  void check_frames(const Node& node) const;
  void do_actions(Node& node, uint32_t q, const InFlight* trigger);
  void place(Node& node, uint32_t q, const transport::Placement& placement);
  void place_payload(Node& node, uint32_t q, const transport::Placement& placement);
  void place_value(Node& node, uint32_t q, const transport::Placement& placement);
  void execute_atomic(Node& node, uint32_t q, const transport::Placement& placement);
  [[nodiscard]] bool places_in_order(const Node& node, uint32_t q) const;
  void check_ack(Node& node, uint32_t q, const wire::Packet& ack, const InFlight* trigger);

  // host_transmit.cpp: sends the packets of the transport
  void pump(Node& node);
  bool poll(Node& node, uint32_t q, transport::TxPacket& out);
  bool send_one(Node& node, uint32_t q);
  void check_copy(const Node& node, uint32_t q, Psn psn, const StreamModel& stream);
  void check_path(Node& node, uint32_t q, const wire::Packet& header);
  void check_windows(const Node& node, uint32_t q) const;
  void transmit(Node& node, uint32_t q, const wire::Packet& header,
                std::shared_ptr<const std::vector<uint8_t>> payload, int64_t index,
                bool forged = false);

  // host.cpp: work around every call of the transport
  void service(Node& node, uint32_t q);  // after any fact: completions, sending, timers
  void drain(Node& node, uint32_t q);
  void process_completion(Node& node, uint32_t q, const transport::Completion& completion);
  void arm(Node& node);
  void on_timer(Node& node);
  void wake(Node& node);

  // app.cpp: what applications do
  void run_send_app(Node& node, uint32_t q);
  void run_recv_app(Node& node, uint32_t q);
  bool post_one(Node& node, uint32_t q);
  transport::PostResult post(Node& node, uint32_t q, const Op& op,
                             const std::vector<transport::Sge>& sges);
  bool post_one_receive(Node& node, uint32_t q);
  Op draw_op(Node& node, uint32_t q);
  void draw_remote(Node& node, uint32_t q, Op& op);
  void order_read(const Node& node, uint32_t q, Op& op);
  [[nodiscard]] bool is_relaxed(const Node& node, uint32_t q, const Op& op);
  uint32_t draw_size(App& app, const SideKnobs& side, bool inlined);
  std::vector<transport::Sge> lay_out(Op& op, const Area& area, uint64_t from, uint64_t room,
                                      uint32_t sges_max, App& app);
  void on_op_completed(Node& node, uint32_t q, const Op& op);
  void on_recv_completed(Node& node, uint32_t q, uint64_t number, const Op& op);
  void wake_send_app(Node& node, uint32_t q, Duration after);
  void wake_recv_app(Node& node, uint32_t q, Duration after);
  [[nodiscard]] uint64_t recvs_outstanding(const Node& node, uint32_t q);

  // shared_receives.cpp
  static bool pop_shared_receive(void* host, transport::RecvRequest* out, transport::Sge* sges);
  bool post_shared_receive(Node& node, uint32_t q);
  void on_shared_completed(Node& node, uint64_t wr_id);
  void reclaim_shared(Node& node, uint32_t q);

  // windows.cpp: atomics, and windows over a queue pair's target memory
  void draw_atomic(Node& node, uint32_t q, Op& op);
  void on_atomic_posted(Node& node, const Op& op);
  void draw_window_work(Node& node, uint32_t q, Op& op);
  void draw_bind(Node& node, uint32_t q, Op& op);
  void draw_send_invalidate(Node& node, uint32_t q, Op& op);
  [[nodiscard]] const Area* draw_window(Node& node, uint32_t q, Op& op);
  void on_window_posted(Node& node, uint32_t q, const Op& op);
  void on_window_work_done(Node& node, uint32_t q);
  void on_invalidated(Node& node, uint32_t q);
  [[nodiscard]] bool window_opens(const Node& node, uint32_t q, Key key, const Area& area) const;

  // roce.cpp: the same for a connection of the standard
  [[nodiscard]] bool is_roce() const { return scenario_.protocol == transport::Protocol::kRoce; }
  [[nodiscard]] bool is_irn() const { return scenario_.protocol == transport::Protocol::kIrn; }
  void deliver_roce(Node& node, uint32_t q, const InFlight& packet, const wire::Packet& header);
  void place_roce(Node& node, uint32_t q, const transport::Placement& placement);
  void check_sent_roce(Node& node, uint32_t q, const wire::Packet& header);
  wire::Packet forge_roce(Node& victim, uint32_t q);
  // irn.cpp
  wire::Packet extended(Node& node, uint32_t q, const wire::Packet& header);
  wire::Packet forge_irn(Node& victim, uint32_t q);

  // engine.cpp: what the hosts of a run with engines do beside
  void send_owed_acks(Node& node, uint32_t q);
  void send_owed_ack(Node& node, uint32_t q, wire::Packet ack);
  void send_due_acks(Node& node);
  void on_owed_acks(Node& node);
  void note_taken(Node& node, uint32_t q, const InFlight& packet);
  void check_owed(Node& node, uint32_t q);
  void check_changes(Node& node, uint32_t q);
  void change_attributes(const AttributeChange& change);
  [[nodiscard]] bool uses_plain(const Node& node) const {
    return node.engine.plain && options_.plain;
  }
  bool take_plain(Node& node, uint32_t q, const InFlight& packet, transport::FrameHandle frame);
  bool post_plain(Node& node, uint32_t q, const Op& op, const std::vector<transport::Sge>& sges);
  bool poll_plain(Node& node, uint32_t q, transport::TxPacket& out);
  bool pop_plain(Node& node, uint32_t q, transport::Completion& out);
  void note(const Node& node, uint32_t q, const char* what, std::initializer_list<uint64_t> values);
  void note_packet(const Node& node, uint32_t q, const InFlight& packet);
  void note_state(const Node& node, uint32_t q);

  // hostile.cpp
  void forge();
  wire::Packet forge_packet(Node& victim, uint32_t q);

  // script.cpp: runs that end in an error
  void start_script();
  void script_step(uint64_t step);
  bool script_post(Node& node, uint32_t q);
  void break_rule(Node& node, uint32_t q, Op& op, transport::Sge& sge);
  void post_bad_request(Node& node, uint32_t q);
  void check_script_end();
  void reconnect(uint32_t q);
  void bury(uint32_t q);

  template <class... Args>
  void trace(fmt::format_string<Args...> format, Args&&... args) const {
    if (!options_.verbose) return;
    fmt::print("{:>14} {}\n", now_.ns() - scenario_.start.ns(),
               fmt::format(format, std::forward<Args>(args)...));
  }

  [[nodiscard]] Node& peer_of(const Node& node) { return *nodes_[1 - node.number]; }
  // Requests that this node's queue pair posts.
  [[nodiscard]] Flow& own_flow(const Node& node, uint32_t q) { return *flows_[q][node.number]; }
  [[nodiscard]] Flow& peer_flow(const Node& node, uint32_t q) {
    return *flows_[q][1 - node.number];
  }
  // What comes to the node: responses to its own requests, or the peer's requests.
  [[nodiscard]] StreamModel& stream_to(const Node& node, uint32_t q, bool responses) {
    return responses ? own_flow(node, q).responses() : peer_flow(node, q).requests();
  }
  [[nodiscard]] const SideKnobs& side(const Node& node, uint32_t q) const {
    return scenario_.sides[q][node.number];
  }
  [[nodiscard]] App& app(const Node& node, uint32_t q) { return apps_[q][node.number]; }
  [[nodiscard]] bool fatal() const { return scenario_.kind >= Kind::kAccess; }

  Scenario scenario_;
  Options options_;
  Prng root_;
  Prng hostile_prng_;
  Prng script_prng_;
  Prng sabotage_prng_;
  EventQueue events_;
  Time now_;
  Time last_activity_;  // of an application
  uint64_t handled_ = 0;
  uint64_t copies_after_jumps_ = 0;
  uint64_t under_way_ = 0;
  bool clean_ = false;
  bool sabotaged_ = false;
  SilentTrace silent_trace_;
  std::array<std::unique_ptr<Node>, 2> nodes_;
  std::array<std::unique_ptr<Link>, 2> links_;
  std::vector<std::array<App, 2>> apps_;
  std::vector<std::array<Taker, 2>> takers_;
  std::vector<std::array<std::unique_ptr<Flow>, 2>> flows_;
  std::vector<std::array<PathModel, 4>> paths_;  // of a connection: node 0, node 1; responses
  std::vector<uint32_t> incarnation_;            // of each connection
  std::vector<InFlight> slots_;
  std::vector<uint64_t> free_slots_;
  std::vector<Arrival> arrivals_;
  std::optional<transport::Completion> delayed_completion_;
  // State of the script.
  bool script_done_ = false;
  uint64_t bad_op_ = UINT64_MAX;
  Time silent_since_ = Time::never();
  Duration slack_;  // of limit()
  std::vector<Note> notes_;
};

}  // namespace mprdma::swarm
