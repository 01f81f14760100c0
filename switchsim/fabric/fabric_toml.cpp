// The TOML of a fabric. A misspelt key that is silently ignored is worse than a fabric that does
// not start.
#include <fmt/format.h>
#include <cmath>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "base/ipv4.hpp"
#include "dataplane/sys/address_text.hpp"
#include "switchsim/config/toml_buffers.hpp"
#include "switchsim/config/toml_reader.hpp"
#include "switchsim/fabric/fabric_config.hpp"
#include "switchsim/fabric/frame_classifier.hpp"
#include "switchsim/fabric/link_change.hpp"
#include "switchsim/model/buffer_layout.hpp"

namespace mprdma::switchsim {

namespace {

constexpr int64_t kHostsMax = 64;
constexpr int64_t kPathsMax = 64;

double number_of(const toml::node& node) {
  return node.value<double>().value_or(-1);
}

bool read_red(const toml::node& node, RedConfig* out) {
  if (const auto* string = node.as_string()) return parse_red(string->get(), out);
  const auto* array = node.as_array();
  if (array == nullptr || array->size() != 3) return false;
  return make_red(number_of((*array)[0]), number_of((*array)[1]), number_of((*array)[2]), out);
}

// Reads one port of a link: rate, delay_us, queue_kb, red, loss.
void read_port(TomlReader* reader, bool rate_required, PortConfig* out) {
  reader->parsed_text("rate", "a rate like \"200Mbps\", from 100kbps to 1000Gbps", rate_required,
                      [&](const std::string& text) { return parse_rate(text, &out->rate); });
  reader->value("delay_us", "microseconds, 0..1000000", false, [&](const toml::node& node) {
    const double us = number_of(node);
    if (us < 0 || us > 1e6) return false;
    out->delay = SimSpan::ps(static_cast<int64_t>(us * 1e6));
    return true;
  });
  reader->value("queue_kb", "thousands of bytes, 2..1000000", false, [&](const toml::node& node) {
    const double kb = number_of(node);
    if (kb < 2 || kb > 1e6) return false;
    out->queue_bytes_max = static_cast<uint64_t>(kb * 1000);
    return true;
  });
  reader->value("red", "[pmax, kmin_kb, kmax_kb], like [1.0, 20, 60], or \"off\"", false,
                [&](const toml::node& node) { return read_red(node, &out->red); });
  reader->value(
      "loss", "a share in 0..1, or a string like \"1%\"", false, [&](const toml::node& node) {
        if (const auto* text = node.as_string()) {
          return parse_loss(text->get(), &out->loss_ppm);
        }
        const double share = number_of(node);
        out->loss_ppm =
            share >= 0 && share <= 1 ? static_cast<uint32_t>(std::lround(share * 1e6)) : 0;
        return share >= 0 && share <= 1;
      });
}

class Parser {
 public:
  Parser(const toml::table& root, TomlErrors& errors, FabricConfig* out)
      : top_(root, "", errors), errors_(errors), out_(out) {}

  void run() {
    read_globals();
    if (!errors_.any()) read_switches();
    if (!errors_.any()) read_hosts();
    if (!errors_.any()) read_links();
    if (!errors_.any()) top_.finish();
    if (!errors_.any()) check_reach();
    if (!errors_.any()) check_buffers();
  }

