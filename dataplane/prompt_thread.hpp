// Scheduling of threads that run for microseconds and have to run at once.
#pragma once

namespace mprdma::dataplane {

// The calling thread is let in before an application that spins: its slice is short (EEVDF, Linux
// 6.12; ignored by older kernels), and its timers have no slack (the default of 50 us would be
// added to each). Changes nothing where the thread was given a scheduling class on purpose.
void make_prompt();

}  // namespace mprdma::dataplane
