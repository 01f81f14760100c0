// A whole fabric in this process: its lock, its ports, its control socket, its loop. Everything
// lies in one directory of the user's own, FABRIC_DIRECTORY:
//
//   lock           held by the process that runs the fabric
//   control.sock   control_server.hpp
//   NAME.sock      the port of host NAME, unless the file says another path
#pragma once

#include <memory>
#include <string>

#include "base/status.hpp"
#include "switchsim/fabric/control_server.hpp"
#include "switchsim/fabric/fabric.hpp"
#include "switchsim/fabric/fabric_config.hpp"
#include "switchsim/fabric/fabric_loop.hpp"

namespace mprdma::switchsim {

std::string control_path(const std::string& directory);

class FabricProcess {
 public:
  FabricProcess() = default;
  ~FabricProcess();
  FabricProcess(const FabricProcess&) = delete;
  FabricProcess& operator=(const FabricProcess&) = delete;

  // Requires a directory that only this user may write. Takes the lock, opens the ports (a second
  // for the first vhost-user port) and the control socket.
  Status open(FabricConfig config, const std::string& name, const std::string& directory);
  // Until it is told to end.
  void run();

 private:
  Status acquire_lock();
  Status open_ports(const FabricConfig& config);

  std::string directory_;
  int lock_fd_ = -1;
  std::vector<std::unique_ptr<dataplane::Port>> ports_;
  std::unique_ptr<Fabric> fabric_;
  ControlServer control_;
  std::unique_ptr<FabricLoop> loop_;
};

}  // namespace mprdma::switchsim
