#include "switchsim/sim/scenario/toml_flow.hpp"

#include <fmt/format.h>

#include <charconv>

namespace mprdma::switchsim {

namespace {

// Names of hosts in one key; a host may occur more than once.
constexpr size_t kNamedHostsMax = 1'000'000;

struct Range {
  std::string stem;
  uint64_t first = 0;
  uint64_t last = 0;
};

// Parses a whole number that is written as to_string() writes it: "07" does not name host 7.
std::optional<uint64_t> number_of(std::string_view text) {
  uint64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc{} || std::to_string(value) != text) return std::nullopt;
  return value;
}

// Parses a range: "h1..h16" stands for h1 to h16. nullopt: the text is a plain name.
std::optional<Range> range_of(std::string_view name) {
  const size_t dots = name.find("..");
  const size_t digits = name.find_first_of("0123456789");
  if (dots == std::string_view::npos || digits > dots) return std::nullopt;
  const std::string_view stem = name.substr(0, digits);
  const std::string_view end = name.substr(dots + 2);
  if (!end.starts_with(stem)) return std::nullopt;
  const std::optional<uint64_t> first = number_of(name.substr(digits, dots - digits));
  const std::optional<uint64_t> last = number_of(end.substr(stem.size()));
  if (!first || !last || *last < *first) return std::nullopt;
  return Range{std::string(stem), *first, *last};
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
  // Adds a host by name. False: there is no such host.
  const auto add = [&](const std::string& name) {
    const std::optional<NodeId> host = hosts.find(name);
    if (!host) reader.refuse(key, fmt::format("names of hosts; '{}' is none", name));
    if (host) out.push_back(*host);
    return host.has_value();
  };
  for (const std::string& name : names) {
    const std::optional<Range> range = range_of(name);
    if (!range) {
      if (!add(name)) return {};
      continue;
    }
    // The loop ends at the first name that is no host, so a huge range costs nothing.
    for (uint64_t i = 0; i <= range->last - range->first; ++i) {
      if (!add(range->stem + std::to_string(range->first + i))) return {};
    }
    if (out.size() > kNamedHostsMax) {
      reader.refuse(key, fmt::format("at most {} hosts", kNamedHostsMax));
      return {};
    }
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
  reader.integer("rpc_credits", 0, 4096, &flow->rpc_credits);
  reader.integer("rpc_response_bytes", 0, 4096, &flow->rpc_response_bytes);
  reader.span_us("rpc_timeout_us", &flow->rpc_timeout);
  reader.boolean("lossless", &flow->lossless);
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
