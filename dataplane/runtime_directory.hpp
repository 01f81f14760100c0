// The directory of a user's running mprdma processes: the built-in wire's socket lives there, and
// what `mprdma top` reads. $XDG_RUNTIME_DIR/mprdma, or /tmp/mprdma-UID where that is not set, or
// names a directory of somebody else (a root shell that kept the user's environment). No state; any
// thread.
#pragma once

#include <string>

#include "dataplane/config.hpp"

namespace mprdma::dataplane {

std::string runtime_directory(const Environment& environment, unsigned uid);

// Makes it if need be. Empty, or why it cannot be used: it has to be a directory of ours that
// nobody else can write, because whoever can puts other sockets in the place of ours, and what
// connects to a wire may put anything into its frames.
std::string make_private_directory(const std::string& path);
// The same of one that should be there already.
std::string check_private_directory(const std::string& path);

}  // namespace mprdma::dataplane
