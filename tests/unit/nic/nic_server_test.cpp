// The daemon with processes that behave, over real sockets and rings.
#include "dataplane/nic/nic_server.hpp"

#include "tests/unit/nic/nic_daemon_support.hpp"

namespace mprdma::dataplane::nic {
namespace {

TEST_F(NicServerTest, ServesProcessesWithAPortAndABlockEach) {
  EXPECT_NE(a.welcome.first_generation, b.welcome.first_generation);
  EXPECT_EQ(a.welcome.generations, kBlockGenerations);
  EXPECT_EQ(a.welcome.device.ipv4, kOurIp);
  EXPECT_EQ(a.welcome.device.mac, kOurMac);
  EXPECT_EQ(a.welcome.device.link_up, 1);
  expect_others_work();
  a.leave();
  EXPECT_TRUE(daemon.run([&] { return daemon.loop->server().clients() == 1; }));
}

TEST_F(NicServerTest, IsTheOnlyOneAtItsSocket) {
  Daemon second(directory.wire());
  EXPECT_NE(second.error.find("another mprdmad"), std::string::npos) << second.error;
  expect_others_work();
}

TEST_F(NicServerTest, RefusesInWordsAnotherVersionAndABadHello) {
  Process other(directory.wire());
  Hello hello = new_message<Hello>(9);
  hello.head.version = kVersion + 1;
  ASSERT_EQ(send_message(other.fd, hello), 0);
  Refused refused;
  ASSERT_TRUE(other.await(daemon, &refused));
  EXPECT_EQ(refused.reason, Refusal::kOtherVersion);
  EXPECT_EQ(refused.head.serial, 9u);
  Process bad(directory.wire());
  ASSERT_TRUE(bad.hello(8, 3));  // no block begins there
  ASSERT_TRUE(bad.await(daemon, &refused));
  EXPECT_EQ(refused.reason, Refusal::kBadHello);
  EXPECT_FALSE(text_of(refused.text).empty());
  expect_others_work();
}

TEST_F(NicServerTest, AProcessThatComesBackHasItsBlockAndSoHasOneOfARestartedDaemon) {
  const uint32_t block_a = a.welcome.first_generation;
  // Its old connection has not been seen to end.
  Process again(directory.wire());
  ASSERT_TRUE(again.enter(daemon, 101, block_a));
  EXPECT_EQ(again.welcome.first_generation, block_a);
  EXPECT_TRUE(a.ended(daemon));

  daemon.loop.reset();
  Daemon next(directory.wire(), 43);
  ASSERT_EQ(next.error, "");
  Process newcomer(directory.wire());
  ASSERT_TRUE(newcomer.enter(next, 900, block_a));
  EXPECT_NE(newcomer.welcome.first_generation, block_a);
  Process back(directory.wire());
  ASSERT_TRUE(back.enter(next, 101, block_a));
  EXPECT_EQ(back.welcome.first_generation, block_a);
  EXPECT_EQ(back.welcome.instance, 43u);
}

TEST_F(NicServerTest, SpeaksConnectionManagementForItsClients) {
  const auto execute = [&](Process& who, mprdma_abi_cm_command in, mprdma_abi_cm_result* out) {
    auto command = new_message<CmCommand>(5);
    command.command = in;
    CmReply reply;
    if (send_message(who.fd, command) != 0 || !who.await(daemon, &reply)) return -1;
    EXPECT_EQ(reply.head.serial, 5u);
    *out = reply.result;
    return reply.error;
  };
  mprdma_abi_cm_result result{};
  mprdma_abi_cm_command create{};
  create.op = MPRDMA_ABI_CM_CREATE;
  create.port_space = MPRDMA_ABI_CM_PS_TCP;
  ASSERT_EQ(execute(a, create, &result), 0);
  mprdma_abi_cm_command bind{};
  bind.op = MPRDMA_ABI_CM_BIND;
  bind.id = result.id;
  bind.local.port = 7471;
  EXPECT_EQ(execute(a, bind, &result), 0);
  // The ports are the device's, whoever binds them; the ids are each client's own.
  EXPECT_EQ(execute(b, bind, &result), ENOENT);
  ASSERT_EQ(execute(b, create, &result), 0);
  bind.id = result.id;
  EXPECT_EQ(execute(b, bind, &result), EADDRNOTAVAIL);
  a.leave();
  ASSERT_TRUE(daemon.run([&] { return daemon.loop->server().clients() == 1; }));
  EXPECT_EQ(execute(b, bind, &result), 0);
}

// Frames that lie in the ring when the command comes: an acknowledgement of the last message, say.
TEST_F(NicServerTest, WhatAProcessHasSentIsDeliveredBeforeItDisconnects) {
  constexpr int kFrames = 200;  // several turns of the switch
  int sent = 0;
  while (sent < kFrames && a.send(frame_for(b))) ++sent;
  ASSERT_EQ(sent, kFrames);
  auto command = new_message<CmCommand>(5);
  command.command.op = MPRDMA_ABI_CM_DISCONNECT;
  ASSERT_EQ(send_message(a.fd, command), 0);
  Incoming in;
  ASSERT_TRUE(until([&] {
    daemon.loop->step(Duration::zero());
    return receive_message(a.fd, &in) != EAGAIN;
  }));
  int got = 0;
  RxFrame frame{};
  while (b.port->rx_burst(&frame, 1) == 1) {
    ++got;
    b.port->rx_release(&frame.cookie, 1);
  }
  EXPECT_EQ(got, kFrames);
}

}  // namespace
}  // namespace mprdma::dataplane::nic
