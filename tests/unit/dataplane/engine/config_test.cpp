#include "dataplane/engine/config.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>

#include "base/ipv4.hpp"
#include "tests/support/print.hpp"
#include "transport/core/param_check.hpp"
#include "transport/stream/offload_context.hpp"

namespace mprdma::dataplane {
namespace {

std::string toml_error(const std::string& text) {
  Config config;
  return apply_toml(text, "f.toml", &config).text;
}

Environment environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) {
    const auto it = variables.find(name);
    return it != variables.end() ? it->second.c_str() : nullptr;
  };
}

constexpr const char* kEveryKey = R"(
[device]
name = "m1"
address = "10.1.2.3/16"
mac = "02:00:00:00:00:05"
mtu = 2048
placement = "relaxed"
[port]
spec = "local:/tmp/x"
held_frames = 7
pfc = true
pfc_priority = 3
[transport]
window_slots = 64
initial_window = 20
window_max = 40
loss_trigger = 0
limit_growth = false
loss_shrinks_window = false
loss_by_time = false
tail_probe = false
rto_floor_us = 1000
rto_ceiling_us = 9000
probe_floor_us = 100
initial_rtt_us = 7
mode = "mp-single"
timeout_shrinks_window = false
adapt_timeout = false
path_window_reduction = false
window_give_back = false
window_spacing = false
sync_wait_is_backlog = false
sync_policy = "stop-and-wait"
sync_alpha = 1.5
restart = "idle"
path_probe_per_mille = 3
[test]
fault = "seed=3,loss=0.25"
)";

