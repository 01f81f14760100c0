// Runs the switch and the server of mprdmad on the calling thread, until SIGTERM or SIGINT.
//
// While frames move it polls. After NicSwitch::kSpin without any it arms the ports and sleeps until
// one of them, a client or a deadline wakes it. A port that cannot notify (DPDK) is looked at after
// pauses that grow from Progress::kPollPauseMin to kPollPauseMax.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dataplane/nic/cm_host.hpp"
#include "dataplane/nic/nic_facts.hpp"
#include "dataplane/nic/nic_server.hpp"
#include "dataplane/nic/nic_switch.hpp"

namespace mprdma::dataplane::nic {

class NicLoop {
 public:
  static constexpr Duration kService = Duration::ms(10);  // of the wire
  static constexpr Duration kServiceClients = Duration::ms(100);
  // While frames move: how often the descriptors are looked at.
  static constexpr Duration kLook = Duration::us(200);

  struct Options {
    SwitchConfig device;
    ServerConfig server;
    CmConfig cm;
    // Ends when so long after the start, or after the last client went away, there is none;
    // infinite: never.
    Duration linger = Duration::infinite();
    // Asked before it ends for that; false: somebody counts on it. Unset: nobody does.
    std::function<bool()> may_end;
    // SIGHUP: gives the configuration as it is now; false: leave all as it is.
    std::function<bool(SwitchConfig* device, std::vector<uid_t>* uids)> reload;
    // Told of at the start, and every kServiceClients. Unset: nobody watches.
    std::shared_ptr<FactsBoard> board;
  };

  // A tap requires a wire.
  NicLoop(Options options, std::unique_ptr<Port> wire, std::unique_ptr<KernelTap> tap = nullptr);
  ~NicLoop();
  NicLoop(const NicLoop&) = delete;
  NicLoop& operator=(const NicLoop&) = delete;

  // Blocks SIGTERM, SIGINT and SIGHUP for the thread; listens. Empty, or what is wrong.
  std::string start();
  void run();
  // One round, for tests: sleeps for `longest` at most.
  void step(Duration longest);

  [[nodiscard]] NicSwitch& nic() { return nic_; }
  [[nodiscard]] NicServer& server() { return server_; }
  [[nodiscard]] CmHost& cm() { return cm_; }

 private:
  bool watch(int fd, uint64_t tag, bool edge) const;
  void pump(Time now);
  void service(Time now);
  void look(Duration pause);
  void on_ready(uint64_t tag, uint32_t events, Time now);
  void on_kernel(uint32_t events, Time now);
  void on_signal();
  void publish();
  void reload();
  Duration pause(Time now, bool moved);

  Options options_;
  int epoll_fd_;
  CmHost cm_;
  NicSwitch nic_;
  NicServer server_;
  int signal_fd_ = -1;
  bool down_ = false;
  bool link_was_up_ = false;
  bool cm_has_more_ = false;
  Time next_service_;
  Time next_service_clients_;
  Time next_look_;
  Time last_client_;
  Duration poll_pause_;
};

}  // namespace mprdma::dataplane::nic
