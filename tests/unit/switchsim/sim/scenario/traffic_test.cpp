// Generated traffic: who sends to whom, when and how much, by the seed alone.
#include "switchsim/sim/scenario/traffic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "switchsim/sim/result/result_json.hpp"
#include "switchsim/sim/scenario/scenario_toml.hpp"
#include "tests/unit/switchsim/sim/scenarios.hpp"

namespace mprdma::switchsim {
namespace {

// 32 hosts under 4 leaves, with this traffic.
std::string text_of(const std::string& traffic) {
  return "duration_us = 10_000\n[topology]\nkind = \"leaf-spine\"\nleaves = 4\nspines = 4\n"
         "hosts_per_leaf = 8\n[[traffic]]\n" +
         traffic;
}

std::string error_of(const std::string& traffic) {
  Scenario scenario;
  return parse_scenario(text_of(traffic), "s.toml", {}, &scenario).text;
}

Scenario expanded(const std::string& traffic, uint64_t seed = 1) {
  Scenario scenario;
  EXPECT_EQ(parse_scenario(text_of(traffic), "s.toml", {}, &scenario).text, "");
  scenario.seed = seed;
  expand_traffic(&scenario);
  EXPECT_EQ(validate(scenario).text, "");
  return scenario;
}

using Pairs = std::vector<std::pair<NodeId, NodeId>>;

Pairs pairs_of(const Scenario& scenario) {
  Pairs out;
  for (const FlowSpec& flow : scenario.flows) out.emplace_back(flow.from, flow.to);
  return out;
}

TEST(Permutation, IsADerangementThatTheSeedDraws) {
  const std::string traffic = "kind = \"permutation\"\nmessage_bytes = 5000\nmessages = 3\n";
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Scenario s = expanded(traffic, seed);
    ASSERT_EQ(s.flows.size(), 32U);
    std::set<NodeId> senders;
    std::set<NodeId> receivers;
    for (const FlowSpec& flow : s.flows) {
      EXPECT_NE(flow.from, flow.to);
      EXPECT_EQ(flow.message_bytes, 5000U);
      EXPECT_EQ(flow.messages, 3U);
      senders.insert(flow.from);
      receivers.insert(flow.to);
    }
    EXPECT_EQ(senders.size(), 32U);
    EXPECT_EQ(receivers.size(), 32U);
  }
  EXPECT_EQ(pairs_of(expanded(traffic, 5)), pairs_of(expanded(traffic, 5)));
  EXPECT_NE(pairs_of(expanded(traffic, 5)), pairs_of(expanded(traffic, 6)));
  EXPECT_EQ(expanded(traffic).flows[9].name, "permutation10");
}

TEST(Permutation, BetweenTwoGroupsAssignsOneToTheOther) {
  const Scenario s = expanded("kind = \"permutation\"\nfrom = \"h1..h16\"\nto = \"h17..h32\"\n", 4);
  ASSERT_EQ(s.flows.size(), 16U);
  std::set<NodeId> receivers;
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(s.flows[i].from, i);
    receivers.insert(s.flows[i].to);
  }
  EXPECT_EQ(receivers.size(), 16U);
  EXPECT_EQ(*receivers.begin(), 16U);
}

TEST(Incast, DrawsItsSenders) {
  const std::string traffic = "kind = \"incast\"\nto = \"h5\"\nsenders = 9\n";
  const Scenario s = expanded(traffic, 3);
  ASSERT_EQ(s.flows.size(), 9U);
  std::set<NodeId> senders;
  for (const FlowSpec& flow : s.flows) {
    EXPECT_EQ(flow.to, 4U);
    EXPECT_NE(flow.from, 4U);
    senders.insert(flow.from);
  }
  EXPECT_EQ(senders.size(), 9U);
  EXPECT_NE(pairs_of(s), pairs_of(expanded(traffic, 4)));
  EXPECT_EQ(expanded("kind = \"incast\"\nto = \"h5\"\n").flows.size(), 31U);
}

TEST(AllToAll, IsEveryOrderedPair) {
  const Scenario s = expanded("kind = \"all-to-all\"\nfrom = \"h1..h6\"\nto = \"h1..h6\"\n");
  const Pairs pairs = pairs_of(s);
  EXPECT_EQ(std::set(pairs.begin(), pairs.end()).size(), 30U);
  EXPECT_EQ(pairs.size(), 30U);
}

