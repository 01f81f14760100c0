#include "dataplane/daemon/metrics.hpp"

#include <arpa/inet.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "dataplane/sys/address_text.hpp"

namespace mprdma::dataplane::mprdmad {

namespace {

using Family = prometheus::MetricFamily;
using Label = prometheus::ClientMetric::Label;
using Labels = std::vector<Label>;

// The unit stands last: bytes_in becomes in_bytes.
std::string metric_name(const std::string& prefix, std::string_view counter) {
  constexpr std::string_view kBytes = "bytes_";
  std::string name(counter);
  if (counter.starts_with(kBytes)) name = name.substr(kBytes.size()) + "_bytes";
  return prefix + name + "_total";
}

Family family(std::string name, std::string_view help, prometheus::MetricType type) {
  Family out;
  out.name = std::move(name);
  out.help = std::string(help);
  out.type = type;
  return out;
}

void add_gauge(std::vector<Family>* out, const char* name, const char* help, double value,
               Labels labels = {}) {
  Family gauge = family(name, help, prometheus::MetricType::Gauge);
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = value;
  gauge.metric.push_back(std::move(metric));
  out->push_back(std::move(gauge));
}

void add_sample(Family* to, const Labels& labels, uint64_t value) {
  prometheus::ClientMetric metric;
  metric.label = labels;
  metric.counter.value = static_cast<double>(value);
  to->metric.push_back(std::move(metric));
}

// One family for each counter, with a sample for each set.
template <class Counters>
void add_counters(std::vector<Family>* out, const std::string& prefix, std::string_view cut,
                  const std::vector<std::pair<Labels, const Counters*>>& sets) {
  const size_t first = out->size();
  for (size_t i = 0; i < Counters::kCount; ++i) {
    std::string_view name = Counters::kNames[i];
    if (name.starts_with(cut)) name.remove_prefix(cut.size());
    out->push_back(family(metric_name(prefix, name), Counters::kDescriptions[i],
                          prometheus::MetricType::Counter));
  }
  for (const auto& set : sets) {
    size_t i = first;
    set.second->for_each(
        [&](std::string_view, uint64_t value) { add_sample(&(*out)[i++], set.first, value); });
  }
}

Labels labels_of(const ClientStatus& client) {
  return {{"port", "client"},
          {"block", std::to_string(client.block)},
          {"pid", std::to_string(client.pid)},
          {"program", client.program}};
}

}  // namespace

std::vector<Family> metrics_of(const DaemonStatus& status, const std::string& version) {
  std::vector<Family> out;
  add_gauge(&out, "mprdma_info", "what this daemon is: always 1", 1,
            {{"version", version},
             {"device", status.device_name},
             {"address", address_text(status.ipv4) + "/" + std::to_string(status.prefix_bits)},
             {"mac", mac_text(status.mac)}});
  add_gauge(&out, "mprdma_mtu_bytes", "largest path MTU", status.mtu);
  add_gauge(&out, "mprdma_link_up", "1: the wire is up, or there is none", status.link_up ? 1 : 0);
  add_gauge(&out, "mprdma_clients", "processes that have a port",
            static_cast<double>(status.clients.size()));
  add_gauge(&out, "mprdma_cm_ids", "communication ids in use", status.cm_ids);
  std::vector<std::pair<Labels, const StationCounters*>> ports = {
      {{{"port", "gone"}}, &status.gone}};
  if (status.has_wire) ports.push_back({{{"port", "wire"}}, &status.wire});
  for (const ClientStatus& client : status.clients) {
    ports.emplace_back(labels_of(client), &client.counters);
  }
  add_counters(&out, "mprdma_port_", "nic_", ports);
  add_counters<DaemonServerCounters>(&out, "mprdma_", "nic_", {{{}, &status.server}});
  add_counters<CmCounters>(&out, "mprdma_", "", {{{}, &status.cm}});
  if (status.has_wire)
    add_counters<PortCounters>(&out, "mprdma_wire_", "", {{{}, &status.wire_port}});
  return out;
}

class DaemonMetrics::Source final : public prometheus::Collectable {
 public:
  Source(std::shared_ptr<const StatusBoard> board, std::string version)
      : board_(std::move(board)), version_(std::move(version)) {}
  [[nodiscard]] std::vector<Family> Collect() const override {
    return metrics_of(board_->read(), version_);
  }

 private:
  std::shared_ptr<const StatusBoard> board_;
  std::string version_;
};

namespace {

// Finds the errno value of a failed listen, which the library does not report, by trying again. 0:
// it works now.
int why_not_bound(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(listen.substr(colon + 1))));
  inet_pton(AF_INET, listen.substr(0, colon).c_str(), &address.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool listens = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                       ::listen(fd, 1) == 0;
  const int error = listens ? 0 : errno;
  close(fd);
  return error;
}

}  // namespace

DaemonMetrics::DaemonMetrics(std::shared_ptr<const StatusBoard> board, std::string version)
    : source_(std::make_shared<Source>(std::move(board), std::move(version))) {}

DaemonMetrics::~DaemonMetrics() = default;

Status DaemonMetrics::listen(const std::string& address) {
  try {
    exposer_ = std::make_unique<prometheus::Exposer>(std::vector<std::string>{
        "listening_ports", address, "num_threads", std::to_string(kThreads), "request_timeout_ms",
        std::to_string(kRequestTimeoutMs), "enable_keep_alive", "no"});
    exposer_->RegisterCollectable(source_);
  } catch (const std::exception& error) {
    const int reason = why_not_bound(address);
    const std::string what = "metrics cannot be served at " + address;
    return reason != 0 ? system_status(what, reason) : Status{EIO, what + ": " + error.what()};
  }
  return {};
}

}  // namespace mprdma::dataplane::mprdmad
