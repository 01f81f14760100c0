// The machine: kernel, memory, cores, devices.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "dataplane/client/protocol.hpp"
#include "dataplane/sys/address_text.hpp"
#include "tools/doctor/doctor_checks.hpp"
#include "tools/run/daemon_client.hpp"
#include "tools/running_fabrics.hpp"

namespace mprdma::tools {

namespace {

constexpr uint64_t kMiB = 1 << 20;

std::string read_text(const char* path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Finding check_kernel() {
  Finding finding{"kernel", "the kernel", Health::kOk, "", ""};
  utsname name{};
  uname(&name);
  finding.detail = name.release;
  int major = 0;
  int minor = 0;
  if (std::sscanf(name.release, "%d.%d", &major, &minor) != 2) return finding;
  if (major < 5 || (major == 5 && minor < 14)) {
    finding.health = Health::kWarn;
    finding.remedy = "5.14 or newer: timers below a millisecond, and quick registration";
  }
  return finding;
}

Finding check_sealed_memory() {
  Finding finding{"memfd", "sealed shared memory, for local: ports", Health::kOk, "works", ""};
  const int fd = memfd_create("mprdma-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const bool sealed = fd >= 0 && ftruncate(fd, 4096) == 0 &&
                      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  if (!sealed) {
    finding.health = Health::kFail;
    finding.detail = std::strerror(errno);
    finding.remedy = "allow memfd_create with seals (a seccomp filter or container forbids it)";
  }
  if (fd >= 0) close(fd);
  return finding;
}

Finding check_memlock() {
  Finding finding{"memlock", "locked memory", Health::kOk, "unlimited", ""};
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return finding;
  finding.detail = fmt::format("{} MiB; mprdma itself locks none", limit.rlim_cur / kMiB);
  if (limit.rlim_cur < 64 * kMiB) {
    finding.health = Health::kWarn;
    finding.remedy = "ulimit -l unlimited (limits.conf: memlock), for ethdev:net_af_xdp only";
  }
  return finding;
}

uint64_t meminfo(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(key + ":", 0) == 0) {
      return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10);
    }
  }
  return 0;
}

Finding check_hugepages() {
  const uint64_t pages = meminfo("HugePages_Total");
  if (pages > 0) return {"hugepages", "huge pages", Health::kOk, fmt::format("{}", pages), ""};
  return {"hugepages", "huge pages", Health::kWarn, "none reserved; local: ports need none",
          "for ethdev: ports on a PCI device: echo 512 > /proc/sys/vm/nr_hugepages"};
}

Finding check_runtime_directory() {
  Finding finding{"runtime-dir", "a private directory for sockets", Health::kOk, "", ""};
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && access(runtime, W_OK | X_OK) == 0) {
    finding.detail = runtime;
    return finding;
  }
  const std::string fallback = fmt::format("/tmp/mprdma-{}", geteuid());
  finding.health = access("/tmp", W_OK | X_OK) == 0 ? Health::kWarn : Health::kFail;
  finding.detail = runtime == nullptr
                       ? "XDG_RUNTIME_DIR is not set: " + fallback + " is used instead"
                       : fmt::format("XDG_RUNTIME_DIR ({}) cannot be written", runtime);
  finding.remedy = "export XDG_RUNTIME_DIR=/run/user/$(id -u), a directory that is yours alone";
  return finding;
}

Finding check_tun() {
  Finding finding{"tun", "/dev/net/tun, for taps", Health::kOk, "can be opened", ""};
  const int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    finding.health = Health::kWarn;
    finding.detail = std::strerror(errno);
    finding.remedy = "modprobe tun, or give access to it; only ethdev:net_tap needs it";
  } else {
    close(fd);
  }
  return finding;
}

Finding check_cores() {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (cores >= 2) {
    return {"cores", "processor cores", Health::kOk, fmt::format("{}", cores), ""};
  }
  return {"cores", "processor cores", Health::kWarn, fmt::format("{}", cores),
          "two or more: two programs that poll share one core badly"};
}

Finding check_huge_memory() {
  const std::string text = read_text("/sys/kernel/mm/transparent_hugepage/enabled");
  const bool never = text.find("[never]") != std::string::npos;
  Finding finding{"thp", "transparent huge pages", Health::kOk, text, ""};
  if (text.empty()) finding.detail = "not in this kernel";
  if (never) {
    finding.health = Health::kWarn;
    finding.remedy =
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: faster large buffers";
  }
  return finding;
}

Finding check_crc() {
  Finding finding{"icrc", "instructions for the ICRC", Health::kOk, "", ""};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("vpclmulqdq") != 0) {
    finding.detail = "AVX-512 carry-less multiplication";
  } else if (__builtin_cpu_supports("pclmul") != 0) {
    finding.detail = "carry-less multiplication";
  } else {
    finding.health = Health::kWarn;
    finding.detail = "none";
    finding.remedy = "ethdev: ports will be slow; local: ports need no ICRC";
  }
#else
  finding.detail = "not looked at on this architecture";
#endif
  return finding;
}

Finding check_other_devices() {
  std::error_code error;
  std::string names;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband", error)) {
    names += (names.empty() ? "" : ", ") + entry.path().filename().string();
  }
  return {"devices", "RDMA devices of this machine, shown beside mprdma's", Health::kOk,
          names.empty() ? "none" : names, ""};
}

Finding check_daemon() {
  Finding finding{"mprdmad", "the daemon that shares a device", Health::kOk, "", ""};
  const auto environment = [](const char* name) { return std::getenv(name); };
  std::vector<std::string> places;
  const Status status =
      daemon_places(environment, runtime_directory(environment, geteuid()), &places);
  if (!status.ok()) {
    return {finding.id, finding.what, Health::kFail, status.text, "correct it, or unset it"};
  }
  const bool named = places.size() == 1;
  for (const std::string& socket : places) {
    DaemonInfo info;
    const int error = query_daemon(socket, &info);
    const bool none = error == ENOENT || error == ECONNREFUSED;
    if (none && named) {
      return {finding.id, finding.what, Health::kFail,
              fmt::format("none answers at {}, which the configuration names", socket),
              "start it, or unset MPRDMA_PORT"};
    }
    if (none) continue;
    if (error != 0) {
      finding.health = Health::kWarn;
      finding.detail = fmt::format("{}: {}", socket, std::strerror(error));
      finding.remedy = "one that serves this user, of this installation: mprdmad(8)";
      return finding;
    }
    finding.detail = fmt::format("{} is {} at {}, process {}, with {} programs{}", info.device.name,
                                 dataplane::address_text(info.device.device.ipv4), socket, info.pid,
                                 info.processes, info.link_up ? "" : "; its wire has no link");
    return finding;
  }
  finding.detail = "none runs; mprdma run starts a private one";
  return finding;
}

}  // namespace

std::vector<Finding> check_machine() {
  return {check_kernel(),
          check_sealed_memory(),
          check_cores(),
          check_memlock(),
          check_runtime_directory(),
          check_huge_memory(),
          check_hugepages(),
          check_tun(),
          check_daemon(),
          check_crc(),
          check_other_devices()};
}

}  // namespace mprdma::tools
