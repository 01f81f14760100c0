// Networks and traffic for which each deviation from the paper is worth something.
#pragma once

#include <vector>

#include "evaluation/ablation_study.hpp"

namespace mprdma::figures {

std::vector<AblationCase> ablation_cases(const Figure& figure, bool ci);

}  // namespace mprdma::figures
