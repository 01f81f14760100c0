#include "switchsim/sim/scenario/dotted_path.hpp"

#include <charconv>
#include <utility>

namespace mprdma::switchsim {

bool parse_path(std::string_view path, std::vector<PathStep>* out) {
  while (true) {
    size_t dot = 0;
    for (bool inside = false; dot < path.size() && (inside || path[dot] != '.'); ++dot) {
      if (path[dot] == '[') inside = true;
      if (path[dot] == ']') inside = false;
    }
    std::string_view part = path.substr(0, dot);
    PathStep step;
    const size_t bracket = part.find('[');
    if (bracket != std::string_view::npos) {
      if (part.back() != ']') return false;
      step.selector = std::string(part.substr(bracket + 1, part.size() - bracket - 2));
      part = part.substr(0, bracket);
    }
    if (part.empty()) return false;
    step.key = std::string(part);
    out->push_back(std::move(step));
    if (dot >= path.size()) return true;
    path.remove_prefix(dot + 1);
  }
}

bool selects(const std::string& selector, size_t index, std::string_view name) {
  if (selector == "*") return true;
  size_t wanted = 0;
  const char* const end = selector.data() + selector.size();
  const auto [rest, error] = std::from_chars(selector.data(), end, wanted);
  if (error == std::errc{} && rest == end) return index == wanted;
  return name == selector;
}

}  // namespace mprdma::switchsim
