// The measures of a sweep: paths into a result's JSON, folded and divided.
#include "tools/sim/sweep/measure.hpp"

#include <gtest/gtest.h>

namespace mprdma::sweep {
namespace {

const nlohmann::ordered_json kResult = nlohmann::ordered_json::parse(R"({
  "totals": {"goodput_bps": 8e9, "sound": true, "name": "x"},
  "flows": [
    {"name": "a", "goodput_bps": 3e9, "fct_us": {"mean": 7}, "sender": {"packets_sent": 5}},
    {"name": "b.c", "goodput_bps": 5e9, "fct_us": null, "sender": {}}
  ]})");

std::string error_of(const std::string& text) {
  Measure measure;
  std::string wrong = parse_measure(text, &measure).text;
  if (!wrong.empty()) return wrong;
  std::optional<double> value;
  wrong = evaluate(measure, kResult, &value).text;
  return wrong.empty() ? value ? "a number" : "no number" : wrong;
}

double value_of(const std::string& text) {
  Measure measure;
  std::optional<double> value;
  EXPECT_EQ(parse_measure(text, &measure).text, "");
  EXPECT_EQ(evaluate(measure, kResult, &value).text, "");
  EXPECT_TRUE(value) << text;
  return value.value_or(-1);
}

TEST(Measure, PathsLeadToNumbers) {
  EXPECT_EQ(value_of("totals.goodput_bps"), 8e9);
  EXPECT_EQ(value_of("flows[1].goodput_bps"), 5e9);
  EXPECT_EQ(value_of("flows[b.c].goodput_bps"), 5e9) << "a name may hold a dot";
  EXPECT_EQ(value_of("totals.sound"), 1);
}

TEST(Measure, SeveralValuesAreFoldedAndRatiosDivided) {
  EXPECT_EQ(value_of("min flows[*].goodput_bps"), 3e9);
  EXPECT_EQ(value_of("max flows[*].goodput_bps"), 5e9);
  EXPECT_EQ(value_of("mean flows[*].goodput_bps"), 4e9);
  EXPECT_EQ(value_of("sum flows[*].goodput_bps / totals.goodput_bps"), 1);
  EXPECT_EQ(value_of("totals.goodput_bps / 1e9"), 8);
}

TEST(Measure, WhatIsNotWrittenIsZeroForACounterAndNoNumberWhereNothingHappened) {
  EXPECT_EQ(value_of("sum flows[*].sender.packets_sent"), 5);
  EXPECT_EQ(value_of("flows[a].sender.rto_expired"), 0);
  EXPECT_EQ(value_of("mean flows[*].fct_us.mean"), 7);
  EXPECT_EQ(error_of("flows[1].fct_us.mean"), "no number");
  EXPECT_EQ(error_of("totals.goodput_bps / flows[a].sender.rto_expired"), "no number");
}

TEST(Measure, MistakesAreNamed) {
  EXPECT_EQ(error_of("totals.godput"),
            "totals.godput: there is no godput in totals; known: goodput_bps, sound, name");
  EXPECT_EQ(error_of("flows[c].goodput_bps"), "flows[c].goodput_bps: there is no flows[c]");
  EXPECT_NE(error_of("flows[a].sender.no_such").find("there is no no_such"), std::string::npos);
  EXPECT_NE(error_of("flows[*].goodput_bps").find("say min, max, mean or sum"), std::string::npos);
  EXPECT_EQ(error_of("totals.name"), "totals.name is no number");
  EXPECT_EQ(error_of("totals.goodput_bps.x"),
            "totals.goodput_bps.x: there is nothing below goodput_bps");
  for (const char* text : {"", "min", "min 7", "totals.x y", "a..b", "a / ", "flows[1"}) {
    EXPECT_NE(error_of(text).find("expected a value of the result"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace mprdma::sweep
