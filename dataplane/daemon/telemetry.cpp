#include "dataplane/daemon/telemetry.hpp"

#include <array>

#include "dataplane/sys/address_text.hpp"

namespace mprdma::dataplane::mprdmad {

namespace {

constexpr const char* kInfo = "/mprdma/info";
constexpr const char* kClients = "/mprdma/clients";
constexpr const char* kCounters = "/mprdma/counters";
constexpr const char* kCm = "/mprdma/cm";

constexpr std::array<EalTelemetry::Command, 4> kCommands = {
    {{kInfo, "The RDMA device. No parameters"},
     {kClients, "Processes by their block of queue pair numbers. No parameters"},
     {kCounters, "Counters: their sums, or of one port. Parameters: none, wire, or a block"},
     {kCm, "Connection management. No parameters"}}};

template <class Counters>
void write(const Counters& counters, TelemetryAnswer* out) {
  // The names are literals, and so end with a zero.
  counters.for_each(
      [&](std::string_view name, uint64_t value) { out->number(name.data(), value); });
}

void write_info(const DaemonStatus& status, const std::string& version, TelemetryAnswer* out) {
  const std::string address = address_text(status.ipv4) + "/" + std::to_string(status.prefix_bits);
  out->text("version", version.c_str());
  out->text("device", status.device_name.c_str());
  out->text("address", address.c_str());
  out->text("mac", mac_text(status.mac).c_str());
  out->number("mtu_bytes", status.mtu);
  out->number("link_up", status.link_up ? 1 : 0);
  out->number("clients", status.clients.size());
  out->number("cm_ids", status.cm_ids);
}

void write_clients(const DaemonStatus& status, TelemetryAnswer* out) {
  for (const ClientStatus& client : status.clients) {
    out->begin(std::to_string(client.block).c_str());
    out->number("pid", static_cast<uint64_t>(client.pid));
    out->text("program", client.program.c_str());
    out->end();
  }
}

bool write_counters(const DaemonStatus& status, std::string_view port, TelemetryAnswer* out) {
  if (port.empty()) {
    StationCounters sum = status.gone;
    sum += status.wire;
    for (const ClientStatus& client : status.clients) sum += client.counters;
    write(sum, out);
    write(status.server, out);
    return true;
  }
  if (port == "wire") {
    write(status.wire, out);
    write(status.wire_port, out);
    return true;
  }
  for (const ClientStatus& client : status.clients) {
    if (port != std::to_string(client.block)) continue;
    write(client.counters, out);
    return true;
  }
  return false;
}

}  // namespace

std::span<const EalTelemetry::Command> DaemonTelemetry::commands() const {
  return kCommands;
}

bool DaemonTelemetry::answer(std::string_view path, std::string_view parameters,
                             TelemetryAnswer* out) {
  const DaemonStatus status = board_->read();
  if (path == kCounters) return write_counters(status, parameters, out);
  if (!parameters.empty()) return false;
  if (path == kInfo) {
    write_info(status, version_, out);
  } else if (path == kClients) {
    write_clients(status, out);
  } else if (path == kCm) {
    write(status.cm, out);
  } else {
    return false;
  }
  return true;
}

}  // namespace mprdma::dataplane::mprdmad
