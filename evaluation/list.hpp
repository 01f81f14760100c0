// The figures, one function for each; the registry in list.cpp gives them their names.
#pragma once

#include "evaluation/figure.hpp"

namespace mprdma::figures {

FigureResult reordering(const Figure& figure, const RunOptions& options);           // 1
FigureResult steady_queue(const Figure& figure, const RunOptions& options);         // 4
FigureResult marking_balance(const Figure& figure, const RunOptions& options);      // 5
FigureResult lossy_paths(const Figure& figure, const RunOptions& options);          // 11a
FigureResult cut_paths(const Figure& figure, const RunOptions& options);            // 11b
FigureResult permutation(const Figure& figure, const RunOptions& options);          // 12a
FigureResult fabric_permutation(const Figure& figure, const RunOptions& options);   // 12b
FigureResult completion_times(const Figure& figure, const RunOptions& options);     // 13
FigureResult reordering_by_delta(const Figure& figure, const RunOptions& options);  // 14a
FigureResult bounded_window(const Figure& figure, const RunOptions& options);       // 14b
FigureResult pinned_flow(const Figure& figure, const RunOptions& options);          // 15
FigureResult join_and_leave(const Figure& figure, const RunOptions& options);       // 16
FigureResult incast(const Figure& figure, const RunOptions& options);               // 17
FigureResult synchronise_order(const Figure& figure, const RunOptions& options);    // 18
FigureResult synchronise_goodput(const Figure& figure, const RunOptions& options);  // 19
FigureResult flowlets(const Figure& figure, const RunOptions& options);             // 20
FigureResult extra_state(const Figure& figure, const RunOptions& options);          // table1
FigureResult tail_drop(const Figure& figure, const RunOptions& options);
FigureResult restart(const Figure& figure, const RunOptions& options);
FigureResult dead_path(const Figure& figure, const RunOptions& options);
FigureResult loss_latency(const Figure& figure, const RunOptions& options);
FigureResult slow_path(const Figure& figure, const RunOptions& options);
FigureResult cut_loops(const Figure& figure, const RunOptions& options);
FigureResult incast_loops(const Figure& figure, const RunOptions& options);
FigureResult spurious_copies(const Figure& figure, const RunOptions& options);
FigureResult fast_links(const Figure& figure, const RunOptions& options);
FigureResult starved_neighbours(const Figure& figure, const RunOptions& options);
FigureResult ablation(const Figure& figure, const RunOptions& options);
FigureResult irn_mean(const Figure& figure, const RunOptions& options);
FigureResult irn_tail(const Figure& figure, const RunOptions& options);
FigureResult irn_slowdown(const Figure& figure, const RunOptions& options);
FigureResult irn_pfc(const Figure& figure, const RunOptions& options);
FigureResult irn_sweep(const Figure& figure, const RunOptions& options);
FigureResult livelock(const Figure& figure, const RunOptions& options);
FigureResult pfc_deadlock(const Figure& figure, const RunOptions& options);
FigureResult pause_storm(const Figure& figure, const RunOptions& options);
FigureResult slow_receiver(const Figure& figure, const RunOptions& options);
FigureResult ecmp_utilisation(const Figure& figure, const RunOptions& options);
FigureResult shuffle_latency(const Figure& figure, const RunOptions& options);
FigureResult pfc_fairness(const Figure& figure, const RunOptions& options);
FigureResult head_of_line(const Figure& figure, const RunOptions& options);
FigureResult what_is_paused(const Figure& figure, const RunOptions& options);
FigureResult bdp_arithmetic(const Figure& figure, const RunOptions& options);
FigureResult dcqcn_against_timely(const Figure& figure, const RunOptions& options);
FigureResult session_credits(const Figure& figure, const RunOptions& options);
FigureResult ablation_loops(const Figure& figure, const RunOptions& options);

}  // namespace mprdma::figures
