// The control socket of a LocalPort: finds the peer, exchanges the memory, carries wake-ups, and is
// the only sign that the peer is alive.
//
// A wire is a path in the file system. Whoever holds the lock file beside it listens there; the
// other dials. Both roles are symmetrical otherwise: each side sends its Hello with its memfd as
// soon as the socket stands, and the link is up when the peer's has come. The kernel releases the
// lock and hangs the socket up when a process dies, so a stale socket file harms nobody.
//
// Between a process and mprdmad a connected socket is handed over instead of a path: a wire that
// went down stays down until another socket is handed over.
//
// A wake-up is a write to the eventfd that the peer has passed in, or a message of this socket: the
// message also tells the core of a waker to whom the last wake-up was a burden. Whoever has an
// eventfd can make it block at any time, while a send() with MSG_DONTWAIT never blocks. So only
// processes that trust each other exchange eventfds: those of one user and one PID namespace, who
// could as well stop each other.
//
// The other end of a handed-over socket may be untrusted (a client of mprdmad, a process of another
// user or container). Descriptors from it are closed on another thread, and so is the socket, whose
// queue may hold more of them.
//
// Only the port's thread calls this. Nothing here blocks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/status.hpp"
#include "base/units.hpp"
#include "dataplane/port/deferred_wakes.hpp"

namespace mprdma::dataplane::local {

enum class Role : uint8_t {
  kAuto,     // dial, or listen where nobody does
  kListen,   // only ever listen
  kDial,     // only ever dial
  kAdopted,  // neither: the connected socket was given
};

// How the peer is asked to wake us.
enum class Wake : uint8_t { kByEventfd, kByMessage };

class Control {
 public:
  // Result of poll(). The caller owns the peer's memfd, if there is one.
  struct Event {
    enum class Kind : uint8_t { kNone, kUp, kDown } kind = Kind::kNone;
    int memfd = -1;  // with kUp
  };

  // `connected`: the socket of Role::kAdopted, which belongs to this object from here on; its other
  // end is somebody whom the caller trusts, or a `stranger`. Else -1.
  Control(std::string path, Role role, int own_memfd, int connected = -1, bool stranger = false,
          Wake wake = Wake::kByEventfd);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Checks that the path can work at all.
  Status start();

  // Moves on: one step of dialling, accepting, handshake, or draining. Call until it gives kNone.
  Event poll(Time now);
  // Drops the peer, with an optional reason for it. Dialling or listening goes on.
  void hang_up(const char* reason);
  // Sends a wake-up, or leaves it to the thread's DeferredWakes.
  void wake_peer();
  // As Port::take_costly_waker().
  int take_costly_waker() { return std::exchange(costly_waker_, -1); }
  // Role::kAdopted: another connected socket, for the next life. Requires: over().
  void hand_over(int connected) { given_fd_ = connected; }

  [[nodiscard]] int notify_fd() const { return epoll_fd_; }
  // Static text: what the wire waits for, or "up".
  [[nodiscard]] const char* text() const { return __atomic_load_n(&text_, __ATOMIC_RELAXED); }

  // Connected, but the other end has neither accepted nor refused yet.
  [[nodiscard]] bool agreeing() const { return state_ == State::kHandshake; }
  // The peer of this connection has our user and PID namespace; Role::kAdopted: it is no stranger.
  [[nodiscard]] bool trusts_peer() const { return trusts_; }
  // The number of that process here, as the kernel says; 0: it is not known, or not trusted.
  [[nodiscard]] pid_t peer_pid() const { return peer_pid_; }
  [[nodiscard]] bool adopted() const { return role_ == Role::kAdopted; }
  // Role::kAdopted: the other end is gone, and no other peer can connect.
  [[nodiscard]] bool over() const {
    return role_ == Role::kAdopted && connection_fd() < 0 && given_fd_ < 0;
  }
  // The last peer refused; it is asked again at intervals.
  [[nodiscard]] bool refused() const { return refused_; }

  // In a forked child: closes its copies, leaves the parent's socket, file and lock alone.
  void close_after_fork();

 private:
  enum class State : uint8_t { kIdle, kHandshake, kUp };

  // -1: there is no connection.
  [[nodiscard]] int connection_fd() const { return connection_ ? connection_->fd() : -1; }
  void set_text(const char* text) { __atomic_store_n(&text_, text, __ATOMIC_RELAXED); }
  [[nodiscard]] Status check_path() const;
  void dial(Time now);
  bool try_lock();
  bool try_listen();
  void check_listener(Time now);
  void stop_listening();
  void accept_one(Time now);
  void turn_away_others();
  void adopt(int fd, Time now);
  Event receive();
  Event on_message(const void* bytes, long count, int memfd, int event_fd);
  void close_passed(int fd) const;
  void keep_event_fd(int fd);
  Event closed(const char* text);
  void close_connection();

  std::string path_;
  Role role_;
  State state_ = State::kIdle;
  bool refused_ = false;
  bool stranger_;
  Wake wake_;
  bool trusts_ = false;  // the peer of this connection, in whose eventfd we write
  pid_t peer_pid_ = 0;
  int own_memfd_;
  int epoll_fd_ = -1;
  int wake_fd_ = -1;  // eventfd by which a peer that we trust wakes us; -1: there is none
  int lock_fd_ = -1;
  int listen_fd_ = -1;
  std::shared_ptr<WakeSocket> connection_;
  int costly_waker_ = -1;
  int given_fd_ = -1;          // Role::kAdopted, before the first poll()
  uint64_t socket_inode_ = 0;  // of the file that we listen at
  Time handshake_deadline_ = Time::never();
  Time next_dial_;
  Duration dial_interval_ = Duration::ms(5);
  Time next_listener_check_;
  const char* text_ = "not started";
};

}  // namespace mprdma::dataplane::local
