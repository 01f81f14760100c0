// The TOML half of the configuration. Unknown tables and keys are errors: a misspelt knob that is
// silently ignored is worse than a program that does not start.
#include <toml++/toml.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "config/param_toml.hpp"
#include "dataplane/device_text.hpp"
#include "dataplane/engine/config.hpp"

namespace mprdma::dataplane {

namespace {

Status at(const std::string& path, const toml::source_region& where, const std::string& what) {
  return {EINVAL, path + ":" + std::to_string(where.begin.line) + ":" +
                      std::to_string(where.begin.column) + ": " + what};
}

// One key of one table: `what` describes it, set() takes it over and says whether it is good.
struct Knob {
  std::string_view key;
  std::string_view expected;
  bool (*set)(const toml::node& node, Config& config);
};

template <class T>
bool read_integer(const toml::node& node, int64_t low, int64_t high, T* out) {
  const auto* value = node.as_integer();
  if (value == nullptr || value->get() < low || value->get() > high) return false;
  *out = static_cast<T>(value->get());
  return true;
}

bool read_string(const toml::node& node, std::string* out) {
  const auto* value = node.as_string();
  if (value != nullptr) *out = value->get();
  return value != nullptr;
}

bool set_name(const toml::node& node, Config& config) {
  return read_string(node, &config.device_name) && valid_device_name(config.device_name);
}

bool set_address(const toml::node& node, Config& config) {
  std::string text;
  return read_string(node, &text) && parse_address(text, &config.ipv4, &config.prefix_bits);
}

bool set_mac(const toml::node& node, Config& config) {
  std::string text;
  config.mac_set = read_string(node, &text) && parse_mac(text, &config.mac);
  return config.mac_set;
}

bool set_mtu(const toml::node& node, Config& config) {
  config.mtu_set = read_integer(node, 1024, 4096, &config.mtu) && valid_mtu(config.mtu);
  return config.mtu_set;
}

// Applied before every other key, see begin_transport: they are what the others depart from.
bool check_mode(const toml::node& node, Config&) {
  std::string text;
  return read_string(node, &text) && is_mode(text);
}

bool check_preset(const toml::node& node, Config&) {
  transport::Preset preset{};
  std::string text;
  return read_string(node, &text) && transport::parse_word(text, &preset);
}

bool set_paths(const toml::node& node, Config& config) {
  const auto* number = node.as_integer();
  std::string text = number != nullptr ? std::to_string(number->get()) : "";
  if (number == nullptr && !read_string(node, &text)) return false;
  return parse_paths(text, &config.params);
}

bool set_placement(const toml::node& node, Config& config) {
  std::string text;
  return read_string(node, &text) && parse_placement(text, &config.params);
}

bool set_fault(const toml::node& node, Config& config) {
  std::string text;
  return read_string(node, &text) && parse_fault(text, &config.fault).ok();
}

constexpr Knob kDevice[] = {
    {"name", "up to 63 letters, digits, '_' and '-'", set_name},
    {"address", "an IPv4 address with its prefix, like \"10.73.0.1/24\"", set_address},
    {"mac", "a unicast Ethernet address, like \"02:4d:52:49:00:01\"", set_mac},
    {"mtu", "1024, 2048 or 4096", set_mtu},
    {"placement", "\"standard\", \"relaxed\" or \"ordered\"", set_placement},
};

constexpr Knob kPort[] = {
    {"spec", "a string, \"local:PATH[,slots=N]\", \"ethdev:DEVARGS\" or \"daemon:PATH\"",
     [](const toml::node& n, Config& c) { return read_string(n, &c.port_spec); }},
    {"away_max_s", "seconds, 0..3600",
     [](const toml::node& n, Config& c) {
       int64_t seconds = 0;
       if (!read_integer(n, 0, 3600, &seconds)) return false;
       c.away_max = Duration::s(seconds);
       return true;
     }},
    {"held_frames", "a whole number in 1..1048576",
     [](const toml::node& n, Config& c) { return read_integer(n, 1, 1 << 20, &c.held_frames); }},
};

// Besides the list of parameters.
constexpr Knob kTransport[] = {
    {"mode", "\"mp\", \"mp-single\", \"mp-paper\" or \"roce\"", check_mode},
    {"preset", "the name of a preset, like \"mp\" or \"dcqcn-tuned\" (docs/parameters.md)",
     check_preset},
    {"paths", "\"all\" or 1", set_paths},
};

constexpr Knob kTest[] = {
    {"fault", "a string like \"seed=7,loss=0.01,reorder=0.02,dup=0.01,delay_us=50\"", set_fault},
};

struct Section {
  std::string_view name;
  std::span<const Knob> knobs;
  bool has_params = false;  // the list of parameters as well
};

constexpr Section kSections[] = {
    {"device", kDevice},
    {"port", kPort},
    {"transport", kTransport, true},
    {"test", kTest},
};

// Of the list, what stands in [transport]: the mode has names of its own there, and placement is
// the device's.
bool is_transport_key(const transport::Param& param) {
  return param.key != "mode" && param.key != "placement";
}

template <class Range, class Name>
std::string list_names(const Range& range, Name name) {
  std::string out;
  for (const auto& item : range) {
    if (!out.empty()) out += ", ";
    out += name(item);
  }
  return out;
}

std::string known_keys(const Section& section) {
  std::string out = list_names(section.knobs, [](const Knob& k) { return std::string(k.key); });
  if (!section.has_params) return out;
  transport::for_each_param([&](const transport::Param& param, auto) {
    if (is_transport_key(param)) out += ", " + std::string(param.key);
  });
  return out;
}

// False: no parameter has this key.
bool apply_param(std::string_view key, const toml::node& node, Config* out, std::string* expected) {
  bool found = false;
  transport::for_each_param([&](const transport::Param& param, auto member) {
    if (param.key != key || !is_transport_key(param)) return;
    found = true;
    *expected = config::read_param(node, param, member, &out->params).text;
  });
  return found;
}

Status apply_key(const Section& section, const toml::key& key, const toml::node& node,
                 const std::string& path, Config* out) {
  bool found = false;
  std::string expected;
  for (const Knob& knob : section.knobs) {
    if (knob.key != key.str()) continue;
    found = true;
    if (!knob.set(node, *out)) expected = knob.expected;
  }
  if (!found && section.has_params) found = apply_param(key.str(), node, out, &expected);
  const std::string name(key.str());
  if (!found) {
    return at(path, key.source(),
              "unknown key '" + name + "' in [" + std::string(section.name) +
                  "]; known: " + known_keys(section));
  }
  if (expected.empty()) return {};
  return at(path, node.source(), std::string(section.name) + "." + name + ": expected " + expected);
}

Status apply_section(const toml::key& key, const toml::node& node, const std::string& path,
                     Config* out) {
  for (const Section& section : kSections) {
    if (section.name != key.str()) continue;
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      return at(path, node.source(), "'" + std::string(section.name) + "' has to be a table");
    }
    for (auto&& [inner_key, inner] : *table) {
      Status status = apply_key(section, inner_key, inner, path, out);
      if (!status.ok()) return status;
    }
    return {};
  }
  return at(path, key.source(),
            "unknown table or key '" + std::string(key.str()) + "'; known tables: " +
                list_names(kSections, [](const Section& s) { return std::string(s.name); }));
}

// The preset that the other keys of [transport] modify. The values are checked later.
Status begin_transport(const toml::node_view<const toml::node>& table, const std::string& path,
                       Config* out) {
  const toml::node* mode = table["mode"].node();
  const toml::node* preset = table["preset"].node();
  const auto text = [](const toml::node* node) {
    return node != nullptr ? node->value_or(std::string()) : std::string();
  };
  if (mode != nullptr && preset != nullptr && text(mode) != text(preset)) {
    return at(path, mode->source(),
              "transport.mode: expected the same as transport.preset, or none");
  }
  parse_preset(text(preset != nullptr ? preset : mode), &out->params, &out->agree_modes);
  if (const toml::node* paths = table["paths"].node(); paths && table["path_policy"]) {
    return at(path, paths->source(), "transport.paths: expected this or transport.path_policy");
  }
  // Before a window of the user's own.
  transport::Congestion congestion{};
  if (transport::parse_word(text(table["congestion"].node()), &congestion)) {
    out->params.set_congestion(congestion);
  }
  return {};
}

}  // namespace

Status apply_toml(const std::string& text, const std::string& path, Config* out) {
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    return at(path, parsed.error().source(), std::string(parsed.error().description()));
  }
  const toml::table& table = parsed.table();
  Status status = begin_transport(table["transport"], path, out);
  if (!status.ok()) return status;
  for (auto&& [key, node] : table) {
    status = apply_section(key, node, path, out);
    if (!status.ok()) return status;
  }
  out->params.settle();
  return prefixed(path + ": ", check_parameters(out->params, "transport."));
}

}  // namespace mprdma::dataplane
