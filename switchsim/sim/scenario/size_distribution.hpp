// Sizes of messages drawn from a measured distribution: the files of switchsim/workloads, whose
// README says where each comes from, and others of the same form.
//
// Rows of `bytes cumulative_probability`. A size is drawn by the inverse of the function with
// straight lines between the rows: uniform between two sizes, or one size where a step has a width
// of 0; at least one byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.hpp"
#include "base/status.hpp"

namespace mprdma::switchsim {

class SizeDistribution {
 public:
  struct Row {
    uint64_t bytes = 0;
    double probability = 0;  // of a size not above `bytes`
    bool operator==(const Row&) const = default;
  };

  // Errors name the line ("web.cdf:3: ..."). `path` is what they call the text.
  static Status parse(std::string_view text, const std::string& path, SizeDistribution* out);
  // One of the built-in files by name ("websearch_dctcp"), or a file by its path.
  static Status load(const std::string& name_or_path, SizeDistribution* out);

  [[nodiscard]] uint64_t draw(Prng& prng) const;
  // The mean of the piecewise linear distribution, bytes.
  [[nodiscard]] double mean() const;
  // Probability of a size not above `bytes`.
  [[nodiscard]] double share_up_to(double bytes) const;
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
  // The name says it all: load() found it among the files that are built in.
  [[nodiscard]] bool built_in() const { return built_in_; }

 private:
  std::vector<Row> rows_;
  bool built_in_ = false;
};

struct WorkloadFile {
  std::string_view name;
  std::string_view text;
};
// The files of switchsim/workloads, built in.
std::span<const WorkloadFile> workload_files();

}  // namespace mprdma::switchsim
