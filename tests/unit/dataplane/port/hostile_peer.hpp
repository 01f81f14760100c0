// A peer of a LocalPort that speaks the control protocol by hand, and a port that it attacks.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "dataplane/open_port.hpp"
#include "dataplane/port/local_port.hpp"
#include "dataplane/sys/passed_fd.hpp"
#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace mprdma::dataplane::testing {

using local::Descriptor;
using local::Geometry;
using local::RegionHeader;

inline constexpr int kGoodSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_FUTURE_WRITE;

// Speaks the control protocol by hand and writes what it likes into its region.
class HostilePeer {
 public:
  struct Claim {
    uint64_t magic = local::kRegionMagic;
    uint32_t version = local::kRegionVersion;
    uint32_t slots = 256;
    uint32_t stride = local::kStrideDefault;
    int seals = kGoodSeals;
    size_t file_bytes = 0;  // 0: as the geometry says
    uint32_t large_slots = 0;
    uint32_t large_stride = 0;
    uint32_t flags = 0;
    [[nodiscard]] Geometry geometry() const { return {slots, stride, large_slots, large_stride}; }
  };

  explicit HostilePeer(const std::string& path) {
    socket_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  explicit HostilePeer(int connected) : socket_(connected) {}
  ~HostilePeer() {
    if (region_ != nullptr) munmap(region_, bytes_);
    close(socket_);
  }
  HostilePeer(const HostilePeer&) = delete;
  HostilePeer& operator=(const HostilePeer&) = delete;

  // `waker`: what it passes in as the eventfd that wakes it, if anything.
  void hello(const Claim& claim, int waker = -1) {
    geometry_ = claim.geometry();
    bytes_ = claim.file_bytes != 0 ? claim.file_bytes : geometry_.bytes();
    const int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_EQ(ftruncate(fd, static_cast<off_t>(bytes_)), 0);
    region_ = static_cast<unsigned char*>(
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    ASSERT_NE(region_, MAP_FAILED);
    std::memset(region_, 0, bytes_);  // a stranger's memory has to be there
    const local::Identity identity{claim.magic,       claim.version,      claim.slots, claim.stride,
                                   claim.large_slots, claim.large_stride, claim.flags};
    std::memcpy(region_, &identity, std::min(bytes_, sizeof identity));
    ASSERT_EQ(fcntl(fd, F_ADD_SEALS, claim.seals), 0);
    send_hello(fd, waker);
    close(fd);
  }

  void send_hello(int fd, int waker = -1) {
    const uint32_t message[4] = {0x4c503031, 1, 0, 0};
    const int fds[2] = {waker, fd};
    send_with_fds(socket_, message, sizeof message, std::span(fds).subspan(waker >= 0 ? 0 : 1));
  }

  void send_bytes(const void* bytes, size_t count, int fd) {
    send_with_fds(socket_, bytes, count, std::span(&fd, 1));
  }

  // A wake-up came as a message. Others are passed over.
  bool wake_message_came() {
    uint32_t message[4] = {};
    while (recv(socket_, message, sizeof message, MSG_DONTWAIT) == sizeof message) {
      if (message[1] == 2) return true;
    }
    return false;
  }

  [[nodiscard]] RegionHeader& header() const { return *reinterpret_cast<RegionHeader*>(region_); }
  void put(uint16_t position, Descriptor descriptor) {
    auto* ring = reinterpret_cast<std::atomic<uint64_t>*>(region_ + Geometry::tx_ring_offset());
    descriptor.sequence = static_cast<uint16_t>(position + 1);
    ring[position % geometry_.entries()].store(descriptor.pack());
    header().newest.descriptor.store(descriptor.pack());
  }
  [[nodiscard]] std::atomic<uint16_t>* return_ring() const {
    return reinterpret_cast<std::atomic<uint16_t>*>(region_ + geometry_.return_ring_offset());
  }

 private:
  int socket_ = -1;
  Geometry geometry_;
  size_t bytes_ = 0;
  unsigned char* region_ = nullptr;
};

class HostilePeerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    port_ = open_port("local:" + directory_.wire() + ",slots=256").port;
    ASSERT_NE(port_, nullptr);
    port_->service(now());
    peer_ = std::make_unique<HostilePeer>(directory_.wire());
  }
  void attach(const HostilePeer::Claim& claim = {}, int waker = -1) {
    peer_->hello(claim, waker);
    ASSERT_TRUE(until([&] {
      port_->service(now());
      return port_->link_up();
    }));
  }
  // The peer sleeps, and is sent a frame.
  void wake_peer() {
    peer_->header().need_wakeup = 2;
    EXPECT_EQ(testing::send_patterns(*port_, 0, 1), 1U);
  }
  // After every attack a well-behaved process can have the wire.
  void expect_next_peer_works() {
    peer_.reset();
    auto next = open_port("local:" + directory_.wire()).port;
    EXPECT_TRUE(until([&] {
      port_->service(now());
      next->service(now());
      return port_->link_up() && next->link_up();
    }));
    EXPECT_EQ(testing::send_patterns(*next, 5, 1), 1u);
    RxFrame frame{};
    ASSERT_EQ(port_->rx_burst(&frame, 1), 1u);
    EXPECT_EQ(testing::read_pattern(frame), 5u);
    port_->rx_release(&frame.cookie, 1);
  }

  testing::WireDirectory directory_;
  std::unique_ptr<Port> port_;
  std::unique_ptr<HostilePeer> peer_;
};

}  // namespace mprdma::dataplane::testing
