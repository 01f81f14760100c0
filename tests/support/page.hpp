// A page of docs/ that a test holds against the code. A test that includes this is compiled with
// MPRDMA_SOURCE_ROOT.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#ifndef MPRDMA_SOURCE_ROOT
#define MPRDMA_SOURCE_ROOT "."
#endif

namespace mprdma {

class Page {
 public:
  // `name` of a file in docs/.
  explicit Page(const std::string& name) {
    std::ifstream file(MPRDMA_SOURCE_ROOT "/docs/" + name);
    text_.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  // The page should have this row of a table, without the end of its line.
  void want(const std::string& row) {
    if (text_.find(row + "\n") == std::string::npos) missing_ += row + "\n";
  }
  // What it should have and does not.
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  std::string text_;
  std::string missing_;
};

}  // namespace mprdma
