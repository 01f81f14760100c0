#include "evaluation/mp_rdma/sync_beside.hpp"

#include <fmt/format.h>

#include <array>

namespace mprdma::figures {

namespace {

using switchsim::Result;

// Numbers of the flows in the scenario.
constexpr size_t kSynchronise = 0;
constexpr size_t kBeside = 1;

double gbps(const Result& result, size_t flow) {
  return result.flows[flow].goodput_bps / 1e9;
}

double sent_again(const Result& result) {
  const transport::StreamStats& stats = result.flows[kSynchronise].stats;
  return stats.packets_sent == 0
             ? 0
             : static_cast<double>(stats.retransmitted) / static_cast<double>(stats.packets_sent);
}

double early(const Result& result) {
  return static_cast<double>(result.flows[kSynchronise].sync_early);
}

}  // namespace

SyncBeside add_sync_beside(uint32_t seeds, bool ci, Batch* batch) {
  const auto add = [&](transport::SyncPolicy policy) {
    switchsim::Scenario scenario = load("synchronise-beside.toml", kMp.overrides);
    if (ci) shorten(&scenario, 4);
    for (switchsim::FlowSpec& flow : scenario.flows) flow.params.sync_policy = policy;
    return batch->add(scenario, seeds);
  };
  const size_t optimistic = add(transport::SyncPolicy::kOptimistic);
  return {optimistic, add(transport::SyncPolicy::kStopAndWait)};
}

void claim_sync_beside(const Batch& batch, const SyncBeside& groups, FigureResult* out) {
  const std::string name = "mp, 8 KB beside a connection, paths of 10 Gb/s: ";
  const Summary too_early = batch.over(groups.optimistic, early);
  // The other claims need early messages.
  out->claim("18.beside.some", name + "messages too early", ">= 1", too_early.mean,
             too_early.deviation, "/run");
  out->own_target();
  out->claim("18.beside.sent-again", name + "repeats / packets sent, most of a run", "<= 0.05",
             batch.over(groups.optimistic, sent_again).most, 0, "");
  out->own_target();
  std::array<double, 2> gain{};
  for (const size_t flow : {kSynchronise, kBeside}) {
    const auto rate = [flow](const Result& result) { return gbps(result, flow); };
    const Summary ours = batch.over(groups.optimistic, rate);
    const Summary waiting = batch.over(groups.waiting, rate);
    const char* id = flow == kSynchronise ? "synchronise" : "other";
    const char* whose = flow == kSynchronise ? "goodput" : "goodput of the other";
    out->report(fmt::format("18.beside.{}", id), name + whose, "", ours.mean, ours.deviation,
                "Gb/s", "");
    out->report(fmt::format("18.beside.wait.{}", id), name + whose + ", stop and wait", "",
                waiting.mean, waiting.deviation, "Gb/s", "");
    gain[flow] = ours.mean / waiting.mean;
  }
  out->claim("18.beside.gain", name + "goodput / with stop and wait", ">= 1", gain[kSynchronise], 0,
             "x");
  out->own_target();
  out->report("18.beside.other.gain", name + "goodput of the other / with stop and wait", "",
              gain[kBeside], 0, "x", "");
}

}  // namespace mprdma::figures