TEST(Staggered, FlowsJoinAndLeaveInTurn) {
  const Scenario s = expanded(
      "kind = \"pairs\"\nfrom = \"h1..h8\"\nto = \"h32\"\nstart_us = 10\nstart_every_us = 100\n"
      "last_for_us = 1500\n");
  ASSERT_EQ(s.flows.size(), 8U);
  for (int i = 0; i < 8; ++i) {
    const auto n = static_cast<size_t>(i);
    EXPECT_EQ(s.flows[n].start, SimTime() + SimSpan::us(10 + 100 * i));
    EXPECT_EQ(s.flows[n].stop, SimTime() + SimSpan::us(1510 + 100 * i));
  }
  const Scenario late = expanded(
      "kind = \"pairs\"\nfrom = \"h1..h8\"\nto = \"h32\"\nstart_us = 10\nstart_jitter_us = 20\n");
  std::set<SimTime> starts;
  for (const FlowSpec& flow : late.flows) {
    EXPECT_GE(flow.start, SimTime() + SimSpan::us(10));
    EXPECT_LE(flow.start, SimTime() + SimSpan::us(30));
    starts.insert(flow.start);
  }
  EXPECT_EQ(starts.size(), 8U);
}

constexpr char kPoisson[] =
    "kind = \"poisson\"\nname = \"web\"\nload = 0.5\nmessage_bytes = 2_000\nstart_us = 1_000\n"
    "stop_us = 3_000\n";

std::vector<TimedMessage> messages_of(const Scenario& scenario, NodeId from) {
  std::vector<TimedMessage> out;
  for (const FlowSpec& flow : scenario.flows) {
    if (flow.from != from) continue;
    out.insert(out.end(), flow.timed_messages.begin(), flow.timed_messages.end());
  }
  std::sort(out.begin(), out.end(),
            [](const TimedMessage& a, const TimedMessage& b) { return a.at < b.at; });
  return out;
}

// Largest distance between the intervals' distribution and the exponential one of this mean.
double distance_to_exponential(std::vector<double> intervals, double mean) {
  std::sort(intervals.begin(), intervals.end());
  double most = 0;
  for (size_t i = 0; i < intervals.size(); ++i) {
    const double share = static_cast<double>(i + 1) / static_cast<double>(intervals.size());
    most = std::max(most, std::abs(share - (1 - std::exp(-intervals[i] / mean))));
  }
  return most;
}

TEST(Poisson, OffersItsLoadInExponentialIntervalsFromEachSender) {
  const Scenario s = expanded(kPoisson);
  // 0.5 x 40 Gb/s in messages of 2000 bytes: one in 800 ns.
  constexpr double kMeanPs = 800e3;
  std::vector<double> intervals;
  size_t messages = 0;
  for (NodeId host = 0; host < 32; ++host) {
    const std::vector<TimedMessage> list = messages_of(s, host);
    messages += list.size();
    ASSERT_GE(list.front().at, SimTime() + SimSpan::us(1000));
    ASSERT_LT(list.back().at, SimTime() + SimSpan::us(3000));
    for (size_t i = 1; i < list.size(); ++i) {
      intervals.push_back(static_cast<double>((list[i].at - list[i - 1].at).count_ps()));
    }
  }
  EXPECT_NEAR(static_cast<double>(messages), 80'000, 3 * std::sqrt(80'000.0));
  const double critical = 1.95 / std::sqrt(static_cast<double>(intervals.size()));
  EXPECT_LT(distance_to_exponential(intervals, kMeanPs), critical);
  // The test rejects times that are no Poisson process.
  EXPECT_GT(distance_to_exponential(intervals, 1.1 * kMeanPs), critical);
  EXPECT_GT(distance_to_exponential(std::vector<double>(1000, kMeanPs), kMeanPs), 0.3);
}

TEST(Poisson, PartnersAreDrawnAlikeAndEachPairHasOneQueuePair) {
  const Scenario s = expanded(kPoisson);
  EXPECT_EQ(s.flows.size(), 32U * 31);
  const Pairs pairs = pairs_of(s);
  EXPECT_EQ(std::set(pairs.begin(), pairs.end()).size(), pairs.size());
  double chi_squared = 0;
  size_t messages = 0;
  for (const FlowSpec& flow : s.flows) messages += flow.timed_messages.size();
  const double expected = static_cast<double>(messages) / static_cast<double>(s.flows.size());
  for (const FlowSpec& flow : s.flows) {
    const double difference = static_cast<double>(flow.timed_messages.size()) - expected;
    chi_squared += difference * difference / expected;
  }
  EXPECT_NEAR(chi_squared, 991, 3 * std::sqrt(2 * 991.0));
}

