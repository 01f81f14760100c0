// docs/operations.md, held against the lists of counters.
#pragma once

#include <cstddef>
#include <string>

#include "tests/support/page.hpp"

namespace mprdma {

// The rows that the page should hold and does not; empty: it is complete.
template <class Counters>
std::string missing_rows() {
  Page page("operations.md");
  for (size_t i = 0; i < Counters::kCount; ++i) {
    page.want("| `" + std::string(Counters::kNames[i]) + "` | " +
              std::string(Counters::kDescriptions[i]) + " |");
  }
  return page.missing();
}

}  // namespace mprdma
