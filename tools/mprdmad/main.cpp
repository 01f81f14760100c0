// mprdmad: one RDMA device for every process of a host. Page: docs/man/mprdmad.8.
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "dataplane/daemon/config.hpp"
#include "dataplane/daemon/loop.hpp"
#include "dataplane/daemon/metrics.hpp"
#include "dataplane/daemon/telemetry.hpp"
#include "dataplane/device_text.hpp"
#include "dataplane/open_port.hpp"
#include "dataplane/port/frame_size.hpp"
#include "dataplane/sys/address_text.hpp"
#include "dataplane/sys/clock.hpp"
#include "dataplane/sys/runtime_directory.hpp"
#include "tools/mprdmad/daemon_files.hpp"
#include "tools/number_option.hpp"
#include "tools/subcommands.hpp"

namespace {

namespace mprdmad = mprdma::dataplane::mprdmad;
using mprdma::Duration;
using mprdma::Status;
using mprdma::dataplane::PortResult;

constexpr int kExitFailed = 1;
constexpr uint32_t kIdsMax = 65536;  // communication ids of the host

struct Options {
  std::string config;
  std::optional<std::string> address;
  std::optional<std::string> mac;
  std::optional<uint32_t> mtu;
  std::optional<std::string> port;
  std::optional<std::string> socket;
  std::optional<std::string> gateway;
  std::optional<std::string> metrics;
  std::optional<std::string> tap;
  std::optional<std::string> rings;
  std::vector<uid_t> uids;
  double linger_s = -1;
  bool verbose = false;
};

const char* environment(const char* name) {
  return std::getenv(name);
}

// Reads the file, then the command line, which overrides it.
Status load(const Options& options, mprdmad::DaemonConfig* config) {
  *config = mprdmad::DaemonConfig{};
  if (!options.config.empty()) {
    Status status = mprdmad::load_daemon_file(options.config, config);
    if (!status.ok()) return status;
  }
  if (options.address &&
      !mprdma::dataplane::parse_address(*options.address, &config->ipv4, &config->prefix_bits)) {
    return {EINVAL,
            "--address " + *options.address + ": expected an IPv4 address, like 10.73.0.1/24"};
  }
  if (options.mac) {
    config->mac_set = mprdma::dataplane::parse_mac(*options.mac, &config->mac);
    if (!config->mac_set) {
      return {EINVAL,
              "--mac " + *options.mac + ": expected a unicast address, like 02:4d:52:49:00:01"};
    }
  }
  if (options.mtu) {
    config->mtu = *options.mtu;
    if (!mprdma::dataplane::valid_mtu(config->mtu))
      return {EINVAL, "--mtu: expected 1024, 2048 or 4096"};
  }
  if (options.port) config->port_spec = *options.port;
  if (options.socket) config->socket = *options.socket;
  if (options.gateway && !mprdmad::parse_gateway(*options.gateway, &config->gateway)) {
    return {EINVAL,
            "--gateway " + *options.gateway + ": expected an IPv4 address, like 10.73.0.254"};
  }
  if (options.metrics) config->metrics = *options.metrics;
  if (options.metrics && !mprdmad::valid_listen_address(config->metrics)) {
    return {EINVAL, "--metrics " + config->metrics +
                        ": expected an address and a port, like 127.0.0.1:9473"};
  }
  if (options.tap) {
    if (!mprdmad::valid_tap_name(*options.tap))
      return {EINVAL, "--tap: expected an interface's name"};
    config->tap = *options.tap;
  }
  if (options.rings && !mprdmad::parse_ring_policy(*options.rings, &config->rings)) {
    return {EINVAL, "--direct-rings: expected off, same-user or all"};
  }
  config->uids.insert(config->uids.end(), options.uids.begin(), options.uids.end());
  return mprdmad::complete_daemon_config(environment, geteuid(), config);
}

uint64_t random_number() {
  uint64_t number = 0;
  // A read of this size is never short. Without it the seed is the clock alone, which is no secret.
  if (getrandom(&number, sizeof number, 0) < 0 || number == 0) {
    number = static_cast<uint64_t>(mprdma::dataplane::clock_now().ns()) | 1;
  }
  return number;
}

mprdmad::SwitchConfig switch_config(const mprdmad::DaemonConfig& config, uint64_t seed) {
  return {.ipv4 = config.ipv4,
          .prefix_bits = config.prefix_bits,
          .gateway = config.gateway,
          .mac = config.mac,
          .shared_address = config.shared_address,
          .pfc = config.pfc,
          .pfc_priority = config.pfc_priority,
          .seed = seed};
}

mprdma::dataplane::CmConfig cm_config(const mprdmad::DaemonConfig& config, uint64_t seed) {
  mprdma::dataplane::CmConfig cm;
  cm.address = mprdma::wire::map_ipv4(config.ipv4);
  cm.ipv4 = config.ipv4;
  cm.path_mtu = config.mtu == 4096 ? 5 : config.mtu == 2048 ? 4 : 3;
  cm.ids_max = kIdsMax;
  cm.seed = seed;
  // The modified EUI-64 of the MAC, as the engines of the processes report it.
  const auto& mac = config.mac;
  const unsigned char guid[8] = {
      static_cast<unsigned char>(mac[0] ^ 2u), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  std::memcpy(&cm.node_guid, guid, sizeof guid);
  return cm;
}

// sd_notify(3): one datagram to the socket that the environment names.
void notify_manager(const char* state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path == nullptr || (path[0] != '/' && path[0] != '@') ||
      std::strlen(path) >= sizeof address.sun_path) {
    return;
  }
  std::memcpy(address.sun_path, path, std::strlen(path));
  if (path[0] == '@') address.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  (void)!sendto(fd, state, std::strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
                reinterpret_cast<const sockaddr*>(&address), length);
  close(fd);
}

// Each client takes four descriptors, and DPDK takes some.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

void print_counters(mprdmad::DaemonLoop& loop) {
  const char* wanted = std::getenv("MPRDMA_COUNTERS");
  if (wanted == nullptr || std::strcmp(wanted, "1") != 0) return;
  const auto print = [](std::string_view name, uint64_t value) {
    if (value != 0) fmt::print(stderr, "mprdmad: {} {}\n", name, value);
  };
  loop.sw().total().for_each(print);
  loop.server().counters().for_each(print);
  loop.cm().agent().counters().for_each(print);
}

int fail(const std::string& message) {
  fmt::print(stderr, "mprdmad: {}\n", message);
  return kExitFailed;
}

// The daemon makes the directory of the default socket itself.
Status make_directory(const mprdmad::DaemonConfig& config) {
  const std::string runtime = mprdma::dataplane::runtime_directory(environment, geteuid());
  if (!config.socket.starts_with(runtime + "/")) return {};
  return mprdma::dataplane::make_private_directory(runtime);
}

// Reads the configuration again; settings that a running process cannot change keep their values.
bool reload(const Options& options, const mprdmad::DaemonConfig& running,
            mprdmad::SwitchConfig* device, std::vector<uid_t>* uids) {
  mprdmad::DaemonConfig config;
  const Status status = load(options, &config);
  if (!status.ok()) {
    fail(status.text + "; going on as before");
    return false;
  }
  if (!config.mac_set && !running.mac_set) config.mac = running.mac;
  if (config.mac != running.mac || config.mtu != running.mtu || config.socket != running.socket ||
      config.port_spec != running.port_spec || config.slots != running.slots ||
      config.metrics != running.metrics || config.device_name != running.device_name ||
      config.tap != running.tap || config.rings != running.rings ||
      config.link_mbps != running.link_mbps) {
    fail(
        "name, mac, mtu, port, link_mbps, socket, slots, direct_rings, metrics and tap change with "
        "a restart only");
  }
  device->ipv4 = config.ipv4;
  device->prefix_bits = config.prefix_bits;
  device->gateway = config.gateway;
  device->pfc = config.pfc;
  device->pfc_priority = config.pfc_priority;
  device->shared_address = config.shared_address && !running.tap.empty();
  *uids = config.uids;
  return true;
}

// Opens the tap, if one is configured; requires a wire then. The device and the kernel share one
// Ethernet address: the port's, unless the configuration names another.
Status open_tap(mprdmad::DaemonConfig* config, const mprdma::dataplane::Port* wire,
                std::unique_ptr<mprdmad::KernelTap>* tap) {
  if (config->tap.empty()) return {};
  const mprdma::dataplane::PortInfo info = wire->info();
  const bool unicast =
      !mprdma::wire::is_multicast(info.mac) && info.mac != mprdma::wire::MacAddress{};
  if (!config->mac_set && unicast) config->mac = info.mac;
  const auto mtu = static_cast<uint32_t>(info.frame_bytes_max - mprdma::wire::Ethernet::kBytes);
  return mprdmad::KernelTap::open(config->tap, config->mac, mtu, tap);
}

// Warns about an address without a prefix, which is a subnet of its own, as for ip(8): its
// consequences are not obvious.
void say_if_alone(const mprdmad::DaemonConfig& config) {
  if (config.prefix_bits != 32 || config.port_spec == mprdmad::kNoWire) return;
  const std::string address = mprdma::dataplane::address_text(config.ipv4);
  fmt::print(stderr,
             "mprdmad: {0}/32 is alone in its subnet: no peer is on-link, each is asked for by ARP "
             "all the same, and there can be no gateway; a prefix is given as {0}/24\n",
             address);
}

int serve(const Options& options) {
  mprdmad::DaemonConfig config;
  Status status = load(options, &config);
  if (status.ok()) status = make_directory(config);
  if (!status.ok()) return fail(status.text);
  say_if_alone(config);
  raise_descriptor_limit();
  const auto board = std::make_shared<mprdmad::StatusBoard>();
  PortResult wire;
  if (config.port_spec != mprdmad::kNoWire) {
    // The threads of DPDK use the object until the process ends, so it is never freed.
    static auto* const telemetry = new mprdmad::DaemonTelemetry(board, MPRDMA_VERSION);
    wire = mprdma::dataplane::open_port(config.port_spec, telemetry);
    if (!wire) return fail("--port " + config.port_spec + ": " + wire.status.text);
    status = mprdma::dataplane::check_frames(config.port_spec, wire.port->info().frame_bytes_max,
                                             config.mtu, "[device] mtu (--mtu)");
    if (!status.ok()) return fail("--port " + config.port_spec + ": " + status.text);
  }
  std::unique_ptr<mprdmad::KernelTap> tap;
  status = open_tap(&config, wire.port.get(), &tap);
  if (!status.ok()) return fail(status.text);
  const uint64_t seed = random_number();
  mprdmad::DaemonLoop::Options loop_options;
  loop_options.device = switch_config(config, seed);
  loop_options.cm = cm_config(config, seed + 1);
  loop_options.server = {.socket = config.socket,
                         .device_name = config.device_name,
                         .uids = config.uids,
                         .slots = config.slots,
                         .mtu = config.mtu,
                         .link_mbps = config.link_mbps,
                         .rings = config.rings,
                         .instance = random_number(),
                         .verbose = options.verbose};
  if (options.linger_s >= 0) {
    loop_options.linger = Duration::ms(static_cast<int64_t>(options.linger_s * 1000));
  }
  mprdma::tools::DaemonFiles files(config.socket);
  loop_options.may_end = [&] { return files.nobody_counts_on_us(); };
  loop_options.reload = [&](mprdmad::SwitchConfig* device, std::vector<uid_t>* uids) {
    return reload(options, config, device, uids);
  };
  loop_options.board = board;
  mprdmad::DaemonLoop loop(std::move(loop_options), std::move(wire.port), std::move(tap));
  status = loop.start();
  mprdmad::DaemonMetrics metrics(board, MPRDMA_VERSION);
  if (status.ok() && !config.metrics.empty()) status = metrics.listen(config.metrics);
  if (!status.ok()) return fail(status.text);
  fmt::print("mprdmad: serving {} at {}\n", config.device_name, config.socket);
  std::fflush(stdout);
  notify_manager("READY=1");
  loop.run();
  notify_manager("STOPPING=1");
  print_counters(loop);
  return 0;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app{"mprdmad: one RDMA device for every process of a host"};
  app.set_version_flag("--version", "mprdmad " MPRDMA_VERSION);
  app.footer("Page: mprdmad(8).");
  app.add_option("-c,--config", options.config, "TOML file");
  app.add_option("--address", options.address,
                 "Of the device, with its prefix (else /32): 10.73.0.1/24");
  app.add_option("--mac", options.mac, "Of the device (default: 02:4d:52 and the address)");
  app.add_option("--mtu", options.mtu, "Largest path MTU: 1024, 2048 or 4096 (default)");
  app.add_option("--port", options.port, "The wire: ethdev:DEVARGS, local:PATH or none (default)");
  app.add_option("--socket", options.socket, "Where processes connect");
  app.add_option("--gateway", options.gateway, "Next hop to what is off the subnet");
  app.add_option("--metrics", options.metrics, "Serve Prometheus there: 127.0.0.1:9473");
  app.add_option("--tap", options.tap, "Interface for the kernel's own traffic over the port");
  app.add_option("--direct-rings", options.rings,
                 "Processes that exchange frames directly: off, same-user (default) or all");
  app.add_option("--allow-uid", options.uids, "Serve this user, too; may be repeated")
      ->check(mprdma::tools::whole_number_in(0, mprdmad::kUidMax, "a user id"));
  app.add_option("--linger", options.linger_s,
                 "End when there has been no process for so many seconds (default: never)")
      ->check(mprdma::tools::number_in(0, 1e6, "a number of seconds"));
  app.add_flag("-v,--verbose", options.verbose, "Say who comes and goes");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : mprdma::tools::kExitUsage;
  }
  return serve(options);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}
