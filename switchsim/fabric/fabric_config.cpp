#include "switchsim/fabric/fabric_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "switchsim/config/read_file.hpp"

namespace mprdma::switchsim {

std::string HostConfig::fabric_port(size_t index) const {
  // The fabric outlives the applications, so it is the one that listens, and that dials a
  // vhost-user wire (which resumes after a death only this way round).
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

std::string load_fabric(const std::string& path, FabricConfig* out) {
  std::string text;
  std::string wrong = read_file(path, &text);
  return wrong.empty() ? parse_fabric(text, path, out) : wrong;
}

}  // namespace mprdma::switchsim
