// Figure article/credits: sessions of RPCs over datagrams, as eRPC's: what the number of credits
// does to one session and to many, and what a loss costs.
#include <fmt/format.h>

#include <cmath>

#include "base/percentile.hpp"
#include "evaluation/cases.hpp"
#include "evaluation/list.hpp"

namespace mprdma::figures {

namespace {

using switchsim::Overrides;
using switchsim::Result;

// As in the scenario.
constexpr double kGbps = 25;
constexpr double kRttUs = 6;
constexpr double kRequestBytes = 1024;
constexpr double kTimeoutUs = 5'000;
// Clients with one request at a time.
constexpr uint32_t kLight = 8;
constexpr uint32_t kDefaultCredits = 8;

constexpr uint32_t kOfOne[] = {1, 2, 4, 8, 16, 32};
constexpr uint32_t kOfMany[] = {1, 4, 8, 16, 32};

struct Loss {
  const char* id;
  double share;
};
const Loss kLosses[] = {{"1e-5", 1e-5}, {"1e-4", 1e-4}, {"1e-3", 1e-3}};

std::string credits_of(uint32_t credits) {
  return fmt::format("traffic[many].rpc_credits={}", credits);
}

std::string words_of(uint32_t credits) {
  return credits == 1 ? "1 credit" : fmt::format("{} credits", credits);
}

// The small size has a quarter of the clients and of the buffer.
uint32_t clients(bool ci) {
  return ci ? 160 : 640;
}

Overrides many(bool ci) {
  if (!ci) return {};
  return {fmt::format("topology.pairs={}", clients(ci) + kLight),
          fmt::format("traffic[many].from=l1..l{}", clients(ci)),
          fmt::format("flow[light].from=l{}..l{}", clients(ci) + 1, clients(ci) + kLight),
          "topology.switch_buffer_bytes=3_000_000"};
}

// One client alone.
Overrides one(const char* duration_us) {
  return {"topology.pairs=2",    "traffic[many].from=l1",
          "flow[light].from=l2", "flow[light].stop_us=0",
          "warm_up_us=2_000",    fmt::format("duration_us={}", duration_us)};
}

// One client alone, on a link that loses.
Overrides lossy(const Overrides& session, const Loss& loss) {
  return with(session, {fmt::format("link[bottleneck].ab.loss={}", loss.id)});
}

// In place of the session a connection of a mode.
Overrides connection(const char* preset) {
  return with(one("22_000"), {"traffic[many].rpc_credits=0", "flow[light].rpc_credits=0",
                              fmt::format("transport.preset={}", preset)});
}

std::vector<Case> list_of(bool ci) {
  std::vector<Case> list;
  for (const uint32_t credits : kOfOne) {
    list.push_back({fmt::format("one.{}", credits),
                    fmt::format("one session, {}", words_of(credits)),
                    with({credits_of(credits)}, one("12_000"))});
  }
  for (const uint32_t credits : kOfMany) {
    list.push_back({fmt::format("many.{}", credits),
                    fmt::format("{} sessions, {}", clients(ci), words_of(credits)),
                    with({credits_of(credits)}, many(ci))});
  }
  const Overrides session = one(ci ? "202_000" : "502_000");
  for (const Loss& loss : kLosses) {
    list.push_back({fmt::format("loss.ud-{}", loss.id),
                    fmt::format("8 credits, {} of the requests lost", loss.id),
                    lossy(session, loss)});
  }
  const Loss& most = kLosses[2];
  list.push_back({"loss.fast", "8 credits and a timeout of 100 us, 1e-3 lost",
                  with(lossy(session, most), {"traffic[many].rpc_timeout_us=100"})});
  for (const auto& [preset, name] : {std::pair("mp", "mp"), std::pair("irn", "IRN")}) {
    list.push_back(
        {fmt::format("{}-0", preset), fmt::format("{}, no loss", name), connection(preset)});
    list.push_back({fmt::format("loss.{}", preset), fmt::format("{}, 1e-3 lost", name),
                    lossy(connection(preset), most)});
  }
  return list;
}

double goodput(const Result& result) {
  return result.goodput_bps / 1e9;
}

double drops(const Result& result) {
  return static_cast<double>(result.port_named("bottleneck.ab")->total.drop_buffer);
}

double queue_bytes(const Result& result) {
  return static_cast<double>(result.port_named("bottleneck.ab")->queue_max_bytes);
}

double timeouts(const Result& result) {
  return static_cast<double>(result.timeouts());
}

// Jain's index of the sessions that always have requests.
double jain_of_many(const Result& result) {
  std::vector<double> rates;
  for (const switchsim::FlowResult& flow : result.flows) {
    if (flow.name.starts_with("many")) rates.push_back(flow.goodput_bps);
  }
  return switchsim::jain_index(rates);
}

// 99th percentile of the requests of clients with one at a time.
double light_us(const Result& result) {
  std::vector<double> times;
  for (const switchsim::FlowResult& flow : result.flows) {
    if (!flow.name.starts_with("light")) continue;
    for (const switchsim::MessageRecord& message : flow.messages) {
      times.push_back(static_cast<double>(message.fct().count_ps()) / 1e6);
    }
  }
  return percentile(times, 0.99);
}

// What so many credits let a session send in a round trip, Gb/s.
double by_credits(uint32_t credits) {
  return credits * kRequestBytes * 8 / kRttUs / 1e3;
}

// The packets of all sessions that may be in the network at once.
double bound_bytes(bool ci, uint32_t credits) {
  return (clients(ci) * credits + kLight) *
         static_cast<double>(switchsim::datagram_wire_bytes(kRequestBytes));
}

void claim_one(const Cases& cases, FigureResult* out) {
  for (const uint32_t credits : kOfOne) {
    const std::string id = fmt::format("one.{}", credits);
    const double ceiling = ceiling_bps(cases.scenario(id), cases.scenario(id).link("bottleneck"));
    const auto share = [&](const Result& r) { return r.goodput_bps / ceiling; };
    if (by_credits(credits) * 1e9 > ceiling) {
      cases.claim(id, "ceiling", "goodput / ceiling", ">= 0.99", share, "", out);
      continue;
    }
    cases.report(id, "ceiling", "goodput / ceiling", share, "", out);
    cases.claim(
        id, "line", "distance of the goodput from credits x request / round trip", "<= 0.01",
        [&](const Result& r) { return std::abs(goodput(r) / by_credits(credits) - 1); }, "", out);
  }
}

void claim_many(const Cases& cases, bool ci, FigureResult* out) {
  for (const uint32_t credits : kOfMany) {
    const std::string id = fmt::format("many.{}", credits);
    const bool fits = credits < 32;
    const double ceiling = ceiling_bps(cases.scenario(id), cases.scenario(id).link("bottleneck"));
    const double bound = bound_bytes(ci, credits);
    cases.claim(id, "drops", "requests that found no memory", fits ? "<= 0" : "> 0", drops, "",
                out);
    cases.claim(id, "timeouts", "timeouts", fits ? "<= 0" : "> 0", timeouts, "", out);
    cases.claim(
        id, "goodput", "goodput / ceiling", fits ? ">= 0.99" : "<= 0.97",
        [&](const Result& r) { return r.goodput_bps / ceiling; }, "", out);
    cases.claim(id, "jain", "Jain's index of the sessions", fits ? ">= 0.99" : "<= 0.8",
                jain_of_many, "", out);
    const std::string lone = "99th percentile of a client with one request at a time";
    cases.report(id, "light", lone, light_us, "us", out);
    if (!fits) continue;
    cases.claim(
        id, "queue", "longest queue / (sessions x credits x packet)", "<= 1",
        [&](const Result& r) { return queue_bytes(r) / bound; }, "", out);
    cases.claim(
        id, "wait", lone + " / (that queue's time and a round trip)", "<= 1",
        [&](const Result& r) { return light_us(r) / (bound * 8 / kGbps / 1e3 + kRttUs); }, "", out);
  }
  const double light = cases.over("many.16", light_us).mean / cases.over("many.4", light_us).mean;
  out->claim("credits.many.wait", "that percentile, of 16 credits / of 4", ">= 3", light, 0, "x");
}

void claim_loss(const Cases& cases, FigureResult* out) {
  const std::string what = "goodput / without loss";
  const double clean = cases.over("one.8", goodput).mean;
  const auto share = [&](const Result& r) { return goodput(r) / clean; };
  for (const Loss& loss : kLosses) {
    const std::string id = fmt::format("loss.ud-{}", loss.id);
    // A loss stops the session until its timeout.
    const double lost_per_us = clean * 1e3 / 8 / kRequestBytes * loss.share;
    out->report(fmt::format("credits.{}.expected", id),
                fmt::format("8 credits, {} lost: goodput / without loss, by the timeout", loss.id),
                "", 1 / (1 + lost_per_us * kTimeoutUs), 0, "", "");
    const char* target = loss.share > 5e-4 ? "<= 0.2" : loss.share > 5e-5 ? "<= 0.8" : ">= 0.8";
    cases.claim(id, "goodput", what, target, share, "", out);
  }
  cases.claim("loss.fast", "goodput", what, ">= 0.8", share, "", out);
  for (const char* preset : {"mp", "irn"}) {
    const double full = cases.over(fmt::format("{}-0", preset), goodput).mean;
    cases.claim(
        fmt::format("loss.{}", preset), "goodput", what, ">= 0.95",
        [&](const Result& r) { return goodput(r) / full; }, "", out);
  }
}

Panel panel_of_one(const Cases& cases) {
  Panel panel{"One session", "credits", "goodput, Gb/s", {}};
  Curve measured{"measured", {}, {}};
  Curve line{"credits x request / round trip", {}, {}, {}, Stroke::kLine};
  for (const uint32_t credits : kOfOne) {
    measured.x.push_back(credits);
    measured.y.push_back(cases.over(fmt::format("one.{}", credits), goodput).mean);
    if (credits > 16) continue;
    line.x.push_back(credits);
    line.y.push_back(by_credits(credits));
  }
  line.dashed = true;
  panel.curves = {measured, line};
  return panel;
}

Panel panel_of_many(const Cases& cases, bool ci) {
  Panel panel{fmt::format("{} sessions to one server", clients(ci)),
              "credits",
              "99th percentile of a lone request, us",
              {}};
  Curve curve{"one request at a time", {}, {}};
  for (const uint32_t credits : kOfMany) {
    const Summary summary = cases.over(fmt::format("many.{}", credits), light_us);
    curve.x.push_back(credits);
    curve.y.push_back(summary.mean);
    curve.error.push_back(summary.deviation);
  }
  panel.curves = {curve};
  panel.legend = false;
  return panel;
}

Panel panel_of_loss(const Cases& cases) {
  Panel panel{"One client on a link that loses",
              "share of requests lost; from 1e-3 on that share",
              "goodput, Gb/s",
              {}};
  // Of the cases below, in their order.
  panel.categories = {"none", "1e-5", "1e-4", "1e-3", "100 us", "mp", "IRN"};
  Curve curve{"goodput", {}, {}, {}, Stroke::kBars};
  for (const Case& each : cases.all()) {
    if (!each.id.starts_with("loss.") && each.id != "one.8") continue;
    const Summary summary = cases.over(each.id, goodput);
    curve.x.push_back(static_cast<double>(curve.x.size()));
    curve.y.push_back(summary.mean);
    curve.error.push_back(summary.deviation);
  }
  panel.curves = {curve};
  panel.legend = false;
  return panel;
}

}  // namespace

FigureResult session_credits(const Figure& figure, const RunOptions& options) {
  const bool ci = options.ci();
  const Cases cases(figure, options, list_of(ci), {});
  FigureResult out;
  claim_one(cases, &out);
  claim_many(cases, ci, &out);
  claim_loss(cases, &out);
  out.panels = {panel_of_one(cases), panel_of_many(cases, ci), panel_of_loss(cases)};
  out.own_targets();
  cases.finish(
      "bottleneck",
      fmt::format("Clients of 25 Gb/s send requests of 1 KB over UD to a server, which "
                  "answers with 16 B; round trip 6 us, no PFC; one session, or {} to one "
                  "server, each with 64 requests to send at any time, over a switch with "
                  "{} MB, beside {} clients that send one request and wait; losses are "
                  "random, of requests",
                  clients(ci), ci ? 3 : 12, kLight),
      fmt::format("The article gives the default of {} credits, which lie below the 17 "
                  "packets of the bandwidth-delay product, and no figure. Each session has "
                  "queue pairs of its own, where eRPC has one for each thread; requests "
                  "and responses are one packet each; hosts take no time for a request; "
                  "there is no congestion control but the credits. With 32 credits the "
                  "percentile of lone requests covers those that came through.",
                  kDefaultCredits),
      &out);
  out.seen = "Credits bound the queue, and one session's rate; a loss costs a timeout";
  return out;
}

}  // namespace mprdma::figures
