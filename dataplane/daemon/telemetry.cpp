#include "dataplane/daemon/telemetry.hpp"

#include <array>

#include "dataplane/sys/address_text.hpp"

namespace mprdma::dataplane::nic {

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

void write_info(const NicFacts& facts, const std::string& version, TelemetryAnswer* out) {
  const std::string address = address_text(facts.ipv4) + "/" + std::to_string(facts.prefix_bits);
  out->text("version", version.c_str());
  out->text("device", facts.device_name.c_str());
  out->text("address", address.c_str());
  out->text("mac", mac_text(facts.mac).c_str());
  out->number("mtu_bytes", facts.mtu);
  out->number("link_up", facts.link_up ? 1 : 0);
  out->number("clients", facts.clients.size());
  out->number("cm_ids", facts.cm_ids);
}

void write_clients(const NicFacts& facts, TelemetryAnswer* out) {
  for (const ClientFacts& client : facts.clients) {
    out->begin(std::to_string(client.block).c_str());
    out->number("pid", static_cast<uint64_t>(client.pid));
    out->text("program", client.program.c_str());
    out->end();
  }
}

bool write_counters(const NicFacts& facts, std::string_view port, TelemetryAnswer* out) {
  if (port.empty()) {
    NicCounters sum = facts.gone;
    sum += facts.wire;
    for (const ClientFacts& client : facts.clients) sum += client.counters;
    write(sum, out);
    write(facts.server, out);
    return true;
  }
  if (port == "wire") {
    write(facts.wire, out);
    write(facts.wire_port, out);
    return true;
  }
  for (const ClientFacts& client : facts.clients) {
    if (port != std::to_string(client.block)) continue;
    write(client.counters, out);
    return true;
  }
  return false;
}

}  // namespace

std::span<const EalTelemetry::Command> NicTelemetry::commands() const {
  return kCommands;
}

bool NicTelemetry::answer(std::string_view path, std::string_view parameters,
                          TelemetryAnswer* out) {
  const NicFacts facts = board_->read();
  if (path == kCounters) return write_counters(facts, parameters, out);
  if (!parameters.empty()) return false;
  if (path == kInfo) {
    write_info(facts, version_, out);
  } else if (path == kClients) {
    write_clients(facts, out);
  } else if (path == kCm) {
    write(facts.cm, out);
  } else {
    return false;
  }
  return true;
}

}  // namespace mprdma::dataplane::nic
