// Figure rocescale/slow-receiver: pauses of a NIC that misses in its cache of page addresses, with
// pages of two sizes and two ways to share the ToR's buffer.
#include <fmt/format.h>

#include "evaluation/cases.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Result;

double measured_s(const Cases& cases, const Result& result) {
  const switchsim::SimSpan span =
      result.end - (switchsim::SimTime() + cases.scenario("static").warm_up);
  return static_cast<double>(span.count_ps()) / 1e12;
}

// Pauses a second that receivers of ports asked for, by the name of the link.
double pauses(const Cases& cases, const Result& result, bool of_nic) {
  double sum = 0;
  for (const switchsim::PortResult& port : result.ports) {
    const bool nic = port.name == "h1.ba";
    const bool fabric = port.name.starts_with("leaf1-");
    if (of_nic ? nic : fabric) sum += static_cast<double>(port.pause_sent);
  }
  return sum / measured_s(cases, result);
}

double victims_gbps(const Result& result) {
  double sum = 0;
  for (const switchsim::FlowResult& flow : result.flows) {
    if (flow.name.starts_with("victim")) sum += flow.goodput_bps / 1e9;
  }
  return sum;
}

}  // namespace

FigureResult slow_receiver(const Figure& figure, const RunOptions& options) {
  // A buffer shared out in advance: so much for each ingress.
  const switchsim::Overrides share = {"topology.pause_bytes=100_000"};
  const Cases cases(figure, options,
                    {{"static", "4 KB pages, 100 KB for each ingress", share},
                     {"pages", "2 MB pages, 100 KB for each ingress",
                      with(share, {"receiver[0].page_bytes=2_097_152"})},
                     {"dynamic", "4 KB pages, alpha 1/16", {"topology.buffer_alpha=0.0625"}},
                     {"narrow", "4 KB pages, alpha 1/64", {"topology.buffer_alpha=0.015625"}}},
                    {"duration_us=12_000", "warm_up_us=3_000"});
  FigureResult out;
  const auto of_nic = [&](const Result& r) { return pauses(cases, r, true); };
  const auto of_tor = [&](const Result& r) { return pauses(cases, r, false); };
  cases.claim("static", "nic", "pauses of the NIC", ">= 1000", of_nic, "/s", &out);
  cases.claim("static", "tor", "pauses of its ToR", ">= 1000", of_tor, "/s", &out);
  cases.claim("pages", "nic", "pauses of the NIC", "<= 10", of_nic, "/s", &out);
  cases.report("pages", "tor", "pauses of its ToR", of_tor, "/s", &out);
  cases.report("dynamic", "nic", "pauses of the NIC", of_nic, "/s", &out);
  cases.claim("dynamic", "tor", "pauses of its ToR", "<= 10", of_tor, "/s", &out);
  cases.claim("narrow", "tor", "pauses of its ToR", ">= 1000", of_tor, "/s", &out);
  Panel panel{"Pauses", "", "frames a second", {}};
  Curve nic{"of the NIC", {}, {}, {}, Stroke::kBars, 0};
  Curve tor{"of its ToR", {}, {}, {}, Stroke::kBars, 1};
  for (const Case& one : cases.all()) {
    cases.report(one.id, "victims", "goodput of three connections past the slow server",
                 victims_gbps, "Gb/s", &out);
    panel.categories.push_back(one.name);
    for (const auto& [curve, value] : {std::pair(&nic, of_nic(cases.first(one.id))),
                                       std::pair(&tor, of_tor(cases.first(one.id)))}) {
      curve->x.push_back(static_cast<double>(curve->x.size()));
      curve->y.push_back(value);
    }
  }
  panel.curves = {nic, tor};
  out.panels.push_back(panel);
  out.own_targets();
  cases.finish(
      "h1",
      "A server receives messages of 4 KB at random places of 1 GB. Its NIC takes 100 ns "
      "for a packet, and 1 us more where the page's address is not among the 2048 that it "
      "keeps; it has a buffer of 256 KB. Three other connections cross the same ToR; links "
      "of 40 Gb/s. 128 messages are under way. The ToR has 12 MB, and pauses an ingress at "
      "100 KB, or at alpha times what is free",
      "The slides give no numbers but the links' rates. The messages under way, half a megabyte, "
      "are so many as alpha 1/16 takes. The cache is direct-mapped.",
      &out);
  out.seen =
      "Larger pages end the NIC's pauses, a buffer shared widely enough keeps them at the ToR";
  return out;
}

}  // namespace mprdma::figures
