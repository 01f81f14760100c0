// The keys of [topology] about the memory of switches and PFC (docs/simulator.md).
#pragma once

#include "switchsim/config/toml_reader.hpp"
#include "switchsim/model/topology.hpp"

namespace mprdma::switchsim {

void read_buffers(TomlReader& reader, Topology* topology);

}  // namespace mprdma::switchsim
