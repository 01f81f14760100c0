#include "tools/locations.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace mprdma::tools {

namespace {

namespace fs = std::filesystem;

bool readable(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// Maps the directory of an installed executable to that of its libraries.
fs::path installed_libdir(const fs::path& bin) {
  const fs::path bindir = MPRDMA_BINDIR;
  fs::path libdir = MPRDMA_LIBDIR;
  if (bindir.is_absolute() || libdir.is_absolute()) return libdir;
  fs::path prefix = bin;
  for (auto part = bindir.begin(); part != bindir.end(); ++part) prefix = prefix.parent_path();
  return prefix / libdir;
}

}  // namespace

Status find_locations(Locations* out) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return {error.value(), "/proc/self/exe cannot be read: " + error.message()};
  const fs::path bin = self.parent_path();
  const fs::path build = bin.parent_path();
  const fs::path lib = installed_libdir(bin);
  out->executable = self;

  struct Wanted {
    std::string* out;
    fs::path in_build;
    fs::path installed;
    bool required;
  };
  const std::array<Wanted, 5> wanted = {{
      {&out->preload, build / "providers/mprdma/libmprdma-preload.so", lib / "libmprdma-preload.so",
       true},
      {&out->provider, build / "providers/mprdma/libmprdma-rdmav34.so",
       lib / "libibverbs/libmprdma-rdmav34.so", true},
      {&out->engine, build / "dataplane/libmprdma-engine.so", lib / "libmprdma-engine.so", true},
      {&out->eal, build / "dataplane/libmprdma-eal.so", lib / "mprdma/libmprdma-eal.so", false},
      {&out->daemon, bin / "mprdmad", bin.parent_path() / "sbin/mprdmad", false},
  }};
  for (const Wanted& one : wanted) {
    if (readable(one.in_build)) {
      *one.out = one.in_build;
    } else if (readable(one.installed)) {
      *one.out = one.installed;
    } else if (one.required) {
      return {ENOENT, "cannot find " + one.in_build.filename().string() + ": neither " +
                          one.in_build.string() + " nor " + one.installed.string() +
                          " is there; build or install mprdma completely (ninja -C BUILD)"};
    }
  }
  const std::string suffix = "-rdmav34.so";
  out->provider_driver = out->provider.substr(0, out->provider.size() - suffix.size());
  return {};
}

}  // namespace mprdma::tools