 private:
  void read_globals() {
    top_.parsed_text("name", "up to 32 letters, digits, '-' and '_'", false,
                     [&](const std::string& text) {
                       out_->name = text;
                       return valid_fabric_name(text);
                     });
    top_.integer("seed", 0, INT64_MAX, &out_->seed);
    top_.integer("paths", 1, kPathsMax, &paths_);
    int64_t reroute_ms = -1;
    top_.integer("reroute_ms", 0, 100'000, &reroute_ms);
    out_->reroute = reroute_ms >= 0;
    if (out_->reroute) out_->reroute_after = SimSpan::ms(reroute_ms);
    read_switch_memory();
  }

  void read_switch_memory() {
    Topology& topology = out_->topology;
    uint64_t buffer_kb = 0;
    const bool has_kb = top_.integer("switch_buffer_kb", 0, 1'000'000, &buffer_kb);
    topology.switch_buffer_bytes = buffer_kb * 1000;
    read_buffers(top_, &topology);
    if (has_kb && top_.table().contains("switch_buffer_bytes")) {
      top_.refuse("switch_buffer_kb", "this or switch_buffer_bytes");
    }
    if (has_kb && buffer_kb == 0 && topology.pfc.on) {
      top_.refuse("switch_buffer_kb", "above 0 with pfc");
    }
    topology.pfc.mtu_bytes = wire_bytes(kFrameBytesMax);
    if (topology.pfc.pcp) top_.refuse("priority", "\"dscp\", by which a fabric knows priorities");
    top_.value("lossless_priorities", "with pfc: a list of whole numbers in 0..7, not empty", false,
               [&](const toml::node& node) { return topology.pfc.on && read_lossless(node); });
    for (const auto& [key, span] : {std::pair("nic_watchdog_us", &out_->nic_watchdog),
                                    std::pair("switch_watchdog_us", &out_->switch_watchdog)}) {
      if (top_.span_us(key, span) && !topology.pfc.on) top_.refuse(key, "pfc = true with it");
    }
  }

  bool read_lossless(const toml::node& node) {
    const auto* array = node.as_array();
    if (array == nullptr || array->empty()) return false;
    out_->lossless_priorities = 0;
    for (const toml::node& one : *array) {
      const auto* number = one.as_integer();
      if (number == nullptr || number->get() < 0 || number->get() > 7) return false;
      out_->lossless_priorities |= static_cast<uint8_t>(1 << number->get());
    }
    return true;
  }

  void read_switches() {
    if (paths_ > 0) {
      for (const char* key : {"switches", "links"}) {
        if (const toml::node* node = top_.node(key)) {
          errors_.add(node->source(), fmt::format("{} and paths exclude each other: paths = N "
                                                  "makes the switches and links itself",
                                                  key));
        }
      }
      out_->switches = {"tor1", "tor2"};
      names_ = {"tor1", "tor2"};
      return;
    }
    top_.value("switches", "a list of names, like [\"a\", \"b\"], or paths = N instead", true,
               [&](const toml::node& node) { return read_switches(node); });
  }

  bool read_switches(const toml::node& node) {
    const auto* array = node.as_array();
    if (array == nullptr || array->empty() || array->size() > 256) return false;
    for (const toml::node& one : *array) {
      const auto* name = one.as_string();
      if (name == nullptr || !fresh_name(name->get())) return false;
      out_->switches.push_back(name->get());
    }
    return true;
  }

  // Nodes and links share one set of names, because the command line knows both by name.
  bool fresh_name(const std::string& name) {
    return valid_fabric_name(name) && names_.insert(name).second;
  }

  void read_hosts() {
    const toml::node* node = top_.node("hosts");
    const toml::array* array = node != nullptr ? node->as_array() : nullptr;
    if (array == nullptr || array->size() < 2 || array->size() > kHostsMax) {
      const std::string what = fmt::format("hosts: expected 2 to {} tables [[hosts]]", kHostsMax);
      return node == nullptr ? errors_.add(what) : errors_.add(node->source(), what);
    }
    out_->topology.hosts = static_cast<uint32_t>(array->size());
    out_->topology.switches = static_cast<uint32_t>(out_->switches.size());
    for (size_t i = 0; i < array->size(); ++i) {
      const toml::table* table = (*array)[i].as_table();
      if (table == nullptr) {
        return errors_.add((*array)[i].source(), "hosts: expected tables [[hosts]]");
      }
      read_host(*table, i, array->size());
      if (errors_.any()) return;
    }
  }

  void read_host(const toml::table& table, size_t index, size_t count) {
    TomlReader reader(table, "[[hosts]]", errors_);
    HostConfig host;
    read_identity(&reader, &host);
    read_wire(&reader, &host);
    // The first half of the hosts is at the first switch, the rest at the second.
    host.switch_index = paths_ > 0 && index >= (count + 1) / 2 ? 1 : 0;
    reader.parsed_text(
        "switch", "the name of a switch", paths_ == 0 && out_->switches.size() > 1,
        [&](const std::string& text) { return find_switch(text, &host.switch_index); });
    LinkConfig link;
    link.name = host.name;
    link.a = static_cast<NodeId>(index);
    link.b = out_->topology.hosts + host.switch_index;
    // Defaults of a host's cable, which should not limit an experiment: fast, short, and without
    // drops on the host's side.
    link.ab.rate = LinkRate::gbps(10);
    link.ab.delay = SimSpan::us(1);
    read_port(&reader, false, &link.ab);
    link.ba = link.ab;
    reader.finish();
    out_->topology.links.push_back(link);
    out_->hosts.push_back(host);
  }

  void read_identity(TomlReader* reader, HostConfig* host) {
    reader->parsed_text("name", "a new name of up to 32 letters, digits, '-' and '_'", true,
                        [&](const std::string& text) {
                          host->name = text;
                          return fresh_name(text);
                        });
    reader->parsed_text("ip", "the IPv4 address of no other host, like \"10.73.0.1/24\"", true,
                        [&](const std::string& text) {
                          return dataplane::parse_address(text, &host->ipv4, &host->prefix_bits) &&
                                 addresses_.insert(host->ipv4).second;
                        });
    host->mac = dataplane::derived_mac(host->ipv4);
    reader->parsed_text(
        "mac", "a unicast Ethernet address, like \"02:4d:52:49:00:01\"", false,
        [&](const std::string& text) { return dataplane::parse_mac(text, &host->mac); });
    if (!errors_.any() && !macs_.insert(host->mac).second) {
      errors_.add(reader->table().source(), "two hosts have the same Ethernet address; set mac");
    }
    reader->value("mtu", "1024, 2048 or 4096", false, [&](const toml::node& node) {
      const auto* number = node.as_integer();
      if (number == nullptr) return false;
      host->mtu = static_cast<uint32_t>(number->get());
      return number->get() == 1024 || number->get() == 2048 || number->get() == 4096;
    });
  }

  static void read_wire(TomlReader* reader, HostConfig* host) {
    reader->parsed_text("port", "\"local\" or \"vhost\"", false, [&](const std::string& text) {
      host->kind = text == "vhost" ? PortKind::kVhost : PortKind::kLocal;
      return text == "vhost" || text == "local";
    });
    // The text of a port ends the path at a comma.
    reader->parsed_text("path", "an absolute path of up to 100 bytes without a comma", false,
                        [&](const std::string& text) {
                          host->path = text;
                          return text.starts_with('/') && text.size() <= 100 &&
                                 text.find_first_of(",;") == std::string::npos;
                        });
  }

  bool find_switch(const std::string& name, uint32_t* index) const {
    const auto it = std::find(out_->switches.begin(), out_->switches.end(), name);
    if (it == out_->switches.end()) return false;
    *index = static_cast<uint32_t>(it - out_->switches.begin());
    return true;
  }

  void read_links() {
    if (paths_ > 0) return make_paths();
    const toml::node* node = top_.node("links");
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr) return errors_.add(node->source(), "links: expected tables [[links]]");
    for (const toml::node& one : *array) {
      const toml::table* table = one.as_table();
      if (table == nullptr) return errors_.add(one.source(), "links: expected tables [[links]]");
      read_link(*table);
      if (errors_.any()) return;
    }
  }

