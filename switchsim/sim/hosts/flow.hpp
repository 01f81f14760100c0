// One flow of a simulation: its messages, the packets that arrived, and measurements.
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
#include "switchsim/sim/hosts/flowlets.hpp"
#include "switchsim/sim/hosts/message_record.hpp"
#include "switchsim/sim/hosts/rpc_session.hpp"
#include "switchsim/sim/hosts/virtual_paths.hpp"
#include "switchsim/sim/scenario/scenario.hpp"
#include "transport/qp.hpp"

namespace mprdma::switchsim {

struct Flow {
  // A message that is posted and not complete.
  struct Outstanding {
    SimTime posted;
    uint64_t bytes;
  };

  static constexpr size_t kOpenLoopDepthMax = 256;
  // The last bin of the histogram `ooo`, for this degree and all above.
  static constexpr uint32_t kOooDegreeMax = 4095;

  explicit Flow(const FlowSpec& flow_spec) : spec(&flow_spec) {
    if (spec->rpc_credits == 0) return;
    rpc = std::make_unique<RpcSession>(spec->rpc_credits, spec->rpc_timeout);
  }

  [[nodiscard]] bool open_loop() const { return !spec->timed_messages.empty(); }
  // True if all messages are posted, or no more will be.
  [[nodiscard]] bool all_posted(SimTime now) const {
    if (failed || now >= spec->stop) return true;
    if (open_loop()) return next_timed == spec->timed_messages.size();
    return spec->messages != 0 && messages_posted == spec->messages;
  }
  [[nodiscard]] bool done(SimTime now) const {
    return failed || (outstanding.empty() && all_posted(now));
  }

  // The hosts that send and receive the payload.
  [[nodiscard]] NodeId source() const { return requester_sends() ? spec->from : spec->to; }
  [[nodiscard]] NodeId destination() const { return requester_sends() ? spec->to : spec->from; }
  [[nodiscard]] bool requester_sends() const { return spec->operation != FlowOperation::kRead; }
  // Messages that the queue pair has at once; the rest wait in the application.
  [[nodiscard]] uint32_t send_depth() const {
    if (!open_loop()) return spec->post_depth;
    return static_cast<uint32_t>(std::min(spec->timed_messages.size(), kOpenLoopDepthMax));
  }

  const FlowSpec* spec;
  std::string name;
  std::unique_ptr<RpcSession> rpc;  // nullptr: a connection

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
  std::unique_ptr<VirtualPathMeter> virtual_paths;  // with FlowSpec::measure_paths

  // ---- What came in at the end that takes the payload
  uint64_t delivered_bytes = 0;
  uint64_t packets_received = 0;
  uint64_t ce_received = 0;
  std::vector<uint64_t> ooo;  // histogram by degree, grows as needed; since the warm-up
  uint32_t ooo_max = 0;       // since the last point
  Psn expected;               // rcv_nxt, from the acknowledgements
  std::vector<uint64_t> path_bytes;
  // Synchronise messages with a packet that came too early, each counted once. The array has the
  // first PSNs of the latest, whose packets come within a window, and repeatedly.
  uint64_t sync_early = 0;
  uint64_t sync_packets_refused = 0;
  std::array<Psn, 16> sync_early_recent;
};

// The path that a virtual path leads to now, for counting payload by path. It is a cache: a flow
// uses about as many virtual paths at a time as its window has packets, and there may be very many
// flows.
class PathCache {
 public:
  static constexpr uint8_t kUnknown = 255;
  static constexpr uint8_t kOther = 254;

  // Returns the class of `vp`; if it is kUnknown, the caller fills it in at once.
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
