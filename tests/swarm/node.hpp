// One simulated host: plain memory, lent frames, a port's worth of transport objects. It does what
// the dataplane does for real, and trusts the transport with nothing.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/key.hpp"
#include "base/prng.hpp"
#include "base/qpn.hpp"
#include "base/zeroed_array.hpp"
#include "tests/swarm/flow.hpp"
#include "tests/swarm/scenario.hpp"
#include "tests/swarm/trace_lines.hpp"
#include "transport/qp.hpp"

namespace mprdma::swarm {

inline constexpr size_t kHeaderBytesMax = wire::kMaxTransportHeaderBytes;

// A packet under way: its bytes, and what the checkers know of it.
struct InFlight {
  std::array<unsigned char, kHeaderBytesMax> header{};
  size_t header_bytes = 0;
  std::shared_ptr<const std::vector<uint8_t>> payload;
  wire::Packet decoded;  // once delivered
  uint16_t vp = 0;
  bool ce = false;
  bool forged = false;
  uint32_t queue_pair = 0;
  uint32_t incarnation = 0;  // of the connection that it belongs to
  int64_t index = -1;        // in its stream; -1: an acknowledgement, or forged
};

// Frames that the host lent to the transport. A handle is never used twice.
class FrameTable {
 public:
  struct Frame {
    InFlight packet;
    bool response = false;
    bool held = false;
  };
  transport::FrameHandle lend(const InFlight& packet, bool response) {
    frames_.emplace(++last_, Frame{packet, response, false});
    return last_;
  }
  Frame& at(transport::FrameHandle handle) {
    const auto found = frames_.find(handle);
    expect(found != frames_.end(), "frame {} is used after its release", handle);
    return found->second;
  }
  void give_back(transport::FrameHandle handle) {
    expect(frames_.erase(handle) == 1, "frame {} is released twice", handle);
  }
  [[nodiscard]] size_t lent() const { return frames_.size(); }

 private:
  std::map<transport::FrameHandle, Frame> frames_;
  transport::FrameHandle last_ = 0;
};

// A range of a node's memory, and the region that opens it (key 0: none).
struct Area {
  uint64_t addr = 0;
  uint64_t length = 0;
  uint64_t iova = 0;
  Key key{};
  [[nodiscard]] uint64_t to_iova(uint64_t at) const { return iova + (at - addr); }
};

// Areas of one queue pair.
struct Areas {
  Area source;   // constant; local reads, remote READ
  Area target;   // remote WRITE and READ
  Area sink;     // where READ data goes
  Area recv;     // receive buffers
  Area words;    // aligned; for the peer's atomics and nothing else
  Area inlined;  // outside of any region
};

// A memory window over a part of a queue pair's `target`, as the application that owns it knows it.
struct Window {
  enum class State : uint8_t { kFree, kBinding, kOpen, kClosing };
  State state = State::kFree;
  Key key{};
  Area area;           // once open: what it opens
  Area next;           // what it is being bound to (length 0: nothing)
  uint32_t users = 0;  // requests of the peer that name it and have not succeeded
};

// The receives of all queue pairs of a node. Each has a slot of the first one's `recv` area.
struct SharedQueue {
  struct Entry {
    Recv recv;
    std::vector<transport::Sge> sges;
  };
  struct Place {
    uint64_t slot = 0;
    uint32_t queue_pair = kNobody;  // that took it
  };
  static constexpr uint32_t kNobody = UINT32_MAX;
  std::deque<Entry> entries;
  std::vector<uint64_t> free_slots;
  std::map<uint64_t, Place> places;  // by wr_id, of what has not completed
  uint64_t next = 0;
};

// Answers of a queue pair that its host keeps until take_changes() names them.
struct Answers {
  bool completion = false;
  bool sends = false;
  bool busy = false;
  transport::QpState state = transport::QpState::kReset;
  Time deadline = Time::never();
};

class Node {
 public:
  // `trace`: takes the transport's events; nullptr: nobody does.
  Node(uint32_t number, const Scenario& scenario, Prng prng, std::FILE* trace = nullptr);

  // ---- Memory
  std::span<uint8_t> bytes(uint64_t addr, uint64_t length) { return view(memory_, addr, length); }
  // What the memory must hold once everything posted so far is done.
  std::span<uint8_t> model(uint64_t addr, uint64_t length) { return view(model_, addr, length); }
  void check_memory() const;
  // Is it memory that packets for this queue pair may change?
  [[nodiscard]] bool writable(uint32_t q, uint64_t addr, uint64_t length) const;
  // The model of one queue pair's memory becomes what its memory holds.
  void forget_model(uint32_t q);
  // The queue pair's window is new, and opens nothing.
  void renew_window(uint32_t q);

  // PSNs that the senders have marked lost.
  [[nodiscard]] uint64_t loss_marks() const {
    return counters.retransmitted_nack + counters.retransmitted_trigger +
           counters.retransmitted_early + counters.retransmitted_rto;
  }
  // loss_marks(), and PSNs that wait to be sent again because a receiver refused them as too early.
  [[nodiscard]] uint64_t resend_marks() const { return loss_marks() + counters.retransmitted_sync; }

  uint32_t number;
  std::vector<Areas> areas;
  std::vector<Window> windows;
  bool shares_receives;
  SharedQueue shared;
  transport::MemoryTable regions;
  transport::HeldPool held;
  transport::TransportCounters counters;
  TraceLines trace;
  transport::Device device;
  FrameTable frames;
  std::vector<std::unique_ptr<transport::Qp>> qps;
  std::vector<Qpn> qpns;

  ZeroedArray<transport::Placement> placement_storage;
  ZeroedArray<transport::FrameHandle> released_storage;
  transport::RxActions actions;

  std::vector<Answers> answers;  // per queue pair
  const EngineKnobs engine;
  Prng engine_prng;
  std::vector<uint32_t> unanswered_left;  // per queue pair: packets until owed ACKs are sent
  Time owed_acks_at = Time::never();      // of the event
  bool asleep = false;
  Time wake_at;
  std::vector<InFlight> backlog;  // arrived while nobody polled
  Time timer_at = Time::never();
  bool port_event = false;
  uint32_t turn = 0;
  uint64_t data_sent = 0;
  uint64_t data_sent_again = 0;

 private:
  std::span<uint8_t> view(std::vector<uint8_t>& memory, uint64_t addr, uint64_t length);
  Area make_area(Prng& prng, uint64_t length, uint32_t access, uint32_t pd, uint64_t align = 1);

  static constexpr uint64_t kGuardBytes = 64;
  uint64_t base_;
  std::vector<uint8_t> memory_;
  std::vector<uint8_t> model_;
  uint32_t next_slot_ = 1;
  std::vector<transport::MemoryKind> window_kinds_;
};

}  // namespace mprdma::swarm
