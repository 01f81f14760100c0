// The directory of a user's running mprdma processes: the built-in wire's socket lives there, and
// what `mprdma top` reads. $XDG_RUNTIME_DIR/mprdma, or /tmp/mprdma-UID where that is not set, or
// names a directory of somebody else (a root shell that kept the user's environment). No state; any
// thread.
#pragma once

#include <string>

#include "base/status.hpp"
#include "dataplane/sys/environment.hpp"

namespace mprdma::dataplane {

std::string runtime_directory(const Environment& environment, unsigned uid);

// Creates the directory if needed. An error unless it belongs to this user and is writable by no
// one else, because a process that can write there can replace our sockets, and a
// process that connects to a wire may put anything into its frames.
Status make_private_directory(const std::string& path);
// Checks an existing directory by the same rules, but creates none.
Status check_private_directory(const std::string& path);

}  // namespace mprdma::dataplane
