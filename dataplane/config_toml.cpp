// The TOML half of the configuration. Unknown tables and keys are errors: a misspelt knob that is
// silently ignored is worse than a program that does not start.
#include <toml++/toml.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "dataplane/config.hpp"

namespace mprdma::dataplane {

namespace {

std::string at(const std::string& path, const toml::source_region& where, const std::string& what) {
  return path + ":" + std::to_string(where.begin.line) + ":" + std::to_string(where.begin.column) +
         ": " + what;
}

// One key of one table: `what` describes it, set() takes it over and says whether it is good.
struct Knob {
  std::string_view key;
  std::string_view expected;
  bool (*set)(const toml::node& node, Config& config);
};

template <class T>
bool take_integer(const toml::node& node, int64_t low, int64_t high, T* out) {
  const auto* value = node.as_integer();
  if (value == nullptr || value->get() < low || value->get() > high) return false;
  *out = static_cast<T>(value->get());
  return true;
}

bool take_us(const toml::node& node, int64_t low_us, int64_t high_us, Duration* out) {
  int64_t us = 0;
  if (!take_integer(node, low_us, high_us, &us)) return false;
  *out = Duration::us(us);
  return true;
}

bool take_bool(const toml::node& node, bool* out) {
  const auto* value = node.as_boolean();
  if (value != nullptr) *out = value->get();
  return value != nullptr;
}

bool take_string(const toml::node& node, std::string* out) {
  const auto* value = node.as_string();
  if (value != nullptr) *out = value->get();
  return value != nullptr;
}

bool set_name(const toml::node& node, Config& config) {
  return take_string(node, &config.device_name) && valid_device_name(config.device_name);
}

bool set_address(const toml::node& node, Config& config) {
  std::string text;
  return take_string(node, &text) && parse_address(text, &config.ipv4, &config.prefix_bits);
}

bool set_mac(const toml::node& node, Config& config) {
  std::string text;
  config.mac_set = take_string(node, &text) && parse_mac(text, &config.mac);
  return config.mac_set;
}

bool set_mtu(const toml::node& node, Config& config) {
  config.mtu_set = take_integer(node, 1024, 4096, &config.mtu) && valid_mtu(config.mtu);
  return config.mtu_set;
}

bool set_window_slots(const toml::node& node, Config& config) {
  const uint32_t slots_max = transport::kWindowSlotsMax;
  uint32_t slots = 0;
  if (!take_integer(node, 8, slots_max, &slots) || (slots & (slots - 1)) != 0) return false;
  config.params.window_slots = slots;
  return true;
}

// Applied before every other key, see apply_toml: it is what they depart from.
bool set_mode(const toml::node& node, Config& config) {
  std::string text;
  transport::Params preset;
  return take_string(node, &text) && parse_mode(text, &preset, &config.agree_modes);
}

bool set_paths(const toml::node& node, Config& config) {
  const auto* number = node.as_integer();
  std::string text = number != nullptr ? std::to_string(number->get()) : "";
  if (number == nullptr && !take_string(node, &text)) return false;
  return parse_paths(text, &config.params);
}

bool set_placement(const toml::node& node, Config& config) {
  std::string text;
  return take_string(node, &text) && parse_placement(text, &config.params);
}

bool set_sync_policy(const toml::node& node, Config& config) {
  using transport::SyncPolicy;
  std::string text;
  if (!take_string(node, &text)) return false;
  SyncPolicy& policy = config.params.sync_policy;
  if (text == "optimistic") return policy = SyncPolicy::kOptimistic, true;
  if (text == "stop-and-wait") return policy = SyncPolicy::kStopAndWait, true;
  return false;
}

// A number in 0..16, to the next 2^-16 below.
bool set_sync_alpha(const toml::node& node, Config& config) {
  const auto* whole = node.as_integer();
  const auto* real = node.as_floating_point();
  if (whole == nullptr && real == nullptr) return false;
  const double alpha = whole != nullptr ? static_cast<double>(whole->get()) : real->get();
  if (!(alpha >= 0 && alpha <= 16)) return false;
  config.params.sync_alpha = Fixed16::from_raw(static_cast<uint32_t>(alpha * Fixed16::kOneRaw));
  return true;
}

bool set_restart(const toml::node& node, Config& config) {
  using transport::RestartRule;
  std::string text;
  if (!take_string(node, &text)) return false;
  RestartRule& rule = config.params.restart;
  if (text == "no-backlog") return rule = RestartRule::kNoBacklog, true;
  if (text == "idle") return rule = RestartRule::kIdle, true;
  if (text == "never") return rule = RestartRule::kNever, true;
  return false;
}

bool set_fault(const toml::node& node, Config& config) {
  std::string text;
  return take_string(node, &text) && parse_fault(text, &config.fault).empty();
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
     [](const toml::node& n, Config& c) { return take_string(n, &c.port_spec); }},
    {"away_max_s", "seconds, 0..3600",
     [](const toml::node& n, Config& c) {
       int64_t seconds = 0;
       if (!take_integer(n, 0, 3600, &seconds)) return false;
       c.away_max = Duration::s(seconds);
       return true;
     }},
    {"held_frames", "a whole number in 1..1048576",
     [](const toml::node& n, Config& c) { return take_integer(n, 1, 1 << 20, &c.held_frames); }},
};

constexpr Knob kTransport[] = {
    {"mode", "\"mp\", \"mp-single\", \"mp-paper\" or \"roce\"", set_mode},
    {"paths", "\"all\" or 1", set_paths},
    {"window_slots", "a power of two in 8..128", set_window_slots},
    {"initial_window", "packets, 1..128",
     [](const toml::node& n, Config& c) {
       return take_integer(n, 1, transport::kWindowSlotsMax, &c.params.initial_window);
     }},
    {"window_max", "packets, 1..256",
     [](const toml::node& n, Config& c) {
       return take_integer(n, 1, transport::kSendSpanMax, &c.params.window_max);
     }},
    {"reorder_delta", "packets in 8..128",
     [](const toml::node& n, Config& c) {
       return take_integer(n, 8, transport::kWindowSlotsMax, &c.params.reorder_delta);
     }},
    {"loss_trigger", "packets, 0 (off) or 8..128",
     [](const toml::node& n, Config& c) {
       return take_integer(n, 0, transport::kWindowSlotsMax, &c.params.loss_trigger) &&
              (c.params.loss_trigger == 0 || c.params.loss_trigger >= 8);
     }},
    {"limit_growth", "true or false",
     [](const toml::node& n, Config& c) { return take_bool(n, &c.params.limit_growth); }},
    {"loss_shrinks_window", "true or false",
     [](const toml::node& n, Config& c) { return take_bool(n, &c.params.loss_shrinks_window); }},
    {"early_retransmit", "true or false",
     [](const toml::node& n, Config& c) { return take_bool(n, &c.params.early_retransmit); }},
    {"tail_probe", "true or false",
     [](const toml::node& n, Config& c) { return take_bool(n, &c.params.tail_probe); }},
    {"rto_floor_us", "microseconds, 50..1000000",
     [](const toml::node& n, Config& c) { return take_us(n, 50, 1'000'000, &c.params.rto_floor); }},
    {"rto_ceiling_us", "microseconds, 50..10000000",
     [](const toml::node& n, Config& c) {
       return take_us(n, 50, 10'000'000, &c.params.rto_ceiling);
     }},
    {"probe_floor_us", "microseconds, 5..1000000",
     [](const toml::node& n, Config& c) {
       return take_us(n, 5, 1'000'000, &c.params.probe_floor);
     }},
    {"initial_rtt_us", "microseconds, 1..100000",
     [](const toml::node& n, Config& c) { return take_us(n, 1, 100'000, &c.params.initial_rtt); }},
    {"timeout_shrinks_window", "true or false",
     [](const toml::node& n, Config& c) { return take_bool(n, &c.params.timeout_shrinks_window); }},
    {"adapt_timeout", "true or false",
     [](const toml::node& n, Config& c) { return take_bool(n, &c.params.adapt_timeout); }},
    {"sack_map", "true or false",
     [](const toml::node& n, Config& c) { return take_bool(n, &c.params.sack_map); }},
    {"path_window_reduction", "true or false",
     [](const toml::node& n, Config& c) { return take_bool(n, &c.params.path_window_reduction); }},
    {"window_give_back", "true or false",
     [](const toml::node& n, Config& c) { return take_bool(n, &c.params.window_give_back); }},
    {"sync_wait_is_backlog", "true or false",
     [](const toml::node& n, Config& c) { return take_bool(n, &c.params.sync_wait_is_backlog); }},
    {"sync_policy", "\"optimistic\" or \"stop-and-wait\"", set_sync_policy},
    {"sync_alpha", "a number in 0..16", set_sync_alpha},
    {"restart", "\"no-backlog\", \"idle\" or \"never\"", set_restart},
    {"path_probe_per_mille", "a whole number in 0..1000",
     [](const toml::node& n, Config& c) {
       return take_integer(n, 0, 1000, &c.params.path_probe_per_mille);
     }},
};

constexpr Knob kTest[] = {
    {"fault", "a string like \"seed=7,loss=0.01,reorder=0.02,dup=0.01,delay_us=50\"", set_fault},
};

struct Section {
  std::string_view name;
  const Knob* first;
  size_t count;
};

constexpr Section kSections[] = {
    {"device", kDevice, std::size(kDevice)},
    {"port", kPort, std::size(kPort)},
    {"transport", kTransport, std::size(kTransport)},
    {"test", kTest, std::size(kTest)},
};

template <class Range, class Name>
std::string list_names(const Range& range, Name name) {
  std::string out;
  for (const auto& item : range) {
    if (!out.empty()) out += ", ";
    out += name(item);
  }
  return out;
}

std::string apply_key(const Section& section, const toml::key& key, const toml::node& node,
                      const std::string& path, Config* out) {
  const std::span<const Knob> knobs(section.first, section.count);
  for (const Knob& knob : knobs) {
    if (knob.key != key.str()) continue;
    if (knob.set(node, *out)) return {};
    return at(path, node.source(),
              std::string(section.name) + "." + std::string(knob.key) + ": expected " +
                  std::string(knob.expected));
  }
  return at(path, key.source(),
            "unknown key '" + std::string(key.str()) + "' in [" + std::string(section.name) +
                "]; known: " + list_names(knobs, [](const Knob& k) { return std::string(k.key); }));
}

std::string apply_section(const toml::key& key, const toml::node& node, const std::string& path,
                          Config* out) {
  for (const Section& section : kSections) {
    if (section.name != key.str()) continue;
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      return at(path, node.source(), "'" + std::string(section.name) + "' has to be a table");
    }
    for (auto&& [inner_key, inner] : *table) {
      std::string error = apply_key(section, inner_key, inner, path, out);
      if (!error.empty()) return error;
    }
    return {};
  }
  return at(path, key.source(),
            "unknown table or key '" + std::string(key.str()) + "'; known tables: " +
                list_names(kSections, [](const Section& s) { return std::string(s.name); }));
}

// What two keys have to agree on.
std::string check_relations(const std::string& path, const Config& config) {
  const transport::Params& p = config.params;
  if (p.initial_window > p.window_slots) {
    return path + ": transport.initial_window (" + std::to_string(p.initial_window) +
           ") exceeds transport.window_slots (" + std::to_string(p.window_slots) + ")";
  }
  if (p.window_max < p.initial_window) {
    return path + ": transport.window_max (" + std::to_string(p.window_max) +
           ") is below transport.initial_window (" + std::to_string(p.initial_window) + ")";
  }
  if (p.loss_trigger > p.window_slots) {
    return path + ": transport.loss_trigger exceeds transport.window_slots";
  }
  if (p.reorder_delta > p.window_slots) {
    return path + ": transport.reorder_delta exceeds transport.window_slots";
  }
  if (p.protocol == transport::Protocol::kRoce && p.path_policy != transport::PathPolicy::kSingle) {
    return path + ": transport.mode = \"roce\" has one path";
  }
  if (!p.sack_map && p.path_policy == transport::PathPolicy::kSingle) {
    return path + ": transport.sack_map = false needs transport.paths = \"all\"";
  }
  if (p.rto_ceiling < p.rto_floor) {
    return path + ": transport.rto_ceiling_us is below transport.rto_floor_us";
  }
  return {};
}

}  // namespace

std::string apply_toml(const std::string& text, const std::string& path, Config* out) {
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    return at(path, parsed.error().source(), std::string(parsed.error().description()));
  }
  const toml::table& table = parsed.table();
  if (const auto mode = table["transport"]["mode"].value<std::string>()) {
    parse_mode(*mode, &out->params, &out->agree_modes);
  }
  for (auto&& [key, node] : table) {
    std::string error = apply_section(key, node, path, out);
    if (!error.empty()) return error;
  }
  return check_relations(path, *out);
}

}  // namespace mprdma::dataplane
