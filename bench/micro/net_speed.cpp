// Packet-hops per second of the bare network of switchsim/model: switches, queues, RED and ECMP,
// with hosts that keep a fixed window of packets outstanding and acknowledge every one. What a
// transport costs on top of it is the difference to `mprdma sim run`.
//
//   net_speed [--rounds N] [--shape ls320|ls128os2] [--json FILE]
//
// ls320: 320 hosts, 32 leaves, 4 spines, 40 and 100 Gb/s; ls128os2: 128 hosts, 8 leaves, 8 spines,
// 100 Gb/s, 2:1 oversubscribed. Permutation, 2 MB a flow, 1000 bytes of payload, 1 us links.
//
// The least user time of all rounds counts: other load only ever adds. To be built as release.
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.hpp"
#include "base/revision.hpp"
#include "switchsim/model/network.hpp"

namespace mprdma::switchsim {
namespace {

constexpr uint32_t kPayloadBytes = 1000;
constexpr uint32_t kDataBytes = kPayloadBytes + 98;
constexpr uint32_t kAckBytes = 98;
constexpr uint32_t kFlowBytes = 2'000'000;
constexpr uint32_t kWindow = 64;
constexpr SimSpan kDelay = SimSpan::us(1);

struct Shape {
  std::string_view name;
  uint32_t leaves;
  uint32_t spines;
  uint32_t hosts_per_leaf;
  LinkRate edge;
  LinkRate core;
};

constexpr Shape kShapes[] = {
    {"ls320", 32, 4, 10, LinkRate::gbps(40), LinkRate::gbps(100)},
    {"ls128os2", 8, 8, 16, LinkRate::gbps(100), LinkRate::gbps(100)},
};

Topology topology_of(const Shape& shape) {
  PortConfig edge;
  edge.rate = shape.edge;
  edge.delay = kDelay;
  edge.red = {20'000, 200'000, 10'000, false};
  PortConfig core = edge;
  core.rate = shape.core;
  Topology topology;
  topology.hosts = shape.leaves * shape.hosts_per_leaf;
  topology.switches = shape.leaves + shape.spines;
  for (NodeId host = 0; host < topology.hosts; ++host) {
    topology.links.push_back({host, topology.hosts + host / shape.hosts_per_leaf, edge, edge, ""});
  }
  for (uint32_t leaf = 0; leaf < shape.leaves; ++leaf) {
    for (uint32_t spine = 0; spine < shape.spines; ++spine) {
      const NodeId from = topology.hosts + leaf;
      topology.links.push_back({from, topology.hosts + shape.leaves + spine, core, core, ""});
    }
  }
  return topology;
}

// One flow a host, a packet out for each acknowledgement that comes in; the packet itself turns
// round. A dropped packet is not repaired: its place in the window goes to the next one.
class WindowHosts {
 public:
  WindowHosts(const NetworkConfig& config, uint64_t seed) : net(config, *this) {
    const uint32_t count = config.topology.hosts;
    std::vector<NodeId> to(count);
    std::iota(to.begin(), to.end(), 0);
    mprdma::Prng prng(seed);
    for (uint32_t i = count - 1; i > 0; --i) std::swap(to[i], to[prng.below(i)]);  // one cycle
    for (NodeId host = 0; host < count; ++host) {
      flows_.push_back({to[host], kFlowBytes / kPayloadBytes, kWindow, prng.next_u64()});
      owner_.push_back(0);
    }
    for (NodeId host = 0; host < count; ++host) owner_[to[host]] = host;
    for (NodeId host = 0; host < count; ++host) net.want_pull(host);
  }

  void on_packet(NodeId host, PacketId id) {
    NetPacket& packet = net.packet(id);
    if (packet.wire_bytes == kAckBytes) {
      net.release(id);
      ++flows_[host].credits;
      net.want_pull(host);
      return;
    }
    packet.destination = owner_[host];
    packet.wire_bytes = kAckBytes;
    packet.flow = ~packet.flow;
    net.send(host, id);
  }

  bool pull(NodeId host) {
    Flow& flow = flows_[host];
    if (flow.left == 0 || flow.credits == 0) return false;
    const PacketId id = net.allocate();
    if (id == kNoPacket) return false;
    --flow.left;
    --flow.credits;
    NetPacket& packet = net.packet(id);
    packet.flow = flow.hash;
    packet.destination = flow.to;
    packet.wire_bytes = kDataBytes;
    net.send(host, id);
    return true;
  }

  void on_timer(TimerId) {}
  void on_drop(PacketId) { ++drops; }

  Network<WindowHosts> net;
  uint64_t drops = 0;

 private:
  struct Flow {
    NodeId to;
    uint32_t left;
    uint32_t credits;
    uint64_t hash;
  };
  std::vector<Flow> flows_;
  std::vector<NodeId> owner_;
};

double user_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec) * 1e-6;
}

struct Round {
  double hops_per_second;
  double events_per_hop;
  uint64_t hops;
  uint64_t drops;
  double simulated_us;
};

Round run(const Shape& shape) {
  NetworkConfig config;
  config.topology = topology_of(shape);
  WindowHosts hosts(config, 1);
  const double begin = user_seconds();
  hosts.net.run_until(SimTime::never());
  const double seconds = std::max(user_seconds() - begin, 1e-6);
  const auto hops = static_cast<double>(hosts.net.packet_hops());
  return {hops / seconds, static_cast<double>(hosts.net.events_handled()) / hops,
          hosts.net.packet_hops(), hosts.drops, static_cast<double>(hosts.net.now().ps()) * 1e-6};
}

struct Arguments {
  int rounds = 5;
  const Shape* shape = kShapes;
  const char* json = nullptr;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
    const auto shape = std::find_if(std::begin(kShapes), std::end(kShapes),
                                    [&](const Shape& s) { return s.name == value; });
    if (option == "--rounds" && !value.empty()) {
      arguments.rounds = std::clamp(std::atoi(argv[i + 1]), 1, 99);
    } else if (option == "--shape" && shape != std::end(kShapes)) {
      arguments.shape = shape;
    } else if (option == "--json" && !value.empty()) {
      arguments.json = argv[i + 1];
    } else {
      std::fprintf(stderr,
                   "usage: net_speed [--rounds N] [--shape ls320|ls128os2] [--json FILE]\n");
      std::exit(2);
    }
  }
  return arguments;
}

