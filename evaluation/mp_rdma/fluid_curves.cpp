#include "evaluation/mp_rdma/fluid_curves.hpp"

#include "base/check.hpp"

namespace mprdma::figures {

using switchsim::LinkConfig;
using switchsim::NodeId;
using switchsim::PortConfig;
using switchsim::Scenario;

namespace {

const LinkConfig& link_of_host(const Scenario& scenario, NodeId host) {
  for (const LinkConfig& link : scenario.topology.links) {
    if (link.a == host || link.b == host) return link;
  }
  CHECK(false);
  return scenario.topology.links.front();
}

double seconds(switchsim::SimSpan span) {
  return static_cast<double>(span.count_ps()) / 1e12;
}

// The time of a packet over one link and of its acknowledgement back.
double there_and_back_s(const LinkConfig& link, bool from_a, uint32_t data_bytes) {
  const PortConfig& there = from_a ? link.ab : link.ba;
  const PortConfig& back = from_a ? link.ba : link.ab;
  return seconds(there.delay + there.rate.time_of(data_bytes) + back.delay +
                 back.rate.time_of(switchsim::ack_wire_bytes()));
}

}  // namespace

fluid::Model fluid_model(const Scenario& scenario) {
  const switchsim::FlowSpec& flow = scenario.flows.front();
  const uint32_t data_bytes = switchsim::data_wire_bytes(flow.operation, flow.path_mtu);
  const LinkConfig& first = link_of_host(scenario, flow.from);
  const LinkConfig& last = link_of_host(scenario, flow.to);
  const double hosts_s = there_and_back_s(first, first.a == flow.from, data_bytes) +
                         there_and_back_s(last, last.b == flow.to, data_bytes);
  fluid::Model out;
  out.flows = static_cast<double>(scenario.flows.size());
  out.packet_bytes = data_bytes;
  for (const switchsim::LinkId id : scenario.paths) {
    const LinkConfig& link = scenario.topology.links[id];
    const switchsim::RedConfig& red = link.ab.red;
    out.paths.push_back({static_cast<double>(link.ab.rate.bits_per_second()) / 8,
                         hosts_s + there_and_back_s(link, true, data_bytes),
                         {static_cast<double>(red.kmin_bytes), static_cast<double>(red.kmax_bytes),
                          red.pmax_ppm / 1e6}});
  }
  return out;
}

fluid::Trace fluid_trace(const Scenario& scenario, double initial_cwnd) {
  fluid::Run run;
  run.duration_s = seconds(scenario.duration);
  run.sample_s = seconds(scenario.sample);
  run.initial_cwnd = initial_cwnd;
  return fluid::integrate(fluid_model(scenario), run);
}

Curve fluid_curve(const std::string& name, const fluid::Trace& trace,
                  const std::vector<double>& values, double scale) {
  Curve out;
  out.name = name;
  out.stroke = Stroke::kLine;
  out.dashed = true;
  for (size_t i = 0; i < values.size(); ++i) {
    out.x.push_back(trace.time_s[i] * 1e3);
    out.y.push_back(values[i] * scale);
  }
  return out;
}

}  // namespace mprdma::figures
