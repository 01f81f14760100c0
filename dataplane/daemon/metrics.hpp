// The text that Prometheus reads, at http://ADDRESS:PORT/metrics, by prometheus-cpp: its threads
// and its HTTP, on status that the loop has put on the board. A hostile or slow reader affects
// those threads alone.
//
// Metric names follow from the counters' names (docs/operations.md): nic_X is mprdma_port_X_total,
// labelled with the port; every other X is mprdma_X_total.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "dataplane/daemon/status.hpp"

namespace prometheus {
class Exposer;
struct MetricFamily;
}  // namespace prometheus

namespace mprdma::dataplane::mprdmad {

class DaemonMetrics {
 public:
  static constexpr int kThreads = 2;
  static constexpr int kRequestTimeoutMs = 2000;

  DaemonMetrics(std::shared_ptr<const StatusBoard> board, std::string version);
  ~DaemonMetrics();
  DaemonMetrics(const DaemonMetrics&) = delete;
  DaemonMetrics& operator=(const DaemonMetrics&) = delete;

  // "127.0.0.1:9473". Its threads have the signal mask of the caller.
  Status listen(const std::string& address);

 private:
  class Source;

  std::shared_ptr<Source> source_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

// All metrics, for tests.
std::vector<prometheus::MetricFamily> metrics_of(const DaemonStatus& status,
                                                 const std::string& version);

}  // namespace mprdma::dataplane::mprdmad
