// Connection management through the engines of two processes that own their ports: commands in,
// datagrams over the wire or the loop, events out.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "abi/mprdma_abi_cm.h"
#include "base/ipv4.hpp"
#include "dataplane/engine/engine.hpp"
#include "tests/support/eventually.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"
#include "wire/cm_mad.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Bytes;
using testing::Host;
using testing::MemoryWire;

constexpr uint32_t kConsumerReject = 28;
constexpr uint32_t kInvalidServiceId = 8;
constexpr uint32_t kResolveMs = 2000;

mprdma_abi_cm_address address(Ipv4 ipv4, uint16_t port) {
  mprdma_abi_cm_address out{};
  const wire::IpAddress ip = wire::map_ipv4(ipv4);
  std::copy(ip.begin(), ip.end(), out.ip);
  out.port = port;
  return out;
}

mprdma_abi_cm_command command(mprdma_abi_cm_op op, uint32_t id = 0) {
  mprdma_abi_cm_command in{};
  in.op = op;
  in.id = id;
  return in;
}

void set_private(mprdma_abi_cm_params* params, const std::string& text) {
  std::memcpy(params->private_data, text.data(), text.size());
  params->private_bytes = static_cast<uint8_t>(text.size());
}

// The events of a client, and the commands that every client needs; `Channel` carries them.
template <class Channel>
struct CmClient {
  explicit CmClient(Channel the_channel) : channel(the_channel) {
    const mprdma_abi_cm_open open{this, [](void* context, const mprdma_abi_cm_event* event) {
                                    static_cast<CmClient*>(context)->hear(*event);
                                  }};
    EXPECT_EQ(channel(MPRDMA_ABI_CM_OPEN, &open, sizeof(open), nullptr, 0), 0);
  }
  CmClient(const CmClient&) = delete;
  CmClient& operator=(const CmClient&) = delete;

  int execute(const mprdma_abi_cm_command& in) {
    result = {};
    return channel(MPRDMA_ABI_CM, &in, sizeof(in), &result, sizeof(result));
  }
  uint32_t create() {
    mprdma_abi_cm_command in = command(MPRDMA_ABI_CM_CREATE);
    in.port_space = MPRDMA_ABI_CM_PS_TCP;
    EXPECT_EQ(execute(in), 0);
    return result.id;
  }
  uint32_t listen(uint16_t port) {
    const uint32_t id = create();
    mprdma_abi_cm_command bind = command(MPRDMA_ABI_CM_BIND, id);
    bind.local = address(Ipv4{}, port);
    EXPECT_EQ(execute(bind), 0);
    EXPECT_EQ(execute(command(MPRDMA_ABI_CM_LISTEN, id)), 0);
    return id;
  }
  int resolve(uint32_t id, Ipv4 ip, uint16_t port) {
    mprdma_abi_cm_command in = command(MPRDMA_ABI_CM_RESOLVE, id);
    in.remote = address(ip, port);
    in.timeout_ms = kResolveMs;
    return execute(in);
  }
  int connect(uint32_t id, uint32_t qpn, const std::string& text) {
    mprdma_abi_cm_command in = command(MPRDMA_ABI_CM_CONNECT, id);
    in.params.qpn = qpn;
    in.params.psn = 7;
    in.params.qp_type = 2;  // RC
    in.params.retry_count = 7;
    in.params.ece_vendor = 0x024d52;
    in.params.ece_options = 0x12345678;
    set_private(&in.params, text);
    return execute(in);
  }
  int accept(uint32_t id, uint32_t qpn, const std::string& text) {
    mprdma_abi_cm_command in = command(MPRDMA_ABI_CM_ACCEPT, id);
    in.params.qpn = qpn;
    in.params.psn = 9;
    set_private(&in.params, text);
    return execute(in);
  }
  // Takes the next event, if it is there and of that type.
  bool take(mprdma_abi_cm_event_type type, mprdma_abi_cm_event* out) {
    const std::lock_guard<std::mutex> guard(mutex);
    if (events.empty() || events.front().type != static_cast<uint32_t>(type)) return false;
    *out = events.front();
    events.pop_front();
    return true;
  }

