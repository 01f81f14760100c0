// The trace of the transport: what a queue pair sends, takes and decides, as typed events. The host
// gives a sink with the device (Device::trace); without one an event costs the test of a pointer.
//
// A sink is called in the middle of the transport's work and calls nothing of it. One JSON object
// for each event: trace_text.hpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/psn.hpp"
#include "base/qpn.hpp"
#include "base/units.hpp"
#include "wire/packet.hpp"

namespace mprdma::transport {

// Name, and when the event is raised. docs/simulator.md, "Trace", says which fields each of them
// has beside time, queue pair and PSN.
#define MPRDMA_TRACE_KINDS(X)                                                               \
  X(state, "the queue pair has another state")                                              \
  X(send, "a packet goes to the host, which sends it or counts a drop")                     \
  X(receive, "a packet of the peer is about to be taken")                                   \
  X(window, "an acknowledgement was taken: window and packets in flight after it")          \
  X(lost, "a packet is marked lost; the reason says by what")                               \
  X(refused, "the receiver refused a synchronise operation: it is sent again later")        \
  X(timeout, "the retransmission timeout expired; every packet that is not SACKed is lost") \
  X(undone, "an original arrived: the reason says what was wrong, its loss or the timeout") \
  X(restart, "the window begins anew after a pause of the application")                     \
  X(not_ready, "the receiver is not ready: the stream is silent for a time")                \
  X(go_back, "RoCE: everything from a PSN on is sent again; the reason says why")

enum class TraceKind : uint8_t {
#define MPRDMA_TRACE_KIND(name, text) name,
  MPRDMA_TRACE_KINDS(MPRDMA_TRACE_KIND)
#undef MPRDMA_TRACE_KIND
};

// "send", "lost", ...
std::string_view to_string(TraceKind kind);

// The stream of a reliable queue pair that an event is about.
enum class TraceStream : uint8_t { kRequests, kResponses };

struct TraceEvent {
  Time now{};
  TraceKind kind{};
  TraceStream stream = TraceStream::kRequests;
  Qpn qpn{};  // the queue pair that raises it
  Psn psn{};
  std::string_view reason{};  // a literal: the state; why packets are lost or sent again
  // ---- window, lost, timeout, restart: the stream as the event leaves it
  uint32_t window_raw = 0;  // packets in Q16.16
  uint32_t in_flight = 0;   // packets
  uint32_t credits = 0;     // packets that may leave at once
  int64_t srtt_ns = 0;      // 0: no sample yet
  uint32_t timeouts = 0;    // in a row
  // ---- not_ready
  Time until{};
  // ---- send, receive
  wire::Packet packet{};
  bool again = false;  // send: an earlier copy was sent
};

class TraceSink {
 public:
  virtual void on_event(const TraceEvent& event) = 0;

 protected:
  ~TraceSink() = default;
};

// What a part of a queue pair raises events with.
struct Trace {
  TraceSink* sink = nullptr;
  Qpn qpn{};
  TraceStream stream = TraceStream::kRequests;

  [[nodiscard]] bool on() const { return sink != nullptr; }
  // The caller has asked on(); sets the fields that every event has.
  void raise(Time now, TraceKind kind, Psn psn, TraceEvent event = {}) const {
    event.now = now;
    event.kind = kind;
    event.stream = stream;
    event.qpn = qpn;
    event.psn = psn;
    sink->on_event(event);
  }
};

}  // namespace mprdma::transport
