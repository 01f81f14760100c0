// The TOML half of the configuration.
#include <toml++/toml.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "config/param_toml.hpp"
#include "config/toml_keys.hpp"
#include "dataplane/device_toml.hpp"
#include "dataplane/engine/config.hpp"

namespace mprdma::dataplane {

namespace {

using config::read_integer;
using config::read_string;
using config::toml_error;
using Key = config::TomlKey<Config>;

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

constexpr Key kKeys[] = {
    {"device", "placement", "\"standard\", \"relaxed\" or \"ordered\"", set_placement},
    {"port", "spec", "a string, \"local:PATH[,slots=N]\", \"ethdev:DEVARGS\" or \"daemon:PATH\"",
     [](const toml::node& n, Config& c) { return read_string(n, &c.port_spec); }},
    {"port", "away_max_s", "seconds, 0..3600",
     [](const toml::node& n, Config& c) {
       int64_t seconds = 0;
       if (!read_integer(n, 0, 3600, &seconds)) return false;
       c.away_max = Duration::s(seconds);
       return true;
     }},
    {"port", "held_frames", "a whole number in 1..1048576",
     [](const toml::node& n, Config& c) { return read_integer(n, 1, 1 << 20, &c.held_frames); }},
    {"port", "pfc", "true or false",
     [](const toml::node& n, Config& c) { return config::read_flag(n, &c.pfc); }},
    {"port", "pfc_priority", "a whole number in 0..7",
     [](const toml::node& n, Config& c) {
       return read_integer(n, 0, 7, &c.pfc_priority.emplace());
     }},
    // Besides the list of parameters.
    {"transport", "mode", "\"mp\", \"mp-single\", \"mp-paper\", \"irn\" or \"roce\"", check_mode},
    {"transport", "preset",
     "the name of a preset, like \"mp\" or \"dcqcn-tuned\" (docs/parameters.md)", check_preset},
    {"transport", "paths", "\"all\" or 1", set_paths},
    {"test", "fault", "a string like \"seed=7,loss=0.01,reorder=0.02,dup=0.01,delay_us=50\"",
     set_fault},
};

// Of the list, what stands in [transport]: the mode has names of its own there, and placement is
// the device's.
bool is_transport_key(const transport::Param& param) {
  return param.key != "mode" && param.key != "placement";
}

// The list of parameters, whose keys stand in [transport].
struct TransportKeys {
  transport::Params* params;

  [[nodiscard]] std::string names(std::string_view table) const {
    std::string out;
    if (table != "transport") return out;
    transport::for_each_param([&](const transport::Param& param, auto) {
      if (is_transport_key(param)) out += (out.empty() ? "" : ", ") + std::string(param.key);
    });
    return out;
  }
  bool apply(std::string_view table, std::string_view key, const toml::node& node,
             std::string* expected) const {
    bool found = false;
    if (table != "transport") return found;
    transport::for_each_param([&](const transport::Param& param, auto member) {
      if (param.key != key || !is_transport_key(param)) return;
      found = true;
      *expected = config::read_param(node, param, member, params).text;
    });
    return found;
  }
};

// The preset that the other keys of [transport] modify. The values are checked later.
Status begin_transport(const toml::node_view<const toml::node>& table, const std::string& path,
                       Config* out) {
  const toml::node* mode = table["mode"].node();
  const toml::node* preset = table["preset"].node();
  const auto text = [](const toml::node* node) {
    return node != nullptr ? node->value_or(std::string()) : std::string();
  };
  if (mode != nullptr && preset != nullptr && text(mode) != text(preset)) {
    return toml_error(path, mode->source(),
                      "transport.mode: expected the same as transport.preset, or none");
  }
  parse_preset(text(preset != nullptr ? preset : mode), &out->params, &out->agree_modes);
  if (const toml::node* paths = table["paths"].node(); paths && table["path_policy"]) {
    return toml_error(path, paths->source(),
                      "transport.paths: expected this or transport.path_policy");
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
    return toml_error(path, parsed.error().source(), std::string(parsed.error().description()));
  }
  const toml::table& table = parsed.table();
  Status status = begin_transport(table["transport"], path, out);
  if (!status.ok()) return status;
  const config::TomlKeys<Config, TransportKeys> keys({kDeviceKeys<Config>, kKeys}, {&out->params});
  status = keys.apply(table, path, out);
  if (!status.ok()) return status;
  out->params.settle();
  return prefixed(path + ": ", check_parameters(out->params, "transport."));
}

}  // namespace mprdma::dataplane
