// docs/operations.md, held against the lists of counters. A test that includes this is compiled
// with MPRDMA_SOURCE_ROOT.
#pragma once

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>

#ifndef MPRDMA_SOURCE_ROOT
#define MPRDMA_SOURCE_ROOT "."
#endif

namespace mprdma {

// The rows that the page should hold and does not; empty: it is complete.
template <class Counters>
std::string missing_rows() {
  std::ifstream file(MPRDMA_SOURCE_ROOT "/docs/operations.md");
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::string missing;
  for (size_t i = 0; i < Counters::kCount; ++i) {
    const std::string row = "| `" + std::string(Counters::kNames[i]) + "` | " +
                            std::string(Counters::kDescriptions[i]) + " |\n";
    if (page.find(row) == std::string::npos) missing += row;
  }
  return missing;
}

}  // namespace mprdma
