#include "providers/mprdma/device_facts.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace mprdma {
namespace {

class DeviceFacts : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name :
         {"MPRDMA_ADDRESS", "MPRDMA_MAC", "MPRDMA_DEVICE", "MPRDMA_MTU", "MPRDMA_NETDEV"}) {
      unsetenv(name);
    }
  }
  int read() { return mprdma_device_facts_read(&facts_, &culprit_); }
  // Reads the facts with a good address and one bad variable.
  std::string refused(const char* name, const char* value) {
    clear();
    setenv("MPRDMA_ADDRESS", "10.73.0.1/24", 1);
    setenv(name, value, 1);
    return read() == EINVAL ? culprit_ : "accepted";
  }

  mprdma_device_facts facts_{};
  const char* culprit_ = nullptr;
};

TEST_F(DeviceFacts, NoAddressMeansNoDevice) {
  EXPECT_EQ(read(), ENOENT);
}

TEST_F(DeviceFacts, EverythingElseIsDerivedFromTheAddress) {
  setenv("MPRDMA_ADDRESS", "10.73.2.1/16", 1);
  ASSERT_EQ(read(), 0);
  EXPECT_STREQ(facts_.name, "mprdma0");
  EXPECT_EQ(facts_.prefix_bits, 16u);
  EXPECT_EQ(facts_.mtu_bytes, 4096u);
  const uint8_t mac[6] = {0x02, 0x4d, 0x52, 73, 2, 1};
  EXPECT_EQ(std::memcmp(facts_.mac, mac, sizeof(mac)), 0);
  const uint8_t link_local[16] = {0xfe, 0x80, 0,    0,    0,    0,  0, 0,
                                  0x00, 0x4d, 0x52, 0xff, 0xfe, 73, 2, 1};
  EXPECT_EQ(std::memcmp(facts_.gid[0], link_local, sizeof(link_local)), 0);
  const uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 73, 2, 1};
  EXPECT_EQ(std::memcmp(facts_.gid[1], mapped, sizeof(mapped)), 0);
  EXPECT_EQ(std::memcmp(facts_.node_guid, link_local + 8, sizeof(facts_.node_guid)), 0);
}

TEST_F(DeviceFacts, WrongValuesAreRefusedByName) {
  EXPECT_EQ(refused("MPRDMA_ADDRESS", "10.73.0"), "MPRDMA_ADDRESS");
  EXPECT_EQ(refused("MPRDMA_ADDRESS", "10.73.0.1/33"), "MPRDMA_ADDRESS");
  EXPECT_EQ(refused("MPRDMA_ADDRESS", "10.73.0.1/"), "MPRDMA_ADDRESS");
  EXPECT_EQ(refused("MPRDMA_MAC", "02:4d:52:00:00"), "MPRDMA_MAC");
  EXPECT_EQ(refused("MPRDMA_MAC", "03:4d:52:00:00:01"), "MPRDMA_MAC") << "a group address";
  EXPECT_EQ(refused("MPRDMA_MAC", "02:4d:52:00:00:01x"), "MPRDMA_MAC");
  EXPECT_EQ(refused("MPRDMA_DEVICE", "a/b"), "MPRDMA_DEVICE");
  EXPECT_EQ(refused("MPRDMA_MTU", "1500"), "MPRDMA_MTU");
  EXPECT_EQ(refused("MPRDMA_NETDEV", "a-name-too-long-for-it"), "MPRDMA_NETDEV");
  EXPECT_EQ(refused("MPRDMA_MTU", "1024"), "accepted");
}

// Each in an array, whose last byte is the string's end.
TEST_F(DeviceFacts, NamesMayBeAsLongAsThereIsRoomForTheirEnd) {
  EXPECT_EQ(refused("MPRDMA_DEVICE", std::string(63, 'd').c_str()), "accepted");
  EXPECT_EQ(refused("MPRDMA_DEVICE", std::string(64, 'd').c_str()), "MPRDMA_DEVICE");
  EXPECT_EQ(refused("MPRDMA_NETDEV", std::string(15, 'n').c_str()), "accepted");
  EXPECT_EQ(refused("MPRDMA_NETDEV", std::string(16, 'n').c_str()), "MPRDMA_NETDEV");
}

}  // namespace
}  // namespace mprdma
