// The paper's fluid model of a scenario, and its curves for the panels of figures.
#pragma once

#include <string>
#include <vector>

#include "evaluation/plot.hpp"
#include "switchsim/fluid/mp_fluid.hpp"
#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::figures {

// All flows of the scenario, of which the first is typical, over its paths (from a to b). The base
// RTT is that of a full packet and its acknowledgement, serialisation included.
fluid::Model fluid_model(const switchsim::Scenario& scenario);
// Over the whole duration, one point for each point of the simulation's series.
fluid::Trace fluid_trace(const switchsim::Scenario& scenario, double initial_cwnd);
// Dashed; x in ms, y times `scale`.
Curve fluid_curve(const std::string& name, const fluid::Trace& trace,
                  const std::vector<double>& values, double scale);

}  // namespace mprdma::figures