  void hear(const mprdma_abi_cm_event& event) {
    const std::lock_guard<std::mutex> guard(mutex);
    events.push_back(event);
    if (event.type == MPRDMA_ABI_CM_EVENT_ESTABLISHED) last_established = event.id;
  }

  Channel channel;
  std::mutex mutex;
  std::deque<mprdma_abi_cm_event> events;
  std::atomic<uint32_t> last_established{0};
  mprdma_abi_cm_result result{};
};

struct HostChannel {
  Host* host;
  int operator()(uint32_t number, const void* in, size_t in_bytes, void* out, size_t out_bytes) {
    return host->execute_raw(number, in, in_bytes, out, out_bytes);
  }
};

class CmEngineTest : public ::testing::Test {
 protected:
  void step(Duration by = Duration::us(10)) {
    a.now = b.now = a.now + by;
    a.worker->run(a.now);
    b.worker->run(b.now);
  }
  template <class Condition>
  bool run_until(Condition&& condition, Duration by = Duration::us(10)) {
    for (int i = 0; i < 20'000; ++i) {
      if (condition()) return true;
      step(by);
    }
    return false;
  }
  bool hear(CmClient<HostChannel>& who, mprdma_abi_cm_event_type type,
            Duration by = Duration::us(10)) {
    const bool heard = run_until([&] { return who.take(type, &event); }, by);
    EXPECT_TRUE(heard) << "event " << type << "; the next one is "
                       << (who.events.empty() ? -1 : static_cast<int>(who.events[0].type));
    return heard;
  }
  std::string text() const { return {reinterpret_cast<const char*>(event.params.private_data)}; }
  static uint64_t counter(Host& host, uint64_t CmCounters::*which) {
    return host.worker->nic_part().cm().agent().counters().*which;
  }
  // Sends a request from `from` to `to`, which may be the same client.
  void connect(CmClient<HostChannel>& from, CmClient<HostChannel>& to, Ipv4 ip) {
    to.listen(kPort);
    active = from.create();
    ASSERT_EQ(from.resolve(active, ip, kPort), 0);
    ASSERT_TRUE(hear(from, MPRDMA_ABI_CM_EVENT_ADDRESS_RESOLVED));
    ASSERT_EQ(from.connect(active, 0x111, "please"), 0);
    ASSERT_TRUE(hear(to, MPRDMA_ABI_CM_EVENT_REQUEST));
    passive = event.id;
    EXPECT_EQ(text(), "please");
    EXPECT_EQ(event.params.qpn, 0x111u);
    EXPECT_EQ(event.params.ece_vendor, 0x024d52u);
    EXPECT_EQ(event.params.ece_options, 0x12345678u);
  }
  void establish(CmClient<HostChannel>& from, CmClient<HostChannel>& to) {
    ASSERT_EQ(to.accept(passive, 0x222, "welcome"), 0);
    ASSERT_TRUE(hear(from, MPRDMA_ABI_CM_EVENT_RESPONSE));
    EXPECT_EQ(text(), "welcome");
    EXPECT_EQ(event.params.qpn, 0x222u);
    ASSERT_EQ(from.execute(command(MPRDMA_ABI_CM_ESTABLISH, active)), 0);
    ASSERT_TRUE(hear(to, MPRDMA_ABI_CM_EVENT_ESTABLISHED));
    EXPECT_EQ(event.id, passive);
  }

  static constexpr uint16_t kPort = 7174;

  std::shared_ptr<MemoryWire> wire = std::make_shared<MemoryWire>();
  Host a{wire, 0};
  Host b{wire, 1};
  CmClient<HostChannel> alice{HostChannel{&a}};
  CmClient<HostChannel> bob{HostChannel{&b}};
  mprdma_abi_cm_event event{};
  uint32_t active = 0;
  uint32_t passive = 0;
};

