// Figure article/bdp: how many senders a switch's buffer takes at once when each has a
// bandwidth-delay product in flight at most.
#include <fmt/format.h>

#include <cmath>

#include "evaluation/cases.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;

constexpr double kGbps = 25;
constexpr double kRttUs = 6;
constexpr double kBufferBytes = 12e6;
constexpr double kBdpBytes = kGbps * 1e3 * kRttUs / 8;

double drops(const Result& result) {
  double sum = 0;
  for (const switchsim::PortResult& port : result.ports) {
    sum += static_cast<double>(port.total.drop_buffer);
  }
  return sum;
}

// The share of the packets that senders sent, copies included.
double dropped_share(const Result& result) {
  double sent = 0;
  for (const switchsim::FlowResult& flow : result.flows) {
    sent += static_cast<double>(flow.sender.packets_sent);
  }
  return drops(result) / sent;
}

// The small size has a quarter of the senders and of the buffer.
switchsim::Overrides senders(uint32_t count, bool ci) {
  const uint32_t some = ci ? count / 4 : count;
  switchsim::Overrides out = {fmt::format("topology.pairs={}", some),
                              fmt::format("flow[0].from=l1..l{}", some)};
  if (ci) out.emplace_back("topology.switch_buffer_bytes=3_000_000");
  return out;
}

}  // namespace

FigureResult bdp_arithmetic(const Figure& figure, const RunOptions& options) {
  const bool ci = options.ci();
  const Cases cases(figure, options,
                    {{"640", "640 senders, BDP-FC", senders(640, ci)},
                     {"800", "800 senders, BDP-FC", senders(800, ci)},
                     {"unbounded", "640 senders, 64 packets each",
                      with(senders(640, ci), {"transport.initial_window=64"})}},
                    {});
  FigureResult out;
  out.report("bdp.bytes", "25 Gb/s x 6 us", "", kBdpBytes, 0, "bytes", "");
  out.paper("19 KB");
  out.report("bdp.fold", "senders of a bandwidth-delay product each that 12 MB take", "",
             std::floor(kBufferBytes / kBdpBytes), 0, "", "");
  out.paper("640");
  const std::string what =
      ci ? "share of the packets that is dropped (a quarter of senders and buffer)"
         : "share of the packets that is dropped";
  // 17 packets are 18.8 KB on the wire, more than the product: 640 times that is 33 KB too much.
  cases.claim("640", "drops", what, "<= 0.001", dropped_share, "", &out);
  cases.claim("800", "drops", what, "> 0.01", dropped_share, "", &out);
  cases.claim("unbounded", "drops", what, "> 0.01", dropped_share, "", &out);
  Panel panel{"The first burst into 12 MB", "time, ms", "queue, MB", {}};
  for (const Case& one : cases.all()) {
    const Result& result = cases.first(one.id);
    Curve curve{one.name, result.time_us, {}};
    const switchsim::PortResult* port = result.port_named("bottleneck.ab");
    for (double& time : curve.x) time /= 1e3;
    for (const uint64_t bytes : port->queue_series) {
      curve.y.push_back(static_cast<double>(bytes) / 1e6);
    }
    panel.curves.push_back(curve);
  }
  out.panels.push_back(panel);
  out.own_targets();
  cases.finish("bottleneck",
               "Servers of 25 Gb/s send 128 KB each to one, all from within 20 us on, over a "
               "switch with a buffer of 12 MB for all ports; round trip 6 us; IRN with at most 17 "
               "packets in flight, which are 18.8 KB on the wire",
               "Timers are out of the way: while the buffer drains, which takes 4 ms, IRN's own "
               "timeouts (320 us) would send everything again. The article counts a buffer and no "
               "timers.",
               &out);
  out.seen = "With BDP-FC 12 MB take 640 senders, and not many more";
  return out;
}

}  // namespace mprdma::figures