TEST(Config, EveryKeyIsTakenOver) {
  Config config;
  ASSERT_EQ(apply_toml(kEveryKey, "f.toml", &config).text, "");
  EXPECT_EQ(config.device_name, "m1");
  EXPECT_EQ(config.ipv4, Ipv4(0x0a010203));
  EXPECT_EQ(config.prefix_bits, 16u);
  EXPECT_EQ(config.mac[5], 5);
  EXPECT_EQ(config.mtu, 2048u);
  EXPECT_EQ(config.port_spec, "local:/tmp/x");
  EXPECT_EQ(config.held_frames, 7u);
  EXPECT_TRUE(config.pfc);
  EXPECT_EQ(config.pfc_priority, std::optional<uint8_t>(3));
  EXPECT_EQ(config.params.window_slots, 64u);
  EXPECT_EQ(config.params.initial_window, 20u);
  EXPECT_EQ(config.params.window_max, 40u);
  EXPECT_EQ(config.params.loss_trigger, 0u);
  EXPECT_FALSE(config.params.limit_growth || config.params.loss_shrinks_window ||
               config.params.loss_by_time || config.params.tail_probe);
  EXPECT_EQ(config.params.rto_floor, Duration::ms(1));
  EXPECT_EQ(config.params.rto_ceiling, Duration::ms(9));
  EXPECT_EQ(config.params.probe_floor, Duration::us(100));
  EXPECT_EQ(config.params.initial_rtt, Duration::us(7));
  EXPECT_EQ(config.params.path_policy, transport::PathPolicy::kSingle);
  EXPECT_FALSE(config.params.timeout_shrinks_window || config.params.adapt_timeout ||
               config.params.path_window_reduction || config.params.window_give_back ||
               config.params.window_spacing || config.params.sync_wait_is_backlog);
  EXPECT_EQ(config.params.restart, transport::RestartRule::kIdle);
  EXPECT_EQ(config.params.path_probe_per_mille, 3u);
  EXPECT_EQ(config.params.placement, transport::PlacementPolicy::kRelaxed) << "whatever the mode";
  EXPECT_EQ(config.params.sync_policy, transport::SyncPolicy::kStopAndWait);
  EXPECT_EQ(config.params.sync_alpha.raw(), Fixed16::kOneRaw * 3 / 2);
  EXPECT_EQ(config.fault.seed, 3u);
  EXPECT_EQ(config.fault.loss_ppm, 250'000u);
}

TEST(Config, AddressOfANetworkOrItsBroadcastIsNobodys) {
  Ipv4 ipv4;
  uint32_t bits = 0;
  EXPECT_FALSE(parse_address("10.73.0.0/24", &ipv4, &bits));
  EXPECT_FALSE(parse_address("10.73.0.255/24", &ipv4, &bits));
  EXPECT_TRUE(parse_address("10.73.0.255/16", &ipv4, &bits));
  EXPECT_TRUE(parse_address("10.73.0.0/31", &ipv4, &bits)) << "RFC 3021";
  EXPECT_TRUE(parse_address("10.73.0.0/32", &ipv4, &bits));
}

TEST(Config, ErrorsNameFileLineColumnAndWhatWouldBeRight) {
  EXPECT_EQ(toml_error("[device]\nmtu = 1500\n"),
            "f.toml:2:7: device.mtu: expected 1024, 2048 or 4096");
  EXPECT_EQ(toml_error("[device]\n  mut = 1024\n").substr(0, 41),
            "f.toml:2:3: unknown key 'mut' in [device]");
  EXPECT_NE(toml_error("[device]\n  mut = 1024\n").find("known: name, address, mac, mtu"),
            std::string::npos);
  EXPECT_EQ(toml_error("\n[devise]\n").substr(0, 41), "f.toml:2:2: unknown table or key 'devise'");
  EXPECT_EQ(toml_error("device = 3\n").substr(0, 11), "f.toml:1:10");
  EXPECT_EQ(toml_error("[transport]\nwindow_slots = 100\n"),
            "f.toml:2:16: transport.window_slots: expected a power of two in 8..2048");
  EXPECT_EQ(toml_error("[transport]\nrto_floor_us = \"4\"\n").substr(0, 12), "f.toml:2:16:");
  EXPECT_EQ(toml_error("[device]\nname = \"a\nb\"\n").substr(0, 9), "f.toml:2:") << "syntax";
  EXPECT_EQ(toml_error("[device]\naddress = \"224.0.0.1/8\"\n").substr(0, 12), "f.toml:2:11:");
}

TEST(Config, RelationsBetweenKeysAreChecked) {
  EXPECT_EQ(toml_error("[transport]\nwindow_slots = 32\n"),
            "f.toml: transport.initial_window (54) exceeds transport.window_slots (32)");
  EXPECT_NE(toml_error("[transport]\nwindow_slots = 32\n").find("initial_window"),
            std::string::npos);
  EXPECT_NE(toml_error("[transport]\nrto_ceiling_us = 100\n").find("rto_ceiling_us"),
            std::string::npos);
}

TEST(Config, AModeIsAPresetWhereverItStands) {
  Config config;
  EXPECT_TRUE(config.params.path_policy == transport::PathPolicy::kRecycled) << "the default";
  // The key comes before "mode" in the alphabet, and in the file.
  ASSERT_EQ(apply_toml("[transport]\nloss_trigger = 9\nmode = \"mp-paper\"\n", "f", &config).text,
            "");
  EXPECT_EQ(config.params.recovery, transport::Recovery::kPaper);
  EXPECT_EQ(config.params.window_slots, 64u);
  EXPECT_EQ(config.params.loss_trigger, 9u) << "what a key says stays";
  EXPECT_NE(toml_error("[transport]\nmode = \"iwarp\"\n"), "");
  EXPECT_NE(toml_error("[transport]\nmode = \"mp-paper\"\npaths = 1\n"), "");
}

// A value, as TOML, that differs from the usual one.
std::string other_value(const transport::Param& param, std::string_view usual) {
  using transport::ParamKind;
  const auto word = [&](size_t i) { return "\"" + std::string(param.words.begin()[i]) + "\""; };
  if (param.kind == ParamKind::kFlag) return usual == "true" ? "false" : "true";
  if (param.kind == ParamKind::kChoice) return word(usual == param.words.begin()[0] ? 1 : 0);
  const bool above = param.key == "rto_ceiling_us" || param.key == "timely_high_us";
  return std::to_string(above ? param.range.high : param.range.low);
}

TEST(Config, EveryParameterOfTheListHasAKey) {
  transport::for_each_param([](const transport::Param& param, auto member) {
    if (param.key == "mode" || param.key == "placement") return;  // keys of their own
    std::array<char, transport::kParamTextBytes> text;
    const transport::Params usual;
    const std::string value = other_value(param, value_text(usual, param.key, text));
    // Other parameters have to agree with this one.
    const bool of_roce = param.key == "congestion" || param.key == "go_back_0";
    std::string rest = of_roce ? "mode = \"roce\"\n" : "";
    if (param.key == "window_slots") {
      rest = "initial_window = 8\nreorder_delta = 8\nloss_trigger = 0\n";
    }
    if (param.key == "window_max") rest = "initial_window = 1\n";
    if (param.key == "rto_low_us") rest = "rto_high_us = " + value + "\n";
    if (param.key == "rto_high_us") rest = "rto_low_us = " + value + "\n";
    Config config;
    EXPECT_EQ(apply_toml("[transport]\n" + rest + std::string(param.key) + " = " + value + "\n",
                         "f", &config)
                  .text,
              "");
    EXPECT_NE(config.params.*member, usual.*member) << param.key;
    EXPECT_EQ(toml_error("[transport]\n" + std::string(param.key) + " = []\n").substr(0, 7),
              "f.toml:")
        << param.key;
  });
}

TEST(Config, SackMapOffNeedsTheAckClock) {
  EXPECT_NE(toml_error("[transport]\nrecovery = \"paper\"\npath_policy = \"spray\"\n"), "");
  EXPECT_NE(toml_error("[transport]\nrecovery = \"paper\"\npath_policy = \"single\"\n"), "");
  EXPECT_EQ(toml_error("[transport]\nrecovery = \"paper\"\n"), "");
}

TEST(Config, APresetIsTakenByItsName) {
  Config config;
  for (const std::string_view name : transport::kPresetWords) {
    ASSERT_EQ(
        apply_toml("[transport]\npreset = \"" + std::string(name) + "\"\n", "f", &config).text, "");
    EXPECT_EQ(word_of(config.params.preset), name);
    EXPECT_EQ(config.agree_modes, name == "mp");
    config = {};
    ASSERT_EQ(apply_environment(environment({{"MPRDMA_PRESET", std::string(name)}}), &config).text,
              "");
    EXPECT_EQ(word_of(config.params.preset), name);
    EXPECT_EQ(config.agree_modes, name == "mp");
  }
  ASSERT_EQ(
      apply_toml("[transport]\nwindow_max = 500\npreset = \"dcqcn-tuned\"\n", "f", &config).text,
      "");
  EXPECT_EQ(config.params.congestion, transport::Congestion::kDcqcnTuned);
  EXPECT_EQ(config.params.window_max, 500u) << "what a key says stays";
  ASSERT_EQ(
      apply_toml("[transport]\nmode = \"roce\"\ncongestion = \"dcqcn-paper\"\n", "f", &config).text,
      "");
  EXPECT_EQ(config.params.preset, transport::Preset::kDcqcnPaper);
  EXPECT_EQ(config.params.window_max, 1024u) << "what it needs";
}

TEST(Config, AModeAndAPresetAreOneOrTheOther) {
  EXPECT_EQ(toml_error("[transport]\nmode = \"mp\"\npreset = \"mp-figures\"\n"),
            "f.toml:2:8: transport.mode: expected the same as transport.preset, or none");
  EXPECT_EQ(toml_error("[transport]\nmode = \"roce\"\npreset = \"roce\"\n"), "");
  EXPECT_NE(toml_error("[transport]\nmode = \"dcqcn-tuned\"\n"), "") << "no mode";
  EXPECT_NE(toml_error("[transport]\npreset = \"tcp\"\n"), "");
  EXPECT_NE(toml_error("[transport]\npaths = 1\npath_policy = \"spray\"\n"), "");
  Config config;
  const auto with = [&](const char* mode, const char* preset) {
    return apply_environment(environment({{"MPRDMA_MODE", mode}, {"MPRDMA_PRESET", preset}}),
                             &config)
        .text;
  };
  EXPECT_EQ(with("mp-paper", "mp-paper"), "");
  EXPECT_EQ(with("mp", "mp-paper").substr(0, 23), "MPRDMA_PRESET=mp-paper:");
  EXPECT_EQ(with("", "tcp").substr(0, 18), "MPRDMA_PRESET=tcp:");
  EXPECT_NE(with("mp-figures", ""), "") << "no mode";
}

TEST(Config, TheSmartNicHasItsOwnParameters) {
  const auto with = [](const char* offload, const char* variable, const char* value) {
    Config config;
    const Status status =
        apply_environment(environment({{"MPRDMA_OFFLOAD", offload}, {variable, value}}), &config);
    EXPECT_EQ(config.offload, status.ok());
    EXPECT_TRUE(!status.ok() || transport::fits_offload(config.params));
    return status.text;
  };
  EXPECT_EQ(with("rtl", "MPRDMA_PLACEMENT", "relaxed"), "");
  EXPECT_EQ(with("rtl", "MPRDMA_MODE", "mp"), "");
  EXPECT_EQ(with("fpga", "MPRDMA_MODE", "mp"), "MPRDMA_OFFLOAD=fpga: expected rtl");
  EXPECT_NE(with("rtl", "MPRDMA_MODE", "roce"), "");
  Config config;
  EXPECT_EQ(
      apply_environment(environment({{"MPRDMA_OFFLOAD", "rtl"}, {"MPRDMA_PATHS", "1"}}), &config)
          .text,
      "MPRDMA_OFFLOAD=rtl: the SmartNIC sends on all paths");
}

TEST(Config, EveryModeButMpIsPinned) {
  Config config;
  EXPECT_TRUE(config.agree_modes) << "the default";
  ASSERT_EQ(apply_environment(environment({{"MPRDMA_MODE", "roce"}}), &config).text, "");
  EXPECT_FALSE(config.agree_modes);
  EXPECT_EQ(config.params.protocol, transport::Protocol::kRoce);
  EXPECT_NE(
      apply_environment(environment({{"MPRDMA_MODE", "roce"}, {"MPRDMA_PATHS", "all"}}), &config)
          .text,
      "");
  ASSERT_EQ(apply_environment(environment({{"MPRDMA_MODE", "mp"}}), &config).text, "");
  EXPECT_TRUE(config.agree_modes);
  ASSERT_EQ(apply_toml("[transport]\nmode = \"mp-single\"\n", "f", &config).text, "");
  EXPECT_FALSE(config.agree_modes);
  ASSERT_EQ(
      apply_environment(environment({{"MPRDMA_MODE", "mp"}, {"MPRDMA_PATHS", "1"}}), &config).text,
      "");
  EXPECT_TRUE(config.agree_modes) << "how many paths are used is the sender's own business";
}

TEST(Config, OnePathOrAll) {
  Config config;
  for (const char* one : {"[transport]\npaths = 1\n", "[transport]\npaths = \"1\"\n"}) {
    ASSERT_EQ(apply_toml(one, "f", &config).text, "");
    EXPECT_EQ(config.params.path_policy, transport::PathPolicy::kSingle);
  }
  ASSERT_EQ(apply_environment(environment({{"MPRDMA_PATHS", "all"}}), &config).text, "");
  EXPECT_EQ(config.params.path_policy, transport::PathPolicy::kRecycled);
  ASSERT_EQ(apply_environment(environment({{"MPRDMA_MODE", "mp-single"}}), &config).text, "");
  EXPECT_EQ(config.params.path_policy, transport::PathPolicy::kSingle);
  EXPECT_NE(apply_environment(environment({{"MPRDMA_PATHS", "4"}}), &config).text, "");
  EXPECT_NE(
      apply_environment(environment({{"MPRDMA_MODE", "mp-paper"}, {"MPRDMA_PATHS", "1"}}), &config)
          .text,
      "");
  EXPECT_NE(toml_error("[transport]\npaths = 4\n"), "");
}

TEST(Config, PlacementIsTheDevicesAndSurvivesTheMode) {
  Config config;
  ASSERT_EQ(apply_toml("[device]\nplacement = \"relaxed\"\n", "f", &config).text, "");
  ASSERT_EQ(apply_environment(environment({{"MPRDMA_MODE", "mp-paper"}}), &config).text, "");
  EXPECT_EQ(config.params.placement, transport::PlacementPolicy::kRelaxed);
  ASSERT_EQ(apply_environment(environment({{"MPRDMA_PLACEMENT", "ordered"}}), &config).text, "");
  EXPECT_EQ(config.params.placement, transport::PlacementPolicy::kOrdered);
  EXPECT_NE(toml_error("[transport]\nsync_alpha = 17\n"), "");
  EXPECT_NE(toml_error("[transport]\nsync_alpha = nan\n"), "");
}

TEST(Config, EnvironmentOverridesTheFileAndIsCheckedAsWell) {
  Config config;
  ASSERT_EQ(apply_toml("[device]\nmtu = 1024\naddress = \"10.9.9.9\"\n", "f", &config).text, "");
  ASSERT_EQ(apply_environment(environment({{"MPRDMA_MTU", "4096"}}), &config).text, "");
  EXPECT_EQ(config.mtu, 4096u);
  EXPECT_EQ(config.ipv4, Ipv4(0x0a090909));
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"MPRDMA_MTU", "4096k"},
           {"MPRDMA_ADDRESS", "10.0.0.1/33"},
           {"MPRDMA_ADDRESS", "10.0.0.1/"},
           {"MPRDMA_MAC", "01:00:00:00:00:00"},
           {"MPRDMA_DEVICE", "a/b"},
           {"MPRDMA_FAULT", "loss=2"},
           {"MPRDMA_PLACEMENT", "strict"},
       }) {
    const std::string error = apply_environment(environment({{name, value}}), &config).text;
    EXPECT_TRUE(error.starts_with(name)) << error;
    EXPECT_EQ(error.find("=" + value), name.size()) << error;
  }
}

