// Closes descriptors that came from an untrusted process, on a thread of its own.
//
// close() may block for as long as that process likes: on a TCP socket with SO_LINGER that nobody
// reads (socket(7)), on a file of a FUSE server that does not answer, on gigabytes that have to be
// freed. Closing a Unix socket also closes the descriptors left in its queue. So a server of
// untrusted processes must close neither by itself.
//
// Any thread. Does not block. The descriptor is the function's from here on; its end takes effect a
// little later, so a connected socket should be shut down first.
#pragma once

namespace mprdma::dataplane {

// -1 is ignored.
void close_elsewhere(int fd);

}  // namespace mprdma::dataplane
