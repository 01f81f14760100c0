#include "base/status.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

namespace mprdma {

Status system_status(std::string_view what, int error) {
  if (error == 0) error = EIO;
  return {error, std::string(what) + ": " + std::strerror(error)};
}

Status prefixed(std::string_view prefix, Status status) {
  if (!status.ok()) status.text.insert(0, prefix);
  return status;
}

}  // namespace mprdma
