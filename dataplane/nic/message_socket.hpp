// Messages of protocol.hpp over a connected socket, with a descriptor where one comes along. Used
// by both ends. Nothing here blocks, signals, or trusts what comes. Any thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <span>

#include "dataplane/nic/protocol.hpp"

namespace mprdma::dataplane::nic {

struct Incoming {
  alignas(
      8) std::array<unsigned char, kMessageBytesMax + 1> bytes;  // one more shows what is longer
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

// Whether the next message brings a descriptor along. Who asks this first never has one of a
// stranger's in its table, nor closes it.
bool brings_descriptor(int socket);

// 0, or EAGAIN where there is none, or another errno value: the connection is over (ECONNRESET also
// for its regular end).
int receive_message(int socket, Incoming* in);

}  // namespace mprdma::dataplane::nic
