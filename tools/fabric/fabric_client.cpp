#include "tools/fabric/fabric_client.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "dataplane/sys/runtime_directory.hpp"
#include "switchsim/fabric/fabric_process.hpp"
#include "tools/running_fabrics.hpp"

namespace mprdma::tools {

namespace {

using nlohmann::json;

constexpr int kAnswerTimeoutS = 10;

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// An error says why there is none of that name.
Status choose(const std::string& runtime, std::string* name) {
  if (access(runtime.c_str(), F_OK) == 0) {
    Status status = dataplane::check_private_directory(runtime);
    if (!status.ok()) return status;
  }
  const std::vector<std::string> running = running_fabrics(runtime);
  if (running.empty()) {
    return {ENOENT, "no fabric is up; start one with `mprdma fabric up TOPOLOGY.toml`"};
  }
  if (name->empty()) {
    if (running.size() > 1) {
      return {EINVAL,
              fmt::format("several fabrics are up ({}); choose one by its name", joined(running))};
    }
    *name = running[0];
  }
  for (const std::string& one : running) {
    if (one == *name) return {};
  }
  return {ENOENT, fmt::format("no fabric '{}' is up; up: {}", *name, joined(running))};
}

}  // namespace

FabricClient::~FabricClient() {
  if (fd_ >= 0) close(fd_);
}

Status FabricClient::connect(const std::string& name) {
  const std::string runtime =
      runtime_directory([](const char* variable) { return std::getenv(variable); }, geteuid());
  name_ = name;
  Status status = choose(runtime, &name_);
  if (!status.ok()) return status;
  directory_ = fabric_directory(runtime, name_);
  const std::string path = switchsim::control_path(directory_);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return {ENAMETOOLONG, path + ": too long for a socket"};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval timeout{kAnswerTimeoutS, 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return {errno, fmt::format("the fabric {} does not answer: {}; it may still be starting", name_,
                               std::strerror(errno))};
  }
  return {};
}

Status FabricClient::ask(const json& request, json* answer) {
  const std::string line = request.dump() + "\n";
  std::string text;
  if (send(fd_, line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size())) {
    char bytes[16384];
    ssize_t count = 1;
    while (count > 0 && !text.ends_with('\n')) {
      count = recv(fd_, bytes, sizeof bytes, 0);
      if (count > 0) text.append(bytes, static_cast<size_t>(count));
    }
  }
  if (!text.ends_with('\n'))
    return {ETIMEDOUT, fmt::format("the fabric {} does not answer", name_)};
  *answer = json::parse(text);
  if ((*answer)["ok"] == true) return {};
  return {EINVAL, answer->value("error", "refused")};
}

bool FabricClient::wait_for_end(int timeout_ms) const {
  pollfd waiting{fd_, POLLIN, 0};
  char byte = 0;
  return poll(&waiting, 1, timeout_ms) == 1 && recv(fd_, &byte, 1, MSG_DONTWAIT) <= 0;
}

Status find_fabric_host(const std::string& fabric, RunOptions* options) {
  FabricClient client;
  Status status = client.connect(fabric);
  json answer;
  if (status.ok()) status = client.ask({{"command", "hosts"}}, &answer);
  if (!status.ok()) return status;
  std::vector<std::string> names;
  for (const json& host : answer["hosts"]) {
    names.push_back(host["name"]);
    if (!options->host.empty() && options->host != names.back()) continue;
    options->host = names.back();
    options->fabric_host = FabricHost{client.name(), host["port"], host["address"], host["mac"],
                                      std::to_string(host["mtu"].get<int>())};
    return {};
  }
  return {ENOENT, fmt::format("the fabric {} has no host '{}'; it has {}", client.name(),
                              options->host, joined(names))};
}

}  // namespace mprdma::tools
