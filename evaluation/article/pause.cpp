// Figure article/pause: which traffic stops, and which is dropped: Global Pause against PFC, and
// the class in the VLAN's tag (PCP) against the class in the IP header (DSCP).
#include <fmt/format.h>

#include "evaluation/cases.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;

// What the switch in the middle dropped of the lossless class.
double drops(const Result& result) {
  double sum = 0;
  for (const switchsim::PortResult& port : result.ports) {
    sum += static_cast<double>(port.total.drop_queue + port.total.drop_buffer);
  }
  return sum;
}

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
  // leaves by a free port.
  const switchsim::Overrides classes = {
      "flow[flow2].to=out2", "flow[flow2].lossless=false", "link[h2].rate_gbps=10",
      "link[egress1].queue_bytes=300_000", "flow[flow4].stop_us=1e9"};
  const switchsim::Overrides pfc =
      with(classes, {"topology.pfc=true", "topology.pause_bytes=100_000"});
  // What a pause takes from the other class is the more, the more it had. Where no pause comes, the
  // lossless class needs more than half of the shared ingress to lose packets.
  const switchsim::Overrides wide = with(pfc, {"link[h2].rate_gbps=20"});
  const Cases cases(figure, options,
                    {{"global", "Global Pause", with(wide, {"topology.global_pause=true"})},
                     {"dscp", "PFC, class in the IP header", wide},
                     {"pcp", "PFC, class in the VLAN's tag", with(pfc, {"topology.priority=pcp"})},
                     {"none", "no pause", classes}},
                    {"duration_us=15_000", "warm_up_us=5_000"});
  FigureResult out;
  const auto other_class = [](const Result& r) {
    return r.flows[1].goodput_bps /
           (static_cast<double>(r.port_named("h2.ab")->rate.bits_per_second()) * r.payload_share);
  };
  const std::string other = "goodput of the other class / ceiling of its host's link";
  const std::string lost = "packets that switches dropped";
  const std::string paused = "share of the time that the shared ingress was paused";
  cases.claim("global", "other", other, "<= 0.75", other_class, "", &out);
  cases.claim("global", "paused", paused, "> 0", paused_share, "", &out);
  cases.claim("global", "drops", lost, "<= 0", drops, "", &out);
  cases.claim("dscp", "other", other, ">= 0.95", other_class, "", &out);
  cases.claim("dscp", "drops", lost, "<= 0", drops, "", &out);
  cases.claim("dscp", "paused", paused, "> 0", paused_share, "", &out);
  cases.claim("pcp", "drops", lost, "> 0", drops, "", &out);
  cases.claim("pcp", "paused", paused, "<= 0", paused_share, "", &out);
  cases.report("pcp", "other", other, other_class, "", &out);
  cases.report("none", "other", other, other_class, "", &out);
  out.claims.back().note = "where nothing pauses, the shared ingress drops packets of both classes";
  cases.claim("none", "drops", lost, "> 0", drops, "", &out);
  out.panels.push_back(panel_of(cases));
  out.own_targets();
  cases.finish("egress1",
               "Three flows of the lossless class crowd one port; a flow of another class shares "
               "the ingress of one of them and leaves by a free port; RoCE, links of 40 Gb/s, "
               "that of the other flow's host 20, and 10 where no pause comes. With PCP the class "
               "ends with the VLAN, at the first "
               "switch, which routes",
               "The article describes it, without numbers. The busy port holds 300 KB of what is "
               "not lossless.",
               &out);
  out.seen = "Global Pause stops every class, PFC one, and PCP protects none beyond a router";
  return out;
}

}  // namespace mprdma::figures
