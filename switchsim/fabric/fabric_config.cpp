#include "switchsim/fabric/fabric_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "switchsim/config/read_file.hpp"

namespace mprdma::switchsim {

std::string HostConfig::fabric_port(size_t index) const {
  // The fabric outlives the applications. It therefore listens on a LocalPort, and is the client of
  // a vhost-user wire, which resumes after a death only if the fabric is the client.
  return kind == PortKind::kLocal
             ? fmt::format("local:{},role=listen", path)
             : fmt::format("ethdev:net_vhost{},iface={},client=1", index, path);
}

std::string HostConfig::application_port() const {
  return kind == PortKind::kLocal ? fmt::format("local:{},role=dial", path)
                                  : fmt::format("ethdev:net_virtio_user0,path={},server=1", path);
}

bool valid_fabric_name(const std::string& name) {
  const auto good = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
  };
  return !name.empty() && name.size() <= 32 && std::all_of(name.begin(), name.end(), good);
}

Status load_fabric(const std::string& path, FabricConfig* out) {
  std::string text;
  Status status = read_file(path, &text);
  return status.ok() ? parse_fabric(text, path, out) : status;
}

}  // namespace mprdma::switchsim
