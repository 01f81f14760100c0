// [topology]: the kinds of networks.
#pragma once

#include "switchsim/config/toml_reader.hpp"
#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::switchsim {

// `path_mtu` is that of the packet that base_rtt_us is of.
void read_topology(const toml::table& table, uint32_t path_mtu, TomlErrors& errors,
                   Scenario* scenario);

}  // namespace mprdma::switchsim
