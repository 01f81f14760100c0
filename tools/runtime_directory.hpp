// Where the sockets of this user's wires and fabrics are: $XDG_RUNTIME_DIR/mprdma, or
// /tmp/mprdma-UID where there is no such directory. dataplane/runtime_directory.hpp makes it.
#pragma once

#include <string>
#include <vector>

#include "dataplane/config.hpp"

namespace mprdma::tools {

std::string runtime_directory(const dataplane::Environment& environment, unsigned uid);

// Of one fabric, inside it.
std::string fabric_directory(const std::string& runtime_directory, const std::string& name);
// The fabrics that run, by name; none where others can write (check_private_directory()).
std::vector<std::string> running_fabrics(const std::string& runtime_directory);

}  // namespace mprdma::tools
