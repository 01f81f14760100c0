// A NIC that needs time for each packet (ReceiverSpec): its buffer, and its cache of pages'
// addresses. Which packets wait is in the buffer; the host set moves them and keeps the time.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "switchsim/model/ecmp.hpp"
#include "switchsim/model/packet_pool.hpp"
#include "switchsim/model/sim_time.hpp"
#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::switchsim {

class SlowReceiver {
 public:
  explicit SlowReceiver(const ReceiverSpec& spec) : spec_(spec), tags_(spec.entries, kNoPage) {}

  // False: the packet does not fit.
  bool push(PacketId id, uint32_t bytes) {
    if (bytes_ + bytes > spec_.buffer_bytes) return false;
    bytes_ += bytes;
    waiting_.push_back({id, bytes});
    return true;
  }
  PacketId pop() {
    const Waiting first = waiting_.front();
    waiting_.pop_front();
    bytes_ -= first.bytes;
    return first.id;
  }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  [[nodiscard]] PacketId front() const { return waiting_.front().id; }
  [[nodiscard]] bool pausing() const { return bytes_ > spec_.buffer_bytes / 2; }

  // How long the NIC takes for a packet without payload, and for one of the flow `flow` with
  // `bytes` of payload, which begins a message or goes on with the flow's last.
  [[nodiscard]] SimSpan time_of_header() const { return spec_.packet_time; }
  [[nodiscard]] SimSpan time_of(uint32_t flow, bool begins, uint32_t bytes) {
    Place& place = places_[flow];
    if (begins) {
      const uint64_t message = uint64_t{flow} << 40 ^ place.messages++;
      place.address = mix64(message) % spec_.memory_bytes;
    }
    const uint64_t page = place.address / spec_.page_bytes;
    place.address = (place.address + bytes) % spec_.memory_bytes;
    uint64_t& tag = tags_[mix64(page) % tags_.size()];
    const bool miss = tag != page;
    tag = page;
    return miss ? spec_.packet_time + spec_.miss_time : spec_.packet_time;
  }

 private:
  static constexpr uint64_t kNoPage = UINT64_MAX;
  struct Waiting {
    PacketId id;
    uint32_t bytes;
  };
  struct Place {
    uint64_t messages = 0;
    uint64_t address = 0;  // of the next packet
  };

  const ReceiverSpec& spec_;
  std::vector<uint64_t> tags_;  // direct-mapped: the page of each entry
  std::deque<Waiting> waiting_;
  std::unordered_map<uint32_t, Place> places_;  // by flow
  uint64_t bytes_ = 0;
};

}  // namespace mprdma::switchsim
