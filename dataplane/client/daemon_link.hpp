// A process's connection to mprdmad (protocol.hpp): finds the daemon, sends Hello, and reconnects
// after the daemon was away; carries the commands to its CM agent, and the agent's events.
//
// poll() is called with the worker's lock held, and does not block. Commands have a lock of their
// own. The thread that sent a command waits for the reply and reads the socket meanwhile; otherwise
// poll() reads it. Events wait in a queue until poll() delivers them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.hpp"
#include "base/units.hpp"
#include "dataplane/client/cm_id_journal.hpp"
#include "dataplane/client/daemon.hpp"
#include "dataplane/client/direct_rings.hpp"
#include "dataplane/client/message_socket.hpp"
#include "dataplane/client/protocol.hpp"

namespace mprdma::dataplane::client {

class DaemonLink final : public Daemon {
 public:
  // The reply of a daemon that is there. It may serve many busy processes and be without a core for
  // a second or two; its death ends the wait at once.
  static constexpr Duration kReplyTimeout = Duration::s(10);
  // For a daemon that is being restarted.
  static constexpr Duration kServedTimeout = Duration::s(2);

  explicit DaemonLink(std::string path);
  ~DaemonLink() override;

  // Connects for the first time, and waits for the daemon. *port_socket is the socket of a
  // LocalPort, which the caller owns.
  Status open(int* port_socket);
  // Does the regular work after open(), and reconnects to a daemon that was away. -1, or the socket
  // of a new LocalPort, which the caller owns.
  int poll(Time now);
  // Requires open().
  [[nodiscard]] DirectRings& direct() { return *rings_; }
  // Tells the link that the port is up.
  void on_port_up();
  // Tells the link that the port went down: the connection must be set up again.
  void on_port_down(Time now);

  // Readable when poll() has something to do.
  [[nodiscard]] int notify_fd() const { return epoll_fd_; }
  // Link state of the wire behind the daemon. Any thread.
  [[nodiscard]] bool wire_up() const { return wire_up_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t link_mbps() const { return first_.link_mbps; }
  [[nodiscard]] bool can_corrupt() const { return first_.can_corrupt != 0; }
  // Static text: why there is no link. Any thread.
  [[nodiscard]] const char* text() const { return text_.load(std::memory_order_relaxed); }
  void close_after_fork();

  [[nodiscard]] DaemonDevice device() const override;
  [[nodiscard]] QpBlock block() const override { return block_; }
  [[nodiscard]] bool away() const override { return away_; }
  int cm_open(const mprdma_abi_client* client, const mprdma_abi_cm_open& open) override;
  void cm_forget(const mprdma_abi_client* client) override;
  RingState ring_state(Qpn peer, bool ask) override;
  [[nodiscard]] DirectRing* ring_to(Qpn peer) override { return rings_->ring_to(block_of(peer)); }
  [[nodiscard]] std::span<DirectRing* const> rings() override { return rings_->up(); }
  [[nodiscard]] uint64_t ring_changes() const override { return rings_->changes(); }
  void refuse_rings() override { rings_->refuse(); }
  int cm_execute(const mprdma_abi_client* client, const mprdma_abi_cm_command& in,
                 mprdma_abi_cm_result* out) override;

 private:
  enum class State : uint8_t { kNone, kGreeting, kServed };

  // With mutex_ held.
  Status dial();
  void end(const char* text, Time now);
  void end_for_a_while(const char* text, Time now);
  void read_all(Time now);
  void on_message(Incoming* in, Time now);
  void on_welcome(const Welcome& welcome, int passed_fd, Time now);
  void on_refused(const Refused& refused, Time now);
  void follow_rings(Time now);
  bool same_device(const Device& device) const;
  void on_reply(const CmReply& reply);
  void restore_ids();
  bool next_event(CmIds::Event* out, mprdma_abi_cm_open* where);
  void destroy_id(uint32_t agents_id);
  int send_command(const mprdma_abi_cm_command& command, uint32_t* serial);
  bool await_reply(const mprdma_abi_cm_command& sent, std::unique_lock<std::mutex>* lock,
                   CmReply* reply);

  std::string path_;
  uint64_t instance_;
  int epoll_fd_;
  int bell_fd_;  // somebody else has read an event

  // Accessed with the worker's lock held.
  QpBlock block_;
  bool away_ = true;
  std::optional<DirectRings> rings_;  // from open() on

  std::atomic<bool> wire_up_{false};
  std::atomic<const char*> text_{"mprdmad has not answered yet"};

  std::mutex commands_;  // one command at a time; taken before mutex_
  std::mutex mutex_;     // everything below
  std::condition_variable served_;
  State state_ = State::kNone;
  int fd_ = -1;
  Time next_dial_;
  Time welcome_until_ = Time::never();
  bool has_device_ = false;
  Device first_;
  uint64_t daemon_instance_ = 0;
  QpBlock given_;
  std::vector<OfferedRing> offers_;  // until poll() takes them
  std::vector<uint32_t> refusals_;   // of rings, to these blocks
  bool lost_requests_ = false;       // the daemon that was asked for rings has gone
  int port_socket_ = -1;             // from Welcome, until poll() hands it out
  std::string refusal_;
  uint32_t last_serial_ = 0;
  bool waiting_ = false;  // a thread waits for a reply, and reads the socket
  bool replied_ = false;
  uint32_t awaited_ = 0;
  CmReply reply_;
  CmIds ids_;
  std::deque<mprdma_abi_cm_event> events_;
  std::unordered_map<uint32_t, uint32_t> restoring_;  // serial -> number of an id
  std::vector<std::pair<const mprdma_abi_client*, mprdma_abi_cm_open>> opens_;
};

}  // namespace mprdma::dataplane::client