int main_of(const Arguments& arguments) {
  std::vector<double> samples;
  Round last{};
  for (int i = 0; i < arguments.rounds; ++i) {
    last = run(*arguments.shape);
    samples.push_back(last.hops_per_second);
  }
  const double best = *std::max_element(samples.begin(), samples.end()) * 1e-6;
  std::printf(
      "%s: %.2f M packet-hops/s, %.0f ns a hop, %.2f events a hop (%llu hops, %llu drops)\n",
      std::string(arguments.shape->name).c_str(), best, 1000 / best, last.events_per_hop,
      static_cast<unsigned long long>(last.hops), static_cast<unsigned long long>(last.drops));
  if (arguments.json == nullptr) return 0;
  utsname name{};
  uname(&name);
  const nlohmann::json report = {
      {"schema", 1},
      {"command", "net_speed"},
      {"revision", mprdma::revision()},
      {"machine", {{"system", name.sysname}, {"release", name.release}, {"cpu", name.machine}}},
      {"constants",
       {{"shape", arguments.shape->name},
        {"rounds", arguments.rounds},
        {"window", kWindow},
        {"flow_bytes", kFlowBytes},
        {"payload_bytes", kPayloadBytes}}},
      {"claims",
       {{{"id", "sim.bare_network"},
         {"what", "the bare network, one core"},
         {"target", ">= 10"},
         {"value", best},
         {"unit", "M packet-hops/s"},
         {"ok", best >= 10}}}},
      {"series",
       {{"hops_per_second", {{"unit", "1/s"}, {"samples", samples}}},
        {"events_per_hop", {{"unit", "1"}, {"samples", {last.events_per_hop}}}},
        {"simulated", {{"unit", "us"}, {"samples", {last.simulated_us}}}}}}};
  std::ofstream file(arguments.json);
  file << report.dump(2) << "\n";
  if (file.flush()) return 0;
  std::perror(arguments.json);
  return 1;
}

}  // namespace
}  // namespace mprdma::switchsim

int main(int argc, char** argv) {
  return mprdma::switchsim::main_of(mprdma::switchsim::parse(argc, argv));
}
