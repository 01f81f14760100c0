// The other end of a fabric's control socket (switchsim/fabric/fabric_commands.hpp).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/status.hpp"
#include "tools/run/run_plan.hpp"

namespace mprdma::tools {

class FabricClient {
 public:
  FabricClient() = default;
  ~FabricClient();
  FabricClient(const FabricClient&) = delete;
  FabricClient& operator=(const FabricClient&) = delete;

  // `name` empty: the only one that runs.
  Status connect(const std::string& name);
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& directory() const { return directory_; }
  // Sends one request. A request that the fabric refuses is an error with the fabric's text.
  Status ask(const nlohmann::json& request, nlohmann::json* answer);
  // Waits until the fabric has closed the connection, which it does when it ends.
  bool wait_for_end(int timeout_ms) const;

 private:
  std::string name_;
  std::string directory_;
  int fd_ = -1;
};

// Fills `fabric_host` for the host that the options name (the first one if they name none).
Status find_fabric_host(const std::string& fabric, RunOptions* options);

}  // namespace mprdma::tools
