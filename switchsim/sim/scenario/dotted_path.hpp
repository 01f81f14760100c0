// Dotted paths, as overrides of scenarios and measures of sweeps have them: "topology.servers",
// "flow[2].to", "link[path1].loss", "flows[*].goodput_bps".
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mprdma::switchsim {

struct PathStep {
  std::string key;
  std::optional<std::string> selector;  // of a list: an index, a name, or *
};

// False if it is no path. A dot inside brackets belongs to a name.
bool parse_path(std::string_view path, std::vector<PathStep>* out);
// Does a selector mean the element with that index and name?
bool selects(const std::string& selector, size_t index, std::string_view name);

}  // namespace mprdma::switchsim
