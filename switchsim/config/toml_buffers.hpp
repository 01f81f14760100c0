// The keys about the memory of switches and PFC: of [topology] in a scenario (docs/simulator.md),
// of the document in a fabric (docs/operations.md).
#pragma once

#include "switchsim/config/toml_reader.hpp"
#include "switchsim/model/topology.hpp"

namespace mprdma::switchsim {

void read_buffers(TomlReader& reader, Topology* topology);

}  // namespace mprdma::switchsim
