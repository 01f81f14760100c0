// A file that a simulation writes while it runs: a capture, a trace. An error of a write shows at
// close(), so that the simulation does not ask for each packet.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#include "base/status.hpp"

namespace mprdma::switchsim {

class OutputFile {
 public:
  // Creates or empties the file.
  Status open(const std::string& path);
  void write(const void* data, size_t bytes) { std::fwrite(data, 1, bytes, file_.get()); }
  // Writes the rest. An error may be of any write since open(). No effect on a closed file.
  Status close();

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace mprdma::switchsim
