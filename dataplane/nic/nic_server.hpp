// The processes that use the device: their connections (protocol.hpp), the ports and blocks of
// queue pair numbers that they are given, and their commands to the CM agent.
//
// Whatever a client sends or does not read ends in its own connection's end at worst. Nothing here
// blocks; each call does a bounded amount of work for each connection. Making ports and taking them
// apart, which costs memory, has a share of the time; newcomers wait in the order of the loop.
// Descriptors that a client passes are never received (close_elsewhere.hpp tells why).
// One thread. The host's loop waits in the epoll instance that it lends, and passes on what carries
// a tag of this class.
#pragma once

#include <sys/types.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "dataplane/nic/block_table.hpp"
#include "dataplane/nic/cm_host.hpp"
#include "dataplane/nic/lock_file.hpp"
#include "dataplane/nic/message_socket.hpp"
#include "dataplane/nic/nic_counters.hpp"
#include "dataplane/nic/nic_facts.hpp"
#include "dataplane/nic/nic_switch.hpp"

namespace mprdma::dataplane {
class LocalPort;
}

namespace mprdma::dataplane::nic {

struct ServerConfig {
  std::string socket;
  std::string device_name = "mprdma0";
  std::vector<uid_t> uids;  // served besides the daemon's own
  uint32_t slots = 512;     // frames of each client's port, of the daemon's side
  uint32_t mtu = 4096;
  uint64_t instance = 0;  // random
  bool verbose = false;
};

class NicServer {
 public:
  static constexpr Duration kHelloTimeout = Duration::s(5);
  static constexpr size_t kNewcomersMax = 32;        // connections that have not said Hello
  static constexpr uint32_t kBlocksPerProcess = 16;  // an honest one has one
  // A port that took t to make is followed by so many t for everybody else.
  static constexpr int kShareOfOthers = 3;
  static constexpr Duration kNewcomersWaitMax = Duration::s(1);
  // Every tag of ours is above this; the host's own are below.
  static constexpr uint64_t kTagBase = uint64_t{1} << 32;
  static constexpr uint64_t kTagPort = kTagBase * 3;  // and the connection's number

  NicServer(ServerConfig config, NicSwitch* nic, CmHost* cm, int epoll_fd);
  ~NicServer();
  NicServer(const NicServer&) = delete;
  NicServer& operator=(const NicServer&) = delete;

  // Takes the lock, and listens. Empty, or what is wrong.
  std::string open(Time now);
  void on_ready(uint64_t tag, uint32_t events, Time now);
  // Every 100 ms: who did not say Hello, whose port went down.
  void service(Time now);
  void deliver(const CmAgent::ClientEvent& event);
  void deliver(const PathProber::Result& result);
  // Link or address: tells every client.
  void set_device(const SwitchConfig& device);
  void set_uids(std::vector<uid_t> uids);
  // At the end, if nobody will come back: the next daemon begins with no block at rest.
  void forget_blocks() const { lock_.forget(); }
  // Ends what deliver() has found to be over.
  void reap(Time now);

  // Replaces what is there.
  void list(std::vector<ClientFacts>* out) const;
  [[nodiscard]] size_t clients() const { return blocks_.in_use(); }
  [[nodiscard]] const NicServerCounters& counters() const { return counters_; }

 private:
  struct Message {
    std::array<unsigned char, kMessageBytesMax> bytes;
    size_t size = 0;
  };
  struct Connection {
    uint32_t id = 0;
    int fd = -1;
    pid_t pid = 0;  // 0: in a PID namespace that is not ours
    uid_t uid = 0;
    Time hello_until;
    uint32_t block = kNoBlock;  // kNoBlock: has not said Hello
    uint64_t instance = 0;
    std::string program;
    LocalPort* port = nullptr;  // the switch's
    Time delivered;             // when a command last had what it has sent delivered
    std::deque<Message> outgoing;
    uint32_t watched = 0;  // events
    bool over = false;
  };

  std::string listen_at(const std::string& path);
  void accept_some(Time now);
  void accept_one(int fd, Time now);
  void read_some(Connection& client, Time now);
  void on_message(Connection& client, const Incoming& in, Time now);
  void on_query(Connection& client, uint32_t serial);
  void on_hello(Connection& client, const Hello& hello, Time now);
  void evict_newcomer();
  [[nodiscard]] uint32_t blocks_of(const Connection& client) const;
  // Of the thread: what others of the machine take is nobody's fault here.
  static Time cpu_time();
  void pause_newcomers(Time since);  // of cpu_time()
  void hang_up(int fd) const;
  void end_if_port_over(Connection& client);
  void on_probe(Connection& client, const PathProbe& probe, Time now);
  void on_command(Connection& client, const CmCommand& command, Time now);
  bool give_port(Connection& client, const Hello& hello, uint32_t block, Time now);
  void refuse(Connection& client, Refusal reason, uint32_t serial, const std::string& text);
  void misbehaved(Connection& client, const char* what);
  template <class T>
  void send(Connection& client, const T& message);
  void write_some(Connection& client);
  void watch(Connection& client);
  void end(Connection& client, Time now);
  [[nodiscard]] bool serves(uid_t uid) const;
  [[nodiscard]] Device device() const;
  void say(const Connection& client, const char* what) const;

  ServerConfig config_;
  NicSwitch* nic_;
  CmHost* cm_;
  int epoll_fd_;
  int listen_fd_ = -1;
  SwitchConfig address_;
  LockFile lock_;
  BlockTable blocks_;
  std::map<uint32_t, Connection> connections_;
  uint32_t last_id_ = 0;
  bool any_over_ = false;
  Time newcomers_after_;  // who has not said Hello is not read before
  NicServerCounters counters_;
};

}  // namespace mprdma::dataplane::nic
