// What tables say of a port: rate, delay, queue, marking.
#pragma once

#include "switchsim/config/toml_reader.hpp"
#include "switchsim/model/topology.hpp"

namespace mprdma::switchsim {

// Each leaves alone what the table does not say.
void read_red(TomlReader& reader, RedConfig* red);
void read_marking(TomlReader& reader, RedConfig* red);
void read_queue(TomlReader& reader, uint64_t* bytes_max);
void read_port(TomlReader& reader, PortConfig* port);

}  // namespace mprdma::switchsim
