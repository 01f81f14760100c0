// One flow of a simulation: what it has posted, what has come in, and what was measured of it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.hpp"
#include "base/psn.hpp"
#include "switchsim/sim/flowlets.hpp"
#include "switchsim/sim/result.hpp"
#include "switchsim/sim/scenario.hpp"
#include "switchsim/sim/virtual_paths.hpp"
#include "transport/qp.hpp"

namespace mprdma::switchsim {

struct Flow {
  // A message that is posted and not complete.
  struct Outstanding {
    SimTime posted;
    uint64_t bytes;
  };

  static constexpr size_t kOpenLoopDepthMax = 256;

  explicit Flow(const FlowSpec& flow_spec) : spec(&flow_spec) {}

  [[nodiscard]] bool open_loop() const { return !spec->timed_messages.empty(); }
  // Everything that it was to post is posted, or never will be.
  [[nodiscard]] bool all_posted(SimTime now) const {
    if (failed || now >= spec->stop) return true;
    if (open_loop()) return next_timed == spec->timed_messages.size();
    return spec->messages != 0 && messages_posted == spec->messages;
  }
  [[nodiscard]] bool done(SimTime now) const {
    return failed || (outstanding.empty() && all_posted(now));
  }

  // Hosts: the one that sends the payload, and the one that takes it.
  [[nodiscard]] NodeId source() const { return poster_sends() ? spec->from : spec->to; }
  [[nodiscard]] NodeId destination() const { return poster_sends() ? spec->to : spec->from; }
  [[nodiscard]] bool poster_sends() const { return spec->operation != FlowOperation::kRead; }
  // Messages that the queue pair has at once; the rest wait in the application.
  [[nodiscard]] uint32_t send_depth() const {
    if (!open_loop()) return spec->post_depth;
    return static_cast<uint32_t>(std::min(spec->timed_messages.size(), kOpenLoopDepthMax));
  }

  const FlowSpec* spec;
  std::string name;

  // ---- What the application did
  std::deque<Outstanding> outstanding;
  size_t next_timed = 0;
  SimTime next_post_at;  // think time
  uint64_t messages_posted = 0;
  uint64_t messages_completed = 0;
  uint64_t posted_bytes = 0;
  uint64_t completed_bytes = 0;
  std::vector<MessageRecord> messages;
  bool failed = false;
  std::string failure;
  Prng sync_draws{0};
  uint64_t sync_posted = 0;
  FlowletMeter flowlets;                            // where the payload leaves its host
  std::unique_ptr<VirtualPathMeter> virtual_paths;  // of a flow that is measured so

  // ---- What came in at the end that takes the payload
  uint64_t delivered_bytes = 0;
  uint64_t packets_received = 0;
  uint64_t ce_received = 0;
  std::vector<uint64_t> ooo;  // histogram by degree, grows as needed; since the warm-up
  uint32_t ooo_max = 0;       // since the last point
  Psn expected;               // rcv_nxt, as its acknowledgements say
  std::vector<uint64_t> path_bytes;
  // Synchronise messages of which something came before what they follow, each counted once. The
  // last of them, by first PSN: their packets come within a window, and come again.
  uint64_t sync_early = 0;
  uint64_t sync_packets_refused = 0;
  std::array<Psn, 16> sync_early_recent;
};

// Payload bytes by path need to know which path a virtual path is at the moment. A cache: a flow
// uses about as many virtual paths at a time as its window has packets, and there may be very many
// flows.
class PathCache {
 public:
  static constexpr uint8_t kUnknown = 255;
  static constexpr uint8_t kOther = 254;

  // The class of `vp`, or kUnknown, to be filled in at once.
  uint8_t& of(uint16_t vp) {
    Entry& entry = entries_[vp % kEntries];
    if (entry.vp != vp) entry = {vp, kUnknown};
    return entry.path;
  }
  void clear() { entries_.fill({}); }

 private:
  static constexpr size_t kEntries = 512;
  struct Entry {
    uint16_t vp = 0;
    uint8_t path = kUnknown;
  };
  std::array<Entry, kEntries> entries_{};
};

}  // namespace mprdma::switchsim
