#include "dataplane/daemon/kernel_tap.hpp"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace mprdma::dataplane::mprdmad {

namespace {

constexpr const char* kDevice = "/dev/net/tun";

ifreq request_for(const std::string& name) {
  ifreq request{};
  std::memcpy(request.ifr_name, name.c_str(), std::min(name.size(), size_t{IFNAMSIZ - 1}));
  return request;
}

Status failed(const std::string& what, int error) {
  Status status = system_status(what, error);
  if (error == EPERM || error == EACCES) {
    status.text += "; run as root or with CAP_NET_ADMIN in this network namespace";
  }
  return status;
}

// Sets only the values that differ, because an interface that was prepared for us then needs no
// privilege.
int set_mac(int socket, const std::string& name, const wire::MacAddress& mac) {
  ifreq request = request_for(name);
  if (ioctl(socket, SIOCGIFHWADDR, &request) != 0) return errno;
  if (std::memcmp(request.ifr_hwaddr.sa_data, mac.data(), mac.size()) == 0) return 0;
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  std::memcpy(request.ifr_hwaddr.sa_data, mac.data(), mac.size());
  return ioctl(socket, SIOCSIFHWADDR, &request) == 0 ? 0 : errno;
}

int set_mtu(int socket, const std::string& name, uint32_t mtu, bool is_new) {
  ifreq request = request_for(name);
  if (ioctl(socket, SIOCGIFMTU, &request) != 0) return errno;
  const auto wanted = static_cast<int>(mtu);
  if (request.ifr_mtu == wanted || (!is_new && request.ifr_mtu < wanted)) return 0;
  request.ifr_mtu = wanted;
  return ioctl(socket, SIOCSIFMTU, &request) == 0 ? 0 : errno;
}

int set_up(int socket, const std::string& name) {
  ifreq request = request_for(name);
  if (ioctl(socket, SIOCGIFFLAGS, &request) != 0) return errno;
  if ((request.ifr_flags & IFF_UP) != 0) return 0;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  return ioctl(socket, SIOCSIFFLAGS, &request) == 0 ? 0 : errno;
}

Status attach(int fd, const std::string& name) {
  ifreq request = request_for(name);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (ioctl(fd, TUNSETIFF, &request) == 0) return {};
  const int error = errno;
  if (error == EBUSY) return {error, "tap '" + name + "': another process has it"};
  if (error == EINVAL) {
    return {error, "tap '" + name + "': there is an interface of that name, and no tap"};
  }
  return failed("tap '" + name + "'", error);
}

Status configure(const std::string& name, const wire::MacAddress& mac, uint32_t mtu, bool is_new) {
  const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (control < 0) return failed("socket", errno);
  const char* step = "its Ethernet address";
  int error = set_mac(control, name, mac);
  if (error == 0) {
    step = "its MTU";
    error = set_mtu(control, name, mtu, is_new);
  }
  if (error == 0) {
    step = "setting it up";
    error = set_up(control, name);
  }
  close(control);
  if (error != 0) return failed("tap '" + name + "': " + step, error);
  return {};
}

}  // namespace

bool valid_tap_name(const std::string& name) {
  return !name.empty() && name.size() < IFNAMSIZ && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return c > ' ' && c <= '~' && c != '/' && c != ':' && c != '%';
         });
}

Status KernelTap::open(const std::string& name, const wire::MacAddress& mac, uint32_t mtu,
                       std::unique_ptr<KernelTap>* out) {
  const bool is_new = if_nametoindex(name.c_str()) == 0;
  const int fd = ::open(kDevice, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return failed(kDevice, errno);
  auto tap = std::make_unique<KernelTap>(fd);
  Status status = attach(fd, name);
  if (status.ok()) status = configure(name, mac, mtu, is_new);
  if (status.ok()) *out = std::move(tap);
  return status;
}

KernelTap::~KernelTap() {
  close(fd_);
}

bool KernelTap::write_frame(std::span<const unsigned char> frame) const {
  return write(fd_, frame.data(), frame.size()) == static_cast<ssize_t>(frame.size());
}

uint32_t KernelTap::read_frame(std::span<unsigned char> room) const {
  const ssize_t length = read(fd_, room.data(), room.size());
  return length > 0 ? static_cast<uint32_t>(length) : 0;
}

}  // namespace mprdma::dataplane::mprdmad
