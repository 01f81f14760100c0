// What packets meet in a leaf-spine while messages arrive: between the warm-up and the last arrival
// of a scenario whose flows are one message each.
#pragma once

#include "switchsim/sim/result/result.hpp"
#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::figures {

// Mean time in the queues of the switches between two servers under different leaves: a port to a
// spine, one from a spine, one to a server, each with the mean of its kind.
double fabric_wait_us(const switchsim::Scenario& scenario, const switchsim::Result& result);

// Load that the messages of the draw offer to the links to servers, and load that arrives there:
// payload, headers, preamble and gap of mp, in shares of what the links carry.
double offered_load(const switchsim::Scenario& scenario, const switchsim::Result& result);
double carried_load(const switchsim::Scenario& scenario, const switchsim::Result& result);

// Share of the time that the links to servers are busy, mean over all.
double server_link_use(const switchsim::Scenario& scenario, const switchsim::Result& result);

}  // namespace mprdma::figures
