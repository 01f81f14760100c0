// Runs a fabric in real time, on the calling thread, until it is told to end: by the control
// socket, SIGTERM or SIGINT.
//
// It never spins. While frames move it looks at all ports, then sleeps for a fraction of the
// network's own delays, so that one wake-up serves several frames (turn_pause.hpp); the ports need
// not wake it. When nothing has moved for a while (kQuiet) it asks the ports for a wake-up and
// sleeps until one comes, or the next event.
#pragma once

#include <string>

#include "base/status.hpp"
#include "dataplane/sys/event_loop.hpp"
#include "switchsim/fabric/control_server.hpp"
#include "switchsim/fabric/fabric.hpp"
#include "switchsim/fabric/fabric_commands.hpp"

namespace mprdma::switchsim {

class FabricLoop {
 public:
  FabricLoop(Fabric* fabric, ControlServer* control, std::string name);
  ~FabricLoop();
  FabricLoop(const FabricLoop&) = delete;
  FabricLoop& operator=(const FabricLoop&) = delete;

  // Blocks SIGTERM and SIGINT for the calling thread.
  Status start();
  void run();

 private:
  Duration pause(Time now, bool more);
  void sleep(Duration pause);
  void count_turn(Duration late);
  void on_ready(uint64_t tag, Time now);

  Fabric* fabric_;
  ControlServer* control_;
  FabricStatus status_;
  dataplane::EventLoop events_;
  Time last_moved_;
  Time next_service_;
  Duration sleep_max_ = Duration::infinite();
  bool armed_ = false;
  unsigned busy_turns_ = 0;
};

}  // namespace mprdma::switchsim
