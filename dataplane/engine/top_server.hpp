// The engine's end of `mprdma top`: a listening socket, a few readers at most, and the unsent bytes
// of each. Driven by the engine's own thread, which waits for fd() among other things and calls
// serve() without the worker's lock.
//
// serve() never blocks and does a bounded piece of work. Records are taken from the source in
// pieces, each under the lock for some microseconds; a reader that does not read costs its buffer
// and nothing else. A process whose directory cannot be used has no server.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "dataplane/engine/top_protocol.hpp"

namespace mprdma::dataplane {

// Source of heads and records.
class TopSource {
 public:
  virtual ~TopSource() = default;
  virtual void top_head(TopHead* out) = 0;
  // Fills records from slot *next on and moves it; how many. *next is kTopEnd after the last slot.
  virtual size_t top_records(uint32_t* next, std::span<TopRecord> out) = 0;
};
inline constexpr uint32_t kTopEnd = UINT32_MAX;

struct TopCounts {
  uint64_t replies = 0;  // readers that were sent everything
  uint64_t refused = 0;  // of another user, or too many at once
};

class TopServer {
 public:
  static constexpr size_t kReadersMax = 4;
  static constexpr size_t kRecordsPerPiece = 64;
  static constexpr size_t kPiecesPerTurn = 4;
  // A reader that takes nothing for this time loses its place to the next.
  static constexpr Duration kPatience = Duration::ms(1000);

  // Null if the socket cannot be created in this directory.
  static std::unique_ptr<TopServer> create(const std::string& directory, TopSource& source);
  ~TopServer();
  TopServer(const TopServer&) = delete;
  TopServer& operator=(const TopServer&) = delete;

  // Readable when serve() has something to do.
  [[nodiscard]] int fd() const { return epoll_fd_; }
  void serve();
  // Removes the socket file, also for a process that ends without closing anything.
  void withdraw();
  // Called in a child after fork: closes the descriptors; the file stays, because it is the
  // parent's.
  void close_after_fork();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] TopCounts counts() const { return counts_; }

 private:
  struct Reader {
    int fd = -1;
    std::vector<char> buffer;
    size_t sent = 0;
    uint32_t next_slot = 0;
    Time last_progress;
  };

  explicit TopServer(TopSource& source) : source_(source) {}
  bool open(const std::string& directory);
  void accept_readers();
  Reader* place_for_reader(Time now);
  void pump(Reader& reader);
  void refill(Reader& reader);
  void close_reader(Reader& reader);

  TopSource& source_;
  std::string path_;
  pid_t pid_ = 0;
  int epoll_fd_ = -1;
  int listen_fd_ = -1;
  std::array<Reader, kReadersMax> readers_;
  TopCounts counts_;
};

}  // namespace mprdma::dataplane
