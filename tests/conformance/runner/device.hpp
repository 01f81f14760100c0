// The device under test: queue pairs and all that a host gives them, memory, keys, shared receive
// queues, frames. A step of a script becomes a call of transport::Qp; whatever that makes the
// device do (packets, completions, events) is collected in Outputs, in order, and nothing happens
// by itself but in run_timers().
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/zeroed_array.hpp"
#include "tests/conformance/runner/packets.hpp"
#include "tests/conformance/runner/script.hpp"
#include "transport/qp.hpp"

namespace mprdma::conformance {

template <class What>
struct Output {
  std::string qp;
  What what;
};

struct Outputs {
  std::deque<Output<WirePacket>> packets;
  std::deque<Output<transport::Completion>> send_completions;
  std::deque<Output<transport::Completion>> recv_completions;
  std::deque<Output<transport::QpEvent>> events;

  [[nodiscard]] bool empty() const {
    return packets.empty() && send_completions.empty() && recv_completions.empty() &&
           events.empty();
  }
  // What the device did, for a message that says that nobody expected it.
  [[nodiscard]] std::string describe() const;
};

std::string describe(const transport::Completion& completion);

class Device {
 public:
  // The memory of the device, and of the region M that every script starts with: open for all.
  static constexpr uint64_t kBase = 0x10000;
  static constexpr uint64_t kBytes = 0x40000;

  explicit Device(Mode mode);

  // ---- Steps
  void make_qp(const Step& step);
  void modify(const Step& step);
  void make_region(const Step& step);
  void remove_region(const Step& step);
  void make_window(const Step& step);
  void make_shared_queue(const Step& step);
  void post_send(const Step& step);
  void post_recv(const Step& step);
  void inject(const Step& step);
  // Closed: nothing can be sent but acknowledgements that answer a packet at once.
  void set_wire(const Step& step);

  // ---- Time
  [[nodiscard]] Time next_deadline() const;
  void run_timers();
  Time now = Time::from_ns(1'000'000'000);

  // ---- What there is to see
  Outputs outputs;
  // The bytes that a step names; fails where they are not memory.
  uint8_t* at(const Step& step, uint64_t addr, uint64_t length);
  [[nodiscard]] transport::QpState state_of(const Step& step) { return find(step).qp->state(); }
  [[nodiscard]] bool draining(const Step& step) { return find(step).qp->sq_draining(); }
  [[nodiscard]] Dialect dialect_of(const Step& step) { return find(step).dialect; }
  [[nodiscard]] std::string name_of(const Step& step) const { return step.text_or("qp", "A"); }
  [[nodiscard]] uint64_t counter(const Step& step) const;
  // A name that a mr, mw or bind step gave, or a number.
  [[nodiscard]] Key key(const Step& step, std::string_view text) const;

 private:
  struct SharedQueue {
    struct Entry {
      uint64_t wr_id;
      std::vector<transport::Sge> sges;
    };
    std::string name;
    uint32_t number = 0;
    uint32_t xrcd = 0;
    std::deque<Entry> entries;
    transport::SharedReceives receives;
  };
  struct QueuePair {
    std::string name;
    Dialect dialect;
    Peer peer;
    transport::QpAttributes attributes;
    std::unique_ptr<transport::Qp> qp;
  };

  QueuePair& find(const Step& step);
  void set_attributes(const Step& step, QueuePair& queue_pair) const;
  bool set_state(QueuePair& queue_pair, transport::QpState state);
  std::vector<transport::Sge> sges_of(const Step& step) const;
  void fill_bind(const Step& step, transport::SendRequest& request);
  void do_actions(QueuePair& queue_pair, const transport::RxActions& actions);
  void place(const transport::Placement& placement);
  void collect(QueuePair& queue_pair);
  [[nodiscard]] transport::RxActions make_actions() {
    return {placement_storage_, released_storage_};
  }
  uint8_t* bytes(uint64_t addr, uint64_t length);
  static const transport::SharedReceives* find_xrc_srq(void* host, uint32_t xrcd, uint32_t srqn);
  static bool take(void* host, transport::RecvRequest* out, transport::Sge* sges);
  static bool room(void* host, uint32_t* bytes);

  Mode mode_;
  bool wire_open_ = true;
  std::vector<uint8_t> memory_;
  transport::MemoryTable regions_{64};
  transport::HeldPool held_{256};
  transport::TransportCounters counters_;
  std::map<std::string, Key, std::less<>> keys_;
  uint32_t next_slot_ = 1;
  std::map<std::string, std::unique_ptr<SharedQueue>, std::less<>> shared_queues_;
  std::map<std::string, QueuePair, std::less<>> queue_pairs_;
  std::map<transport::FrameHandle, std::vector<uint8_t>> frames_;
  transport::FrameHandle last_frame_ = 0;
  ZeroedArray<transport::Placement> placement_storage_;
  ZeroedArray<transport::FrameHandle> released_storage_;
};

}  // namespace mprdma::conformance
