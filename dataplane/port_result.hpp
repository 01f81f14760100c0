// What opening a port gives: a port, or an errno value and a sentence that says what to do next.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "dataplane/port.hpp"

namespace mprdma::dataplane {

struct PortResult {
  std::unique_ptr<Port> port;  // null: error and message say why
  int error = 0;               // errno value
  std::string message;         // one line, without a newline

  explicit operator bool() const { return port != nullptr; }

  static PortResult success(std::unique_ptr<Port> port) { return {std::move(port), 0, {}}; }
  static PortResult failure(int error, std::string message) {
    return {nullptr, error, std::move(message)};
  }
};

}  // namespace mprdma::dataplane
