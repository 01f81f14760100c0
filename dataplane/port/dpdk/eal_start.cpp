#include "dataplane/port/dpdk/eal_start.hpp"

#include <dirent.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace mprdma::dataplane {

namespace {

constexpr std::string_view kPrefix = "mprdma-";
constexpr size_t kLogBytesMax = 2048;

std::mutex log_mutex;
std::string log_text;

ssize_t keep_log(void* /*cookie*/, const char* text, size_t bytes) {
  const std::lock_guard lock(log_mutex);
  log_text.append(text, bytes);
  if (log_text.size() > kLogBytesMax) log_text.erase(0, log_text.size() - kLogBytesMax);
  return static_cast<ssize_t>(bytes);
}

bool log_wanted() {
  return std::getenv("MPRDMA_EAL_LOG") != nullptr;
}

void capture_log() {
  if (log_wanted()) return;
  FILE* stream = fopencookie(nullptr, "w", {nullptr, keep_log, nullptr, nullptr});
  if (stream == nullptr) return;
  setvbuf(stream, nullptr, _IOLBF, 512);
  rte_openlog_stream(stream);
}

int first_allowed_cpu() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) return cpu;
  }
  return 0;
}

std::vector<std::string> arguments_of(const EalOptions& options) {
  std::vector<std::string> arguments = {
      "mprdma", "--file-prefix=" + std::string(kPrefix) + std::to_string(getpid()),
      "--lcores=0@" + std::to_string(first_allowed_cpu())};
  if (options.telemetry == nullptr) arguments.emplace_back("--no-telemetry");
  if (options.pci_address.empty()) {
    arguments.emplace_back("--no-pci");
  } else {
    arguments.insert(arguments.end(), {"-a", options.pci_address});
  }
  if (options.hugepages) {
    arguments.insert(arguments.end(), {"--in-memory", "--single-file-segments"});
  } else {
    arguments.emplace_back("--no-huge");
  }
  arguments.insert(arguments.end(), {"-m", std::to_string(options.memory_mb)});
  if (!log_wanted()) arguments.emplace_back("--log-level=*:warning");
  return arguments;
}

bool writable(const std::string& directory) {
  const std::string inside = directory + "/dpdk";
  return access(inside.c_str(), F_OK) == 0 ? access(inside.c_str(), W_OK | X_OK) == 0
                                           : access(directory.c_str(), W_OK | X_OK) == 0;
}

// DPDK gives up where it cannot write its files: a read-only XDG_RUNTIME_DIR, /var/run as the root
// of a user namespace. While it starts, this names a directory of our own to it.
class RuntimeDirectory {
 public:
  RuntimeDirectory() {
    const char* own = std::getenv(kVariable);
    const char* xdg = std::getenv("XDG_RUNTIME_DIR");
    std::string chosen = getuid() == 0 ? "/var/run" : (xdg != nullptr ? xdg : "/tmp");
    if (own != nullptr) chosen = own;
    if (writable(chosen)) return;
    if (own != nullptr) saved_ = own;
    const std::string fallback = own_directory();
    setenv(kVariable, fallback.c_str(), 1);
    changed_ = true;
  }
  ~RuntimeDirectory() {
    if (!changed_) return;
    if (saved_.empty()) {
      unsetenv(kVariable);
    } else {
      setenv(kVariable, saved_.c_str(), 1);
    }
  }
  RuntimeDirectory(const RuntimeDirectory&) = delete;
  RuntimeDirectory& operator=(const RuntimeDirectory&) = delete;

 private:
  static constexpr const char* kVariable = "RUNTIME_DIRECTORY";

  // Not the directory of `mprdma run`'s sockets: the root of a user namespace has the number of
  // the real one, but none of its rights, and must not take that name from it.
  static std::string own_directory() {
    std::string name = "/tmp/mprdma-eal-" + std::to_string(getuid());
    mkdir(name.c_str(), 0700);
    struct stat status {};
    const bool is_ours = lstat(name.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
                         status.st_uid == geteuid() && (status.st_mode & 022) == 0;
    if (is_ours) return name;
    name += "-XXXXXX";
    return mkdtemp(name.data()) != nullptr ? name : "/tmp";
  }

  bool changed_ = false;
  std::string saved_;
};

// One of EAL's directories of files, which hold no directories themselves.
void remove_directory(const std::string& path) {
  DIR* directory = opendir(path.c_str());
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory)) {
    unlinkat(dirfd(directory), entry->d_name, 0);
  }
  closedir(directory);
  rmdir(path.c_str());
}

pid_t pid_of_eal = 0;

// A later process removes what one that was killed has left.
void remove_leftovers(const std::string& own) {
  const std::string parent = own.substr(0, own.rfind('/'));
  DIR* directory = opendir(parent.c_str());
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(kPrefix)) continue;
    const pid_t pid = std::atoi(entry->d_name + kPrefix.size());
    if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH) {
      remove_directory(parent + "/" + entry->d_name);
    }
  }
  closedir(directory);
}

void at_exit() {
  if (getpid() == pid_of_eal) remove_directory(rte_eal_get_runtime_dir());
}

Status failure(const EalOptions& options, int error) {
  const std::string mb = std::to_string(options.memory_mb);
  std::string text =
      "DPDK does not start (" + std::string(std::strerror(error)) + "): " + drain_eal_log();
  if (options.hugepages) {
    text += "; reserve " + mb + " MB of huge pages (`sysctl vm.nr_hugepages=" +
            std::to_string((options.memory_mb + 1) / 2) + "`) or leave hugepages=1 out";
  } else if (error == ENOMEM) {
    text += "; it asks for " + mb + " MB: raise `ulimit -v` and `ulimit -l`, or lower mem=";
  }
  return {error, text};
}

Status start_now(const EalOptions& options) {
  std::vector<std::string> arguments = arguments_of(options);
  std::vector<char*> argv;
  argv.reserve(arguments.size());
  for (std::string& argument : arguments) argv.push_back(argument.data());
  const RuntimeDirectory runtime_directory;
  capture_log();
  if (rte_eal_init(static_cast<int>(argv.size()), argv.data()) < 0) {
    return failure(options, rte_errno != 0 ? rte_errno : EIO);
  }
  pid_of_eal = getpid();
  std::atexit(at_exit);
  if (options.telemetry != nullptr) register_telemetry(options.telemetry);
  if (!options.hugepages) remove_leftovers(rte_eal_get_runtime_dir());
  return {};
}

}  // namespace

Status start_eal(const EalOptions& options) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (pid_of_eal == getpid()) {
    if (options.pci_address.empty()) return {};
    return {EBUSY, "DPDK runs already in this process, without the PCI device " +
                       options.pci_address + "; open that port first"};
  }
  if (pid_of_eal != 0) {
    return {EBUSY,
            "DPDK was started before a fork; it cannot be used, or started again, in the child"};
  }
  if (rte_lcore_count() != 0) {
    return {EBUSY,
            "the application runs DPDK itself; give it a local: port instead of an ethdev: one"};
  }
  Status status;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([&] { status = start_now(options); }).join();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

std::string drain_eal_log() {
  const std::lock_guard lock(log_mutex);
  std::string text;
  text.swap(log_text);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  // The last three lines say it; the rest is noise.
  size_t start = text.size();
  for (int lines = 0; lines < 3 && start != std::string::npos && start > 0; ++lines) {
    start = text.rfind('\n', start - 1);
  }
  if (start != std::string::npos && start < text.size()) text.erase(0, start + 1);
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text.empty() ? "DPDK gives no reason; set MPRDMA_EAL_LOG=1 to see its log" : text;
}

}  // namespace mprdma::dataplane
