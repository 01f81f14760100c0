#include "switchsim/fabric/fabric_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "dataplane/open_port.hpp"
#include "dataplane/sys/clock.hpp"

namespace mprdma::switchsim {

std::string control_path(const std::string& directory) {
  return directory + "/control.sock";
}

FabricProcess::~FabricProcess() {
  loop_.reset();
  fabric_.reset();
  ports_.clear();
  if (lock_fd_ < 0) return;
  unlink(control_path(directory_).c_str());
  unlink((directory_ + "/lock").c_str());
  rmdir(directory_.c_str());  // fails if it holds files of others
  close(lock_fd_);
}

Status FabricProcess::acquire_lock() {
  const std::string path = directory_ + "/lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return system_status(path, errno);
  // The lock belongs to the open file, so it survives a fork. F_OFD_GETLK asks for it without
  // taking it.
  struct flock whole {};
  whole.l_type = F_WRLCK;
  if (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
    close(fd);
    return {EEXIST,
            "a fabric of this name runs already; end it with `mprdma fabric down`, or choose "
            "another --name"};
  }
  lock_fd_ = fd;
  return {};
}

Status FabricProcess::open_ports(const FabricConfig& config) {
  for (size_t i = 0; i < config.hosts.size(); ++i) {
    dataplane::PortResult result = dataplane::open_port(config.hosts[i].fabric_port(i));
    if (!result) {
      return prefixed(fmt::format("host {}: ", config.hosts[i].name), std::move(result.status));
    }
    ports_.push_back(std::move(result.port));
  }
  return {};
}

Status FabricProcess::open(FabricConfig config, const std::string& name,
                           const std::string& directory) {
  directory_ = directory;
  for (HostConfig& host : config.hosts) {
    if (host.path.empty()) host.path = fmt::format("{}/{}.sock", directory, host.name);
  }
  Status status = acquire_lock();
  if (status.ok()) status = open_ports(config);
  if (!status.ok()) return status;
  fabric_ = std::make_unique<Fabric>(config, std::move(ports_), dataplane::clock_now());
  status = control_.open(control_path(directory));
  if (!status.ok()) return status;
  loop_ = std::make_unique<FabricLoop>(fabric_.get(), &control_, name);
  return loop_->start();
}

void FabricProcess::run() {
  loop_->run();
}

}  // namespace mprdma::switchsim