TEST_F(CmEngineTest, TwoProcessesConnectAndPart) {
  connect(alice, bob, Host::ip(1));
  EXPECT_EQ(std::memcmp(event.remote.ip, address(Host::ip(0), 0).ip, 16), 0);
  establish(alice, bob);
  EXPECT_EQ(counter(a, &CmCounters::cm_established), 1u);
  EXPECT_EQ(counter(b, &CmCounters::cm_established), 1u);
  ASSERT_EQ(alice.execute(command(MPRDMA_ABI_CM_DISCONNECT, active)), 0);
  ASSERT_TRUE(hear(bob, MPRDMA_ABI_CM_EVENT_DISCONNECTED));
  ASSERT_EQ(bob.execute(command(MPRDMA_ABI_CM_DISCONNECT, passive)), 0);
  ASSERT_TRUE(hear(alice, MPRDMA_ABI_CM_EVENT_DISCONNECTED));
  ASSERT_TRUE(hear(alice, MPRDMA_ABI_CM_EVENT_TIMEWAIT_EXIT, Duration::ms(1)));
  ASSERT_TRUE(hear(bob, MPRDMA_ABI_CM_EVENT_TIMEWAIT_EXIT, Duration::ms(1)));
  for (Host* host : {&a, &b}) {
    EXPECT_EQ(host->worker->counters().drop_bad_mad, 0u);
    EXPECT_EQ(counter(*host, &CmCounters::cm_drop_unexpected), 0u);
    EXPECT_EQ(host->port().borrowed, 0);
  }
}

TEST_F(CmEngineTest, ARejectionBringsItsReasonAndItsText) {
  connect(alice, bob, Host::ip(1));
  mprdma_abi_cm_command no = command(MPRDMA_ABI_CM_REJECT, passive);
  no.reason = kConsumerReject;
  set_private(&no.params, "not today");
  ASSERT_EQ(bob.execute(no), 0);
  ASSERT_TRUE(hear(alice, MPRDMA_ABI_CM_EVENT_REJECTED));
  EXPECT_EQ(event.status, static_cast<int32_t>(kConsumerReject));
  EXPECT_EQ(text(), "not today");
}

TEST_F(CmEngineTest, WhereNobodyListensARequestIsRejected) {
  active = alice.create();
  ASSERT_EQ(alice.resolve(active, Host::ip(1), kPort), 0);
  ASSERT_TRUE(hear(alice, MPRDMA_ABI_CM_EVENT_ADDRESS_RESOLVED));
  EXPECT_EQ(std::memcmp(event.remote_mac, derived_mac(Host::ip(1)).data(), 6), 0);
  ASSERT_EQ(alice.connect(active, 1, ""), 0);
  ASSERT_TRUE(hear(alice, MPRDMA_ABI_CM_EVENT_REJECTED));
  EXPECT_EQ(event.status, static_cast<int32_t>(kInvalidServiceId));
}

TEST_F(CmEngineTest, AnAddressThatNobodyHasIsAnError) {
  active = alice.create();
  ASSERT_EQ(alice.resolve(active, Ipv4(0x0a4900fe), kPort), 0);
  ASSERT_TRUE(hear(alice, MPRDMA_ABI_CM_EVENT_ADDRESS_ERROR, Duration::ms(1)));
  EXPECT_LT(event.status, 0);
}

TEST_F(CmEngineTest, TheOwnAddressIsReachedOverTheLoop) {
  // No frame of it goes to the wire.
  wire->on_frame = [](int, const Bytes&) {
    ADD_FAILURE() << "a frame left";
    return true;
  };
  connect(alice, alice, Host::ip(0));
  establish(alice, alice);
  ASSERT_EQ(alice.execute(command(MPRDMA_ABI_CM_DISCONNECT, passive)), 0);
  ASSERT_TRUE(hear(alice, MPRDMA_ABI_CM_EVENT_DISCONNECTED));
  EXPECT_EQ(event.id, active);
}

