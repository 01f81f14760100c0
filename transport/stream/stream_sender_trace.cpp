// The events that a sender stream raises for the trace.
#include "transport/stream/stream_sender.hpp"

namespace mprdma::transport {

void StreamSender::raise(Time now, TraceKind kind, Psn psn, std::string_view reason) const {
  TraceEvent event;
  event.reason = reason;
  event.window_raw = window_.effective().raw();
  event.in_flight = in_flight();
  event.credits = gate_.credits();
  event.srtt_ns = rtt_.measured() ? srtt().count_ns() : 0;
  event.timeouts = rto_.backoff();
  event.until = paused_until_;
  trace_.raise(now, kind, psn, event);
}

}  // namespace mprdma::transport
