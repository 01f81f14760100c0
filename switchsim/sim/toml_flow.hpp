// What [[flow]] and [[traffic]] have in common: names of hosts, what is posted, the transport.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "switchsim/config/toml_reader.hpp"
#include "switchsim/sim/scenario.hpp"
#include "switchsim/sim/toml_params.hpp"

namespace mprdma::switchsim {

// The hosts of a topology by name, for as many look-ups as there are hosts.
class HostNames {
 public:
  HostNames() = default;
  explicit HostNames(const std::vector<std::string>& names);
  [[nodiscard]] std::optional<NodeId> find(const std::string& name) const;

 private:
  std::unordered_map<std::string, NodeId> hosts_;
};

// A name, a list of names, "h1..h16" for h1, h2 .. h16. The key has to be there; empty after an
// error.
std::vector<NodeId> read_hosts(TomlReader& reader, const HostNames& hosts, std::string_view key);
// operation, post_depth, messages, start_us, stop_us, may_fail.
void read_work(TomlReader& reader, FlowSpec* flow);
// The sub-table `transport`, called `name` in errors, on top of `defaults`.
void read_flow_transport(TomlReader& reader, const std::string& name, const TransportSpec& defaults,
                         TomlErrors& errors, FlowSpec* flow);

}  // namespace mprdma::switchsim
