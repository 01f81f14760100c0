// Two queue pairs of the shipping transport, the network between them and their applications, as
// one state that a caller takes from event to event. The caller chooses the events; the world is
// deterministic, checks every promise on the way, and throws a swarm::Failure when one is broken.
//
// Time. A packet needs kDelay at least. When it is delivered the time becomes max(now, when it was
// sent + kDelay), after every timer that is due before has expired, in its turn. Otherwise time
// passes only by the event kTime: to the next deadline. That is free when nothing else can happen;
// else it costs one of Budgets::delays and stands for a packet, or an application, that takes
// longer than the timer. Hosts are punctual and send at once.
//
// One world at a time: its queue pairs live in the arenas.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/explore/arena.hpp"
#include "tests/explore/scene.hpp"
#include "tests/explore/state_hash.hpp"
#include "transport/qp.hpp"

namespace mprdma::explore {

// A state, kept.
struct Snapshot {
  Scene scene;
  std::vector<uint8_t> queue_pairs;
  std::vector<uint8_t> held_pools;
};

class World {
 public:
  explicit World(const Setup& setup);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // What may happen next; what a fair network would do comes first. None: the run is over.
  void list_events(std::vector<Event>& events) const;
  // Requires that the event is one of list_events().
  void apply(const Event& event);
  // The event of a network that loses and reorders nothing; requires that the run is not over.
  [[nodiscard]] Event fair_event() const;
  // Throws unless everything is complete and nothing is left over.
  void check_end() const;

  [[nodiscard]] uint64_t hash() const;
  // Of both sides, over all events that were ever applied.
  [[nodiscard]] transport::TransportCounters counters() const {
    transport::TransportCounters sum = hosts_[0].counters;
    return sum += hosts_[1].counters;
  }
  void save(Snapshot& out) const;
  void restore(const Snapshot& snapshot);

 private:
  struct Host {
    Host();
    transport::MemoryTable regions{4};
    transport::TransportCounters counters;
    std::vector<transport::Placement> placements;
    std::vector<transport::FrameHandle> released;
    transport::RxActions actions;
    transport::HeldPool* held = nullptr;
    transport::Qp* qp = nullptr;
  };
  static constexpr uint32_t kAckRun = 32;  // as the engine has it

  void make_queue_pairs();
  void connect(uint32_t side);
  [[nodiscard]] bool may_post(uint32_t side) const {
    return scene_.progress[side].posted < messages_of_[side];
  }
  [[nodiscard]] bool may_post_receive(uint32_t side) const {
    return scene_.progress[side].receives_posted < sends_of_[1 - side];
  }
  void list_packet_events(uint32_t side, std::vector<Event>& events) const;
  [[nodiscard]] bool same_before(uint32_t side, size_t index) const;
  [[nodiscard]] Time next_deadline() const;
  [[nodiscard]] bool time_is_free() const;
  // world_step.cpp
  void deliver(uint32_t side, size_t index);
  void acknowledge(uint32_t side);
  void post(uint32_t side);
  void post_receive(uint32_t side);
  void pass_to(Time time);
  void settle();
  bool expire(uint32_t side);
  void send(uint32_t side, const wire::Packet& header, const transport::TxPacket* packet);
  void send_all(uint32_t side);
  void do_actions(uint32_t side);
  // world_check.cpp
  void place(uint32_t side, const transport::Placement& placement);
  void take_completions(uint32_t side);
  void take_send_completion(uint32_t side, const transport::Completion& c);
  void take_receive_completion(uint32_t side, const transport::Completion& c);
  void check_before(uint32_t message, const char* when) const;
  void check_arrived(uint32_t message, const char* when) const;
  void check_queue_pair(uint32_t side);
  [[nodiscard]] uint32_t message_of(uint32_t poster, uint32_t number, bool send) const;
  void add_queue_pairs(StateHash& hash) const;
  void add_network(StateHash& hash) const;

  template <class... Args>
  void trace(fmt::format_string<Args...> format, Args&&... args) const {
    if (!setup_.verbose) return;
    fmt::print("{:>9.1f} us  ", static_cast<double>(scene_.now.ns() - kStartNs) / 1000);
    fmt::print(format, std::forward<Args>(args)...);
    fmt::print("\n");
  }

  Setup setup_;
  std::array<uint32_t, 2> messages_of_{};  // by poster
  std::array<uint32_t, 2> sends_of_{};     // those of them that take a receive
  bool in_order_ = false;                  // the data of each direction has to be placed in order
  Host hosts_[2];
  Scene scene_;
};

}  // namespace mprdma::explore
