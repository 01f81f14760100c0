#include "switchsim/sim/toml_flow.hpp"

#include <fmt/format.h>

#include <charconv>

namespace mprdma::switchsim {

namespace {

// "h1..h16" stands for h1, h2 .. h16.
std::vector<std::string> expand(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string& name : names) {
    const size_t dots = name.find("..");
    const size_t digits = name.find_first_of("0123456789");
    if (dots == std::string::npos || digits > dots) {
      out.push_back(name);
      continue;
    }
    const std::string stem = name.substr(0, digits);
    uint32_t first = 0;
    uint32_t last = 0;
    const char* text = name.data();
    std::from_chars(text + digits, text + dots, first);
    const bool same_stem = name.compare(dots + 2, stem.size(), stem) == 0;
    const auto end = same_stem
                         ? std::from_chars(text + dots + 2 + stem.size(), text + name.size(), last)
                         : std::from_chars_result{text, std::errc::invalid_argument};
    if (end.ec != std::errc{} || end.ptr != text + name.size() || last - first > 100'000) {
      out.push_back(name);
      continue;
    }
    for (uint32_t i = first; i <= last; ++i) out.push_back(stem + std::to_string(i));
  }
  return out;
}

}  // namespace

HostNames::HostNames(const std::vector<std::string>& names) {
  hosts_.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) hosts_.emplace(names[i], static_cast<NodeId>(i));
}

std::optional<NodeId> HostNames::find(const std::string& name) const {
  const auto found = hosts_.find(name);
  if (found == hosts_.end()) return std::nullopt;
  return found->second;
}

std::vector<NodeId> read_hosts(TomlReader& reader, const HostNames& hosts, std::string_view key) {
  std::vector<std::string> names;
  std::vector<NodeId> out;
  if (!reader.names(key, &names)) reader.refuse(key, "the name of a host");
  for (const std::string& name : expand(names)) {
    const std::optional<NodeId> host = hosts.find(name);
    if (!host) {
      reader.refuse(key, fmt::format("names of hosts; '{}' is none", name));
      return {};
    }
    out.push_back(*host);
  }
  return out;
}

void read_work(TomlReader& reader, FlowSpec* flow) {
  size_t operation = 0;
  if (reader.word("operation", {"write", "send", "read"}, &operation)) {
    flow->operation = static_cast<FlowOperation>(operation);
  }
  reader.integer("post_depth", 1, 4096, &flow->post_depth);
  reader.integer("messages", 0, INT64_MAX, &flow->messages);
  reader.time_us("start_us", &flow->start);
  reader.time_us("stop_us", &flow->stop);
  reader.boolean("may_fail", &flow->may_fail);
}

void read_flow_transport(TomlReader& reader, const std::string& name, const TransportSpec& defaults,
                         TomlErrors& errors, FlowSpec* flow) {
  TransportSpec spec = defaults;
  if (const toml::table* transport = reader.sub_table("transport")) {
    read_transport(*transport, name, errors, &spec);
  }
  flow->params = spec.params;
  flow->path_mtu = spec.path_mtu;
  flow->timeout = spec.timeout;
  flow->retry_cnt = spec.retry_cnt;
}

}  // namespace mprdma::switchsim
