// The daemon, and processes that speak to it, over real sockets and rings, in one thread.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "base/qpn.hpp"
#include "dataplane/daemon/loop.hpp"
#include "dataplane/port/local_port.hpp"
#include "tests/unit/dataplane/daemon/switch_bed.hpp"
#include "tests/unit/dataplane/port/port_test_support.hpp"

namespace mprdma::dataplane::mprdmad {

using dataplane::testing::until;
using dataplane::testing::WireDirectory;

class RunningDaemon {
 public:
  explicit RunningDaemon(const std::string& socket, uint64_t instance = 42,
                         RingPolicy rings = RingPolicy::kSameUser, uint64_t link_mbps = 0,
                         std::unique_ptr<Port> wire = nullptr) {
    DaemonLoop::Options options;
    options.device = {.ipv4 = kOurIp, .prefix_bits = 24, .gateway = {}, .mac = kOurMac, .seed = 1};
    options.cm.ipv4 = kOurIp;
    options.cm.address = wire::map_ipv4(kOurIp);
    options.server.socket = socket;
    options.server.slots = 256;
    options.server.instance = instance;
    options.server.rings = rings;
    options.server.link_mbps = link_mbps;
    loop = std::make_unique<DaemonLoop>(options, std::move(wire));
    started = loop->start();
  }
  // Steps until the condition holds.
  template <class Condition>
  bool run(Condition&& condition) {
    return until([&] {
      loop->step(Duration::us(200));
      return condition();
    });
  }
  std::unique_ptr<DaemonLoop> loop;
  Status started;
};

class Process {
 public:
  explicit Process(const std::string& path) : fd(client::new_message_socket()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    connected = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Process() {
    leave();
    if (port_fd >= 0) close(port_fd);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void leave() {
    if (fd >= 0) close(fd);
    fd = -1;
    port.reset();
  }
  bool hello(uint64_t instance, uint32_t first_generation = client::kNoBlock) const {
    auto message = client::new_message<client::Hello>(1);
    message.instance = instance;
    message.first_generation = first_generation;
    client::set_text(&message.program, "test");
    return client::send_message(fd, message) == 0;
  }
  // The next message; false: the connection is over.
  template <class T>
  bool await(RunningDaemon& daemon, T* out) {
    bool found = false;
    daemon.run([&] {
      client::Incoming in;
      const int failed = client::receive_message(fd, &in);
      if (failed == EAGAIN) return false;
      if (failed != 0) return true;
      if (in.passed_fd >= 0) port_fd = in.passed_fd;
      client::Head head;
      if (client::check_message(in.message(), &head) != client::MessageFault::kNone ||
          head.type != T::kType) {
        return false;
      }
      *out = client::load_message<T>(in.message());
      return found = true;
    });
    return found;
  }
  bool ended(RunningDaemon& daemon) {
    return daemon.run([&] {
      client::Incoming in;
      const int failed = client::receive_message(fd, &in);
      return failed != 0 && failed != EAGAIN;
    });
  }
  bool enter(RunningDaemon& daemon, uint64_t instance,
             uint32_t first_generation = client::kNoBlock) {
    if (!hello(instance, first_generation) || !await(daemon, &welcome) || port_fd < 0) return false;
    LocalPort::Options options;
    options.role = local::Role::kAdopted;
    options.socket = std::exchange(port_fd, -1);
    PortResult result = LocalPort::open(options);
    port = std::move(result.port);
    return port != nullptr && daemon.run([&] {
      port->service(dataplane::testing::now());
      return port->link_up() && daemon.loop->sw().client_port(block())->link_up();
    });
  }
  // What the agent of connection management answers: 0 or an errno value; -1: nothing.
  int execute(RunningDaemon& daemon, mprdma_abi_cm_op op, uint32_t id,
              mprdma_abi_cm_command in = {}) {
    auto command = client::new_message<client::CmCommand>(5);
    command.command = in;
    command.command.op = op;
    command.command.id = id;
    client::CmReply reply;
    if (client::send_message(fd, command) != 0 || !await(daemon, &reply)) return -1;
    EXPECT_EQ(reply.head.serial, 5u);
    cm_result = reply.result;
    return reply.error;
  }
  // The id of its next event; 0: it is another one.
  uint32_t hears(RunningDaemon& daemon, mprdma_abi_cm_event_type type) {
    client::CmEvent next;
    if (!await(daemon, &next)) return 0;
    EXPECT_EQ(next.event.type, static_cast<uint32_t>(type));
    return next.event.type == static_cast<uint32_t>(type) ? next.event.id : 0;
  }
  [[nodiscard]] uint32_t block() const {
    return welcome.first_generation / client::kBlockGenerations;
  }
  [[nodiscard]] Qpn qpn(uint32_t slot = 5) const {
    return make_qpn(welcome.first_generation, slot);
  }
  bool send(const Bytes& bytes) const {
    TxFrame frame{};
    if (port->tx_reserve(&frame, 1) == 0) return false;
    std::memcpy(frame.payload, bytes.data(), bytes.size());
    frame.header_bytes = 0;
    frame.frame_bytes = static_cast<uint32_t>(bytes.size());
    port->tx_commit(&frame, 1);
    port->flush();
    return true;
  }
  bool receives(RunningDaemon& daemon, const Bytes& bytes) const {
    return daemon.run([&] {
      RxFrame frame{};
      if (port->rx_burst(&frame, 1) == 0) return false;
      const bool same =
          frame.length == bytes.size() && std::memcmp(frame.data, bytes.data(), bytes.size()) == 0;
      port->rx_release(&frame.cookie, 1);
      port->flush();
      return same;
    });
  }

  int fd;
  int port_fd = -1;
  bool connected = false;
  client::Welcome welcome;
  mprdma_abi_cm_result cm_result{};  // of the last command
  std::unique_ptr<Port> port;
};

// How a LocalPort greets, by hand; its memory goes with it.
struct Greeting {
  uint32_t magic = 0x4c503031;
  uint32_t type = 1;
  uint32_t refusal = 0;
  uint32_t reserved = 0;
};

inline Bytes frame_for(const Process& to) {
  return make_frame({.dest_qpn = to.qpn(), .dst_ip = kOurIp, .dst_mac = kOurMac});
}

class DaemonServerTest : public ::testing::Test {
 protected:
  // Two processes that work, whatever others do.
  void SetUp() override {
    ASSERT_EQ(daemon.started.text, "");
    ASSERT_TRUE(a.enter(daemon, 101));
    ASSERT_TRUE(b.enter(daemon, 102));
  }
  void expect_others_work() { expect_others_work_with(2); }
  void expect_others_work_with(size_t clients) {
    const Bytes frame = frame_for(b);
    ASSERT_TRUE(a.send(frame));
    EXPECT_TRUE(b.receives(daemon, frame));
    EXPECT_EQ(daemon.loop->server().clients(), clients);
  }

  WireDirectory directory;
  RunningDaemon daemon{directory.wire()};
  Process a{directory.wire()};
  Process b{directory.wire()};
};

}  // namespace mprdma::dataplane::mprdmad
