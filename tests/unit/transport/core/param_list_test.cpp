// The list of parameters: presets, checks and texts, and docs/parameters.md, which is compared with
// it. A failure prints the rows that the page should hold.
#include "transport/core/param_list.hpp"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "transport/core/param_check.hpp"

#ifndef MPRDMA_SOURCE_ROOT
#define MPRDMA_SOURCE_ROOT "."
#endif

namespace mprdma::transport {
namespace {

using Text = std::array<char, kParamTextBytes>;

std::string unit_of(const Param& param) {
  switch (param.range.unit) {
    case Unit::kPackets:
      return "packets";
    case Unit::kMicroseconds:
      return "us";
    case Unit::kPerMille:
      return "1/1000";
    case Unit::kMbps:
      return "Mb/s";
    default:
      return "";
  }
}

std::string span_of(const ParamRange& range) {
  return std::to_string(range.low) + ".." + std::to_string(range.high);
}

std::string range_of(const Param& param) {
  if (param.kind == ParamKind::kFlag) return "`true`, `false`";
  std::string out;
  for (const std::string_view word : param.words) {
    out += (out.empty() ? "`" : ", `") + std::string(word) + "`";
  }
  if (param.kind == ParamKind::kChoice) return out;
  out = (param.range.zero_too ? "0, " : "") + span_of(param.range);
  if (param.range.has_to_be_power) out += ", a power of two";
  if (param.range.high_of_roce != 0) out += "; `roce`: " + span_of(param.range.in(Protocol::kRoce));
  return out;
}

std::string row_of(const Param& param) {
  Text text;
  return "| `" + std::string(param.key) + "` | " +
         std::string(value_text(Params{}, param.key, text)) + " | " + range_of(param) + " | " +
         unit_of(param) + " | " + std::string(param.meaning) + " | " + std::string(param.source) +
         " |\n";
}

TEST(ParameterPage, HoldsEveryRowOfTheList) {
  std::ifstream file(MPRDMA_SOURCE_ROOT "/docs/parameters.md");
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::string missing;
  for_each_param([&](const Param& param, auto) {
    if (page.find(row_of(param)) == std::string::npos) missing += row_of(param);
  });
  EXPECT_EQ(missing, "");
  for (const std::string_view preset : kPresetWords) {
    EXPECT_NE(page.find("| `" + std::string(preset) + "` |"), std::string::npos) << preset;
  }
}

TEST(ParamList, KeysAreUniqueAndEveryRowSaysWhatItIs) {
  std::set<std::string_view> keys;
  for_each_param([&](const Param& param, auto) {
    EXPECT_TRUE(keys.insert(param.key).second) << param.key;
    EXPECT_FALSE(param.meaning.empty() || param.source.empty()) << param.key;
    EXPECT_EQ(param.kind == ParamKind::kChoice, param.words.size() > 1) << param.key;
    const bool number = param.kind != ParamKind::kFlag && param.kind != ParamKind::kChoice;
    EXPECT_EQ(number, param.range.high > 0) << param.key;
  });
}

TEST(ParamList, EveryPresetIsGoodAndKnowsItsName) {
  for (size_t i = 0; i < kPresetWords.size(); ++i) {
    const auto preset = static_cast<Preset>(i);
    const Params params = Params::of(preset);
    EXPECT_EQ(params.preset, preset) << word_of(preset);
    EXPECT_EQ(find_fault(params).key, "") << word_of(preset);
    Params settled = params;
    settled.settle();
    EXPECT_EQ(settled.preset, preset) << word_of(preset);
  }
}

// Returns the finding of find_fault() as a sentence.
std::string fault(void (*change)(Params&), Preset preset = Preset::kMp) {
  Params params = Params::of(preset);
  change(params);
  const ParamFault found = find_fault(params);
  return std::string(found.key) + " " + std::string(found.what) + " " + std::string(found.other);
}

TEST(ParamCheck, BoundsAreInTheRangeAndWhatIsBeyondThemIsNot) {
  const auto slots = param_range(&Params::window_slots);
  EXPECT_TRUE(in_range(slots, 8u) && in_range(slots, 2048u));
  EXPECT_FALSE(in_range(slots, 4u) || in_range(slots, 100u) || in_range(slots, 4096u) ||
               in_range(slots, 0u));
  const auto trigger = param_range(&Params::loss_trigger);
  EXPECT_TRUE(in_range(trigger, 0u) && in_range(trigger, 8u));
  EXPECT_FALSE(in_range(trigger, 7u) || in_range(trigger, 2049u));
  const auto floor = param_range(&Params::rto_floor);
  EXPECT_TRUE(in_range(floor, Duration::us(50)) && in_range(floor, Duration::s(1)));
  EXPECT_FALSE(in_range(floor, Duration::ns(49'999)) ||
               in_range(floor, Duration::ns(1000'000'001)));
  const auto interval = param_range(&Params::path_probe_interval);
  EXPECT_TRUE(in_range(interval, Duration::zero()) && in_range(interval, Duration::us(100)));
  EXPECT_FALSE(in_range(interval, Duration::us(99)));
  const auto alpha = param_range(&Params::sync_alpha);
  EXPECT_TRUE(in_range(alpha, Fixed16::from_int(16)));
  EXPECT_FALSE(in_range(alpha, Fixed16::from_raw(Fixed16::kOneRaw * 16 + 1)));
  EXPECT_FALSE(in_range(ParamRange::choice(), static_cast<Congestion>(kCongestionWords.size())));
}

TEST(ParamCheck, EveryRangeIsHeld) {
  EXPECT_EQ(fault([](Params& p) { p.window_slots = 48; }), "window_slots is out of its range ");
  EXPECT_EQ(fault([](Params& p) { p.window_max = 4097; }), "window_max is out of its range ");
  EXPECT_EQ(fault([](Params& p) { p.window_max = 65'536; }, Preset::kRoce), "  ");
  EXPECT_EQ(fault([](Params& p) { p.window_max = 65'537; }, Preset::kRoce),
            "window_max is out of its range ");
  EXPECT_EQ(fault([](Params& p) { p.initial_rtt = Duration::zero(); }),
            "initial_rtt_us is out of its range ");
}

TEST(ParamCheck, TwoThatHaveToAgreeAreNamed) {
  EXPECT_EQ(fault([](Params& p) { p.window_slots = 32; }), "initial_window exceeds window_slots");
  EXPECT_EQ(fault([](Params& p) { p.window_max = 53; }), "window_max is below initial_window");
  EXPECT_EQ(fault([](Params& p) {
              p.window_slots = 64;
              p.loss_trigger = 65;
            }),
            "loss_trigger exceeds window_slots");
  EXPECT_EQ(fault([](Params& p) {
              p.window_slots = 64;
              p.reorder_delta = 65;
            }),
            "reorder_delta exceeds window_slots");
  EXPECT_EQ(fault([](Params& p) { p.rto_ceiling = Duration::ms(3); }),
            "rto_ceiling_us is below rto_floor_us");
  EXPECT_EQ(fault([](Params& p) { p.timely_low = Duration::us(501); }),
            "timely_high_us is below timely_low_us");
  for (const PathPolicy policy : {PathPolicy::kSingle, PathPolicy::kSpray}) {
    Params params = Params::mp_paper();
    params.path_policy = policy;
    EXPECT_EQ(find_fault(params).key, "recovery");
  }
  EXPECT_EQ(fault([](Params& p) { p.path_policy = PathPolicy::kSpray; }, Preset::kRoce),
            "path_policy has to be \"single\" with mode = \"roce\"");
  EXPECT_EQ(fault([](Params& p) { p.window_control = cc::WindowControl::kDctcp; }, Preset::kRoce),
            "window_control has to be \"mp\", \"aimd\" or \"swift\" with mode = \"roce\"");
  EXPECT_EQ(fault([](Params& p) { p.window_control = cc::WindowControl::kNscc; }, Preset::kRoce),
            "window_control has to be \"mp\", \"aimd\" or \"swift\" with mode = \"roce\"");
  EXPECT_EQ(fault([](Params& p) { p.recovery = Recovery::kGap; }, Preset::kRoce),
            "recovery has to be \"mp\" with mode = \"roce\"");
  EXPECT_EQ(fault([](Params& p) { p.go_back_0 = true; }),
            "go_back_0 has to be false with mode = \"mp\"");
  EXPECT_EQ(fault([](Params& p) { p.go_back_0 = true; }, Preset::kIrn),
            "go_back_0 has to be false with mode = \"irn\"");
  EXPECT_EQ(fault([](Params& p) { p.path_policy = PathPolicy::kRecycled; }, Preset::kIrn),
            "path_policy has to be \"single\" with mode = \"irn\"");
  EXPECT_EQ(fault([](Params& p) { p.recovery = Recovery::kMp; }, Preset::kIrn),
            "recovery has to be \"irn\" with mode = \"irn\"");
  EXPECT_EQ(fault([](Params& p) { p.rto_low = Duration::us(321); }, Preset::kIrn),
            "rto_low_us exceeds rto_high_us");
  EXPECT_EQ(fault([](Params& p) { p.ack_map = true; }, Preset::kIrn),
            "ack_map has to be false with mode = \"irn\"");
  EXPECT_EQ(fault([](Params& p) { p.recovery = Recovery::kIrn; }),
            "recovery = \"irn\" needs another path_policy than \"ack-clocked\" or \"recycled\"");
}

TEST(ParamCheck, TextsSayWhatWouldBeRight) {
  std::string texts;
  for_each_param([&](const Param& param, auto) {
    Text text;
    if (param.key == "window_slots" || param.key == "loss_trigger" || param.key == "tail_probe" ||
        param.key == "rto_floor_us" || param.key == "sync_alpha" || param.key == "restart") {
      texts += std::string(expected_text(param, Protocol::kMp, text)) + "\n";
    }
    if (param.key == "window_max") {
      texts += std::string(expected_text(param, Protocol::kRoce, text)) + "\n";
    }
  });
  EXPECT_EQ(texts,
            "a power of two in 8..2048\n"
            "packets, 1..65536\n"
            "packets, 0 or 8..2048\n"
            "true or false\n"
            "microseconds, 50..1000000\n"
            "one of \"never\", \"idle\", \"uncongested\"\n"
            "a number in 0..16\n");
  Params params;
  params.sync_alpha = Fixed16::from_raw(Fixed16::kOneRaw / 2);
  params.initial_rtt = Duration::ns(6'050);
  Text text;
  EXPECT_EQ(value_text(params, "sync_alpha", text), "0.5");
  EXPECT_EQ(value_text(params, "initial_rtt_us", text), "6.05");
  EXPECT_EQ(value_text(params, "mode", text), "mp");
  EXPECT_EQ(value_text(params, "no such key", text), "");
}

TEST(Params, HowManyPathsAreUsedTellsMpFromMpSingle) {
  Params params = Params::mp();
  params.path_policy = PathPolicy::kSingle;
  params.settle();
  EXPECT_EQ(params.preset, Preset::kMpSingle);
  params.path_policy = PathPolicy::kSpray;
  params.settle();
  EXPECT_EQ(params.preset, Preset::kMp);
  params.recovery = Recovery::kPaper;
  params.settle();
  EXPECT_EQ(params.preset, Preset::kMp) << "one switch makes no other mode";
}

TEST(Params, CongestionControlWithoutAPresetKeepsTheRecovery) {
  Params params = Params::roce_gb0();
  params.set_congestion(Congestion::kTimely);
  EXPECT_EQ(params.preset, Preset::kRoceGb0);
  params.go_back_0 = false;
  params.settle();
  EXPECT_EQ(params.preset, Preset::kRoce);
}

TEST(Params, CongestionControlBringsTheWindowThatItNeeds) {
  Params params = Params::roce();
  params.set_congestion(Congestion::kDcqcnTuned);
  EXPECT_EQ(params.preset, Preset::kDcqcnTuned);
  EXPECT_EQ(params.window_max, 1024u);
  params.set_congestion(Congestion::kNone);
  EXPECT_EQ(params.preset, Preset::kRoce);
  params = Params::roce_with(Congestion::kTimelyPatched);
  EXPECT_EQ(params.preset, Preset::kRoce) << "it has none of its own";
  EXPECT_EQ(params.window_max, 1024u);
}

}  // namespace
}  // namespace mprdma::transport
