// Each deviation from the paper switched off alone, in the cases of ablation_cases.hpp.
#include "evaluation/list.hpp"
#include "evaluation/mp_rdma/ablation_cases.hpp"

namespace mprdma::figures {

FigureResult ablation(const Figure& figure, const RunOptions& options) {
  return study_ablation("ablation", ablation_cases(figure, options.ci()), options,
                        options.ci() ? 1 : 2);
}

}  // namespace mprdma::figures
