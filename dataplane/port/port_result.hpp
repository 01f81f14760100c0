// The result of opening a port: a port, or why there is none and what to do next. Slow path; a
// struct instead of a Status with an out argument, because it passes the C entry of the EAL module
// (dpdk/eal_module.hpp) in one piece.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "base/status.hpp"
#include "dataplane/port/port.hpp"

namespace mprdma::dataplane {

struct PortResult {
  std::unique_ptr<Port> port;  // null: `status` says why
  Status status;

  explicit operator bool() const { return port != nullptr; }

  static PortResult success(std::unique_ptr<Port> port) { return {std::move(port), {}}; }
  static PortResult failure(Status status) {
    CHECK(!status.ok());
    return {nullptr, std::move(status)};
  }
  static PortResult failure(int error, std::string text) {
    return failure(Status{error, std::move(text)});
  }
};

}  // namespace mprdma::dataplane
