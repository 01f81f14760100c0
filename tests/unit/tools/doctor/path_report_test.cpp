// The report on a path, from probes as they may come back.
#include "tools/doctor/path_report.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "wire/constants.hpp"

namespace mprdma::tools {
namespace {

namespace client = dataplane::client;
using wire::Ecn;

PathSample sample(uint16_t port, uint16_t bytes = 256, uint64_t rtt_ns = 50'000) {
  PathSample sample;
  sample.asked.source_port = port;
  sample.asked.bytes = bytes;
  sample.answer.rtt_ns = rtt_ns;
  const client::PathSeen seen{.bytes = bytes,
                              .source_port = port,
                              .hop_limit_sent = 64,
                              .hop_limit = 62,
                              .ecn = static_cast<uint8_t>(Ecn::kEct0)};
  sample.answer.there = sample.answer.back = seen;
  return sample;
}

// A path that harms nothing: 4 ports, 3 rounds, sizes up to 4096.
PathMeasured sound() {
  PathMeasured measured;
  measured.peer = "10.73.0.2";
  measured.from = "mprdma0";
  measured.device_mtu = 4096;
  for (int round = 0; round < 3; ++round) {
    for (const uint16_t port : {50'001, 50'002, 50'003, 50'004}) {
      measured.ports.push_back(sample(port));
    }
  }
  for (const uint16_t bytes : {256, 1024, 2048, 4096}) {
    measured.there.push_back(sample(50'001, bytes));
    measured.back.push_back(sample(50'001, bytes));
  }
  return measured;
}

Finding about(const PathMeasured& measured, const std::string& id) {
  for (const Finding& finding : judge_path(measured)) {
    if (finding.id == "path." + id) return finding;
  }
  ADD_FAILURE() << "nothing about " << id;
  return {};
}

#define EXPECT_SAYS(finding, words) \
  EXPECT_NE((finding).detail.find(words), std::string::npos) << (finding).detail

TEST(PathReport, NothingIsWrongWithASoundPath) {
  for (const Finding& finding : judge_path(sound())) {
    EXPECT_EQ(finding.health, Health::kOk) << finding.id << ": " << finding.detail;
    EXPECT_EQ(finding.remedy, "") << finding.id;
  }
  EXPECT_SAYS(about(sound(), "ecn-there"), "ECT(0) arrives as sent");
  EXPECT_SAYS(about(sound(), "sizes-there"), "largest 4096 (IP packets of 4148 bytes)");
  EXPECT_SAYS(about(sound(), "spread"), "2 hops there and 2 back");
  EXPECT_SAYS(about(sound(), "spread"), "which end hosts cannot tell apart");
}

TEST(PathReport, NobodyThereIsAFailureThatSaysWhy) {
  PathMeasured measured = sound();
  for (PathSample& each : measured.ports) each.answer.error = EHOSTUNREACH;
  EXPECT_EQ(judge_path(measured).size(), 1u);
  EXPECT_EQ(about(measured, "reached").health, Health::kFail);
  EXPECT_SAYS(about(measured, "reached"), "no neighbour");
  for (PathSample& each : measured.ports) each.answer.error = ETIMEDOUT;
  EXPECT_SAYS(about(measured, "reached"), "answers no probe");
  EXPECT_EQ(judge_path(PathMeasured{}).front().health, Health::kFail);
}

TEST(PathReport, BleachedAndMarkedAreCountedByDirection) {
  PathMeasured measured = sound();
  measured.ports[0].answer.there.ecn = static_cast<uint8_t>(Ecn::kNotEct);
  measured.ports[1].answer.back.ecn = static_cast<uint8_t>(Ecn::kCe);
  const Finding there = about(measured, "ecn-there");
  EXPECT_EQ(there.health, Health::kWarn);
  EXPECT_SAYS(there, "ECT(0) as sent on 19 of 20; bleached to 0 on 1 of 20");
  EXPECT_NE(there.remedy, "");
  const Finding back = about(measured, "ecn-back");
  EXPECT_EQ(back.health, Health::kOk) << "marking is what it is for";
  EXPECT_SAYS(back, "marked CE on 1 of 20");
}

TEST(PathReport, LongPacketsThatDoNotArriveAreAFailure) {
  PathMeasured measured = sound();
  measured.there.back().answer.error = ETIMEDOUT;
  const Finding sizes = about(measured, "sizes-there");
  EXPECT_EQ(sizes.health, Health::kFail);
  EXPECT_SAYS(sizes, "4096: 0/1; largest 2048");
  EXPECT_NE(sizes.remedy.find("4176 bytes"), std::string::npos) << sizes.remedy;
  measured.there.push_back(sample(50'002, 4096));
  EXPECT_EQ(about(measured, "sizes-there").health, Health::kWarn) << "some paths take them";
  measured.device_mtu = 2048;
  EXPECT_EQ(about(measured, "sizes-there").health, Health::kOk) << "more than is needed";
}

TEST(PathReport, APortThatLosesEverythingIsABrokenPath) {
  PathMeasured measured = sound();
  for (size_t i = 1; i < measured.ports.size(); i += 4) measured.ports[i].answer.error = ETIMEDOUT;
  const Finding loss = about(measured, "loss");
  EXPECT_EQ(loss.health, Health::kWarn);
  EXPECT_SAYS(loss,
              "3 of 12 short probes without an answer; all of them on 1 of 4 source ports: "
              "50002");
  measured = sound();
  measured.ports[0].answer.error = ETIMEDOUT;
  EXPECT_SAYS(about(measured, "loss"), "1 of 12 ");
  EXPECT_EQ(about(measured, "loss").detail.find("source ports"), std::string::npos);
}

TEST(PathReport, PathsAreToldByHopsOrByTimesAndNoFurther) {
  PathMeasured measured = sound();
  for (size_t i = 0; i < measured.ports.size(); i += 4)
    measured.ports[i].answer.there.hop_limit = 60;
  EXPECT_SAYS(about(measured, "spread"), "at least 2 paths");
  measured = sound();
  for (size_t i = 0; i < measured.ports.size(); i += 4) measured.ports[i].answer.rtt_ns = 400'000;
  EXPECT_SAYS(about(measured, "spread"), "in 2 groups: a hint");
  EXPECT_EQ(rtt_groups({}), 0u);
  EXPECT_EQ(rtt_groups({30'000, 60'000, 75'000}), 1u) << "noise";
  EXPECT_EQ(rtt_groups({1'000'000, 50'000, 1'100'000, 60'000}), 2u);
  // A peer that reports an impossible TTL is no hop away.
  measured.ports[1].answer.back.hop_limit = 255;
  EXPECT_EQ(port_rows(measured)[1].hops_back, 2u) << "the last answer's";
}

TEST(PathReport, PortsThatAreTranslatedAreSaid) {
  PathMeasured measured = sound();
  measured.ports[2].answer.there.source_port = 1024;
  EXPECT_EQ(about(measured, "ports").health, Health::kWarn);
  EXPECT_SAYS(about(measured, "ports"), "1 of 12");
}

}  // namespace
}  // namespace mprdma::tools
