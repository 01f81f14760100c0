// One simulated host: plain memory, lent frames, a port's worth of transport objects. It does what
// the dataplane does for real, and trusts the transport with nothing.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/prng.hpp"
#include "tests/swarm/flow.hpp"
#include "tests/swarm/scenario.hpp"
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
  uint32_t key = 0;
  [[nodiscard]] uint64_t to_iova(uint64_t at) const { return iova + (at - addr); }
};

// Areas of one queue pair.
struct Areas {
  Area source;   // constant; local reads, remote READ
  Area target;   // remote WRITE and READ
  Area sink;     // where READ data goes
  Area recv;     // receive buffers
  Area inlined;  // outside of any region
};

class Node {
 public:
  Node(uint32_t number, const Scenario& scenario, Prng prng);

  // ---- Memory
  std::span<uint8_t> bytes(uint64_t addr, uint64_t length) { return view(memory_, addr, length); }
  // What the memory must hold once everything posted so far is done.
  std::span<uint8_t> model(uint64_t addr, uint64_t length) { return view(model_, addr, length); }
  void check_memory() const;
  // Is it memory that packets for this queue pair may change?
  [[nodiscard]] bool writable(uint32_t q, uint64_t addr, uint64_t length) const;
  // The model of one queue pair's memory becomes what its memory holds.
  void forget_model(uint32_t q);

  uint32_t number;
  std::vector<Areas> areas;
  transport::MemoryTable regions;
  transport::HeldPool held;
  transport::TransportCounters counters;
  transport::Device device;
  FrameTable frames;
  std::vector<std::unique_ptr<transport::Qp>> qps;
  std::vector<uint32_t> qpns;

  std::vector<transport::Placement> placement_storage;
  std::vector<transport::FrameHandle> released_storage;
  transport::RxActions actions;

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
  Area make_area(Prng& prng, uint64_t length, uint32_t access, uint32_t pd);

  static constexpr uint64_t kGuardBytes = 64;
  uint64_t base_;
  std::vector<uint8_t> memory_;
  std::vector<uint8_t> model_;
  uint32_t next_slot_ = 1;
};

}  // namespace mprdma::swarm
