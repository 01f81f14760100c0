// Prints once on standard error why a wire has no link, when that matters: a connected queue pair
// cannot reach its peer, or the port reports more than a peer that has not started yet. A program
// that only looks at completions would otherwise see just a timeout.
//
// Called by the holder of the worker's lock, with the port's service(), never in a burst, because
// it prints.
#pragma once

#include <cstdio>
#include <string_view>

#include "base/units.hpp"
#include "dataplane/worker/worker.hpp"

namespace mprdma::dataplane {

class LinkWarning {
 public:
  static constexpr Duration kPatience = Duration::s(2);

  void update(Worker& worker, Time now) {
    if (worker.port().link_up()) {
      down_since_ = Time::never();
      warned_reason_ = "";
      return;
    }
    if (down_since_.is_never()) down_since_ = now;
    const std::string_view reason = worker.port().link_text();
    if (now - down_since_ < kPatience || reason == warned_reason_) return;
    if (reason.starts_with("waiting") && !any_connected(worker)) return;
    warned_reason_ = reason;
    std::fprintf(stderr, "mprdma: no link on the port: %.*s\n", static_cast<int>(reason.size()),
                 reason.data());
  }

 private:
  static bool any_connected(Worker& worker) {
    bool any = false;
    worker.qps().for_each([&](QpContext& qp) { any |= qp.path != PathState::kNone && !qp.loop; });
    return any;
  }

  Time down_since_ = Time::never();
  std::string_view warned_reason_;  // the port's texts are static
};

}  // namespace mprdma::dataplane
