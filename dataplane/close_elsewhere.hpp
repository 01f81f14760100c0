// Closes descriptors that a stranger had a hand in, on a thread of their own.
//
// close() may block for as long as the stranger likes: on a TCP socket with SO_LINGER that nobody
// reads (socket(7)), on a file of a FUSE server that does not answer, on gigabytes that have to be
// freed. A Unix socket whose queue has such a descriptor in it is no better: closing it closes what
// was never received. Who serves strangers closes neither himself.
//
// Any thread. Does not block. The descriptor is the function's from here on; its end takes effect a
// little later, so a connected socket should be shut down first.
#pragma once

namespace mprdma::dataplane {

// -1 is nothing.
void close_elsewhere(int fd);

}  // namespace mprdma::dataplane
