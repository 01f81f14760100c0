#include "dataplane/port/dpdk/ethdev_device.hpp"

#include <fcntl.h>
#include <net/if.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>

#include "dataplane/port/frame_size.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/sys/still_linked.hpp"

namespace mprdma::dataplane {

namespace {

// A frame of AF_PACKET's rings with jumbo MTU; the driver wants buffers that hold the whole of it.
constexpr uint32_t kAfPacketFrameBytes = 8192;

// veth's limit, at both of its ends; drivers of adapters differ little (docs/operations.md).
constexpr uint32_t kXdpInterfaceMtuMax = 3498;

struct Default {
  std::string_view driver;
  std::string_view key;
  std::string_view value;
};

constexpr Default kDefaults[] = {
    {"net_virtio_user", "queues", "1"},     {"net_virtio_user", "queue_size", "256"},
    {"net_virtio_user", "mrg_rxbuf", "1"},  {"net_virtio_user", "in_order", "1"},
    {"net_vhost", "queues", "1"},           {"net_af_packet", "framesz", "8192"},
    {"net_af_packet", "blocksz", "65536"},  {"net_af_packet", "framecnt", "512"},
    {"net_af_packet", "qdisc_bypass", "1"},
};

// The value of key=... in a comma-separated list; empty if there is none.
std::string value_of(std::string_view args, std::string_view key) {
  while (!args.empty()) {
    const size_t comma = args.find(',');
    const std::string_view part = args.substr(0, comma);
    args = comma == std::string_view::npos ? std::string_view{} : args.substr(comma + 1);
    const size_t equals = part.find('=');
    if (equals != std::string_view::npos && part.substr(0, equals) == key) {
      return std::string(part.substr(equals + 1));
    }
  }
  return {};
}

bool looks_like_pci(std::string_view name) {
  return std::count(name.begin(), name.end(), ':') >= 1 && name.find('.') != std::string_view::npos;
}

// The number in an option "KEY=NUMBER" with this key, if it is in [low, high].
std::optional<uint32_t> number_in(std::string_view option, std::string_view key, uint32_t low,
                                  uint32_t high) {
  if (!option.starts_with(key) || option.substr(key.size(), 1) != "=") return std::nullopt;
  uint32_t number = 0;
  const char* end = option.data() + option.size();
  const auto result = std::from_chars(option.data() + key.size() + 1, end, number);
  const bool good = result.ec == std::errc{} && result.ptr == end;
  return good && number >= low && number <= high ? std::optional(number) : std::nullopt;
}

Status parse_own_option(std::string_view option, EthdevSpec* spec) {
  if (const auto hugepages = number_in(option, "hugepages", 0, 1)) {
    spec->eal.hugepages = *hugepages == 1;
    return {};
  }
  if (const auto memory = number_in(option, "mem", 64, std::numeric_limits<uint32_t>::max())) {
    spec->eal.memory_mb = *memory;
    return {};
  }
  wire::VlanTag tag = spec->vlan.value_or(wire::VlanTag());
  if (const auto vid = number_in(option, "vlan", 0, wire::VlanTag::kVidMax)) {
    tag.vid = static_cast<uint16_t>(*vid);
  } else if (const auto pcp = number_in(option, "pcp", 0, wire::VlanTag::kPcpMax)) {
    tag.pcp = static_cast<uint8_t>(*pcp);
  } else {
    return {EINVAL, "unknown or malformed port option '" + std::string(option) +
                        "'; known after a semicolon: mem=MB (64 or more), hugepages=0|1, "
                        "vlan=0..4094, pcp=0..7"};
  }
  spec->vlan = tag;
  return {};
}

Status check_virtio_user(const EthdevSpec& spec) {
  if (spec.socket_path.empty()) {
    return {EINVAL, spec.name + " needs path=SOCKET of the vhost-user wire"};
  }
  struct stat status {};
  if (!spec.listens && lstat(spec.socket_path.c_str(), &status) != 0) {
    return {errno, "no vhost-user socket at '" + spec.socket_path +
                       "'; start the other end first, or add server=1 to be the one that "
                       "creates it"};
  }
  return {};
}

// A device on an interface of the kernel's, by sockets of this family.
Status check_interface(const EthdevSpec& spec, int family) {
  const std::string interface = value_of(spec.args, "iface");
  if (interface.empty()) return {EINVAL, spec.name + " needs iface=INTERFACE"};
  if (if_nametoindex(interface.c_str()) == 0) {
    return {ENODEV, "there is no interface '" + interface + "' here; see `ip link`"};
  }
  const int fd = socket(family, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0 && errno == EAFNOSUPPORT) {
    return {errno, "this kernel has no AF_XDP; take net_af_packet0 instead"};
  }
  if (fd < 0) {
    return {errno, "no permission for packet sockets on '" + interface +
                       "'; run as root or with CAP_NET_RAW in this network namespace"};
  }
  close(fd);
  return {};
}

// One lock for each end: a vhost-user server would silently change over to a second client.
std::string lock_name(const EthdevSpec& spec) {
  return spec.socket_path + (spec.listens ? ".server" : ".client") + ".lock";
}

}  // namespace

uint32_t EthdevSpec::buffer_bytes() const {
  if (driver == "net_af_packet") {
    return std::max<uint32_t>(
        kAfPacketFrameBytes,
        static_cast<uint32_t>(std::strtoul(value_of(args, "framesz").c_str(), nullptr, 10)));
  }
  if (driver == "net_af_xdp") return kXdpBufferBytes;
  return kFrameHeadroom + 4096 + 128;
}

uint32_t EthdevSpec::frame_bytes_max() const {
  const uint32_t tag = vlan ? wire::VlanTag::kBytes : 0;
  // AF_PACKET's ring keeps a header of its own before each frame.
  if (driver == "net_af_packet") return buffer_bytes() - 128 - tag;
  return (driver == "net_af_xdp" ? kXdpFrameBytes : buffer_bytes()) - tag;
}

std::string EthdevSpec::queue_hint() const {
  if (driver != "net_af_xdp") return {};
  const std::string interface = value_of(args, "iface");
  return "; the MTU of '" + interface + "' is " + std::to_string(interface_mtu(interface.c_str())) +
         ", and AF_XDP takes at most " + std::to_string(kXdpInterfaceMtuMax) +
         " on a veth, here and at its other end";
}

uint32_t interface_mtu(const char* name) {
  ifreq request{};
  std::strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  const bool good = ioctl(fd, SIOCGIFMTU, &request) == 0;
  close(fd);
  return good && request.ifr_mtu > 0 ? static_cast<uint32_t>(request.ifr_mtu) : 0;
}

Status parse_ethdev_spec(std::string_view text, EthdevSpec* spec) {
  size_t semicolon = text.find(';');
  std::string_view rest =
      semicolon == std::string_view::npos ? std::string_view{} : text.substr(semicolon + 1);
  text = text.substr(0, semicolon);
  while (!rest.empty()) {
    semicolon = rest.find(';');
    Status status = parse_own_option(rest.substr(0, semicolon), spec);
    if (!status.ok()) return status;
    rest = semicolon == std::string_view::npos ? std::string_view{} : rest.substr(semicolon + 1);
  }
  const size_t comma = text.find(',');
  spec->name = std::string(text.substr(0, comma));
  if (comma != std::string_view::npos) spec->args = std::string(text.substr(comma + 1));
  if (spec->name.empty()) {
    return {EINVAL, "ethdev: needs a DPDK device, as in ethdev:net_af_packet0,iface=eth1"};
  }
  if (looks_like_pci(spec->name)) {
    spec->eal.pci_address = std::string(text);
    return {};
  }
  const size_t digits = spec->name.find_last_not_of("0123456789");
  spec->driver = spec->name.substr(0, digits + 1);
  for (const Default& d : kDefaults) {
    if (d.driver != spec->driver || !value_of(spec->args, d.key).empty()) continue;
    if (!spec->args.empty()) spec->args += ',';
    spec->args += std::string(d.key) + '=' + std::string(d.value);
  }
  if (spec->driver == "net_virtio_user") {
    spec->socket_path = value_of(spec->args, "path");
    spec->listens = value_of(spec->args, "server") == "1";
  } else if (spec->driver == "net_vhost") {
    spec->socket_path = value_of(spec->args, "iface");
    spec->listens = value_of(spec->args, "client") != "1";
  }
  return {};
}

Status check_ethdev_spec(const EthdevSpec& spec) {
  if (spec.socket_path.size() >= sizeof(sockaddr_un::sun_path)) {
    return {ENAMETOOLONG,
            "the socket path '" + spec.socket_path + "' is longer than 107 bytes; shorten it"};
  }
  if (spec.driver == "net_virtio_user") return check_virtio_user(spec);
  if (spec.driver == "net_af_packet") return check_interface(spec, AF_PACKET);
  if (spec.driver == "net_af_xdp") return check_interface(spec, AF_XDP);
  if (spec.driver == "net_vhost" && spec.socket_path.empty()) {
    return {EINVAL, spec.name + " needs iface=SOCKET of the vhost-user wire"};
  }
  if (spec.driver == "net_memif") {
    return {EINVAL, "net_memif crashes when its peer dies (DPDK 22.11); use local:PATH instead"};
  }
  return {};
}

Status lock_ethdev_socket(const EthdevSpec& spec, int* lock_fd) {
  const std::string name = lock_name(spec);
  int fd = -1;
  do {
    if (fd >= 0) close(fd);
    fd = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
      const int error = errno;
      return {error, "'" + name + "' cannot be created (" + std::strerror(error) +
                         "); choose a directory that this user may write"};
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      close(fd);
      return {EADDRINUSE, "another process has this end of the wire '" + spec.socket_path +
                              "'; end it or choose another path"};
    }
  } while (!is_named(fd, name));
  struct stat status {};
  if (spec.listens && lstat(spec.socket_path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) {
    unlink(spec.socket_path.c_str());
  }
  *lock_fd = fd;
  return {};
}

void unlock_ethdev_socket(const EthdevSpec& spec, int lock_fd) {
  if (spec.listens) unlink(spec.socket_path.c_str());
  unlink(lock_name(spec).c_str());
  close(lock_fd);
}

}  // namespace mprdma::dataplane
