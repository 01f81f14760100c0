// The daemon's side of its clients: connections (protocol.hpp), ports and blocks of queue pair
// numbers, and commands to the CM agent.
//
// A client that misbehaves or does not read loses its own connection at worst. Nothing here blocks;
// each call does a bounded amount of work for each connection. Creating and destroying ports, which
// costs memory, gets a limited share of the time; new connections wait in the order of the loop.
// Descriptors that a client passes are never received (sys/async_close.hpp tells why).
// One thread. The host's loop lends its epoll instance, waits in it, and passes on events with a
// tag of this class.
#pragma once

#include <sys/types.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "dataplane/client/message_socket.hpp"
#include "dataplane/daemon/cm_pump.hpp"
#include "dataplane/daemon/config.hpp"
#include "dataplane/daemon/counters.hpp"
#include "dataplane/daemon/lock_file.hpp"
#include "dataplane/daemon/qpn_blocks.hpp"
#include "dataplane/daemon/status.hpp"
#include "dataplane/daemon/switch.hpp"

namespace mprdma::dataplane {
class LocalPort;
}

namespace mprdma::dataplane::mprdmad {

struct ServerConfig {
  std::string socket;
  std::string device_name = "mprdma0";
  std::vector<uid_t> uids;  // served besides the daemon's own
  uint32_t slots = 512;     // frames of each client's port, of the daemon's side
  uint32_t mtu = 4096;
  uint64_t link_mbps = 0;  // of the wire; 0: as its port knows it
  RingPolicy rings = RingPolicy::kSameUser;
  uint64_t instance = 0;  // random
  bool verbose = false;
};

class DaemonServer {
 public:
  static constexpr Duration kHelloTimeout = Duration::s(5);
  static constexpr size_t kNewcomersMax = 32;        // connections that have not said Hello
  static constexpr uint32_t kBlocksPerProcess = 16;  // an honest process has one
  // After a port that took t to create, other work gets this many t.
  static constexpr int kShareOfOthers = 3;
  static constexpr Duration kNewcomersWaitMax = Duration::s(1);
  // Direct rings that a client may ask for: each costs the process at the other end memory.
  static constexpr Duration kRingPeriod = Duration::s(1);
  static constexpr uint32_t kRingsPerPeriod = 128;
  // This class's tags are above this value, the host's own below.
  static constexpr uint64_t kTagBase = uint64_t{1} << 32;
  static constexpr uint64_t kTagPort = kTagBase * 3;  // and the connection's number

  DaemonServer(ServerConfig config, Switch* sw, CmPump* cm, int epoll_fd);
  ~DaemonServer();
  DaemonServer(const DaemonServer&) = delete;
  DaemonServer& operator=(const DaemonServer&) = delete;

  // Takes the lock file and listens.
  Status open(Time now);
  void on_ready(uint64_t tag, uint32_t events, Time now);
  // Called every 100 ms: ends connections without a Hello and those whose port went down.
  void service(Time now);
  void deliver(const CmAgent::ClientEvent& event);
  void deliver(const PathProber::Result& result);
  // Tells every client of a change of link state or address.
  void set_device(const SwitchConfig& device);
  void set_uids(std::vector<uid_t> uids);
  // Called at the end if no client will return: the next daemon begins with no block at rest.
  void forget_blocks() const { lock_.forget(); }
  // Ends the connections that deliver() found to be over.
  void reap(Time now);

  // Replaces what is there.
  void list(std::vector<ClientStatus>* out) const;
  [[nodiscard]] size_t clients() const { return blocks_.in_use(); }
  [[nodiscard]] const DaemonServerCounters& counters() const { return counters_; }

 private:
  struct Message {
    std::array<unsigned char, client::kMessageBytesMax> bytes;
    size_t size = 0;
  };
  struct Connection {
    uint32_t id = 0;
    int fd = -1;
    pid_t pid = 0;  // 0: in a PID namespace that is not ours
    uid_t uid = 0;
    uint64_t pid_namespace = 0;
    Time hello_until;
    uint32_t block = client::kNoBlock;  // kNoBlock: has not said Hello
    uint64_t instance = 0;
    std::string program;
    LocalPort* port = nullptr;  // the switch's
    Time delivered;             // when a command last had the client's frames delivered
    std::deque<Message> outgoing;
    std::map<uint32_t, uint32_t> rings;  // number of the last one, by block of the other end
    Time ring_period_end;
    uint32_t rings_left = 0;  // in this period
    uint32_t watched = 0;     // events
    bool over = false;
  };

  Status listen_at(const std::string& path);
  void accept_some(Time now);
  void accept_one(int fd, Time now);
  void read_some(Connection& client, Time now);
  void on_message(Connection& client, const client::Incoming& in, Time now);
  void on_query(Connection& client, uint32_t serial);
  void on_hello(Connection& client, const client::Hello& hello, Time now);
  void evict_newcomer();
  [[nodiscard]] uint32_t blocks_of(const Connection& client) const;
  // The thread's CPU time: clients are not charged for time that other processes of the machine
  // took.
  static Time cpu_time();
  void pause_newcomers(Time since);  // of cpu_time()
  void hang_up(int fd) const;
  void end_if_port_over(Connection& client);
  void on_probe(Connection& client, const client::PathProbe& probe, Time now);
  void on_command(Connection& client, const client::CmCommand& command, Time now);
  // server_rings.cpp
  Connection* client_of(uint32_t block);
  void on_ring_request(Connection& client, const client::RingRequest& request, Time now);
  int make_ring(Connection& client, Connection& peer, Time now);
  void forget_rings(const Connection& client);
  bool give_port(Connection& client, const client::Hello& hello, uint32_t block, Time now);
  void refuse(Connection& client, client::Refusal reason, uint32_t serial, const std::string& text);
  void misbehaved(Connection& client, const char* what);
  template <class T>
  void send(Connection& client, const T& message);
  void write_some(Connection& client);
  void watch(Connection& client);
  void end(Connection& client, Time now);
  [[nodiscard]] bool serves(uid_t uid) const;
  [[nodiscard]] client::Device device() const;
  void say(const Connection& client, const char* what) const;

  ServerConfig config_;
  Switch* switch_;
  CmPump* cm_;
  int epoll_fd_;
  int listen_fd_ = -1;
  SwitchConfig address_;
  LockFile lock_;
  BlockTable blocks_;
  std::map<uint32_t, Connection> connections_;
  uint32_t last_id_ = 0;
  uint32_t last_ring_ = 0;
  bool any_over_ = false;
  Time newcomers_after_;  // connections without a Hello are not read before
  DaemonServerCounters counters_;
};

}  // namespace mprdma::dataplane::mprdmad
