// The words of a topology file and of `mprdma fabric set`.
#include "switchsim/fabric/link_change.hpp"

#include <gtest/gtest.h>

namespace mprdma::switchsim {
namespace {

TEST(LinkChange, RatesHaveUnitsAndBounds) {
  LinkRate rate;
  ASSERT_TRUE(parse_rate("200Mbps", &rate));
  EXPECT_EQ(rate, LinkRate::bps(200'000'000));
  ASSERT_TRUE(parse_rate("1.5 Gb/s", &rate));
  EXPECT_EQ(rate, LinkRate::bps(1'500'000'000));
  EXPECT_EQ(rate_text(rate), "1.5Gbps");
  for (const char* wrong : {"", "200", "Mbps", "0Mbps", "-1Gbps", "1kbps", "2000Gbps", "infGbps",
                            "1e3Mbps", "200Mbpsx", "0x1Gbps"}) {
    EXPECT_FALSE(parse_rate(wrong, &rate)) << wrong;
  }
}

TEST(LinkChange, LossIsAShareOrPercent) {
  uint32_t ppm = 0;
  ASSERT_TRUE(parse_loss("1%", &ppm));
  EXPECT_EQ(ppm, 10'000u);
  ASSERT_TRUE(parse_loss("0.5", &ppm));
  EXPECT_EQ(ppm, 500'000u);
  for (const char* wrong : {"", "101%", "-0.1", "1.01", "one"}) {
    EXPECT_FALSE(parse_loss(wrong, &ppm)) << wrong;
  }
}

TEST(LinkChange, RedIsThreeNumbersOrOff) {
  RedConfig red;
  ASSERT_TRUE(parse_red("0.5,20,60", &red));
  EXPECT_EQ(red.pmax_ppm, 500'000u);
  EXPECT_EQ(red.kmin_bytes, 20'000u);
  EXPECT_EQ(red.kmax_bytes, 60'000u);
  ASSERT_TRUE(parse_red("off", &red));
  EXPECT_EQ(red.kmax_bytes, 0u);
  for (const char* wrong : {"", "1,20", "1,20,60,1", "1,60,20", "2,20,60", "0,1,2", "1,0,0"}) {
    EXPECT_FALSE(parse_red(wrong, &red)) << wrong;
  }
}

TEST(LinkChange, AWordSetsOneThing) {
  LinkChange change;
  EXPECT_EQ(parse_change("down", &change).text, "");
  EXPECT_EQ(parse_change("delay=20us", &change).text, "");
  EXPECT_EQ(parse_change("queue=400kB", &change).text, "");
  EXPECT_EQ(change.up, false);
  EXPECT_EQ(change.delay, SimSpan::us(20));
  EXPECT_EQ(change.queue_bytes_max, 400'000u);
  EXPECT_FALSE(change.rate.has_value());
}

TEST(LinkChange, AWrongWordSaysWhatIsRight) {
  LinkChange change;
  EXPECT_NE(parse_change("rate=fast", &change).text.find("rate=200Mbps"), std::string::npos);
  EXPECT_NE(parse_change("speed=1Gbps", &change).text.find("rate="), std::string::npos);
  EXPECT_NE(parse_change("", &change).text, "");
}

}  // namespace
}  // namespace mprdma::switchsim
