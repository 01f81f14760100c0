// Messages of the control socket of a LocalPort (local_port_control.hpp).
#pragma once

#include <cstdint>
#include <span>

#include "dataplane/sys/passed_fd.hpp"

namespace mprdma::dataplane::local {

inline constexpr uint32_t kMessageMagic = 0x4c503031;  // "LP01"; changes with the messages

// kHello carries the sender's memfd as its last descriptor, and before it, to a peer that the
// sender trusts, the eventfd that wakes the sender; earlier versions send and keep the memfd alone.
// To such a peer the kernel also tells the sender's process number (SCM_CREDENTIALS).
enum class MessageType : uint32_t { kHello = 1, kWake = 2, kRefused = 3 };
enum class Refusal : uint32_t { kNone = 0, kBusy = 1, kUser = 2, kRegion = 3 };

struct Message {
  uint32_t magic;
  MessageType type;
  Refusal refusal;
  // Of kWake: 1 + the core of the sender, if the wake-up before this one has cost it much time;
  // 0: it has not. Earlier versions send 0 and do not look at it.
  uint32_t waker_core;
};

// Never blocks, never signals. A peer that does not read its socket loses wake-ups of which many
// wait already. `fds`: descriptors to attach; `tells_pid` as in send_with_fds().
inline bool send_message(int socket, MessageType type, Refusal refusal = Refusal::kNone,
                         uint32_t waker_core = 0, std::span<const int> fds = {},
                         bool tells_pid = false) {
  const Message message{kMessageMagic, type, refusal, waker_core};
  return send_with_fds(socket, &message, sizeof message, fds, tells_pid) == sizeof message;
}

}  // namespace mprdma::dataplane::local
