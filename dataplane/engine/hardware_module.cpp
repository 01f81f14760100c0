#include "dataplane/engine/hardware_module.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <string>
#include <vector>

namespace mprdma::dataplane {

namespace {

constexpr const char* kFile = "libmprdma-rtl.so";
// Its name has the version of what it hands out: both are of one build.
constexpr const char* kEntry = "mprdma_open_hardware_1";
using OpenHardware = transport::Hardware*(const transport::Params&);

// Beside the library that this code is part of, in the build tree, or wherever the loader looks.
std::vector<std::string> places() {
  std::vector<std::string> out;
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&places), &self) != 0 && self.dli_fname != nullptr) {
    const std::string path = self.dli_fname;
    const size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash);
    for (const char* beside : {"/", "/mprdma/", "/../offload/rtl/"}) {
      out.push_back(directory + beside + kFile);
    }
  }
  out.emplace_back(kFile);
  return out;
}

}  // namespace

Status load_hardware(const transport::Params& params, std::unique_ptr<transport::Hardware>* out) {
  std::string why;
  for (const std::string& path : places()) {
    void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (module == nullptr) {
      why = dlerror();
      // The most telling failure is that of a file which is there.
      if (why.find(path + ": cannot open shared object file") == std::string::npos) break;
      continue;
    }
    auto* const open = reinterpret_cast<OpenHardware*>(dlsym(module, kEntry));
    if (open == nullptr) {
      why = path + " has no " + kEntry;
      break;
    }
    out->reset(open(params));
    return {};
  }
  return {ENOENT, std::string("MPRDMA_OFFLOAD=rtl needs ") + kFile + " (" + why +
                      "): build with Verilator and -Doffload=enabled"};
}

}  // namespace mprdma::dataplane
