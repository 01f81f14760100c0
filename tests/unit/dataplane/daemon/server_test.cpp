// The daemon with processes that behave, over real sockets and rings.
#include "dataplane/daemon/server.hpp"

#include "tests/unit/dataplane/daemon/daemon_support.hpp"

namespace mprdma::dataplane::mprdmad {
namespace {

TEST_F(DaemonServerTest, ServesProcessesWithAPortAndABlockEach) {
  EXPECT_NE(a.welcome.first_generation, b.welcome.first_generation);
  EXPECT_EQ(a.welcome.generations, client::kBlockGenerations);
  EXPECT_EQ(a.welcome.device.ipv4, kOurIp);
  EXPECT_EQ(a.welcome.device.mac, kOurMac);
  EXPECT_EQ(a.welcome.device.link_up, 1);
  expect_others_work();
  a.leave();
  EXPECT_TRUE(daemon.run([&] { return daemon.loop->server().clients() == 1; }));
}

// In place of what the port says, on which the time of a pause depends.
TEST(DaemonServer, TellsTheRateThatIsConfigured) {
  WireDirectory directory;
  auto wire = std::make_unique<MemoryPort>(std::make_shared<MemoryWire>(), 0, kOurMac);
  RunningDaemon daemon(directory.wire(), 42, RingPolicy::kSameUser, 25'000, std::move(wire));
  Process process(directory.wire());
  ASSERT_TRUE(process.hello(42));
  client::Welcome welcome;
  ASSERT_TRUE(process.await(daemon, &welcome));
  EXPECT_EQ(welcome.device.link_mbps, 25'000u);
}

TEST_F(DaemonServerTest, IsTheOnlyOneAtItsSocket) {
  RunningDaemon second(directory.wire());
  EXPECT_NE(second.started.text.find("another mprdmad"), std::string::npos) << second.started.text;
  expect_others_work();
}

TEST_F(DaemonServerTest, RefusesInWordsAnotherVersionAndABadHello) {
  Process other(directory.wire());
  client::Hello hello = client::new_message<client::Hello>(9);
  hello.head.version = client::kVersion + 1;
  ASSERT_EQ(client::send_message(other.fd, hello), 0);
  client::Refused refused;
  ASSERT_TRUE(other.await(daemon, &refused));
  EXPECT_EQ(refused.reason, client::Refusal::kOtherVersion);
  EXPECT_EQ(refused.head.serial, 9u);
  Process bad(directory.wire());
  ASSERT_TRUE(bad.hello(8, 3));  // no block begins there
  ASSERT_TRUE(bad.await(daemon, &refused));
  EXPECT_EQ(refused.reason, client::Refusal::kBadHello);
  EXPECT_FALSE(client::text_of(refused.text).empty());
  expect_others_work();
}

TEST_F(DaemonServerTest, AProcessThatComesBackHasItsBlockAndSoHasOneOfARestartedDaemon) {
  const uint32_t block_a = a.welcome.first_generation;
  // The daemon has not yet seen the end of the old connection.
  Process again(directory.wire());
  ASSERT_TRUE(again.enter(daemon, 101, block_a));
  EXPECT_EQ(again.welcome.first_generation, block_a);
  EXPECT_TRUE(a.ended(daemon));

  daemon.loop.reset();
  RunningDaemon next(directory.wire(), 43);
  ASSERT_EQ(next.started.text, "");
  Process newcomer(directory.wire());
  ASSERT_TRUE(newcomer.enter(next, 900, block_a));
  EXPECT_NE(newcomer.welcome.first_generation, block_a);
  Process back(directory.wire());
  ASSERT_TRUE(back.enter(next, 101, block_a));
  EXPECT_EQ(back.welcome.first_generation, block_a);
  EXPECT_EQ(back.welcome.instance, 43u);
}

// ---- Connection management

class DaemonServerCmTest : public DaemonServerTest {
 protected:
  static constexpr uint16_t kPort = 7471;

  uint32_t create(Process& who, uint32_t space = MPRDMA_ABI_CM_PS_TCP) {
    mprdma_abi_cm_command in{};
    in.port_space = space;
    return who.execute(daemon, MPRDMA_ABI_CM_CREATE, 0, in) == 0 ? who.cm_result.id : 0;
  }
  int bind(Process& who, uint32_t id, uint16_t port = kPort) {
    mprdma_abi_cm_command in{};
    in.local.port = port;
    return who.execute(daemon, MPRDMA_ABI_CM_BIND, id, in);
  }
  void listen(Process& who, uint32_t space = MPRDMA_ABI_CM_PS_TCP) {
    const uint32_t id = create(who, space);
    ASSERT_EQ(bind(who, id), 0);
    ASSERT_EQ(who.execute(daemon, MPRDMA_ABI_CM_LISTEN, id), 0);
  }
  // Makes an id with a resolved route to the listener.
  uint32_t resolved(Process& who, uint32_t space = MPRDMA_ABI_CM_PS_TCP) {
    const uint32_t id = create(who, space);
    mprdma_abi_cm_command in{};
    const wire::IpAddress ours = wire::map_ipv4(kOurIp);
    std::copy(ours.begin(), ours.end(), in.remote.ip);
    in.remote.port = kPort;
    in.timeout_ms = 2000;
    EXPECT_EQ(who.execute(daemon, MPRDMA_ABI_CM_RESOLVE, id, in), 0);
    EXPECT_EQ(who.hears(daemon, MPRDMA_ABI_CM_EVENT_ADDRESS_RESOLVED), id);
    return id;
  }
  int with_qpn(Process& who, mprdma_abi_cm_op op, uint32_t id, Qpn qpn) {
    mprdma_abi_cm_command in{};
    in.params.qpn = qpn.value();
    in.params.qp_type = 2;  // RC
    in.params.path_mtu = 3;
    return who.execute(daemon, op, id, in);
  }
  int connect(Process& who, uint32_t id, Qpn qpn) {
    return with_qpn(who, MPRDMA_ABI_CM_CONNECT, id, qpn);
  }
  int accept(Process& who, uint32_t id, Qpn qpn) {
    return with_qpn(who, MPRDMA_ABI_CM_ACCEPT, id, qpn);
  }
  // Connects a to b, which listens.
  void connect_both() {
    id_a = resolved(a);
    ASSERT_EQ(connect(a, id_a, a.qpn()), 0);
    id_b = b.hears(daemon, MPRDMA_ABI_CM_EVENT_REQUEST);
    ASSERT_EQ(accept(b, id_b, b.qpn()), 0);
    ASSERT_EQ(a.hears(daemon, MPRDMA_ABI_CM_EVENT_RESPONSE), id_a);
    ASSERT_EQ(a.execute(daemon, MPRDMA_ABI_CM_ESTABLISH, id_a), 0);
    ASSERT_EQ(b.hears(daemon, MPRDMA_ABI_CM_EVENT_ESTABLISHED), id_b);
  }
  uint64_t forged() { return daemon.loop->server().counters().nic_cm_forged; }

  uint32_t id_a = 0;
  uint32_t id_b = 0;
};

TEST_F(DaemonServerCmTest, PortsAreTheDevicesAndIdsTheClientsOwn) {
  const uint32_t its = create(a);
  EXPECT_EQ(bind(a, its), 0);
  EXPECT_EQ(bind(b, its), ENOENT);
  const uint32_t id = create(b);
  EXPECT_EQ(bind(b, id), EADDRNOTAVAIL);
  a.leave();
  ASSERT_TRUE(daemon.run([&] { return daemon.loop->server().clients() == 1; }));
  EXPECT_EQ(bind(b, id), 0);
}

// To the peer a request from a queue pair that it is connected to is of a process that was started
// anew: it ends the old connection.
TEST_F(DaemonServerCmTest, NobodyConnectsInTheNameOfAnothersQueuePair) {
  listen(b);
  connect_both();
  Process c(directory.wire());
  ASSERT_TRUE(c.enter(daemon, 103));
  const uint32_t id_c = resolved(c);
  const Qpn others[] = {a.qpn(), b.qpn(), qpn_in(90), Qpn(1), wire::kMulticastQpn, Qpn(1u << 24)};
  for (const Qpn qpn : others) EXPECT_EQ(connect(c, id_c, qpn), EPERM) << qpn.value();
  EXPECT_EQ(forged(), std::size(others));
  EXPECT_EQ(connect(c, id_c, c.qpn()), 0);
  const uint32_t request = b.hears(daemon, MPRDMA_ABI_CM_EVENT_REQUEST);
  EXPECT_NE(request, 0u) << "and nothing before it";
  EXPECT_EQ(accept(b, request, a.qpn()), EPERM);
  EXPECT_EQ(accept(b, request, c.qpn()), EPERM);
  EXPECT_EQ(accept(b, request, b.qpn(6)), 0);
  EXPECT_EQ(c.hears(daemon, MPRDMA_ABI_CM_EVENT_RESPONSE), id_c);
  EXPECT_EQ(a.execute(daemon, MPRDMA_ABI_CM_DISCONNECT, id_a), 0) << "still connected";
  EXPECT_EQ(b.hears(daemon, MPRDMA_ABI_CM_EVENT_DISCONNECTED), id_b);
}

TEST_F(DaemonServerCmTest, AnAnswerToASidrRequestNamesAnOwnQueuePair) {
  listen(b, MPRDMA_ABI_CM_PS_UDP);
  const uint32_t id = resolved(a, MPRDMA_ABI_CM_PS_UDP);
  ASSERT_EQ(connect(a, id, a.qpn()), 0);
  const uint32_t request = b.hears(daemon, MPRDMA_ABI_CM_EVENT_REQUEST);
  EXPECT_EQ(accept(b, request, a.qpn()), EPERM);
  EXPECT_EQ(forged(), 1u);
  EXPECT_EQ(accept(b, request, b.qpn()), 0);
  EXPECT_EQ(a.hears(daemon, MPRDMA_ABI_CM_EVENT_ESTABLISHED), id);
}

// librdmacm passes number 0 for an id without a queue pair.
TEST_F(DaemonServerCmTest, WhoHasNoQueuePairMaySaySo) {
  listen(b);
  const uint32_t id = resolved(a);
  EXPECT_EQ(connect(a, id, Qpn(0)), 0);
  const uint32_t request = b.hears(daemon, MPRDMA_ABI_CM_EVENT_REQUEST);
  EXPECT_EQ(accept(b, request, Qpn(0)), 0);
  EXPECT_EQ(a.hears(daemon, MPRDMA_ABI_CM_EVENT_RESPONSE), id);
  EXPECT_EQ(forged(), 0u);
}

// Frames may lie in the ring when the command comes, such as the acknowledgement of the last
// message.
TEST_F(DaemonServerCmTest, WhatAProcessHasSentIsDeliveredBeforeItDisconnects) {
  listen(b);
  connect_both();
  constexpr int kFrames = 200;  // several turns of the switch
  int sent = 0;
  while (sent < kFrames && a.send(frame_for(b))) ++sent;
  ASSERT_EQ(sent, kFrames);
  auto command = client::new_message<client::CmCommand>(5);
  command.command.op = MPRDMA_ABI_CM_DISCONNECT;
  command.command.id = id_a;
  ASSERT_EQ(client::send_message(a.fd, command), 0);
  client::Incoming in;
  ASSERT_TRUE(until([&] {
    daemon.loop->step(Duration::zero());
    return client::receive_message(a.fd, &in) != EAGAIN;
  }));
  int got = 0;
  RxFrame frame{};
  while (b.port->rx_burst(&frame, 1) == 1) {
    ++got;
    b.port->rx_release(&frame.cookie, 1);
  }
  EXPECT_EQ(got, kFrames);
}

// A process whose frames were taken at every command could take the turns of others with commands
// that cost it nothing.
TEST_F(DaemonServerCmTest, WhoEndsNoConnectionHasItsFramesTakenInItsTurns) {
  listen(b);
  connect_both();
  const uint32_t unconnected = create(a);
  const std::pair<mprdma_abi_cm_op, uint32_t> commands[] = {
      {MPRDMA_ABI_CM_DISCONNECT, 12345},  // nobody's id
      {MPRDMA_ABI_CM_DISCONNECT, id_b},   // somebody else's
      {MPRDMA_ABI_CM_REJECT, id_a},       // not what can be done with it
      {MPRDMA_ABI_CM_DISCONNECT, unconnected},
      {MPRDMA_ABI_CM_DESTROY, unconnected}};
  const auto taken = [&] { return daemon.loop->sw().client_counters(a.block())->nic_frames_in; };
  // The frames are for nobody, so that none has to be received.
  const Bytes frame = make_frame({.dest_qpn = qpn_in(90), .dst_ip = kOurIp, .dst_mac = kOurMac});
  uint64_t sent = taken();
  for (const auto& [op, id] : commands) {
    while (a.send(frame)) ++sent;
    auto command = client::new_message<client::CmCommand>(5);
    command.command.op = op;
    command.command.id = id;
    ASSERT_EQ(client::send_message(a.fd, command), 0);
    // The loop's next look at its sockets is due.
    const Time due = dataplane::testing::now() + DaemonLoop::kEventCheckInterval;
    ASSERT_TRUE(until([&] { return dataplane::testing::now() > due; }));
    const uint64_t before = taken();
    uint64_t steps = 0;
    client::Incoming in;
    ASSERT_TRUE(until([&] {
      daemon.loop->step(Duration::zero());
      ++steps;
      return client::receive_message(a.fd, &in) != EAGAIN;
    }));
    EXPECT_LE(taken() - before, steps * kBurst) << op;
    ASSERT_TRUE(daemon.run([&] { return taken() == sent; }));
  }
}

}  // namespace
}  // namespace mprdma::dataplane::mprdmad