  void read_link(const toml::table& table) {
    TomlReader reader(table, "[[links]]", errors_);
    LinkConfig link;
    reader.parsed_text("name", "a new name of up to 32 letters, digits, '-' and '_'", true,
                       [&](const std::string& text) {
                         link.name = text;
                         return fresh_name(text);
                       });
    for (const auto& [key, end] : {std::pair{"a", &link.a}, std::pair{"b", &link.b}}) {
      reader.parsed_text(key, "the name of a switch", true,
                         [&, end = end](const std::string& text) {
                           if (!find_switch(text, end)) return false;
                           *end += out_->topology.hosts;
                           return true;
                         });
    }
    read_port(&reader, true, &link.ab);
    link.ba = link.ab;
    reader.finish();
    if (!errors_.any() && link.a == link.b) {
      errors_.add(table.source(), "links: a and b are the same switch");
    }
    out_->topology.links.push_back(link);
  }

  void make_paths() {
    const toml::node* node = top_.node("path");
    const toml::table* table = node != nullptr ? node->as_table() : nullptr;
    if (table == nullptr) return errors_.add("paths = N needs a table [path] with a rate");
    TomlReader reader(*table, "[path]", errors_);
    LinkConfig link;
    read_port(&reader, true, &link.ab);
    link.ba = link.ab;
    reader.finish();
    link.a = out_->topology.hosts;
    link.b = out_->topology.hosts + 1;
    for (int64_t i = 1; i <= paths_; ++i) {
      link.name = fmt::format("path{}", i);
      if (!fresh_name(link.name)) errors_.add(fmt::format("the name {} is taken", link.name));
      out_->topology.links.push_back(link);
    }
  }

  // Checks that links lead from the first host to every other host.
  void check_reach() {
    const Topology& topology = out_->topology;
    std::vector<bool> reached(topology.nodes());
    reached[0] = true;
    for (uint32_t round = 0; round < topology.nodes(); ++round) {
      for (const LinkConfig& link : topology.links) {
        if (reached[link.a] || reached[link.b]) reached[link.a] = reached[link.b] = true;
      }
    }
    for (uint32_t host = 0; host < topology.hosts; ++host) {
      if (reached[host]) continue;
      errors_.add(
          fmt::format("no links lead from {} to {}", out_->hosts[0].name, out_->hosts[host].name));
    }
  }

  // What each switch needs for reserves and headroom has to fit.
  void check_buffers() {
    const Topology& topology = out_->topology;
    if (!managed(topology)) return;
    const uint64_t bytes =
        topology.switch_buffer_bytes != 0 ? topology.switch_buffer_bytes : kManagedBufferBytesMax;
    for (const uint64_t dedicated : dedicated_bytes(topology)) {
      if (dedicated <= bytes && bytes <= kManagedBufferBytesMax) continue;
      return errors_.add(fmt::format(
          "switch_buffer_bytes: a switch's reserves and headroom take {} of its {} bytes",
          dedicated, bytes));
    }
  }

  TomlReader top_;
  TomlErrors& errors_;
  FabricConfig* out_;
  int64_t paths_ = 0;
  std::set<std::string> names_;
  std::set<Ipv4> addresses_;
  std::set<wire::MacAddress> macs_;
};

}  // namespace

Status parse_fabric(const std::string& text, const std::string& path, FabricConfig* out) {
  *out = FabricConfig{};
  TomlErrors errors{.path = path, .first = {}};
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    errors.add(parsed.error().source(), std::string(parsed.error().description()));
    return errors.first;
  }
  Parser(parsed.table(), errors, out).run();
  return errors.first;
}

}  // namespace mprdma::switchsim
