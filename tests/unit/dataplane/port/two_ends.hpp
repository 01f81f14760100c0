// Two LocalPorts at the ends of a wire, each an engine's or somebody else's.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "dataplane/port/local_port.hpp"
#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace mprdma::dataplane::testing {

class TwoEnds : public ::testing::Test {
 protected:
  std::unique_ptr<Port> open(bool engine, local::Role role) {
    PortResult result =
        LocalPort::open({.path = directory_.wire(), .slots = 256, .role = role, .engine = engine});
    EXPECT_TRUE(result) << result.status.text;
    return std::move(result.port);
  }
  void connect(bool a_is_engine, bool b_is_engine) {
    a_ = open(a_is_engine, local::Role::kListen);
    b_ = open(b_is_engine, local::Role::kDial);
    ASSERT_TRUE(until([&] {
      a_->service(now());
      b_->service(now());
      return a_->link_up() && b_->link_up();
    }));
  }
  // A frame of these bytes, all of one value; `header`: of them before the payload.
  static void fill(TxFrame* frame, uint32_t header, uint32_t bytes, unsigned char value) {
    frame->header_bytes = header;
    frame->frame_bytes = bytes;
    std::memset(frame->payload - header, value, bytes);
  }
  static bool holds(const RxFrame& frame, uint32_t bytes, unsigned char value) {
    const std::vector<unsigned char> expected(bytes, value);
    return frame.length == bytes && std::memcmp(frame.data, expected.data(), bytes) == 0;
  }
  static void send(Port& port, const TxFrame& frame) {
    port.tx_commit(&frame, 1);
    port.flush();
  }

  WireDirectory directory_;
  std::unique_ptr<Port> a_;
  std::unique_ptr<Port> b_;
};

}  // namespace mprdma::dataplane::testing
