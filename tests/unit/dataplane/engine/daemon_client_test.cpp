// A process whose device is shared: its numbers, its neighbours on the same address, the time while
// mprdmad is away, and its communication ids over a restart.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/ipv4.hpp"
#include "dataplane/client/cm_id_journal.hpp"
#include "dataplane/engine/config.hpp"
#include "dataplane/engine/transport_clock.hpp"
#include "tests/support/print.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"
#include "tests/unit/dataplane/engine/scripted_daemon.hpp"
#include "wire/pause_frame.hpp"

namespace mprdma::dataplane {
namespace {

using client::CmIds;
using testing::Host;
using testing::MemoryWire;
using testing::ScriptedDaemon;

constexpr Time at_s(int64_t seconds) {
  return Time::from_ns(seconds * 1'000'000'000);
}

// ---- Time

TEST(TransportClock, StandsStillUpToItsBoundAndGoesOnWithoutTheLostSpan) {
  TransportClock clock(Duration::s(60));
  EXPECT_EQ(clock.to_transport(at_s(10)), at_s(10));
  clock.pause(at_s(10));
  clock.pause(at_s(20));
  EXPECT_EQ(clock.to_transport(at_s(70)), at_s(10));
  EXPECT_EQ(clock.to_transport(at_s(75)), at_s(15)) << "beyond the bound";
  clock.resume(at_s(75));
  EXPECT_EQ(clock.to_transport(at_s(80)), at_s(20));
  clock.pause(at_s(80));
  clock.resume(at_s(90));
  EXPECT_EQ(clock.to_transport(at_s(91)), at_s(21));
}

TEST(TransportClock, DeadlineComesWhenTheTransportsTimeReachesIt) {
  TransportClock clock(Duration::s(60));
  EXPECT_EQ(clock.to_wall(at_s(30)), at_s(30));
  EXPECT_TRUE(clock.to_wall(Time::never()).is_never());
  clock.pause(at_s(20));
  EXPECT_EQ(clock.to_wall(at_s(15)), at_s(15)) << "due before";
  EXPECT_EQ(clock.to_wall(at_s(30)), at_s(90)) << "if it is never resumed";
  EXPECT_EQ(clock.to_transport(clock.to_wall(at_s(30))), at_s(30));
  EXPECT_TRUE(clock.to_wall(Time::never()).is_never());
  clock.resume(at_s(25));
  EXPECT_EQ(clock.to_wall(at_s(30)), at_s(35));
}

// ---- Numbers

TEST(QpBlock, NumbersAreThoseOfTheBlockAndRest) {
  QpTable table(Prng(3), {8, 8});
  std::set<Qpn> given;
  for (uint32_t i = 0; i < 8 * (kSlots - 1); ++i) {
    const Qpn qpn = table.allocate();
    ASSERT_TRUE(table.owns(qpn)) << qpn.value();
    ASSERT_EQ(qpn.value() >> 17, 1u);
    ASSERT_TRUE(given.insert(qpn).second) << "again after " << i << " uses";
    table.release(qpn);
  }
  EXPECT_FALSE(table.owns(make_qpn(7, 5)));
  EXPECT_FALSE(table.owns(make_qpn(16, 0)));
}

TEST(QpBlock, FirstAndLastBlockLeaveTheReservedNumbersOut) {
  for (const uint32_t first : {0u, kGenerations - 8}) {
    QpTable table(Prng(4), {first, 8});
    for (uint32_t i = 0; i < 9 * kSlots; ++i) {
      const Qpn qpn = table.allocate();
      ASSERT_GT(qpn, Qpn(1));
      ASSERT_LT(qpn, Qpn(0xffffff));
      ASSERT_TRUE(table.owns(qpn));
      table.release(qpn);
    }
  }
}

// Two processes of one device. Each takes the other's numbers for peers on the wire.
struct SharedDevice {
  explicit SharedDevice(bool can_corrupt = false) : wire(std::make_shared<MemoryWire>()) {
    daemon_b.its_block = {64, 8};
    wire->daemon[0] = &daemon_a;
    wire->daemon[1] = &daemon_b;
    wire->can_corrupt = can_corrupt;
    const auto same = [](WorkerConfig& config) {
      config.ipv4 = Host::ip(0);
      config.mac = derived_mac(Host::ip(0));
      config.pfc_priority = 5;
    };
    a.emplace(wire, 0, same);
    b.emplace(wire, 1, same);
  }
  void step() {
    a->now = b->now = a->now + Duration::us(10);
    a->worker->run(a->now);
    b->worker->run(b->now);
  }
  bool completes(testing::HostCq& cq, mprdma_abi_cqe* out) {
    for (int i = 0; i < 10'000; ++i) {
      if (cq.poll(out)) return true;
      step();
    }
    return false;
  }

  ScriptedDaemon daemon_a;
  ScriptedDaemon daemon_b;
  std::shared_ptr<MemoryWire> wire;
  std::optional<Host> a;
  std::optional<Host> b;
};

// A queue pair of each process, connected to that of the other, and memory.
struct ConnectedProcesses : SharedDevice {
  explicit ConnectedProcesses(bool can_corrupt = false)
      : SharedDevice(can_corrupt),
        cq(a->make_cq()),
        cq_b(b->make_cq()),
        mr(a->make_mr(64)),
        mr_b(b->make_mr(64)),
        out(a->make_qp(*cq)),
        in(b->make_qp(*cq_b)) {
    a->connect(*out, Host::ip(0), in->qpn);
    b->connect(*in, Host::ip(0), out->qpn);
    mr->bytes.assign(64, 7);
  }
  // A WRITE of 16 bytes of `mr` comes to its end.
  void write(testing::HostQp& qp, const testing::HostMr& to, uint64_t offset) {
    auto& wqe = a->begin_send(qp, MPRDMA_ABI_WRITE, 1, {{mr->addr(), 16, mr->key}});
    wqe.remote_addr = to.addr() + offset;
    wqe.rkey = to.key;
    a->end_send(qp);
    mprdma_abi_cqe cqe{};
    EXPECT_TRUE(completes(*cq, &cqe));
    EXPECT_EQ(cqe.status, MPRDMA_ABI_WC_SUCCESS);
  }

  std::unique_ptr<testing::HostCq> cq, cq_b;
  std::unique_ptr<testing::HostMr> mr, mr_b;
  std::unique_ptr<testing::HostQp> out, in;
};

TEST(SharedDevice, ProcessesOfOneAddressReachEachOtherAndThemselves) {
  ConnectedProcesses device;
  Host& a = *device.a;
  const auto self = a.make_qp(*device.cq);
  const auto self_peer = a.make_qp(*device.cq);
  a.connect(*self, Host::ip(0), self_peer->qpn);
  a.connect(*self_peer, Host::ip(0), self->qpn);
  device.write(*device.out, *device.mr_b, 0);
  EXPECT_EQ(device.mr_b->bytes[15], 7);
  const uint64_t on_the_wire = a.port().stats().tx_frames;
  device.mr->bytes.assign(16, 9);
  device.mr->bytes.resize(64);
  device.write(*self, *device.mr, 32);
  EXPECT_EQ(device.mr->bytes[47], 9);
  EXPECT_EQ(a.port().stats().tx_frames, on_the_wire) << "our own numbers need no wire";
}

// What mprdmad passes on is obeyed, whatever the process is configured to; and frames between its
// processes are not on the link.
TEST(SharedDevice, APauseThatTheDaemonPassesOnIsObeyedTowardsOtherHosts) {
  ConnectedProcesses device;
  testing::Bytes pause(wire::kMinFrameBytes);
  wire::PauseFrame::pfc(1 << 0, 0xffff).store({}, pause.data());
  device.wire->inject(0, pause);
  device.step();
  const EngineCounters& counters = device.a->worker->counters();
  EXPECT_EQ(counters.pfc_received, 1u);
  EXPECT_EQ(counters.pfc_ignored, 0u);
  device.write(*device.out, *device.mr_b, 0);
  EXPECT_EQ(device.mr_b->bytes[15], 7);
}

// mprdmad owns a NIC, but nothing of these two leaves the host.
TEST(SharedDevice, FramesBetweenItsProcessesNeedNoIcrcAndThoseOfOthersDo) {
  ConnectedProcesses device(true);
  Host& b = *device.b;
  std::vector<testing::Bytes> frames;
  device.wire->on_frame = [&](int, const testing::Bytes& frame) {
    frames.push_back(frame);
    return true;
  };
  device.write(*device.out, *device.mr_b, 0);
  EXPECT_EQ(device.mr_b->bytes[15], 7);
  ASSERT_GE(frames.size(), 2u);
  for (const testing::Bytes& frame : frames) {
    EXPECT_TRUE(std::all_of(frame.end() - wire::kIcrcBytes, frame.end(),
                            [](unsigned char byte) { return byte == 0; }));
  }
  // The same from another host: halves of the address in turn, so that the header's sum stays.
  testing::Bytes foreign = frames[0];
  std::swap_ranges(foreign.begin() + 26, foreign.begin() + 28, foreign.begin() + 28);
  const uint64_t before = b.worker->wire_drops()[wire::DropReason::kBadIcrc];
  device.wire->inject(1, foreign);
  device.step();
  EXPECT_EQ(b.worker->wire_drops()[wire::DropReason::kBadIcrc], before + 1);
  // Without mprdmad nothing is known of who sends from our address.
  auto lone_wire = std::make_shared<MemoryWire>();
  Host lone(lone_wire, 0, [](WorkerConfig& config) {
    config.ipv4 = Host::ip(0);
    config.mac = derived_mac(Host::ip(0));
  });
  lone_wire->inject(0, frames[0]);
  lone.worker->run(lone.now);
  EXPECT_EQ(lone.worker->wire_drops()[wire::DropReason::kBadIcrc], 1u);
}

TEST(SharedDevice, AnotherBlockEndsTheQueuePairsOfBefore) {
  SharedDevice device;
  Host& a = *device.a;
  const auto cq = a.make_cq();
  const auto qp = a.make_qp(*cq);
  a.connect(*qp, Host::ip(0), 0x800002);
  a.worker->service(a.now);
  ASSERT_TRUE(a.events.empty());
  device.daemon_a.its_block = {200, 8};
  a.worker->service(a.now);
  ASSERT_EQ(a.events.size(), 1u);
  EXPECT_EQ(a.events[0].type, static_cast<uint32_t>(MPRDMA_ABI_EVENT_QP_FATAL));
  EXPECT_EQ(a.query(*qp).state, static_cast<uint32_t>(MPRDMA_ABI_QPS_ERR));
  const auto next = a.make_qp(*cq);
  EXPECT_EQ(next->qpn >> 17, 200u / 8);
}

// ---- What is configured and what the daemon says

TEST(AdoptDevice, IsTheDaemonsUnlessSomethingElseWasConfigured) {
  const DaemonDevice device{Ipv4(0x0a490001), 24, {2, 0, 0, 0, 0, 1}, 2048};
  Config config;
  EXPECT_EQ(adopt_device(device, &config).text, "");
  EXPECT_EQ(config.ipv4, device.ipv4);
  EXPECT_EQ(config.prefix_bits, 24u);
  EXPECT_EQ(config.mac, device.mac);
  EXPECT_EQ(config.mtu, 2048u);
  config = Config{};
  config.ipv4 = Ipv4(0x0a490002);
  EXPECT_NE(adopt_device(device, &config).text.find("10.73.0.2"), std::string::npos);
  config = Config{};
  config.mtu_set = true;
  EXPECT_NE(adopt_device(device, &config).text.find("4096"), std::string::npos);
  config.mtu = 1024;
  EXPECT_EQ(adopt_device(device, &config).text, "");
  EXPECT_EQ(config.mtu, 1024u);
  config = Config{};
  config.mac = {2, 0, 0, 0, 0, 2};
  config.mac_set = true;
  EXPECT_NE(adopt_device(device, &config).text.find("02:00:00:00:00:02"), std::string::npos);
}

// ---- Communication ids

struct IdsTest : ::testing::Test {
  // Executes a command; the agent answers it.
  int run(mprdma_abi_cm_command in, uint32_t agents_id, mprdma_abi_cm_result* result = nullptr) {
    mprdma_abi_cm_command sent{};
    bool done = false;
    const int error = ids.begin(&client, in, &sent, &done);
    if (error != 0 || done) return error;
    last_sent = sent;
    mprdma_abi_cm_result out{agents_id, 0, in.local};
    ids.on_reply(&client, in, 0, &out);
    if (result != nullptr) *result = out;
    return 0;
  }
  static mprdma_abi_cm_command command(uint32_t op, uint32_t id) {
    mprdma_abi_cm_command in{};
    in.op = op;
    in.id = id;
    return in;
  }
  uint32_t create(uint32_t agents_id) {
    mprdma_abi_cm_command in = command(MPRDMA_ABI_CM_CREATE, 0);
    in.port_space = MPRDMA_ABI_CM_PS_TCP;
    in.cookie = 77;
    mprdma_abi_cm_result out{};
    EXPECT_EQ(run(in, agents_id, &out), 0);
    return out.id;
  }
  std::vector<mprdma_abi_cm_command> restored(uint32_t new_agents_id) {
    std::vector<mprdma_abi_cm_command> commands;
    uint32_t number = 0;
    mprdma_abi_cm_command in{};
    while (ids.poll_restore(&number, &in)) {
      commands.push_back(in);
      ids.on_restored(number, 0, {new_agents_id, 0, in.local});
    }
    return commands;
  }

  mprdma_abi_client client{};
  CmIds ids;
  mprdma_abi_cm_command last_sent{};
};

TEST_F(IdsTest, ListenerIsMadeAnewByTheAgentThatComesBack) {
  const uint32_t id = create(500);
  mprdma_abi_cm_command bind = command(MPRDMA_ABI_CM_BIND, id);
  bind.local.port = 7471;
  ASSERT_EQ(run(bind, 500), 0);
  EXPECT_EQ(last_sent.id, 500u) << "the agent's number";
  mprdma_abi_cm_command listen = command(MPRDMA_ABI_CM_LISTEN, id);
  listen.backlog = 5;
  ASSERT_EQ(run(listen, 500), 0);
  ids.on_restart();
  const auto commands = restored(3);
  ASSERT_EQ(commands.size(), 3u);
  EXPECT_EQ(commands[0].op, static_cast<uint32_t>(MPRDMA_ABI_CM_CREATE));
  EXPECT_EQ(commands[0].cookie, 77u);
  EXPECT_EQ(commands[1].op, static_cast<uint32_t>(MPRDMA_ABI_CM_BIND));
  EXPECT_EQ(commands[1].id, 3u);
  EXPECT_EQ(commands[1].local.port, 7471);
  EXPECT_EQ(commands[2].op, static_cast<uint32_t>(MPRDMA_ABI_CM_LISTEN));
  EXPECT_EQ(commands[2].backlog, 5u);
  mprdma_abi_cm_event request{};
  request.type = MPRDMA_ABI_CM_EVENT_REQUEST;
  request.listener = 3;
  request.id = 4;
  CmIds::Event event;
  uint32_t unwanted = 0;
  ASSERT_TRUE(ids.take(request, &event, &unwanted));
  EXPECT_EQ(event.event.listener, id);
  EXPECT_EQ(event.client, &client);
}

TEST_F(IdsTest, ConnectionThatStandsOutlivesTheAgentAndOneThatBeginsDoesNot) {
  const uint32_t connected = create(1);
  const uint32_t connecting = create(2);
  ASSERT_EQ(run(command(MPRDMA_ABI_CM_CONNECT, connected), 1), 0);
  ASSERT_EQ(run(command(MPRDMA_ABI_CM_ESTABLISH, connected), 1), 0);
  ASSERT_EQ(run(command(MPRDMA_ABI_CM_CONNECT, connecting), 2), 0);
  ids.on_restart();
  CmIds::Event event;
  ASSERT_TRUE(ids.poll_event(&event));
  EXPECT_EQ(event.event.id, connecting);
  EXPECT_EQ(event.event.type, static_cast<uint32_t>(MPRDMA_ABI_CM_EVENT_UNREACHABLE));
  EXPECT_FALSE(ids.poll_event(&event)) << "nothing is said of the connection";
  EXPECT_EQ(restored(9).size(), 1u);
  EXPECT_EQ(run(command(MPRDMA_ABI_CM_DISCONNECT, connected), 0), 0);
  ASSERT_TRUE(ids.poll_event(&event));
  EXPECT_EQ(event.event.type, static_cast<uint32_t>(MPRDMA_ABI_CM_EVENT_DISCONNECTED));
  ASSERT_TRUE(ids.poll_event(&event));
  EXPECT_EQ(event.event.type, static_cast<uint32_t>(MPRDMA_ABI_CM_EVENT_TIMEWAIT_EXIT));
  EXPECT_EQ(run(command(MPRDMA_ABI_CM_DESTROY, connected), 0), 0);
  EXPECT_EQ(run(command(MPRDMA_ABI_CM_DESTROY, connected), 0), ENOENT);
}

TEST_F(IdsTest, RequestOfAListenerThatIsGoneIsNotWanted) {
  const uint32_t id = create(5);
  ASSERT_EQ(run(command(MPRDMA_ABI_CM_DESTROY, id), 5), 0);
  mprdma_abi_cm_event request{};
  request.type = MPRDMA_ABI_CM_EVENT_REQUEST;
  request.listener = 5;
  request.id = 6;
  CmIds::Event event;
  uint32_t unwanted = 0;
  EXPECT_FALSE(ids.take(request, &event, &unwanted));
  EXPECT_EQ(unwanted, 6u);
  EXPECT_EQ(ids.size(), 0u);
}

TEST_F(IdsTest, IdsOfAnotherClientAreNone) {
  const uint32_t id = create(5);
  const mprdma_abi_client other{};
  mprdma_abi_cm_command out{};
  bool done = false;
  EXPECT_EQ(ids.begin(&other, command(MPRDMA_ABI_CM_DESTROY, id), &out, &done), ENOENT);
}

}  // namespace
}  // namespace mprdma::dataplane
