// Figure article/pause: which traffic stops, and which is dropped: Global Pause against PFC, and
// the class in the VLAN's tag (PCP) against the class in the IP header (DSCP).
#include <fmt/format.h>

#include "evaluation/cases.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;

double paused_share(const Result& result) {
  return result.port_named("ingress2.ab")->paused_share;
}

Panel panel_of(const Cases& cases) {
  Panel panel{"Goodput of two classes that share an ingress", "", "Gb/s", {}};
  for (const auto& [name, flow, colour] : {std::tuple("lossless class, to the busy port", 2, 0),
                                           std::tuple("other class, to a free port", 1, 1)}) {
    Curve curve{name, {}, {}, {}, Stroke::kBars, colour};
    for (const Case& one : cases.all()) {
      curve.x.push_back(static_cast<double>(curve.x.size()));
      curve.y.push_back(cases.first(one.id).flows[static_cast<size_t>(flow)].goodput_bps / 1e9);
    }
    panel.curves.push_back(curve);
  }
  for (const Case& one : cases.all()) panel.categories.push_back(one.name);
  return panel;
}

}  // namespace

FigureResult what_is_paused(const Figure& figure, const RunOptions& options) {
  // Flows 1, 3 and 4 are of the lossless class and crowd one port; flow 2 is of another class, and
  // leaves by a free port. It has less than half of the ingress, or the lossless class could not
  // lose packets where it is not paused there (PCP).
  const switchsim::Overrides classes = {
      "flow[flow2].to=out2", "flow[flow2].lossless=false", "link[h2].rate_gbps=15",
      "link[egress1].queue_bytes=200_000", "flow[flow4].stop_us=1e9"};
  const switchsim::Overrides pfc = with(classes, kPfc);
  const Cases cases(figure, options,
                    {{"global", "Global Pause", with(pfc, {"topology.global_pause=true"})},
                     {"dscp", "PFC, class in the IP header", pfc},
                     {"pcp", "PFC, class in the VLAN's tag", with(pfc, {"topology.priority=pcp"})},
                     {"none", "no pause", classes}},
                    {"duration_us=15_000", "warm_up_us=5_000"});
  FigureResult out;
  const double ceiling = ceiling_bps(cases.scenario("dscp"), cases.scenario("dscp").link("h2"));
  const auto other_class = [&](const Result& r) { return r.flows[1].goodput_bps / ceiling; };
  const std::string other = "goodput of the other class / ceiling of its host's link";
  const std::string lost = kSwitchDrops;
  const std::string paused = "share of the time that the shared ingress was paused";
  cases.claim("global", "other", other, "<= 0.8", other_class, "", &out);
  cases.claim("global", "paused", paused, "> 0", paused_share, "", &out);
  cases.claim("global", "drops", lost, "<= 0", drops_of_switches, "", &out);
  cases.claim("dscp", "other", other, ">= 0.95", other_class, "", &out);
  cases.claim("dscp", "drops", lost, "<= 0", drops_of_switches, "", &out);
  cases.claim("dscp", "paused", paused, "> 0", paused_share, "", &out);
  cases.claim("pcp", "drops", lost, "> 0", drops_of_switches, "", &out);
  cases.claim("pcp", "paused", paused, "<= 0", paused_share, "", &out);
  cases.report("pcp", "other", other, other_class, "", &out);
  cases.report("none", "other", other, other_class, "", &out);
  cases.claim("none", "drops", lost, "> 0", drops_of_switches, "", &out);
  out.panels.push_back(panel_of(cases));
  out.own_targets();
  cases.finish("egress1",
               "Three flows of the lossless class crowd one port; a flow of another class shares "
               "the ingress of one of them and leaves by a free port; RoCE, links of 40 Gb/s, "
               "that of the other flow's host 15. With PCP the class ends with the VLAN, at the "
               "first switch, which routes",
               "The article describes it, without numbers. The busy port holds 200 KB of what is "
               "not lossless. Without pauses the shared ingress drops packets of both classes in "
               "some runs, so that the other class loses goodput there, too: the rows of what "
               "switches dropped tell that from Global Pause.",
               &out);
  out.seen = "Global Pause stops every class, PFC one, and PCP protects none beyond a router";
  return out;
}

}  // namespace mprdma::figures
