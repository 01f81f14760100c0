// Which virtual path (UDP source port) the next packet of a stream takes (design 3.1).
//
// The seam for path policies: the sender's owner asks for a path for each packet and reports each
// acknowledgement; ECMP in the network does the rest. No state per path, ever.
// Built: kSingle, one fixed path for everything. kAckClocked is refused at construction.
#pragma once

#include <cstdint>

#include "base/check.hpp"
#include "transport/params.hpp"
#include "transport/stream_sender.hpp"

namespace mprdma::transport {

class PathSelector {
 public:
  explicit PathSelector(PathPolicy policy) { CHECK(policy == PathPolicy::kSingle); }

  void connect(uint16_t fixed_vp) { vp_ = fixed_vp; }
  // The path for what was chosen.
  [[nodiscard]] uint16_t next(StreamSender::Choice::Kind /*kind*/) const { return vp_; }
  // `vp` is the path that the acknowledged packet took.
  void on_ack(uint16_t /*vp*/) {}

 private:
  uint16_t vp_ = wire::kVirtualPathMin;
};

}  // namespace mprdma::transport
