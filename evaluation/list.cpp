#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

std::vector<Figure> numbered_figures() {
  return {
      {"mp/1", "How far out of order packets come without control",
       "Figure 1: hundreds of packets where a path's marking is misconfigured, more where it is "
       "slow; a bitmap of up to 1.2 KB for a connection.",
       "fig14.toml", reordering},
      {"mp/4", "A queue at the fluid model's fix point",
       "Figure 4: with standard RED the queue stays where the fluid model has it; with DCTCP's "
       "step it oscillates; full throughput under both.",
       "fig4.toml", steady_queue},
      {"mp/5", "Marking ratios of unequal paths",
       "Figure 5: paths of 20, 40, 60 and 80 Gb/s with different RED: one marking ratio.",
       "fig5.toml", marking_balance},
      {"mp/11a", "Random loss on three of four paths",
       "Figure 11(a): about 38 Gb/s of 40 at every loss rate from 0.5 to 10 %; DCQCN 17.5 Gb/s at "
       "0.5 %, the average over its choice of one path, about a quarter of MP-RDMA beyond.",
       "fig11a.toml", lossy_paths},
      {"mp/11b", "Paths are cut and restored one by one",
       "Figure 11(b): the healthy paths stay full; a restored path is full again in less than 1 s.",
       "fig11b.toml", cut_paths},
      {"mp/12a", "Permutation of five connections over four paths",
       "Figure 12(a): 150.68 Gb/s in total, about 30 Gb/s for each of five connections; DCQCN "
       "102.46 Gb/s.",
       "fig12a.toml", permutation},
      {"mp/12b", "Permutation over a leaf-spine of 320 servers",
       "Figure 12(b): 34.78 % more goodput than DCQCN; the slowest flow has 32.95 Gb/s.",
       "fig12b.toml", fabric_permutation},
      {"mp/13", "Completion times of web-search messages",
       "Figure 13: mean FCT 6.0 to 17.7 % shorter than DCQCN's, 16.7 to 77.7 % above 10 MB, 3.6 to "
       "13.3 % below 100 KB; 54 virtual paths at the start, later 60 to 70.",
       "fig13.toml", completion_times},
      {"mp/14a", "How far out of order packets come by delta",
       "Figure 14(a): delta = 32 keeps the 99.9th percentile about 5 times smaller than without "
       "control where a path's marking is misconfigured, 50 times where it is slow.",
       "fig14.toml", reordering_by_delta},
      {"mp/14b", "A window of 64 packets and a bad path",
       "Figure 14(b): optimal with misconfigured ECN, 3.94 % below with a path at 1 Gb/s; without "
       "control 25.1 % and 67.5 % below.",
       "fig14.toml", bounded_window},
      {"mp/15", "A flow that is confined to path 4 joins",
       "Figure 15: the multi-path flow leaves path 4; the other three stay at about 10 Gb/s.",
       "fig15.toml", pinned_flow},
      {"mp/16", "Eight flows join and leave one bottleneck",
       "Figure 16: Jain's index 0.996 to 0.999 at every number of flows.", "fig16.toml",
       join_and_leave},
      {"mp/17", "Incast of one to nine senders",
       "Figure 17: about 37.65 Gb/s at every degree, some 3 % above DCQCN.", "fig17.toml", incast},
      {"mp/18", "Synchronise messages that come too early",
       "Figure 18: the larger alpha, the fewer; none with alpha = 1; more with larger messages.",
       "fig18.toml", synchronise_order},
      {"mp/19", "Goodput by the share of synchronise messages",
       "Figure 19: 512 KB: about 30 Gb/s at every share, also with stop and wait. 32 KB: 49 to 13 "
       "% "
       "above DCQCN to 60 %, 16.28 % below at 80 %; stop and wait less than half of MP-RDMA.",
       "fig18.toml", synchronise_goodput},
      {"mp/20", "Flowlets by inactivity gap",
       "Figure 20: RDMA has no flowlets beyond a gap of 2 us; TCP has some of 60 KB at 100 us.",
       "fig20.toml", flowlets},
  };
}

std::vector<Figure> other_results() {
  return {
      {"mp/table1", "Extra state of a connection",
       "Table 1: 66 bytes, comparable with the 60 that DCQCN adds.", "", extra_state},
      {"mp/taildrop", "A tail-drop bottleneck without ECN",
       "Not in the paper, whose network marks and does not drop.", "taildrop.toml", tail_drop},
      {"mp/restart", "Small messages, then 1 MiB",
       "Section 3.5: a connection that was idle for 3 RTT starts from the initial window again.",
       "restart.toml", restart},
      {"mp/ablation", "Each deviation from the paper switched off alone",
       "Not in the paper: what each departure from its letter is worth.", "fig11a.toml", ablation},
  };
}

