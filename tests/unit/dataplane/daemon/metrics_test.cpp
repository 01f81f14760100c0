// The reports of mprdmad: the text for Prometheus, and the answers of DPDK's telemetry.
#include "dataplane/daemon/metrics.hpp"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "base/ipv4.hpp"
#include "dataplane/daemon/telemetry.hpp"

namespace mprdma::dataplane::mprdmad {
namespace {

DaemonStatus some_status() {
  DaemonStatus status;
  status.device_name = "r0";
  status.ipv4 = Ipv4(0x0a490001);
  status.prefix_bits = 24;
  status.has_wire = true;
  status.wire.nic_bytes_in = 11;
  status.gone.nic_drop_full = 3;
  status.cm.cm_established = 4;
  status.clients.push_back({5, 99, "a \"b\"\\", {}});
  status.clients[0].counters.nic_frames_in = 7;
  return status;
}

std::string text_of(const DaemonStatus& status) {
  return prometheus::TextSerializer().Serialize(metrics_of(status, "1.2"));
}

TEST(DaemonMetrics, EachCounterOfEachPortHasItsLine) {
  const std::string text = text_of(some_status());
  for (const char* line :
       {"# TYPE mprdma_port_in_bytes_total counter\n",
        "mprdma_port_in_bytes_total{port=\"wire\"} 11\n",
        "mprdma_port_drop_full_total{port=\"gone\"} 3\n", "mprdma_cm_established_total 4\n",
        "mprdma_clients 1\n", "# HELP mprdma_cm_ids communication ids in use\n",
        "mprdma_wire_rx_frames_total 0\n", "address=\"10.73.0.1/24\"",
        // A program's name is escaped.
        "mprdma_port_frames_in_total{port=\"client\",block=\"5\",pid=\"99\","
        "program=\"a \\\"b\\\"\\\\\"} 7\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

TEST(DaemonMetrics, NamesAreUniqueAndCountersEndInTotal) {
  const auto families = metrics_of(some_status(), "1");
  std::map<std::string, int> seen;
  for (const auto& family : families) {
    EXPECT_EQ(++seen[family.name], 1) << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_EQ(family.name.ends_with("_total"), family.type == prometheus::MetricType::Counter);
  }
}

TEST(DaemonMetrics, WithoutAWireNoneIsTold) {
  DaemonStatus status = some_status();
  status.has_wire = false;
  EXPECT_EQ(text_of(status).find("\"wire\""), std::string::npos);
  EXPECT_EQ(text_of(status).find("mprdma_wire_"), std::string::npos);
}

TEST(DaemonMetrics, APortThatIsTakenIsSaidInWords) {
  DaemonMetrics first(std::make_shared<StatusBoard>(), "1");
  // No interface has this address, so it is refused everywhere.
  const std::string error = first.listen("203.0.113.7:9").text;
  EXPECT_NE(error.find("203.0.113.7:9"), std::string::npos) << error;
  EXPECT_NE(error.find(std::strerror(EADDRNOTAVAIL)), std::string::npos) << error;
}

TEST(StatusBoard, ShowsWhatWasPublished) {
  StatusBoard board;
  board.draft().device_name = "r1";
  EXPECT_EQ(board.read().device_name, "");
  board.publish();
  EXPECT_EQ(board.read().device_name, "r1");
}

struct Collected final : TelemetryAnswer {
  void number(const char* name, uint64_t value) override {
    values[within + name] = std::to_string(value);
  }
  void text(const char* name, const char* value) override { values[within + name] = value; }
  void begin(const char* name) override { within = std::string(name) + "/"; }
  void end() override { within.clear(); }
  std::map<std::string, std::string> values;
  std::string within;
};

TEST(DaemonTelemetry, AnswersItsCommandsAndRefusesWhatIsNotThere) {
  const auto board = std::make_shared<StatusBoard>();
  board->draft() = some_status();
  board->publish();
  DaemonTelemetry telemetry(board, "1.2");
  EXPECT_EQ(telemetry.commands().size(), 4u);
  const auto ask = [&](const char* path, const char* parameters) {
    Collected answer;
    if (!telemetry.answer(path, parameters, &answer)) answer.values["refused"] = "1";
    return answer.values;
  };
  EXPECT_EQ(ask("/mprdma/info", "")["address"], "10.73.0.1/24");
  EXPECT_EQ(ask("/mprdma/clients", "")["5/pid"], "99");
  EXPECT_EQ(ask("/mprdma/counters", "")["nic_drop_full"], "3");
  EXPECT_EQ(ask("/mprdma/counters", "5")["nic_frames_in"], "7");
  EXPECT_EQ(ask("/mprdma/counters", "wire")["nic_bytes_in"], "11");
  EXPECT_EQ(ask("/mprdma/cm", "")["cm_established"], "4");
  EXPECT_EQ(ask("/mprdma/counters", "6")["refused"], "1");
  EXPECT_EQ(ask("/mprdma/info", "x")["refused"], "1");
  EXPECT_EQ(ask("/mprdma/other", "")["refused"], "1");
}

}  // namespace
}  // namespace mprdma::dataplane::mprdmad
