// Small scenarios that the tests of the simulator share.
#pragma once

#include <string>

#include "switchsim/sim/simulation.hpp"

namespace mprdma::switchsim {

inline FlowSpec flow_between(const Scenario& scenario, const std::string& from,
                             const std::string& to,
                             const transport::Params& params = transport::Params::mp()) {
  FlowSpec flow;
  flow.name = from + "-" + to;
  flow.from = scenario.host(from);
  flow.to = scenario.host(to);
  flow.params = params;
  return flow;
}

// One message over a dumbbell with one host on either side; ends when it is complete.
inline Scenario lone_message(uint64_t bytes, LinkRate bottleneck = LinkRate::gbps(40)) {
  Scenario scenario;
  make_dumbbell({.pairs = 1, .bottleneck = bottleneck}, &scenario);
  FlowSpec flow = flow_between(scenario, "l1", "r1");
  flow.message_bytes = bytes;
  flow.messages = 1;
  scenario.flows.push_back(flow);
  scenario.end_when_idle = true;
  return scenario;
}

// Five to five over four paths, without end.
inline Scenario permutation(const transport::Params& params = transport::Params::mp()) {
  Scenario scenario;
  make_testbed({.red = {.kmin_bytes = 20'000, .kmax_bytes = 40'000}}, &scenario);
  for (int i = 1; i <= 5; ++i) {
    const std::string number = std::to_string(i);
    scenario.flows.push_back(flow_between(scenario, "a" + number, "b" + number, params));
  }
  scenario.duration = SimSpan::ms(4);
  scenario.warm_up = SimSpan::ms(1);
  scenario.sample = SimSpan::us(250);
  return scenario;
}

}  // namespace mprdma::switchsim
