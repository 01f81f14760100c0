// Oob: the out-of-band connection of the two processes, a Unix stream socket. It reaches across
// network namespaces, and no byte of it crosses the wire under test.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace mprdma::verbs_check {

class Oob {
 public:
  // Listens on a path that must not exist yet. Clients are accepted one after the other.
  static Oob listen(const std::string& path);
  // Dials, and waits up to ten seconds until somebody listens.
  static Oob dial(const std::string& path);

  Oob(const Oob&) = delete;
  Oob& operator=(const Oob&) = delete;
  Oob(Oob&& other) noexcept;
  Oob& operator=(Oob&&) = delete;
  ~Oob();

  // Waits for the next client (server only).
  void accept();
  void hang_up();

  void send(const void* data, size_t bytes);
  void receive(void* data, size_t bytes);

  // Sends `mine` and returns the peer's value; both ends call it.
  template <typename T>
  T exchange(const T& mine) {
    static_assert(std::is_trivially_copyable_v<T>);
    T theirs{};
    send(&mine, sizeof(mine));
    receive(&theirs, sizeof(theirs));
    return theirs;
  }

  // Returns when both ends have called it.
  void barrier() { exchange<uint64_t>(0x6261727269657200); }

  // A whole message of this size that is there already; never waits. False: not yet.
  template <typename T>
  bool poll(T* message) {
    static_assert(sizeof(T) <= sizeof(partial_));
    return poll_bytes(message, sizeof(T));
  }

  // Whether the peer has gone (never waits, takes no data).
  [[nodiscard]] bool closed() const;
  [[nodiscard]] bool closes_within(double seconds) const;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  explicit Oob(bool server, std::string path) : server_(server), path_(std::move(path)) {}
  bool poll_bytes(void* message, size_t bytes);

  bool server_;
  std::string path_;
  int listen_fd_ = -1;
  int fd_ = -1;
  std::array<unsigned char, 64> partial_{};
  size_t partial_bytes_ = 0;
};

}  // namespace mprdma::verbs_check