TEST(Poisson, PartnersMayBeGivenAndQueuePairsMayBeThoseOfMessages) {
  const std::string given = "from = \"h1..h16\"\nto = \"h17..h32\"\npartners = ";
  const Scenario pairs = expanded(kPoisson + given + "\"pairs\"\n");
  ASSERT_EQ(pairs.flows.size(), 16U);
  for (const FlowSpec& flow : pairs.flows) EXPECT_EQ(flow.to, flow.from + 16);
  EXPECT_EQ(expanded(kPoisson + given + "\"permutation\"\n").flows.size(), 16U);
  const Scenario each = expanded(kPoisson + given + "\"pairs\"\nqueue_pairs = \"per-message\"\n");
  size_t messages = 0;
  for (const FlowSpec& flow : pairs.flows) messages += flow.timed_messages.size();
  EXPECT_EQ(each.flows.size(), messages);
  for (const FlowSpec& flow : each.flows) EXPECT_EQ(flow.timed_messages.size(), 1U);
}

TEST(Poisson, PairsOfOneSenderShareItsLoad) {
  const Scenario s =
      expanded(kPoisson + std::string("from = \"h1\"\nto = \"h9..h12\"\npartners = \"pairs\"\n"));
  ASSERT_EQ(s.flows.size(), 4U);
  // 2000 us with a message in 800 ns, whoever it is for.
  EXPECT_NEAR(static_cast<double>(messages_of(s, 0).size()), 2500, 4 * std::sqrt(2500.0));
  for (const FlowSpec& flow : s.flows) EXPECT_NEAR(flow.timed_messages.size(), 625, 4 * 25);
}

TEST(Poisson, SizesAreDrawnFromTheFile) {
  const Scenario s = expanded(
      "kind = \"poisson\"\nload = 0.8\ncdf = \"fbhadoop_hpcc\"\nfrom = \"h1..h16\"\n"
      "to = \"h17..h32\"\n");
  double sum = 0;
  size_t count = 0;
  for (const FlowSpec& flow : s.flows) {
    for (const TimedMessage& message : flow.timed_messages) {
      sum += static_cast<double>(message.bytes);
      ++count;
    }
  }
  // 16 hosts x 0.8 x 40 Gb/s x 10 ms; 5300 messages of a deviation of 0.6 MB.
  EXPECT_NEAR(sum / (16 * 0.8 * 5e9 * 0.01), 1, 0.2);
  EXPECT_NEAR(sum / static_cast<double>(count), 120'421, 30'000);
}

TEST(Traffic, AnotherTableMovesNoDrawOfTheOthers) {
  const Scenario alone = expanded("kind = \"permutation\"\nname = \"x\"\n", 9);
  const Scenario both = expanded(
      "kind = \"incast\"\nto = \"h1\"\nsenders = 4\n[[traffic]]\nkind = \"permutation\"\n"
      "name = \"x\"\n",
      9);
  const Pairs pairs = pairs_of(both);
  EXPECT_EQ(Pairs(pairs.begin() + 4, pairs.end()), pairs_of(alone));
}

TEST(Traffic, RunsAndIsTheSameForTheSameSeed) {
  Scenario s;
  ASSERT_EQ(parse_scenario(text_of("kind = \"poisson\"\nload = 0.4\ncdf = \"solar2022\"\n"
                                   "stop_us = 500\n[[traffic]]\nkind = \"permutation\"\n"
                                   "messages = 2\nmessage_bytes = 20_000\npost_depth = 1\n"),
                           "s.toml", {"end_when_idle=true", "traffic[0].load=0.3"}, &s)
                .text,
            "");
  ASSERT_EQ(s.traffic.size(), 2U);
  EXPECT_EQ(s.traffic[0].load, 0.3);
  const auto bytes_of = [&](uint64_t seed) {
    s.seed = seed;
    const Result result = simulate(s);
    for (const std::string& error : result.errors) ADD_FAILURE() << error;
    EXPECT_EQ(result.fct.unfinished, 0U);
    for (const FlowResult& flow : result.flows) EXPECT_EQ(flow.delivered_bytes, flow.posted_bytes);
    return to_json(result, s, "test", "revision", true).dump();
  };
  const std::string first = bytes_of(2);
  EXPECT_EQ(first, bytes_of(2));
  EXPECT_NE(first, bytes_of(3));
}

