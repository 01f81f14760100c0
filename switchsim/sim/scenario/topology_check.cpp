// Checks of a topology.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>

#include "switchsim/model/buffer_layout.hpp"
#include "switchsim/sim/scenario/checks.hpp"

namespace mprdma::switchsim {

namespace {

using Of = ScenarioError::Of;

FieldError check_port(const PortConfig& port) {
  if (port.rate.bits_per_second() == 0) {
    return {"rate_gbps", "a rate of 0 (take the link down instead)"};
  }
  if (port.loss_ppm > 1'000'000) return {"loss", "a loss above 1"};
  if (port.delay < SimSpan()) return {"delay_us", "a delay below 0"};
  return {"red", check_red(port.red).text};
}

ScenarioError check_buffers(const Topology& topology) {
  const auto error = [](const char* key, std::string what) {
    return ScenarioError{.of = Of::kTopology, .key = key, .what = std::move(what)};
  };
  if (!managed(topology)) return {};
  const bool limited = topology.switch_buffer_bytes != 0;
  if (topology.switch_buffer_bytes > kManagedBufferBytesMax) {
    return error("switch_buffer_bytes", "switch_buffer_bytes above 2^40");
  }
  if (topology.buffer_alpha_q16 > kBufferAlphaQ16Max) {
    return error("buffer_alpha", "buffer_alpha above 64");
  }
  if (!limited && topology.buffer_alpha_q16 != 0) {
    return error("buffer_alpha", "buffer_alpha of a buffer without a limit");
  }
  if (topology.pfc.on && topology.pfc.pause_bytes == 0 && topology.buffer_alpha_q16 == 0) {
    return error("pfc", "PFC without a threshold: pause_bytes or buffer_alpha");
  }
  for (size_t i = 0; i < topology.links.size(); ++i) {
    const LinkConfig& link = topology.links[i];
    if (topology.pfc.on && std::max(link.ab.delay, link.ba.delay) > SimSpan::ms(1000)) {
      return {.of = Of::kLink,
              .index = i,
              .key = "delay_us",
              .what = fmt::format("link '{}': a delay above a second, with PFC", link.name)};
    }
  }
  const uint64_t bytes = limited ? topology.switch_buffer_bytes : kManagedBufferBytesMax;
  for (const uint64_t dedicated : dedicated_bytes(topology)) {
    if (dedicated <= bytes) continue;
    return error(
        "switch_buffer_bytes",
        fmt::format("a switch's reserves and headroom take {} of its {} bytes", dedicated, bytes));
  }
  return {};
}

std::string twice_in(const std::vector<std::string>& names, std::set<std::string_view>* known) {
  for (const std::string& name : names) {
    if (!known->insert(name).second) return name;
  }
  return {};
}

ScenarioError check_nodes(const Scenario& scenario) {
  const Topology& topology = scenario.topology;
  if (topology.hosts < 2) {
    return {.of = Of::kTopology, .key = "hosts", .what = "fewer than two hosts"};
  }
  if (scenario.host_names.size() != topology.hosts) {
    return {.of = Of::kTopology, .key = "hosts", .what = "hosts without names"};
  }
  std::set<std::string_view> known;
  for (const auto& [key, names] :
       {std::pair{"hosts", &scenario.host_names}, std::pair{"switches", &scenario.switch_names}}) {
    const std::string name = twice_in(*names, &known);
    if (name.empty()) continue;
    return {.of = Of::kTopology,
            .key = key,
            .what = fmt::format("two hosts or switches named '{}'", name)};
  }
  return {};
}

ScenarioError check_link(const Scenario& scenario, size_t index,
                         std::set<std::string_view>* names) {
  const Topology& topology = scenario.topology;
  const LinkConfig& link = topology.links[index];
  const auto error = [&](std::string key, const std::string& what) {
    return ScenarioError{.of = Of::kLink,
                         .index = index,
                         .key = std::move(key),
                         .what = fmt::format("link '{}': {}", link.name, what)};
  };
  if (link.a >= topology.nodes() || link.b >= topology.nodes()) return error("a", "no such ends");
  if (link.a == link.b) return error("b", "it leads to where it comes from");
  if (!names->insert(link.name).second) return error("name", "another link has this name");
  for (const PortConfig* port : {&link.ab, &link.ba}) {
    const FieldError field_error = check_port(*port);
    if (!field_error.what.empty()) return error(field_error.key, field_error.what);
  }
  return {};
}

NetworkSize size_of(const Topology& topology) {
  std::vector<bool> is_leaf(topology.nodes());
  NetworkSize size{.hosts = topology.hosts,
                   .links = topology.links.size(),
                   .switches = topology.switches,
                   .leaves = 0};
  for (const LinkConfig& link : topology.links) {
    for (const auto& [host, other] : {std::pair{link.a, link.b}, std::pair{link.b, link.a}}) {
      if (host >= topology.hosts || other < topology.hosts || is_leaf[other]) continue;
      is_leaf[other] = true;
      ++size.leaves;
    }
  }
  return size;
}

}  // namespace

Status check_red(const RedConfig& red) {
  if (red.kmin_bytes > red.kmax_bytes) return {EINVAL, "RED: kmin is above kmax"};
  if (red.pmax_ppm > 1'000'000) return {EINVAL, "RED: pmax is above 1"};
  return {};
}

Status too_large(const NetworkSize& size) {
  if (size.hosts > kHostsMax) {
    return {EINVAL, fmt::format("at most {} hosts in all, not {}", kHostsMax, size.hosts)};
  }
  if (size.links > kLinksMax) {
    return {EINVAL, fmt::format("at most {} links in all, not {}", kLinksMax, size.links)};
  }
  // The product of two 32-bit numbers fits 64 bits.
  if (size.switches * size.leaves > kRoutesMax) {
    return {EINVAL, fmt::format("at most {} pairs of a switch and one that has hosts, not {}",
                                kRoutesMax, size.switches * size.leaves)};
  }
  return {};
}

ScenarioError check_topology(const Scenario& scenario) {
  const Topology& topology = scenario.topology;
  ScenarioError error = check_nodes(scenario);
  if (!error.what.empty()) return error;
  std::vector<uint32_t> links_of(topology.nodes());
  std::set<std::string_view> names;
  for (size_t i = 0; i < topology.links.size(); ++i) {
    error = check_link(scenario, i, &names);
    if (!error.what.empty()) return error;
    ++links_of[topology.links[i].a];
    ++links_of[topology.links[i].b];
  }
  for (NodeId host = 0; host < topology.hosts; ++host) {
    if (links_of[host] == 1) continue;
    return {.of = Of::kTopology,
            .key = "hosts",
            .what = fmt::format("host '{}' has {} links, not one", scenario.host_names[host],
                                links_of[host])};
  }
  if (topology.flood && scenario.reroute) {
    // A route that is gone leaves no port whose link is down.
    return {.of = Of::kTopology, .key = "flood", .what = "flood with reroute"};
  }
  const Status size = too_large(size_of(topology));
  if (!size.ok()) return {.of = Of::kTopology, .key = "hosts", .what = size.text};
  return check_buffers(topology);
}

}  // namespace mprdma::switchsim