TEST(Config, WhatIsMissingIsSaidWithTheRemedy) {
  Config config;
  EXPECT_NE(load_config(environment({}), &config).text.find("mprdma run"), std::string::npos);
  EXPECT_NE(
      load_config(environment({{"MPRDMA_ADDRESS", "10.0.0.1"}}), &config).text.find("MPRDMA_PORT"),
      std::string::npos);
  EXPECT_EQ(load_config(environment({{"MPRDMA_ADDRESS", "10.0.0.1"}, {"MPRDMA_PORT", "local:/x"}}),
                        &config)
                .text,
            "");
  EXPECT_EQ(config.mac, (wire::MacAddress{0x02, 0x4d, 0x52, 0, 0, 1}));
  EXPECT_NE(load_config(environment({{"MPRDMA_CONFIG", "/no/such/file"}}), &config)
                .text.find("/no/such/file"),
            std::string::npos);
  EXPECT_NE(
      load_config(environment({{"MPRDMA_CONFIG", "/"}}), &config).text.find("/: cannot be read"),
      std::string::npos)
      << "a directory";
}

TEST(Config, FaultSpecIsParsedWhole) {
  FaultSpec fault;
  EXPECT_EQ(parse_fault("seed=7,loss=0.01,reorder=0.02,dup=0.03,delay_us=50", &fault).text, "");
  EXPECT_EQ(fault.seed, 7u);
  EXPECT_EQ(fault.loss_ppm, 10'000u);
  EXPECT_EQ(fault.reorder_ppm, 20'000u);
  EXPECT_EQ(fault.dup_ppm, 30'000u);
  EXPECT_EQ(fault.delay, Duration::us(50));
  EXPECT_NE(parse_fault("lose=1", &fault).text, "");
  EXPECT_NE(parse_fault("loss", &fault).text, "");
  EXPECT_NE(parse_fault("loss=1.5", &fault).text, "");
}

}  // namespace
}  // namespace mprdma::dataplane
