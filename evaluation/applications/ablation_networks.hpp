// Cases of the ablation beside those of ablation_loops.cpp: hosts in software, whose round trips
// are longer and less even than those of NICs, and networks that mark nothing.
#pragma once

#include <vector>

#include "evaluation/ablation_study.hpp"

namespace mprdma::figures {

void add_hosts_in_software(std::vector<AblationCase>* out);
void add_networks_without_marks(std::vector<AblationCase>* out);

}  // namespace mprdma::figures
