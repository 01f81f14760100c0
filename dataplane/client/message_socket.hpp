// Messages of protocol.hpp over a connected socket, some with a descriptor attached. Used by both
// ends. Nothing here blocks, raises a signal, or trusts received data. Any thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <span>

#include "dataplane/client/protocol.hpp"

namespace mprdma::dataplane::client {

struct Incoming {
  alignas(8) std::array<unsigned char,
                        kMessageBytesMax + 1> bytes;  // one byte more detects longer messages
  size_t size = 0;
  int passed_fd = -1;  // the reader's to close

  [[nodiscard]] std::span<const unsigned char> message() const { return {bytes.data(), size}; }
};

// A SEQPACKET socket, close-on-exec and not blocking; -1 and errno.
int new_message_socket();

// For a process: whether the daemon at the other end is one that it trusts with all that it sends,
// of root, of its own user, or of the one whom MPRDMA_DAEMON_UID names. In a user namespace that is
// how a daemon outside is trusted: all users without a name inside look the same (65534).
bool is_of_trusted_user(int socket);

// 0 or an errno value: EAGAIN, the other end does not read. `passed_fd` stays the caller's.
int send_bytes(int socket, const void* bytes, size_t size, int passed_fd = -1);

template <class T>
int send_message(int socket, const T& message, int passed_fd = -1) {
  static_assert(T::kType != MessageType{});
  return send_bytes(socket, &message, sizeof message, passed_fd);
}

// True if the next message carries a descriptor. A caller that checks this first never receives a
// stranger's descriptor, and so never has to close one.
bool brings_descriptor(int socket);

// 0; EAGAIN: no message waits; another errno value: the connection is over (ECONNRESET also for its
// regular end).
int receive_message(int socket, Incoming* in);

}  // namespace mprdma::dataplane::client
