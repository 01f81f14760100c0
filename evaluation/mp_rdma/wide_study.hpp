// Runs of figures 1 and 14(a): five connections over four paths, of which one may be bad, with a
// window that no reordering fills: the largest that there is.
#pragma once

#include <cstdint>
#include <vector>

#include "evaluation/batch.hpp"
#include "evaluation/mp_rdma/bad_path.hpp"

namespace mprdma::figures {

inline constexpr uint32_t kOpen = 0;  // as a delta: no control

// What is measured: when the windows have settled, or from the very start.
enum class Begin : uint8_t { kSteady, kStart };

struct WideRun {
  const Variant* variant;
  const PathState* state;
  uint32_t delta;
  Begin begin;
  bool operator==(const WideRun&) const = default;
};

// Forms of the transport and parts of a run that the figures compare.
struct WideSeries {
  const Variant* variant;
  Begin begin;
  const char* name;
  const char* id;
};
extern const std::vector<WideSeries> kWideSeries;
// The paper's letter is shown, not asserted, and not run in tests.
inline bool is_letter(const WideSeries& series) {
  return series.variant == &kPaper;
}

class WideStudy {
 public:
  WideStudy(const Figure& figure, const RunOptions& options)
      : figure_(figure), options_(options), batch_(options) {}

  void add(const WideRun& run);  // once, however often it is asked for
  void run() { batch_.run(); }
  // The 99.9th percentile of the out-of-order degree, packets.
  [[nodiscard]] Summary tail(const WideRun& run) const;
  // No run broke an invariant or ended in an error.
  void claim_sound(FigureResult* out) const { batch_.claim_sound(figure_.number(), out); }
  // Constants and set-up.
  void describe_to(FigureResult* out) const;

 private:
  // What comes out of the start depends on the first paths that are drawn: more runs.
  [[nodiscard]] uint32_t seeds(Begin begin) const {
    return options_.ci() ? 1 : begin == Begin::kStart ? 6 : 2;
  }

  const Figure& figure_;
  const RunOptions& options_;
  std::vector<WideRun> runs_;  // of each a group of the batch, with the same number
  Batch batch_;
};

}  // namespace mprdma::figures
