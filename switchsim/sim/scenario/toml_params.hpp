// The transport's tunables from a [transport] table.
#pragma once

#include "switchsim/config/toml_reader.hpp"
#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::switchsim {

// What a scenario, and each of its flows, may say about queue pairs.
struct TransportSpec {
  transport::Params params = transport::Params::mp();
  uint32_t path_mtu = 1024;
  uint8_t timeout = 14;
  uint8_t retry_cnt = 7;
};

// A preset, if one is named, replaces all params; the other keys change single ones.
void read_transport(const toml::table& table, const std::string& name, TomlErrors& errors,
                    TransportSpec* spec);

}  // namespace mprdma::switchsim