std::vector<Figure> of_applications() {
  const std::string ours = "Nobody's figure: what applications send. ";
  return {
      {"apps/dead-path", "Closed loops where paths are dead",
       ours + "Targets: 0.95 of the healthy speed; a path that is repaired is used after 12 ms.",
       "loops.toml", dead_path},
      {"apps/loss-latency", "Closed loops where a path loses packets",
       ours + "Targets at 5 %: 1.05 of the mean and 1.2 of the 99th percentile without loss.",
       "loops.toml", loss_latency},
      {"apps/slow-path", "Closed loops where a path is slow or long",
       ours + "Target: 0.9 of the healthy speed.", "loops.toml", slow_path},
      {"apps/cut-1000", "A path is cut under a thousand closed loops",
       ours +
           "Targets: no message takes longer than 300 us, and no timeout; 99 % of the loops that "
           "are cut are as fast as before after 420 us.",
       "cut.toml", cut_loops},
      {"apps/incast", "Closed loops to one receiver",
       ours + "Targets: a mean queue of 80 KB, no message longer than 1150 us; 34 Gb/s with a dead "
              "spine.",
       "incast.toml", incast_loops},
      {"apps/spurious", "Copies where nothing is lost", ours + "Target: none.", "incast.toml",
       spurious_copies},
      {"apps/fast-links", "One connection over fast links",
       ours + "Targets at 100 Gb/s: 85 Gb/s with a round trip of 20 us, 80 with 50.", "fast.toml",
       fast_links},
      {"apps/starved", "A connection beside others whose receiver posts no receive",
       ours + "Target: 0.97 of the speed without them.", "starved.toml", starved_neighbours},
      {"apps/ablation", "Each deviation from the paper switched off alone, for applications",
       ours + "What each deviation is worth to closed loops, to hosts in software, and where "
              "nothing marks.",
       "loops.toml", ablation_loops},
  };
}

std::vector<Figure> of_irn() {
  const std::string better = "IRN without PFC performs better than RoCE with PFC";
  return {
      {"irn/fct", "Mean completion times of IRN and RoCE",
       "Slides: " + better + ", without congestion control, with TIMELY and with DCQCN.",
       "irn.toml", irn_mean},
      {"irn/tail", "99th percentile of the completion times of IRN and RoCE",
       "Slides: " + better + " in the tail, too.", "irn.toml", irn_tail},
      {"irn/slowdown", "Mean slowdown of IRN and RoCE",
       "Slides: " + better + " in the mean slowdown, too.", "irn.toml", irn_slowdown},
      {"irn/pfc", "What PFC does to IRN and to RoCE",
       "Slides: IRN does not require PFC; RoCE requires it.", "irn.toml", irn_pfc},
      {"irn/sweep", "IRN and RoCE over rates, loads, scales, buffers and sizes",
       "Slides: the result holds over link rates, loads, scales, buffer sizes and workloads.",
       "irn.toml", irn_sweep},
  };
}

std::vector<Figure> of_commodity_ethernet() {
  return {
      {"rocescale/livelock", "A switch drops one packet of 256",
       "Slides: with go-back-0 nothing is ever delivered; go-back-N makes progress.",
       "livelock.toml", livelock},
      {"rocescale/deadlock", "Packets for dead servers are flooded",
       "Slides: pauses close a circle, and traffic stops for ever; dropping lossless packets whose "
       "ARP entry is incomplete cures it.",
       "deadlock.toml", pfc_deadlock},
      {"rocescale/storm", "One NIC pauses its switch without end",
       "Slides: the whole network is blocked; watchdogs at NIC and switch stop the storm.",
       "storm.toml", pause_storm},
      {"rocescale/slow-receiver", "A NIC that is slower than its link",
       "Slides: misses in the cache of page addresses make the NIC pause; larger pages and dynamic "
       "buffer sharing at the ToR mitigate it.",
       "slow-receiver.toml", slow_receiver},
      {"rocescale/ecmp", "What connections use of the links between two pods",
       "Slides: 3 of 5 Tb/s, limited by ECMP.", "ecmp.toml", ecmp_utilisation},
      {"rocescale/latency", "Small messages while a shuffle runs",
       "Slides: latencies rise as data shuffling starts.", "latency.toml", shuffle_latency},
  };
}

std::vector<Figure> of_article() {
  return {
      {"article/fairness", "Three flows, two of which come in by one port",
       "The article: flow 1 always has more than flow 2 or 3.", "three-flows.toml", pfc_fairness},
      {"article/hol", "A flow to a free port beside one to a busy port",
       "The article: the flow is paused although it does not cross the busy port.",
       "three-flows.toml", head_of_line},
      {"article/pause", "Which traffic stops",
       "The article: Global Pause stops all, PFC one class; the class in the VLAN's tag needs a "
       "VLAN, the one in the IP header does not.",
       "three-flows.toml", what_is_paused},
      {"article/bdp", "A bandwidth-delay product for each sender",
       "The article: 25 Gb/s and 6 us are 19 KB, and 12 MB take an incast of 640.", "bdp.toml",
       bdp_arithmetic},
      {"article/timely", "DCQCN and TIMELY",
       "The article, after Zhu et al.: TIMELY can hardly have fairness and bounded delay at once, "
       "DCQCN can.",
       "timely.toml", dcqcn_against_timely},
      {"article/credits", "Session credits of RPCs over datagrams",
       "The article, after Kalia et al.: eRPC has 8 credits for each session, fewer than the "
       "bandwidth-delay product, and needs no PFC; their number influences bandwidth and latency "
       "of one session and of many; losses are rare, and go-back-N does for them.",
       "credits.toml", session_credits},
  };
}

}  // namespace

const std::vector<Figure>& all_figures() {
  static const std::vector<Figure> kAll = [] {
    std::vector<Figure> all = numbered_figures();
    for (const Figure& other : other_results()) all.push_back(other);
    for (const Figure& other : of_applications()) all.push_back(other);
    for (const Figure& other : of_irn()) all.push_back(other);
    for (const Figure& other : of_commodity_ethernet()) all.push_back(other);
    for (const Figure& other : of_article()) all.push_back(other);
    return all;
  }();
  return kAll;
}

}  // namespace mprdma::figures
