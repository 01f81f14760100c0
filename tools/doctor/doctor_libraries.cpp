// Libraries: rdma-core's, ours, and whether a program really sees the device.
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "tools/doctor/doctor_checks.hpp"
#include "tools/run/run_plan.hpp"

namespace mprdma::tools {

namespace {

constexpr const char* kVerbsLibrary = "libibverbs.so.1";

Finding check_rdma_core() {
  Finding finding{"rdma-core.abi", "rdma-core's verbs library", Health::kOk, "", ""};
  void* verbs = dlopen(kVerbsLibrary, RTLD_NOW | RTLD_LOCAL);
  if (verbs == nullptr) {
    finding.health = Health::kFail;
    finding.detail = dlerror();
    finding.remedy = "apt-get install libibverbs1 ibverbs-utils";
    return finding;
  }
  Dl_info info{};
  void* symbol = dlvsym(verbs, "verbs_register_driver_34", "IBVERBS_PRIVATE_34");
  void* any = dlsym(verbs, "ibv_get_device_list");
  std::error_code error;
  if (any != nullptr && dladdr(any, &info) != 0) {
    finding.detail = std::filesystem::canonical(info.dli_fname, error).string();
  }
  if (symbol == nullptr) {
    finding.health = Health::kFail;
    finding.detail += ", without the private ABI 34";
    finding.remedy = "use rdma-core 34 to 56 (Debian 12 has 44)";
  } else {
    finding.detail += ", private ABI 34";
  }
  return finding;
}

Finding check_loads(const char* id, const char* what, const std::string& path) {
  Finding finding{id, what, Health::kOk, path, ""};
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    finding.health = Health::kFail;
    finding.detail = dlerror();
    finding.remedy = "build or install mprdma completely (ninja -C BUILD)";
  }
  return finding;
}

std::string output_of(const std::string& command, int* status) {
  std::string output;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"),
                                                   [](FILE*) { return 0; });
  if (pipe == nullptr) {
    *status = -1;
    return {};
  }
  std::array<char, 256> buffer{};
  while (fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr) output += buffer.data();
  *status = pclose(pipe.get());
  return output;
}

// Runs this program under `mprdma run`, to see whether an unmodified libibverbs finds the device.
Finding check_preload(const Locations& locations) {
  Finding finding{"preload", "a program under mprdma run sees the device", Health::kOk, "", ""};
  int status = 0;
  const std::string command =
      fmt::format("'{0}' run --quiet -- '{0}' doctor --devices 2>&1", locations.executable);
  const std::string output = output_of(command, &status);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
      output.find("mprdma0") != std::string::npos) {
    finding.detail = "mprdma0 is listed";
    return finding;
  }
  finding.health = Health::kFail;
  finding.detail = output.empty() ? "no device is listed" : output.substr(0, output.find('\n'));
  finding.remedy =
      "run: mprdma run -- ibv_devices, and read what it says; a static or set-user-id "
      "program cannot be helped";
  return finding;
}

Finding check_eal(const Locations& locations) {
  if (!locations.eal.empty()) {
    return check_loads("dpdk", "DPDK, for ports of kind ethdev", locations.eal);
  }
  return {"dpdk", "DPDK, for ports of kind ethdev", Health::kWarn, "built without DPDK",
          "apt-get install libdpdk-dev, and build again; local: ports work without"};
}

}  // namespace

std::vector<Finding> check_libraries() {
  std::vector<Finding> findings = {check_rdma_core()};
  Locations locations;
  const Status status = find_locations(&locations);
  if (!status.ok()) {
    findings.push_back({"libraries", "the libraries of mprdma", Health::kFail, status.text,
                        "build or install mprdma completely (ninja -C BUILD)"});
    return findings;
  }
  findings.push_back(check_loads("engine", "the engine", locations.engine));
  if (findings[0].health == Health::kOk) {
    findings.push_back(check_loads("provider", "the verbs provider", locations.provider));
    findings.push_back(check_preload(locations));
  }
  findings.push_back(check_eal(locations));
  return findings;
}

int print_devices() {
  using GetList = void** (*)(int*);
  using GetName = const char* (*)(void*);
  void* verbs = dlopen(kVerbsLibrary, RTLD_NOW | RTLD_LOCAL);
  if (verbs == nullptr) return 1;
  const auto get_list = reinterpret_cast<GetList>(dlsym(verbs, "ibv_get_device_list"));
  const auto get_name = reinterpret_cast<GetName>(dlsym(verbs, "ibv_get_device_name"));
  if (get_list == nullptr || get_name == nullptr) return 1;
  int count = 0;
  void** list = get_list(&count);
  for (int i = 0; list != nullptr && i < count; ++i) fmt::print("{}\n", get_name(list[i]));
  return count > 0 ? 0 : 1;
}

}  // namespace mprdma::tools
