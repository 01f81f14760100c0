// Directories of the sockets of this user's wires and fabrics: $XDG_RUNTIME_DIR/mprdma, or
// /tmp/mprdma-UID where there is no such directory. dataplane/sys/runtime_directory.hpp makes it.
#pragma once

#include <string>
#include <vector>

#include "dataplane/engine/config.hpp"

namespace mprdma::tools {

std::string runtime_directory(const dataplane::Environment& environment, unsigned uid);

// The directory of one fabric, inside the runtime directory.
std::string fabric_directory(const std::string& runtime_directory, const std::string& name);
// The fabrics that run, by name; none where others can write (check_private_directory()).
std::vector<std::string> running_fabrics(const std::string& runtime_directory);

}  // namespace mprdma::tools
