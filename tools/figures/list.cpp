#include "tools/figures/list.hpp"

namespace mprdma::figures {

const std::vector<Figure>& all_figures() {
  static const std::vector<Figure> kAll = {
      {"5", "Marking ratios of unequal paths",
       "Figure 5: the marking ratios of four paths of 20, 40, 60 and 80 Gb/s with different RED "
       "curves converge to one value.",
       "fig5.toml", marking_balance},
      {"11a", "Random loss on three of four paths",
       "Figure 11(a): about 38 Gb/s of 40 at every loss rate from 0.5 to 10 %; DCQCN 17.5 Gb/s at "
       "0.5 % and about a quarter of MP-RDMA beyond (single path, go-back-N).",
       "fig11a.toml", lossy_paths},
      {"11b", "Paths are cut and restored one by one",
       "Figure 11(b): the healthy paths stay full; a restored path is full again in less than 1 s.",
       "fig11b.toml", cut_paths},
      {"12a", "Permutation of five connections over four paths",
       "Figure 12(a): 150.68 Gb/s in total, about 30 Gb/s for each of five connections; DCQCN "
       "102.46 Gb/s.",
       "fig12a.toml", permutation},
      {"15", "A flow that is confined to path 4 joins",
       "Figure 15: the multi-path flow leaves path 4; the other three stay at about 10 Gb/s.",
       "fig15.toml", pinned_flow},
      {"16", "Eight flows join and leave one bottleneck",
       "Figure 16: Jain's index 0.996 to 0.999 at every number of flows.", "fig16.toml",
       join_and_leave},
      {"17", "Incast of one to nine senders",
       "Figure 17: about 37.65 Gb/s at every degree, some 3 % above DCQCN.", "fig17.toml", incast},
      {"taildrop", "A tail-drop bottleneck without ECN",
       "Not in the paper, whose network marks and does not drop.", "taildrop.toml", tail_drop},
      {"restart", "Small messages, then 1 MiB",
       "Section 3.5: a connection that was idle for 3 RTT starts from the initial window again.",
       "restart.toml", restart},
      {"ablation", "Each mend switched off alone",
       "Not in the paper: what each departure from its letter is worth.", "fig11a.toml", ablation},
  };
  return kAll;
}

}  // namespace mprdma::figures
