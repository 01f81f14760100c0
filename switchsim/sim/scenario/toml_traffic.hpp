// Generated traffic from a [[traffic]] table.
#pragma once

#include "switchsim/sim/scenario/toml_flow.hpp"

namespace mprdma::switchsim {

void read_traffic(const toml::table& table, const HostNames& hosts, const TransportSpec& transport,
                  TomlErrors& errors, Scenario* scenario);

}  // namespace mprdma::switchsim
