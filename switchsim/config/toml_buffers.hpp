// The keys about the memory of switches and PFC: of [topology] in a scenario (docs/simulator.md),
// of the document in a fabric (docs/operations.md).
#pragma once

#include "switchsim/config/toml_reader.hpp"
#include "switchsim/model/topology.hpp"

namespace mprdma::switchsim {

// The topology's switch_buffer_bytes, if not 0, is the default of that key.
void read_buffers(TomlReader& reader, Topology* topology);

}  // namespace mprdma::switchsim
