// The trace of a simulation: it holds what the result counts, of the flow that was asked for, and
// changes nothing.
#include "switchsim/sim/hosts/trace_file.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "switchsim/sim/result/result_json.hpp"
#include "switchsim/sim/simulation.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/unit/switchsim/sim/scenarios.hpp"

namespace mprdma::switchsim {
namespace {

// Two flows over paths that lose packets.
Scenario lossy(const transport::Params& params) {
  Scenario scenario;
  make_testbed({}, &scenario);
  for (const LinkId path : scenario.paths) scenario.topology.links[path].ab.loss_ppm = 10'000;
  for (const char* number : {"1", "2"}) {
    FlowSpec flow =
        flow_between(scenario, std::string("a") + number, std::string("b") + number, params);
    flow.message_bytes = 500'000;
    flow.messages = 4;
    scenario.flows.push_back(flow);
  }
  scenario.flows[1].name = "second";
  scenario.duration = SimSpan::ms(50);
  scenario.end_when_idle = true;
  return scenario;
}

// Events by "host event".
std::map<std::string, uint64_t> counted(const std::string& path) {
  std::map<std::string, uint64_t> out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto event = nlohmann::json::parse(line);
    ++out[event.at("host").get<std::string>() + " " + event.at("event").get<std::string>()];
  }
  return out;
}

Result simulate_traced(const Scenario& scenario, TraceFile* trace) {
  RunOptions options;
  options.trace = trace;
  return simulate(scenario, options);
}

std::string text_of(const Scenario& scenario, TraceFile* trace) {
  return to_json(simulate_traced(scenario, trace), scenario, "", "", true).dump();
}

class TraceFileOf : public ::testing::TestWithParam<transport::Params> {};

TEST_P(TraceFileOf, HoldsWhatTheResultCountsAndChangesNothing) {
  const TemporaryDirectory directory;
  const Scenario scenario = lossy(GetParam());
  TraceFile trace;
  ASSERT_TRUE(trace.open(directory.path() + "/trace", {}).ok());
  EXPECT_EQ(text_of(scenario, &trace), text_of(scenario, nullptr));
  ASSERT_TRUE(trace.close().ok());

  auto events = counted(directory.path() + "/trace");
  const Result result = simulate(scenario);
  for (size_t i = 0; i < 2; ++i) {
    const transport::StreamStats& stats = result.flows[i].stats;
    const std::string host = "a" + std::to_string(i + 1);
    EXPECT_EQ(events[host + " send"], stats.packets_sent);
    EXPECT_GT(stats.retransmitted, 0U);
    EXPECT_EQ(events[host + " lost"], stats.retransmitted_nack + stats.retransmitted_trigger +
                                          stats.retransmitted_early + stats.retransmitted_rto);
    EXPECT_EQ(events[host + " timeout"], stats.rto_expired);
    const transport::TransportCounters& receiver = result.flows[i].receiver;
    EXPECT_EQ(events["b" + std::to_string(i + 1) + " send"],
              receiver.acks_sent + receiver.nacks_sent);
  }
}

INSTANTIATE_TEST_SUITE_P(Recoveries, TraceFileOf,
                         ::testing::Values(transport::Params::mp(), transport::Params::mp_paper()));

TEST(TraceFile, HoldsOneFlowOnly) {
  const TemporaryDirectory directory;
  TraceFile trace;
  ASSERT_TRUE(trace.open(directory.path() + "/trace", 1).ok());
  simulate_traced(lossy(transport::Params::mp()), &trace);
  ASSERT_TRUE(trace.close().ok());
  auto events = counted(directory.path() + "/trace");
  EXPECT_GT(events["a2 send"], 0U);
  EXPECT_GT(events["b2 receive"], 0U);
  for (const auto& [name, count] : events) EXPECT_EQ(name[1], '2') << name;
}

TEST(TraceFile, SaysWhyItCannotBeWritten) {
  TraceFile trace;
  EXPECT_EQ(trace.open("/nonexistent/trace", {}).text,
            "/nonexistent/trace: No such file or directory");
}

}  // namespace
}  // namespace mprdma::switchsim