// An event that waits in the loop must not wait for a frame from outside.
TEST_F(CmEngineTest, WhatIsInTheLoopIsDueAtOnce) {
  alice.listen(kPort);
  active = alice.create();
  ASSERT_EQ(alice.resolve(active, Host::ip(0), kPort), 0);
  ASSERT_TRUE(hear(alice, MPRDMA_ABI_CM_EVENT_ADDRESS_RESOLVED));
  ASSERT_EQ(alice.connect(active, 1, ""), 0);
  EXPECT_LE(a.worker->next_deadline(), a.now);
}

TEST_F(CmEngineTest, TheConnectionsOfAClientThatGoesAreEnded) {
  connect(alice, bob, Host::ip(1));
  establish(alice, bob);
  a.forget_client();
  ASSERT_TRUE(hear(bob, MPRDMA_ABI_CM_EVENT_DISCONNECTED));
  EXPECT_EQ(event.id, passive);
  EXPECT_TRUE(alice.events.empty());
  EXPECT_EQ(alice.execute(command(MPRDMA_ABI_CM_CREATE)), EINVAL) << "it has to open again";
}

TEST_F(CmEngineTest, APeerThatDiedIsUnreachable) {
  connect(alice, bob, Host::ip(1));
  wire->on_frame = [](int side, const Bytes&) { return side != 1; };  // b is dead
  ASSERT_TRUE(hear(alice, MPRDMA_ABI_CM_EVENT_UNREACHABLE, Duration::ms(10)));
  EXPECT_EQ(event.status, -ETIMEDOUT);
  EXPECT_GT(counter(a, &CmCounters::cm_repeated), 0u);
}

TEST_F(CmEngineTest, MessagesWaitForRoomOnAFullWire) {
  connect(alice, bob, Host::ip(1));
  ASSERT_EQ(bob.events.size(), 0u);
  wire->room = 0;
  ASSERT_EQ(bob.accept(passive, 0x222, "welcome"), 0);
  step();
  EXPECT_LE(b.worker->next_deadline(), b.now + Duration::ms(1)) << "it looks again by itself";
  EXPECT_TRUE(alice.events.empty());
  wire->room = 1024;
  ASSERT_TRUE(hear(alice, MPRDMA_ABI_CM_EVENT_RESPONSE, Duration::us(100)));
  EXPECT_EQ(counter(b, &CmCounters::cm_repeated), 0u);
}

TEST_F(CmEngineTest, AClientOpensOnceAndBeforeItAsks) {
  const mprdma_abi_cm_open again{nullptr, [](void*, const mprdma_abi_cm_event*) {}};
  EXPECT_EQ(a.execute(MPRDMA_ABI_CM_OPEN, again), EBUSY);
  EXPECT_EQ(a.execute(MPRDMA_ABI_CM_OPEN, mprdma_abi_cm_open{}), EINVAL);
  const mprdma_abi_cm_command create = command(MPRDMA_ABI_CM_CREATE);
  EXPECT_EQ(a.execute(MPRDMA_ABI_CM, create), EINVAL) << "no room for the result";
  EXPECT_EQ(a.execute_raw(MPRDMA_ABI_CM, &create, 100, &alice.result, sizeof(alice.result)),
            EINVAL);
  EXPECT_EQ(alice.execute(command(MPRDMA_ABI_CM_DESTROY, 99)), ENOENT);
}

// ---- What comes from strangers

