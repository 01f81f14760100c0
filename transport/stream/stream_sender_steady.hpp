// StreamSender::send_steady(), for its callers: it is in the way of every new packet.
#pragma once

#include "transport/stream/stream_sender.hpp"

namespace mprdma::transport {

inline uint16_t StreamSender::send_steady(Time now) {
  ++counters_->packets_sent;
  ++stats_.packets_sent;
  last_sent_ = now;
  const uint16_t vp =
      gate_.clocked() ? choose_path(now, {Choice::Kind::kNew, nxt()}) : note_path(paths_.draw(now));
  const uint32_t in_flight = board_.span();
  if (in_flight == 0) [[unlikely]]
    begin_flight(now);
  recovery_.mp()->on_sent(now, nxt(), srtt());
  note_path_of(nxt(), vp);
  board_.send_new();
  use_.window_limited = in_flight + 1 >= window_.packets();
  return vp;
}

}  // namespace mprdma::transport
