#include "dataplane/open_port.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string>
#include <vector>

#include "dataplane/client/daemon_port.hpp"
#include "dataplane/port/dpdk/eal_module.hpp"
#include "dataplane/port/local_port.hpp"

namespace mprdma::dataplane {

namespace {

PortResult bad_option(std::string_view option, const char* known) {
  return PortResult::failure(
      EINVAL, "unknown or malformed port option '" + std::string(option) + "'; known: " + known);
}

// Cuts the text before the next comma off `rest`.
std::string_view next_part(std::string_view* rest) {
  const size_t comma = rest->find(',');
  const std::string_view part = rest->substr(0, comma);
  *rest = comma == std::string_view::npos ? std::string_view{} : rest->substr(comma + 1);
  return part;
}

bool parse_role(std::string_view text, local::Role* role) {
  if (text == "auto")
    *role = local::Role::kAuto;
  else if (text == "listen")
    *role = local::Role::kListen;
  else if (text == "dial")
    *role = local::Role::kDial;
  else
    return false;
  return true;
}

bool parse_number(std::string_view text, uint32_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc{} && end == text.data() + text.size();
}

PortResult open_local(std::string_view rest, bool engine) {
  LocalPort::Options options;
  options.engine = engine;
  options.path = std::string(next_part(&rest));
  while (!rest.empty()) {
    const std::string_view option = next_part(&rest);
    const size_t equals = option.find('=');
    const std::string_view key = option.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view{} : option.substr(equals + 1);
    const bool good = (key == "slots" && parse_number(value, &options.slots)) ||
                      (key == "role" && parse_role(value, &options.role));
    if (!good) return bad_option(option, "slots=N, role=auto|listen|dial");
  }
  return LocalPort::open(options);
}

// Where the module may be: named by the environment, installed, beside the library that this code
// is part of, in the build tree, or wherever the loader looks.
std::vector<std::string> module_paths() {
  const std::string file = kEalModuleFile;
  std::vector<std::string> paths;
  if (const char* named = std::getenv("MPRDMA_EAL_MODULE")) return {named};
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&module_paths), &self) != 0 && self.dli_fname != nullptr) {
    const std::string path = self.dli_fname;
    const size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash);
    paths.push_back(directory + "/" + file);
    paths.push_back(directory + "/mprdma/" + file);
  }
#ifdef MPRDMA_EAL_BUILD_DIR
  paths.push_back(std::string(MPRDMA_EAL_BUILD_DIR) + "/" + file);
#endif
  paths.push_back(file);
  return paths;
}

PortResult open_ethdev(std::string_view rest, EalTelemetry* telemetry) {
  std::string why;
  for (const std::string& path : module_paths()) {
    // Never unloaded: DPDK leaves threads behind.
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (module == nullptr) {
      why = dlerror();
      // The most telling failure is that of a file which is there.
      if (why.find(path + ": cannot open shared object file") == std::string::npos) break;
      continue;
    }
    auto* entry = reinterpret_cast<EalOpenPort*>(dlsym(module, kEalModuleEntry));
    if (entry == nullptr) {
      why = path + " has no " + kEalModuleEntry;
      break;
    }
    PortResult result;
    entry(kEalModuleVersion, rest, telemetry, &result);
    return result;
  }
  return PortResult::failure(ENOENT, "an ethdev: port needs DPDK and libmprdma-eal.so (" + why +
                                         "); install DPDK and build with it, or use a local: port");
}

}  // namespace

PortResult open_port(std::string_view spec, EalTelemetry* telemetry, bool engine) {
  constexpr std::string_view kLocal = "local:";
  constexpr std::string_view kEthdev = "ethdev:";
  constexpr std::string_view kDaemon = kDaemonPortPrefix;
  if (spec.starts_with(kLocal)) return open_local(spec.substr(kLocal.size()), engine);
  if (spec.starts_with(kEthdev)) return open_ethdev(spec.substr(kEthdev.size()), telemetry);
  if (spec.starts_with(kDaemon)) {
    return client::DaemonPort::open(std::string(spec.substr(kDaemon.size())));
  }
  return PortResult::failure(
      EINVAL, "a port is 'local:SOCKET-PATH', 'ethdev:DPDK-DEVICE' or 'daemon:SOCKET-PATH', not '" +
                  std::string(spec) + "'");
}

}  // namespace mprdma::dataplane