class CmHostileTest : public CmEngineTest {
 protected:
  // Sends a management datagram to b, as if from `src_ip`.
  void inject(Ipv4 src_ip, const std::array<unsigned char, wire::kMadBytes>& mad) {
    wire::FrameAddress to;
    to.dst_mac = derived_mac(Host::ip(1));
    to.src_mac = derived_mac(Host::ip(0));
    to.src_ip = wire::map_ipv4(src_ip);
    to.dst_ip = wire::map_ipv4(Host::ip(1));
    wire::Packet packet;
    packet.opcode = wire::Opcode::kUdSendOnly;
    packet.dest_qpn = wire::kGeneralServicesQpn;
    packet.payload_len = wire::kMadBytes;
    packet.deth = {.q_key = wire::kGeneralServicesQKey, .src_qpn = wire::kGeneralServicesQpn};
    Bytes room(wire::kMaxFrameHeaderBytes + mad.size() + wire::kMaxFrameTrailerBytes);
    unsigned char* start = room.data() + wire::kMaxFrameHeaderBytes;
    std::copy(mad.begin(), mad.end(), start);
    const size_t header = wire::encode_frame(to, packet, start);
    const size_t bytes = wire::finish_frame(start - header, header, mad.size(), true);
    wire->inject(1, {start - header, start - header + bytes});
  }
};

TEST_F(CmHostileTest, ADatagramInOurOwnNameIsDropped) {
  std::array<unsigned char, wire::kMadBytes> mad;
  wire::encode_cm_mad({.body = wire::CmRtu{}}, mad);
  inject(Host::ip(1), mad);
  step();
  EXPECT_EQ(b.worker->counters().drop_wrong_source, 1u);
  EXPECT_EQ(counter(b, &CmCounters::cm_messages_received), 0u);
}

TEST_F(CmHostileTest, GarbageIsCountedAndWhoIsConnectedGoesOn) {
  connect(alice, bob, Host::ip(1));
  Prng prng(3);
  for (int i = 0; i < 2000; ++i) {
    std::array<unsigned char, wire::kMadBytes> mad;
    for (unsigned char& byte : mad) byte = static_cast<unsigned char>(prng.next_u64());
    wire::MadHeader{.management_class = wire::kCmClass,
                    .class_version = wire::kCmClassVersion,
                    .method = wire::kMadMethodSend,
                    .transaction = prng.next_u64(),
                    .attribute = static_cast<uint16_t>(prng.range(0x0f, 0x1a))}
        .store(mad.data());
    if (prng.chance(1, 4)) mad[prng.below(4)] = static_cast<unsigned char>(prng.next_u64());
    inject(prng.chance(1, 2) ? Host::ip(0) : Host::ip(7), mad);
    if (i % 16 == 0) step();
  }
  establish(alice, bob);
  EXPECT_GT(counter(b, &CmCounters::cm_drop_malformed), 0u);
  EXPECT_GT(counter(b, &CmCounters::cm_drop_unexpected), 0u);
  EXPECT_GT(b.worker->counters().drop_bad_mad, 0u) << "other classes";
  EXPECT_EQ(b.port().borrowed, 0);
}

// A request from an unknown neighbour is answered to the Ethernet address that it came from.
TEST_F(CmHostileTest, TheAnswerToAStrangerNeedsNoQuestionFirst) {
  wire::CmReq req;
  req.local_comm_id = 5;
  req.qpn = Qpn(6);
  std::array<unsigned char, wire::kMadBytes> mad;
  wire::encode_cm_mad({.transaction = 1, .body = req}, mad);
  inject(Host::ip(0), mad);
  step();
  EXPECT_EQ(b.worker->counters().arp_requests_sent, 0u);
  EXPECT_EQ(counter(b, &CmCounters::cm_messages_sent), 1u);
  EXPECT_EQ(b.worker->counters().drop_no_path, 0u);
}

// ---- Real engines: nobody polls, the engines' own threads do all of it

struct EngineChannel {
  const mprdma_abi_channel* channel;
  int operator()(uint32_t number, const void* in, size_t in_bytes, void* out, size_t out_bytes) {
    return channel->execute(channel->engine, number, in, in_bytes, out, out_bytes);
  }
};

