// The transports that the figures of IRN compare, and their runs: IRN and RoCE, each with and
// without PFC, without congestion control and with TIMELY and DCQCN, and mp beside them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evaluation/batch.hpp"
#include "evaluation/figure.hpp"
#include "switchsim/sim/scenario/scenario.hpp"

namespace mprdma::figures::irn {

enum class Transport : uint8_t { kIrn, kRoce, kMp };
enum class Control : uint8_t { kNone, kTimely, kDcqcn };
inline constexpr Control kControls[] = {Control::kNone, Control::kTimely, Control::kDcqcn};

// Why a 99th percentile of one seed is only reported at the small size.
inline constexpr const char* kFew = "few messages make the percentile at this size";

struct Form {
  Transport transport;
  Control control = Control::kNone;
  bool pfc = false;

  bool operator==(const Form&) const = default;
  [[nodiscard]] std::string id() const;    // "roce-dcqcn-pfc"
  [[nodiscard]] std::string name() const;  // "RoCE + DCQCN with PFC"
};
// "none", "timely", "dcqcn"; " + TIMELY", "" for none.
std::string id_of(Control control);
std::string suffix_of(Control control);

// What the form changes in a scenario file.
switchsim::Overrides changes_of(const Form& form);

// A group of runs for each form: one run for each seed, which draws the messages, the same for all
// forms.
class Runs {
 public:
  // `seeds_ci`: of a form at the small size.
  Runs(const Figure& figure, const RunOptions& options, std::vector<Form> forms, uint32_t seeds_ci);

  using Value = double (*)(const switchsim::FctSummary&);
  // Over the seeds.
  [[nodiscard]] Summary of(const Form& form, Value value) const;
  // Of one form to another, seed by seed.
  [[nodiscard]] Summary ratio(const Form& form, const Form& to, Value value) const;
  [[nodiscard]] const Batch& batch() const { return batch_; }
  [[nodiscard]] const std::vector<Form>& forms() const { return forms_; }
  [[nodiscard]] uint32_t seeds() const { return seeds_; }

 private:
  [[nodiscard]] std::vector<double> each(const Form& form, Value value) const;

  std::vector<Form> forms_;
  uint32_t seeds_;
  Batch batch_;
  std::vector<std::vector<size_t>> groups_;  // by form, by seed
};

}  // namespace mprdma::figures::irn