TEST(Traffic, NothingDrawnIsAnErrorOfTheRun) {
  Scenario s;
  ASSERT_EQ(
      parse_scenario(text_of("kind = \"poisson\"\nload = 0.00001\nfrom = \"h1\"\nto = \"h2\"\n"
                             "stop_us = 1\n"),
                     "s.toml", {}, &s)
          .text,
      "");
  const Result result = simulate(s);
  ASSERT_EQ(result.errors.size(), 1U);
  EXPECT_EQ(result.errors[0].find("no message was drawn"), 0U);
}

TEST(TrafficToml, AMistakeIsNamed) {
  struct Case {
    const char* traffic;
    const char* expected;  // part of the error
  };
  const Case cases[] = {
      {"kind = \"mesh\"", "s.toml:8:8: [[traffic]] kind: expected one of \"pairs\", \"permutation"},
      {"name = \"x\"", "[[traffic]] kind: expected a kind of traffic, like"},
      {"kind = \"poisson\"", "[[traffic]] load: expected a share of the senders' links"},
      {"kind = \"poisson\"\nload = 1.5",
       "s.toml:9:8: [[traffic]] load: expected a number in 1e-06..1"},
      {"kind = \"poisson\"\nload = 0.5\nmessages = 3",
       "s.toml:10:12: [[traffic]] messages: expected no"},
      {"kind = \"poisson\"\nload = 0.5\nstart_us = 10_000",
       "s.toml:7:1: [[traffic]] stop_us: traffic 'poisson': nothing arrives between start and "
       "stop"},
      {"kind = \"poisson\"\nload = 1\nmessage_bytes = 1",
       "s.toml:9:8: [[traffic]] load: traffic 'poisson': 1.6e+09 messages until they stop, at most "
       "5e+07"},
      {"kind = \"poisson\"\nload = 0.5\nfrom = \"h1\"\nto = \"h1\"", "from a host to itself"},
      {"kind = \"permutation\"\nload = 0.5", "s.toml:9:1: unknown key 'load' in [[traffic]]"},
      {"kind = \"permutation\"\nfrom = \"h1..h4\"\nto = \"h3..h6\"",
       "some hosts in common, and not all"},
      {"kind = \"permutation\"\nfrom = \"h1..h4\"\nto = \"h9..h11\"", "4 hosts to 3: not as many"},
      {"kind = \"permutation\"\nfrom = [\"h1\", \"h1\"]", "a host is named twice"},
      {"kind = \"incast\"", "[[traffic]] to: expected the name of a host"},
      {"kind = \"incast\"\nto = [\"h1\", \"h2\"]", "an incast has one receiver"},
      {"kind = \"incast\"\nto = \"h1\"\nsenders = 32", "32 senders of 31 hosts"},
      {"kind = \"pairs\"", "from a host to itself"},
      {"kind = \"pairs\"\nfrom = \"h1..h4\"\nto = \"h9\"\nstart_every_us = 4_000",
       "the last of 4 flows begins at 12000 us, after the end"},
      {"kind = \"all-to-all\"\ncdf = \"solar2022\"\nmessage_bytes = 5",
       "message_bytes or cdf, not both"},
      {"kind = \"all-to-all\"\ncdf = \"tcp\"",
       "s.toml:9:7: [[traffic]] cdf: expected a distribution of si"},
      {"kind = \"all-to-all\"\ncdf = \"no/such.cdf\"",
       "no/such.cdf: cannot be read: No such file or directory, and none of "},
      {"kind = \"incast\"\nto = \"h1\"\n[[flow]]\nname = \"incast3\"\nfrom = \"h1\"\nto = \"h2\"",
       "traffic 'incast': its flows would be named like flow 'incast3'"},
      {"kind = \"incast\"\nto = \"h1\"\n[[traffic]]\nkind = \"incast\"\nto = \"h2\"",
       "traffic 'incast' and 'incast': their flows would have the same names"},
  };
  for (const Case& c : cases) {
    const std::string error = error_of(std::string(c.traffic) + "\n");
    EXPECT_NE(error.find(c.expected), std::string::npos) << c.traffic << "\n" << error;
  }
}

}  // namespace
}  // namespace mprdma::switchsim
