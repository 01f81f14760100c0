// The directory of a user's running mprdma processes: the built-in wire's socket lives there, and
// what `mprdma top` reads. $XDG_RUNTIME_DIR/mprdma, or /tmp/mprdma-UID where that is not set.
// No state; any thread.
#pragma once

#include <string>

#include "dataplane/config.hpp"

namespace mprdma::dataplane {

std::string runtime_directory(const Environment& environment, unsigned uid);

// Makes it if need be. Empty, or why it cannot be used: it has to be a directory of ours that
// nobody else can write, because whoever can puts other sockets in the place of ours.
std::string make_private_directory(const std::string& path);

}  // namespace mprdma::dataplane
