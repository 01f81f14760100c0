// The keys that [[flow]] and [[traffic]] share: names of hosts, messages, the transport.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "switchsim/config/toml_reader.hpp"
#include "switchsim/sim/scenario/scenario.hpp"
#include "switchsim/sim/scenario/toml_params.hpp"

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

// Reads a name, a list of names, or a range: "h1..h16" stands for h1 to h16. The key is required;
// empty after an error.
std::vector<NodeId> read_hosts(TomlReader& reader, const HostNames& hosts, std::string_view key);
// Reads operation, post_depth, messages, start_us, stop_us, may_fail, those of RPCs.
void read_work(TomlReader& reader, FlowSpec* flow);
// Reads the sub-table `transport`, called `name` in errors, on top of `defaults`.
void read_flow_transport(TomlReader& reader, const std::string& name, const TransportSpec& defaults,
                         TomlErrors& errors, FlowSpec* flow);

}  // namespace mprdma::switchsim