class EngineNode {
 public:
  EngineNode(const std::shared_ptr<MemoryWire>& wire, int side) {
    Config config;
    config.ipv4 = Host::ip(side);
    config.mac = derived_mac(config.ipv4);
    const Status status = Engine::create_over(
        config, std::make_unique<testing::MemoryPort>(wire, side, config.mac), 5, &engine);
    EXPECT_TRUE(status.ok()) << status.text;
    mprdma_abi_client callbacks{};
    callbacks.abi_major = MPRDMA_ABI_MAJOR;
    callbacks.on_event = [](void*, const mprdma_abi_event*) {};
    client_ = engine->connect(callbacks, &channel_);
    cm = std::make_unique<CmClient<EngineChannel>>(EngineChannel{&channel_});
  }
  ~EngineNode() { engine->disconnect(client_); }
  EngineNode(const EngineNode&) = delete;
  EngineNode& operator=(const EngineNode&) = delete;

  std::optional<mprdma_abi_cm_event> hear(mprdma_abi_cm_event_type type) const {
    mprdma_abi_cm_event event{};
    const bool heard = eventually([&] { return cm->take(type, &event); });
    EXPECT_TRUE(heard) << "event " << type;
    return heard ? std::optional(event) : std::nullopt;
  }

  std::unique_ptr<Engine> engine;
  std::unique_ptr<CmClient<EngineChannel>> cm;

 private:
  EngineClient* client_ = nullptr;
  mprdma_abi_channel channel_{};
};

// Connects an address to a port where `to` listens; returns the ids of both sides.
bool connect_engines(const EngineNode& from, const EngineNode& to, Ipv4 ip, uint32_t* active) {
  to.cm->listen(4000);
  *active = from.cm->create();
  if (from.cm->resolve(*active, ip, 4000) != 0) return false;
  if (!from.hear(MPRDMA_ABI_CM_EVENT_ADDRESS_RESOLVED)) return false;
  if (from.cm->connect(*active, 1, "") != 0) return false;
  const auto request = to.hear(MPRDMA_ABI_CM_EVENT_REQUEST);
  if (!request || to.cm->accept(request->id, 2, "") != 0) return false;
  if (!from.hear(MPRDMA_ABI_CM_EVENT_RESPONSE)) return false;
  if (from.cm->execute(command(MPRDMA_ABI_CM_ESTABLISH, *active)) != 0) return false;
  return to.hear(MPRDMA_ABI_CM_EVENT_ESTABLISHED).has_value();
}

TEST(CmEngines, ConnectWithoutAnybodyPolling) {
  auto wire = std::make_shared<MemoryWire>();
  const EngineNode a(wire, 0);
  const EngineNode b(wire, 1);
  uint32_t active = 0;
  ASSERT_TRUE(connect_engines(a, b, Host::ip(1), &active));
  EXPECT_EQ(b.cm->execute(command(MPRDMA_ABI_CM_DISCONNECT, b.cm->last_established)), 0);
  EXPECT_TRUE(a.hear(MPRDMA_ABI_CM_EVENT_DISCONNECTED));
}

TEST(CmEngines, ConnectToTheOwnAddress) {
  auto wire = std::make_shared<MemoryWire>();
  const EngineNode a(wire, 0);
  uint32_t active = 0;
  EXPECT_TRUE(connect_engines(a, a, Host::ip(0), &active));
}

TEST(CmEngines, AProcessThatEndsTellsItsPeers) {
  auto wire = std::make_shared<MemoryWire>();
  const EngineNode a(wire, 0);
  const EngineNode b(wire, 1);
  uint32_t active = 0;
  ASSERT_TRUE(connect_engines(a, b, Host::ip(1), &active));
  a.engine->withdraw();
  EXPECT_TRUE(b.hear(MPRDMA_ABI_CM_EVENT_DISCONNECTED));
  EXPECT_EQ(a.cm->execute(command(MPRDMA_ABI_CM_CREATE)), EINVAL);
}

}  // namespace
}  // namespace mprdma::dataplane
