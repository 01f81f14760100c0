#include "dataplane/ethdev_device.hpp"

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

#include "dataplane/frame_size.hpp"
#include "dataplane/named_file.hpp"
#include "dataplane/port.hpp"

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

int parse_own_option(std::string_view option, EalOptions* eal, std::string* message) {
  constexpr std::string_view kMemory = "mem=";
  if (option == "hugepages=1" || option == "hugepages=0") {
    eal->hugepages = option.back() == '1';
    return 0;
  }
  if (option.starts_with(kMemory)) {
    const char* end = option.data() + option.size();
    const auto result = std::from_chars(option.data() + kMemory.size(), end, eal->memory_mb);
    if (result.ec == std::errc{} && result.ptr == end && eal->memory_mb >= 64) return 0;
  }
  *message = "unknown or malformed port option '" + std::string(option) +
             "'; known after a semicolon: mem=MB (64 or more), hugepages=0|1";
  return EINVAL;
}

int refuse(int error, std::string text, std::string* message) {
  *message = std::move(text);
  return error;
}

int check_virtio_user(const EthdevSpec& spec, std::string* message) {
  if (spec.socket_path.empty()) {
    return refuse(EINVAL, spec.name + " needs path=SOCKET of the vhost-user wire", message);
  }
  struct stat status {};
  if (!spec.listens && lstat(spec.socket_path.c_str(), &status) != 0) {
    return refuse(errno,
                  "no vhost-user socket at '" + spec.socket_path +
                      "'; start the other end first, or add server=1 to be the one that "
                      "creates it",
                  message);
  }
  return 0;
}

// A device on an interface of the kernel's, by sockets of this family.
int check_interface(const EthdevSpec& spec, int family, std::string* message) {
  const std::string interface = value_of(spec.args, "iface");
  if (interface.empty()) return refuse(EINVAL, spec.name + " needs iface=INTERFACE", message);
  if (if_nametoindex(interface.c_str()) == 0) {
    return refuse(ENODEV, "there is no interface '" + interface + "' here; see `ip link`", message);
  }
  const int fd = socket(family, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0 && errno == EAFNOSUPPORT) {
    return refuse(errno, "this kernel has no AF_XDP; take net_af_packet0 instead", message);
  }
  if (fd < 0) {
    return refuse(errno,
                  "no permission for packet sockets on '" + interface +
                      "'; run as root or with CAP_NET_RAW in this network namespace",
                  message);
  }
  close(fd);
  return 0;
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
  // AF_PACKET's ring keeps a header of its own before each frame.
  if (driver == "net_af_packet") return buffer_bytes() - 128;
  return driver == "net_af_xdp" ? kXdpFrameBytes : buffer_bytes();
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

int parse_ethdev_spec(std::string_view text, EthdevSpec* spec, std::string* message) {
  size_t semicolon = text.find(';');
  std::string_view rest =
      semicolon == std::string_view::npos ? std::string_view{} : text.substr(semicolon + 1);
  text = text.substr(0, semicolon);
  while (!rest.empty()) {
    semicolon = rest.find(';');
    const int error = parse_own_option(rest.substr(0, semicolon), &spec->eal, message);
    if (error != 0) return error;
    rest = semicolon == std::string_view::npos ? std::string_view{} : rest.substr(semicolon + 1);
  }
  const size_t comma = text.find(',');
  spec->name = std::string(text.substr(0, comma));
  if (comma != std::string_view::npos) spec->args = std::string(text.substr(comma + 1));
  if (spec->name.empty()) {
    return refuse(EINVAL, "ethdev: needs a DPDK device, as in ethdev:net_af_packet0,iface=eth1",
                  message);
  }
  if (looks_like_pci(spec->name)) {
    spec->eal.pci_address = std::string(text);
    return 0;
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
  return 0;
}

int check_ethdev_spec(const EthdevSpec& spec, std::string* message) {
  if (spec.socket_path.size() >= sizeof(sockaddr_un::sun_path)) {
    return refuse(ENAMETOOLONG,
                  "the socket path '" + spec.socket_path + "' is longer than 107 bytes; shorten it",
                  message);
  }
  if (spec.driver == "net_virtio_user") return check_virtio_user(spec, message);
  if (spec.driver == "net_af_packet") return check_interface(spec, AF_PACKET, message);
  if (spec.driver == "net_af_xdp") return check_interface(spec, AF_XDP, message);
  if (spec.driver == "net_vhost" && spec.socket_path.empty()) {
    return refuse(EINVAL, spec.name + " needs iface=SOCKET of the vhost-user wire", message);
  }
  if (spec.driver == "net_memif") {
    return refuse(EINVAL,
                  "net_memif crashes when its peer dies (DPDK 22.11); use local:PATH instead",
                  message);
  }
  return 0;
}

int lock_ethdev_socket(const EthdevSpec& spec, std::string* message) {
  const std::string name = lock_name(spec);
  int fd = -1;
  do {
    if (fd >= 0) close(fd);
    fd = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
      const int error = errno;
      *message = "'" + name + "' cannot be created (" + std::strerror(error) +
                 "); choose a directory that this user may write";
      errno = error;
      return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      *message = "another process has this end of the wire '" + spec.socket_path +
                 "'; end it or choose another path";
      close(fd);
      errno = EADDRINUSE;
      return -1;
    }
  } while (!is_named(fd, name));
  struct stat status {};
  if (spec.listens && lstat(spec.socket_path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) {
    unlink(spec.socket_path.c_str());
  }
  return fd;
}

void unlock_ethdev_socket(const EthdevSpec& spec, int lock_fd) {
  if (spec.listens) unlink(spec.socket_path.c_str());
  unlink(lock_name(spec).c_str());
  close(lock_fd);
}

}  // namespace mprdma::dataplane
