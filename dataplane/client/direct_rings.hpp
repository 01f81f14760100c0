// The direct rings of a process: ports to other processes of its device, which mprdmad makes on
// request (protocol.hpp, "Direct rings").
//
// A ring is asked for when the first queue pair needs it, and closed when none has used it for
// kUnusedMax. A ring whose other end has gone is no longer listed, but stays in memory while a
// queue pair names it or a frame of it is borrowed.
//
// Everything is called with the worker's lock held, but for stats().
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/units.hpp"
#include "dataplane/client/daemon.hpp"
#include "dataplane/client/protocol.hpp"
#include "dataplane/port/local_port.hpp"

namespace mprdma::dataplane::client {

// An offer of mprdmad. The socket is the receiver's to close.
struct OfferedRing {
  uint32_t block = 0;
  uint32_t number = 0;
  bool same_user = false;
  int socket = -1;
};

class DirectRings {
 public:
  static constexpr size_t kRingsMax = 64;  // 2.2 MiB each, on this side
  static constexpr uint32_t kSlots = 512;
  static constexpr Duration kUnusedMax = Duration::s(5);
  // A ring that was asked for and has not come up counts as refused.
  static constexpr Duration kPatience = Duration::ms(50);
  // A process that could not be reached by a ring is not asked for at once again.
  static constexpr Duration kRetryAfter = Duration::s(1);

  // `epoll_fd` watches the rings; the caller's, open for as long as this object lives.
  DirectRings(const wire::MacAddress& mac, int epoll_fd) : mac_(mac), epoll_fd_(epoll_fd) {}
  ~DirectRings();
  DirectRings(const DirectRings&) = delete;
  DirectRings& operator=(const DirectRings&) = delete;

  // True if the daemon has to be asked now; *last is what RingRequest says.
  bool want(uint32_t block, Time now, uint32_t* last);
  [[nodiscard]] RingState state(uint32_t block, Time now) const;
  void on_refused(uint32_t block, Time now);
  void on_offer(const OfferedRing& offer, Time now);
  // Nothing that was asked for will come.
  void forget_requests();
  void close_all();
  // Closes what there is, and refuses what comes.
  void refuse();

  [[nodiscard]] DirectRing* ring_to(uint32_t block);
  [[nodiscard]] std::span<DirectRing* const> up() const { return up_; }
  [[nodiscard]] uint64_t changes() const { return changes_; }

  // A frame has come in one of them.
  [[nodiscard]] bool arrived() const {
    return std::any_of(up_.begin(), up_.end(), [](const DirectRing* ring) {
      return static_cast<const Ring*>(ring)->local->arrived();
    });
  }
  void flush();
  bool arm();
  void disarm();
  int take_costly_waker();
  [[nodiscard]] int waker_core() const;
  void service(Time now);
  void close_after_fork();
  // Of all that there are and were. Any thread.
  [[nodiscard]] PortCounters stats() const;

 private:
  struct Ring : DirectRing {
    Ring(uint32_t of, std::unique_ptr<LocalPort> its)
        : DirectRing({of * kBlockGenerations, kBlockGenerations}, std::move(its)),
          block(of),
          local(static_cast<LocalPort*>(port.get())) {}
    uint32_t block;
    LocalPort* local;
    uint32_t number = 0;
    bool closed = false;  // not to be used any more
    uint64_t frames_seen = 0;
    Time unused_since;
  };
  struct Peer {
    Ring* ring = nullptr;  // the last one offered, unless closed
    uint32_t last_number = 0;
    bool asked = false;  // neither offered nor refused yet
    Time asked_at = Time{} - kRetryAfter;
  };

  void close(Ring& ring);
  void follow(Ring& ring, Time now);
  void reap();
  void changed();

  wire::MacAddress mac_;
  int epoll_fd_;
  bool refuses_ = false;
  std::array<Peer, kBlocks> peers_{};
  mutable std::mutex list_;  // of who changes rings_ and departed_, and of stats()
  std::vector<std::unique_ptr<Ring>> rings_;
  PortCounters departed_;
  std::vector<DirectRing*> up_;
  uint64_t changes_ = 0;
};

}  // namespace mprdma::dataplane::client
