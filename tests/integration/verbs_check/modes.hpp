// The modes of verbs_check; each returns when everything was as it must be, and ends the process
// with a message when not.
#pragma once

#include "tests/integration/verbs_check/args.hpp"
#include "tests/integration/verbs_check/oob.hpp"
#include "tests/integration/verbs_check/verbs.hpp"

namespace mprdma::verbs_check {

void run_traffic(const Args& args, const Device& device, Oob& oob);
void run_last_byte(const Args& args, const Device& device, Oob& oob);
void run_kill_peer(const Args& args, const Device& device, Oob& oob);
void run_bad(const Args& args, Device& device, Oob& oob);
void run_ordering(const Args& args, const Device& device, Oob& oob);
void run_idle(const Args& args, const Device& device, Oob& oob);

}  // namespace mprdma::verbs_check
