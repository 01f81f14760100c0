// Tests of the runner: an error in a script, or in a device, is reported with its line.

#include "tests/conformance/runner/runner.hpp"

#include <string>

#include <gtest/gtest.h>

#include "tests/conformance/runner/mutate.hpp"
#include "tests/conformance/runner/script.hpp"

namespace mprdma::conformance {
namespace {

constexpr std::string_view kGood =
    "# The rule.\n"
    "modes: mp  # a comment\n"
    "+0 qp\n"
    "+0 send write wr=1 len=300\n"
    "+0 > WRITE_FIRST psn=100 len=256\n"
    "+0 > WRITE_LAST psn=101 len=44 data=zero\n"
    "+10us < ACK psn=101\n"
    "+0 send_wc wr=1 op=write\n";

// "line: message" of the failure, or "".
std::string failure_of(const std::string& text) {
  try {
    Runner(parse_script("test.script", text), Mode::kMp).run();
  } catch (const ScriptFailure& failure) {
    return std::to_string(failure.line()) + ": " + failure.what();
  }
  return "";
}

std::string with(std::string text, const std::string& old, const std::string& replacement) {
  return text.replace(text.find(old), old.size(), replacement);
}

void expect_failure(const std::string& old, const std::string& replacement,
                    const std::string& expected) {
  const std::string got = failure_of(with(std::string(kGood), old, replacement));
  EXPECT_NE(got.find(expected), std::string::npos) << replacement << "\n  gave: " << got;
}

TEST(ConformanceRunner, AScriptThatHoldsPasses) {
  EXPECT_EQ(failure_of(std::string(kGood)), "");
}

TEST(ConformanceRunner, MistakesInAScriptNameLineAndWhatWasExpected) {
  expect_failure("modes: mp", "modes: xrn", "2: expected modes out of: roce mp irn; got 'xrn'");
  expect_failure("modes: mp", "", "1: expected a line `modes: roce mp`");
  expect_failure("# The rule.", "", "1: expected a comment that says the rule");
  expect_failure("+0 send", "0 send", "4: expected a time (");
  expect_failure("+10us", "+10parsec", "7: expected a time (");
  expect_failure("+10us", "+10us..20us", "7: expected a single time");
  expect_failure("send write", "post write", "4: expected one of: qp modify");
  expect_failure("send write", "send wirte", "4: expected one of: send send_imm");
  expect_failure("len=300", "length=300", "4: expected one of: ");
  expect_failure("len=300", "len=many", "4: len: expected a number, got 'many'");
  expect_failure("len=300", "len=300 len=300", "4: 'len' is given twice");
  expect_failure("wr=1 len", "len", "4: 'send' needs wr=");
  expect_failure("WRITE_FIRST", "WRITE_FRIST", "5: no such opcode here: 'WRITE_FRIST'");
  expect_failure("data=zero", "data=none", "6: expected contents (zero, A, A+256)");
  expect_failure("+0 qp", "+0 qp B", "4: there is no qp 'A'");
  expect_failure("op=write", "op=wrote", "8: expected one of: send write");
}

TEST(ConformanceRunner, WhatTheDeviceDoesOtherwiseNamesLineExpectedAndGot) {
  expect_failure("psn=101 len", "psn=102 len", "6: expected psn=102, got 101 in MP_WRITE_LAST");
  expect_failure("data=zero", "data=A", "6: data=A: byte 0 is 0 instead of 223");
  expect_failure("WRITE_LAST", "WRITE_ONLY", "6: expected MP_WRITE_ONLY, got MP_WRITE_LAST");
  expect_failure("op=write", "op=read", "8: expected op=read, got wr=1 status=success op=write");
  expect_failure("send_wc", "recv_wc", "8: expected a 'recv_wc', got send_wc wr=1");
}

TEST(ConformanceRunner, NothingMayHappenThatNobodyExpects) {
  expect_failure(
      "+0 > WRITE_LAST psn=101 len=44 data=zero\n", "",
      "6: before this step, expected nothing (0 ns after the start); got > MP_WRITE_LAST");
  expect_failure("+0 send_wc wr=1 op=write\n", "", "7: after the last step, expected nothing more");
}

TEST(ConformanceRunner, WhatIsExpectedHasToComeInItsTime) {
  expect_failure("+10us < ACK psn=101\n", "", "7: expected");
  expect_failure("+0 > WRITE_LAST", "+1us > WRITE_LAST", "6: expected nothing before");
  expect_failure("+10us <", "@0 quiet\n+0 <", "");
  expect_failure("+10us <", "+10us quiet\n@5us <", "8: time cannot go back");
}

TEST(ConformanceRunner, EveryExpectedValueHasAMutantThatFails) {
  const Script script = parse_script("test.script", kGood);
  const auto mutants = mutants_of(script);
  EXPECT_EQ(mutants.size(), 9u);
  for (const Script& mutant : mutants) {
    EXPECT_THROW(Runner(mutant, Mode::kMp).run(), ScriptFailure)
        << to_text(mutant.steps[mutant_step(script, mutant)]);
  }
}

}  // namespace
}  // namespace mprdma::conformance
