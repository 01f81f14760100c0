#include "switchsim/fabric/fabric_commands.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "dataplane/sys/address_text.hpp"

namespace mprdma::switchsim {

namespace {

using nlohmann::json;

json refused(const std::string& error) {
  return {{"ok", false}, {"error", error}};
}

template <class Counters>
void add_counters(const Counters& counters, json* out) {
  counters.for_each(
      [out](std::string_view name, uint64_t value) { (*out)[std::string(name)] = value; });
}

const char* kind_text(PortKind kind) {
  return kind == PortKind::kLocal ? "local" : "vhost";
}

json show_host(const Fabric& fabric, size_t index) {
  const HostConfig& host = fabric.config().hosts[index];
  json out = {{"name", host.name},
              {"ip", fmt::format("{}/{}", dataplane::address_text(host.ipv4), host.prefix_bits)},
              {"mac", dataplane::mac_text(host.mac)},
              {"port", kind_text(host.kind)},
              {"path", host.path},
              {"up", fabric.port(index).link_up()},
              {"port_text", fabric.port(index).link_text()}};
  add_counters(fabric.counters(index), &out);
  json port;
  add_counters(fabric.port(index).stats(), &port);
  out["port_counters"] = port;
  return out;
}

std::string node_name(const FabricConfig& config, NodeId node) {
  return node < config.hosts.size() ? config.hosts[node].name
                                    : config.switches[node - config.hosts.size()];
}

json show_direction(const Fabric& fabric, PortId port) {
  const Topology& topology = fabric.links_now();
  const LinkConfig& link = topology.links[port / 2];
  const PortConfig& config = port % 2 == 0 ? link.ab : link.ba;
  json out = {{"from", node_name(fabric.config(), topology.from(port))},
              {"to", node_name(fabric.config(), topology.to(port))},
              {"rate_bps", config.rate.bits_per_second()},
              {"delay_us", static_cast<double>(config.delay.count_ps()) / 1e6},
              {"loss", config.loss_ppm / 1e6},
              {"queue_limit_bytes", config.queue_bytes_max},
              {"queue_bytes", fabric.queue_bytes(port)}};
  out["red"] = config.red.kmax_bytes == 0
                   ? json("off")
                   : json{config.red.pmax_ppm / 1e6, config.red.kmin_bytes / 1e3,
                          config.red.kmax_bytes / 1e3};
  add_counters(fabric.link_counters(port), &out);
  if (!fabric.has_pfc()) return out;
  const PauseState pause = fabric.pause_state(port);
  out["paused"] = pause.paused;
  out["pauses"] = pause.pause_sent;
  out["paused_us"] = static_cast<double>(pause.paused_time.count_ps()) / 1e6;
  out["headroom_peak_bytes"] = pause.headroom_peak_bytes;
  return out;
}

// Of this process so far, user and system.
double processor_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

json show(const Fabric& fabric, const FabricStatus& status) {
  json out = {{"schema", 1},
              {"ok", true},
              {"name", status.name},
              {"uptime_s", static_cast<double>((status.now - status.started).count_ns()) / 1e9},
              {"processor_s", processor_seconds()},
              {"frames_in_use", fabric.frames_in_use()},
              {"hosts", json::array()},
              {"links", json::array()}};
  json loop;
  add_counters(status.loop, &loop);
  out["loop"] = loop;
  for (size_t i = 0; i < fabric.config().hosts.size(); ++i) {
    out["hosts"].push_back(show_host(fabric, i));
  }
  for (LinkId link = 0; link < fabric.links_now().links.size(); ++link) {
    out["links"].push_back(
        {{"name", fabric.links_now().links[link].name},
         {"up", fabric.link_up(link)},
         {"directions", {show_direction(fabric, 2 * link), show_direction(fabric, 2 * link + 1)}}});
  }
  return out;
}

json list_hosts(const Fabric& fabric, const FabricStatus& status) {
  json out = {{"ok", true}, {"name", status.name}, {"hosts", json::array()}};
  for (const HostConfig& host : fabric.config().hosts) {
    out["hosts"].push_back(
        {{"name", host.name},
         {"address", fmt::format("{}/{}", dataplane::address_text(host.ipv4), host.prefix_bits)},
         {"mac", dataplane::mac_text(host.mac)},
         {"mtu", host.mtu},
         {"port", host.application_port()}});
  }
  return out;
}

// Parses "path1", "path1:ab" or "path1:ba".
bool find_link(const Fabric& fabric, std::string name, LinkId* link, unsigned* directions) {
  *directions = 3;
  if (name.ends_with(":ab") || name.ends_with(":ba")) {
    *directions = name.ends_with(":ab") ? 1 : 2;
    name.resize(name.size() - 3);
  }
  const auto& links = fabric.links_now().links;
  for (*link = 0; *link < links.size(); ++*link) {
    if (links[*link].name == name) return true;
  }
  return false;
}

json set(Fabric& fabric, const json& request) {
  const std::string name = request.value("link", "");
  LinkId link = 0;
  unsigned directions = 0;
  if (!find_link(fabric, name, &link, &directions)) {
    std::string known;
    for (const LinkConfig& one : fabric.links_now().links) {
      known += (known.empty() ? "" : ", ") + one.name;
    }
    return refused(fmt::format("there is no link '{}'; the links are {}", name, known));
  }
  LinkChange change;
  const json changes = request.value("changes", json::array());
  if (!changes.is_array() || changes.empty()) return refused("changes: expected a list of words");
  for (const json& word : changes) {
    const Status status = parse_change(word.get<std::string>(), &change);
    if (!status.ok()) return refused(status.text);
  }
  if (change.up && directions != 3) {
    return refused(fmt::format("{}: a link goes up or down in both directions", name));
  }
  fabric.apply(link, change, directions);
  return {{"ok", true}};
}

json dispatch(const json& request, Fabric& fabric, FabricStatus* status) {
  const std::string command = request.value("command", "");
  if (command == "show") return show(fabric, *status);
  if (command == "hosts") return list_hosts(fabric, *status);
  if (command == "set") return set(fabric, request);
  if (command == "down") {
    status->down = true;
    return {{"ok", true}};
  }
  return refused("known commands: show, set, hosts, down");
}

}  // namespace

std::string answer(const std::string& request, Fabric& fabric, FabricStatus* status) {
  json out;
  try {
    out = dispatch(json::parse(request), fabric, status);
  } catch (const json::exception& error) {
    out = refused(fmt::format("not understood: {}", error.what()));
  }
  // Names may contain any bytes; invalid ones are replaced, because they are only shown.
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace mprdma::switchsim
