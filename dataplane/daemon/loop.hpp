// Runs the switch and the server of mprdmad on the calling thread, until SIGTERM or SIGINT.
//
// The loop polls while frames move. After Switch::kSpin without a frame it arms the ports and
// sleeps until a port, a client or a deadline wakes it. A port that cannot notify (DPDK) is polled
// after pauses that grow from kPollPauseMin to kPollPauseMax.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "dataplane/daemon/cm_pump.hpp"
#include "dataplane/daemon/server.hpp"
#include "dataplane/daemon/status.hpp"
#include "dataplane/daemon/switch.hpp"
#include "dataplane/sys/event_loop.hpp"

namespace mprdma::dataplane::mprdmad {

class DaemonLoop {
 public:
  static constexpr Duration kService = Duration::ms(10);  // of the wire
  static constexpr Duration kServiceClients = Duration::ms(100);
  // Interval at which the descriptors are checked while frames move.
  static constexpr Duration kEventCheckInterval = Duration::us(200);

  struct Options {
    SwitchConfig device;
    ServerConfig server;
    CmConfig cm;
    // The loop ends if no client came in this time after the start, or after the last client left;
    // infinite: never.
    Duration linger = Duration::infinite();
    // Called before the loop ends for want of clients; false: it must go on. Unset: it ends.
    std::function<bool()> may_end;
    // Called on SIGHUP, to read the configuration again; false: nothing changes.
    std::function<bool(SwitchConfig* device, std::vector<uid_t>* uids)> reload;
    // Receives the status at the start and every kServiceClients. Unset: no status is collected.
    std::shared_ptr<StatusBoard> board;
  };

  // A tap requires a wire.
  DaemonLoop(Options options, std::unique_ptr<Port> wire, std::unique_ptr<KernelTap> tap = nullptr);
  ~DaemonLoop();
  DaemonLoop(const DaemonLoop&) = delete;
  DaemonLoop& operator=(const DaemonLoop&) = delete;

  // Blocks SIGTERM, SIGINT and SIGHUP for the thread; listens.
  Status start();
  void run();
  // One round, for tests: sleeps for `longest` at most.
  void step(Duration longest);

  [[nodiscard]] Switch& sw() { return switch_; }
  [[nodiscard]] DaemonServer& server() { return server_; }
  [[nodiscard]] CmPump& cm() { return cm_; }

 private:
  void pump(Time now);
  void service(Time now);
  void wait_for_events(Duration pause);
  void on_ready(uint64_t tag, uint32_t events, Time now);
  void on_kernel(uint32_t events, Time now);
  void on_signal();
  void publish();
  void reload();
  Duration pause(Time now, bool moved);

  Options options_;
  EventLoop events_;
  CmPump cm_;
  Switch switch_;
  DaemonServer server_;
  bool down_ = false;
  bool link_was_up_ = false;
  bool cm_has_more_ = false;
  Time next_service_;
  Time next_service_clients_;
  Time next_event_check_;
  Time last_client_;
  Duration poll_pause_;
};

}  // namespace mprdma::dataplane::mprdmad
