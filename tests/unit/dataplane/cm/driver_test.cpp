// How an agent's work is carried out: in order, within bounds, and again when the wire was full.
#include "dataplane/cm/driver.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/ipv4.hpp"
#include "tests/unit/dataplane/cm/cm_host.hpp"

namespace mprdma::dataplane::test {
namespace {

constexpr Ipv4 kA{0x0a000001};
constexpr Ipv4 kB{0x0a000002};
constexpr uint16_t kPort = 7471;

class CmDriverTest : public ::testing::Test {
 protected:
  static CmConfig config() {
    CmConfig config;
    config.address = wire::map_ipv4(kA);
    config.ipv4 = kA;
    return config;
  }
  // An id that resolves the peer's address; with it, a REQ is to be sent at once.
  uint32_t resolving() {
    mprdma_abi_cm_command command{};
    command.op = MPRDMA_ABI_CM_CREATE;
    command.port_space = kTcp;
    EXPECT_EQ(driver_.agent().execute(kClient, command, &result_, now_), 0);
    command.id = result_.id;
    command.op = MPRDMA_ABI_CM_RESOLVE;
    command.remote = abi_address(wire::map_ipv4(kB), kPort);
    command.timeout_ms = 2000;
    EXPECT_EQ(driver_.agent().execute(kClient, command, &result_, now_), 0);
    return command.id;
  }
  void connect(uint32_t id) {
    mprdma_abi_cm_command command{};
    command.op = MPRDMA_ABI_CM_CONNECT;
    command.id = id;
    command.params = params(0x111);
    EXPECT_EQ(driver_.agent().execute(kClient, command, &result_, now_), 0);
  }
  unsigned serve(unsigned most = 1000) {
    return driver_.serve(
        now_, most,
        [this](const wire::IpAddress& to) {
          static constexpr wire::MacAddress kMac = {2, 0, 0, 0, 0, 9};
          log_ += "resolve ";
          driver_.agent().on_resolved(to, &kMac, now_);
        },
        [this](const CmAgent::OutgoingMad& mad) {
          if (room_ == 0) return false;
          --room_;
          log_ += "mad ";
          last_ = mad;
          return true;
        },
        [this](const CmAgent::ClientEvent&) { log_ += "event "; });
  }
  std::string take_log() { return std::exchange(log_, {}); }

  Time now_ = Time::from_ns(1'000'000'000);
  CmDriver driver_{config()};
  mprdma_abi_cm_result result_{};
  std::string log_;
  unsigned room_ = 1000;
  CmAgent::OutgoingMad last_;
};

TEST_F(CmDriverTest, ResolutionsAndDatagramsComeBeforeEvents) {
  const uint32_t first = resolving();
  EXPECT_EQ(serve(), 2u);
  EXPECT_EQ(take_log(), "resolve event ");
  connect(first);
  resolving();
  serve();
  EXPECT_EQ(take_log(), "resolve mad event ");
  EXPECT_EQ(driver_.next_deadline(), driver_.agent().next_deadline());
  EXPECT_GT(driver_.next_deadline(), now_) << "there is nothing more to do";
}

TEST_F(CmDriverTest, ADatagramThatFoundTheWireFullIsSentLater) {
  const uint32_t id = resolving();
  serve();
  take_log();
  connect(id);
  room_ = 0;
  resolving();
  serve();
  EXPECT_EQ(take_log(), "resolve event ") << "a full wire holds back no event";
  EXPECT_EQ(driver_.next_deadline(), now_ + CmDriver::kFullWirePause);
  room_ = 1;
  now_ = driver_.next_deadline();
  serve();
  EXPECT_EQ(take_log(), "mad ");
  EXPECT_EQ(last_.to, wire::map_ipv4(kB));
  EXPECT_EQ(driver_.agent().counters().cm_messages_sent, 1u);
  EXPECT_EQ(driver_.agent().counters().cm_repeated, 0u);
}

TEST_F(CmDriverTest, WorkIsBoundedAndTheRestIsDueAtOnce) {
  for (int i = 0; i < 5; ++i) resolving();
  EXPECT_EQ(serve(2), 2u);
  EXPECT_LE(driver_.next_deadline(), now_);
  unsigned done = 2;
  for (int i = 0; i < 100 && driver_.next_deadline() <= now_; ++i) done += serve(2);
  EXPECT_EQ(done, 5u + 1u) << "five events; one resolution for all, of one address";
}

TEST_F(CmDriverTest, ADatagramThatIsNotAnsweredIsRepeatedInTime) {
  const uint32_t id = resolving();
  serve();
  connect(id);
  serve();
  take_log();
  // A timer may be looked at more than once before it fires.
  for (int i = 0; i < 20 && log_.empty(); ++i) {
    now_ = driver_.next_deadline();
    serve();
  }
  EXPECT_EQ(take_log(), "mad ");
  EXPECT_EQ(driver_.agent().counters().cm_repeated, 1u);
}

}  // namespace
}  // namespace mprdma::dataplane::test
