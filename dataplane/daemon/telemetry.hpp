// mprdmad's commands of DPDK's telemetry socket, where the wire is a DPDK device:
//
//   /mprdma/info              the device
//   /mprdma/clients           block, process and program of each client
//   /mprdma/counters[,PORT]   the sums, or of one port: "wire", or a client's block
//   /mprdma/cm                connection management
#pragma once

#include <memory>
#include <string>

#include "dataplane/daemon/status.hpp"
#include "dataplane/port/dpdk/eal_telemetry.hpp"

namespace mprdma::dataplane::mprdmad {

class DaemonTelemetry final : public EalTelemetry {
 public:
  DaemonTelemetry(std::shared_ptr<const StatusBoard> board, std::string version)
      : board_(std::move(board)), version_(std::move(version)) {}
  [[nodiscard]] std::span<const Command> commands() const override;
  bool answer(std::string_view path, std::string_view parameters, TelemetryAnswer* out) override;

 private:
  std::shared_ptr<const StatusBoard> board_;
  std::string version_;
};

}  // namespace mprdma::dataplane::mprdmad
