// For the tests of the CM agent: an agent with short words for its commands, and two of them on a
// wire that the test can look into.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ipv4.hpp"
#include "dataplane/cm/agent.hpp"
#include "tests/support/print.hpp"
#include "wire/cm_mad.hpp"

namespace mprdma::dataplane::test {

inline constexpr uint32_t kTcp = MPRDMA_ABI_CM_PS_TCP;
inline constexpr uint32_t kUdp = MPRDMA_ABI_CM_PS_UDP;
inline constexpr uint32_t kClient = 7;
inline constexpr uint32_t kNobody = 0;  // an id

inline mprdma_abi_cm_address abi_address(const wire::IpAddress& ip, uint16_t port) {
  mprdma_abi_cm_address out{};
  std::ranges::copy(ip, out.ip);
  out.port = port;
  return out;
}

inline mprdma_abi_cm_params params(uint32_t qpn, std::string_view data = {}, uint8_t type = 2) {
  mprdma_abi_cm_params out{};
  out.qpn = qpn;
  out.psn = qpn + 1000;
  out.qp_type = type;
  out.path_mtu = 3;
  out.private_bytes = static_cast<uint8_t>(data.size());
  std::ranges::copy(data, out.private_data);
  return out;
}

class CmHost {
 public:
  using Event = mprdma_abi_cm_event;

  CmHost(Ipv4 ipv4, uint64_t seed, CmConfig config = {}) {
    config.address = wire::map_ipv4(ipv4);
    config.ipv4 = ipv4;
    config.node_guid = ipv4.value();
    config.seed = seed;
    address = config.address;
    agent = std::make_unique<CmAgent>(config);
  }

  // ---- Commands
  int run(mprdma_abi_cm_op op, uint32_t id, mprdma_abi_cm_command command = {}) {
    command.op = op;
    command.id = id;
    return agent->execute(client, command, &result, now);
  }
  uint32_t create(uint32_t space = kTcp, uint64_t cookie = 0) {
    mprdma_abi_cm_command command{};
    command.port_space = space;
    command.cookie = cookie;
    return run(MPRDMA_ABI_CM_CREATE, 0, command) == 0 ? result.id : kNobody;
  }
  int bind(uint32_t id, const wire::IpAddress& ip, uint16_t port) {
    mprdma_abi_cm_command command{};
    command.local = abi_address(ip, port);
    return run(MPRDMA_ABI_CM_BIND, id, command);
  }
  int listen(uint32_t id, uint32_t backlog = 0) {
    mprdma_abi_cm_command command{};
    command.backlog = backlog;
    return run(MPRDMA_ABI_CM_LISTEN, id, command);
  }
  uint32_t server(uint16_t port, uint32_t space = kTcp, uint32_t backlog = 0) {
    const uint32_t id = create(space);
    EXPECT_EQ(bind(id, {}, port), 0);
    EXPECT_EQ(listen(id, backlog), 0);
    return id;
  }
  int resolve(uint32_t id, const wire::IpAddress& ip, uint16_t port, uint32_t timeout_ms = 2000) {
    mprdma_abi_cm_command command{};
    command.remote = abi_address(ip, port);
    command.timeout_ms = timeout_ms;
    return run(MPRDMA_ABI_CM_RESOLVE, id, command);
  }
  int with_params(mprdma_abi_cm_op op, uint32_t id, const mprdma_abi_cm_params& in,
                  uint32_t reason = 0) {
    mprdma_abi_cm_command command{};
    command.params = in;
    command.reason = reason;
    return run(op, id, command);
  }
  int connect(uint32_t id, const mprdma_abi_cm_params& in) {
    return with_params(MPRDMA_ABI_CM_CONNECT, id, in);
  }
  int accept(uint32_t id, const mprdma_abi_cm_params& in) {
    return with_params(MPRDMA_ABI_CM_ACCEPT, id, in);
  }
  int reject(uint32_t id, std::string_view data = {}) {
    return with_params(MPRDMA_ABI_CM_REJECT, id, params(0, data), 28);
  }
  int establish(uint32_t id) { return run(MPRDMA_ABI_CM_ESTABLISH, id); }
  int disconnect(uint32_t id) { return run(MPRDMA_ABI_CM_DISCONNECT, id); }
  int destroy(uint32_t id) { return run(MPRDMA_ABI_CM_DESTROY, id); }
  int option(uint32_t id, mprdma_abi_cm_option what, uint32_t value) {
    mprdma_abi_cm_command command{};
    command.option = what;
    command.value = value;
    return run(MPRDMA_ABI_CM_SET_OPTION, id, command);
  }

  // ---- What comes out
  void answer_resolves() {
    static constexpr wire::MacAddress kMac = {2, 0, 0, 0, 0, 9};
    wire::IpAddress asked;
    while (agent->poll_resolve(&asked)) agent->on_resolved(asked, &kMac, now);
  }
  std::vector<Event> events() {
    std::vector<Event> all;
    CmAgent::ClientEvent next;
    while (agent->poll_event(&next)) all.push_back(next.event);
    return all;
  }
  // Exactly one event, of this type.
  Event expect(mprdma_abi_cm_event_type type) {
    const std::vector<Event> all = events();
    EXPECT_EQ(all.size(), 1u) << "waiting for event " << type;
    if (all.empty()) return {};
    EXPECT_EQ(all[0].type, static_cast<uint32_t>(type)) << "status " << all[0].status;
    return all[0];
  }
  // What waits for the wire, as it is read there.
  std::vector<wire::CmMad> take() {
    std::vector<wire::CmMad> all;
    CmAgent::OutgoingMad next;
    while (agent->poll_mad(&next)) {
      wire::CmMad mad;
      EXPECT_EQ(wire::decode_cm_mad(next.bytes, mad), wire::MadDrop::kNone);
      all.push_back(mad);
    }
    return all;
  }
  // Exactly one message, of this type.
  template <class Message>
  Message take_one() {
    const std::vector<wire::CmMad> all = take();
    EXPECT_EQ(all.size(), 1u);
    if (all.size() != 1 || !std::holds_alternative<Message>(all[0].body)) {
      ADD_FAILURE() << "another message than that";
      return {};
    }
    return std::get<Message>(all[0].body);
  }
  void give(const wire::CmMad& mad, const wire::IpAddress& from) {
    std::array<unsigned char, wire::kMadBytes> bytes{};
    wire::encode_cm_mad(mad, bytes);
    agent->on_mad(bytes, from, now);
  }

  std::unique_ptr<CmAgent> agent;
  wire::IpAddress address{};
  mprdma_abi_cm_result result{};
  uint32_t client = kClient;
  Time now = Time::from_ns(1);
};

class CmPair : public ::testing::Test {
 protected:
  static constexpr Ipv4 kA{0x0a000001};
  static constexpr Ipv4 kB{0x0a000002};
  static constexpr uint16_t kPort = 7471;

  // Everything that waits goes to the other side, until nothing waits.
  void deliver() {
    bool moved = true;
    while (moved) {
      moved = false;
      a.answer_resolves();
      b.answer_resolves();
      for (CmHost* host : {&a, &b}) {
        CmAgent::OutgoingMad mad;
        while (host->agent->poll_mad(&mad)) {
          moved = true;
          CmHost& to = mad.to == a.address ? a : b;
          to.agent->on_mad(mad.bytes, host->address, host->now);
        }
      }
    }
  }
  void set_time(Time now) { a.now = b.now = now; }
  // Time passes on both sides; nothing is carried unless `carry`.
  void pass(Duration span, bool carry = true) {
    const Time end = a.now + span;
    if (carry) deliver();
    while (true) {
      const Time next = std::min(a.agent->next_deadline(), b.agent->next_deadline());
      if (next > end) break;
      set_time(std::max(next, a.now));
      a.agent->on_deadline(a.now);
      b.agent->on_deadline(b.now);
      if (carry) deliver();
    }
    set_time(end);
  }

  // The active side, with its REQ waiting for the wire.
  uint32_t ask(uint32_t qpn, std::string_view data = {}, uint32_t space = kTcp) {
    const uint32_t id = a.create(space);
    EXPECT_EQ(a.resolve(id, b.address, kPort), 0);
    a.answer_resolves();
    a.expect(MPRDMA_ABI_CM_EVENT_ADDRESS_RESOLVED);
    EXPECT_EQ(a.connect(id, params(qpn, data)), 0);
    return id;
  }
  // The passive side's request, once it is there.
  uint32_t requested() {
    deliver();
    return b.expect(MPRDMA_ABI_CM_EVENT_REQUEST).id;
  }
  void connect_both(uint32_t qpn_a = 17, uint32_t qpn_b = 18) {
    if (listener == kNobody) listener = b.server(kPort);
    id_a = ask(qpn_a);
    id_b = requested();
    EXPECT_EQ(b.accept(id_b, params(qpn_b)), 0);
    deliver();
    a.expect(MPRDMA_ABI_CM_EVENT_RESPONSE);
    EXPECT_EQ(a.establish(id_a), 0);
    deliver();
    b.expect(MPRDMA_ABI_CM_EVENT_ESTABLISHED);
  }
  // Until nobody remembers anything.
  void expect_nothing_left() {
    pass(Duration::s(600));
    EXPECT_EQ(a.agent->ids_in_use(), 0u);
    EXPECT_EQ(b.agent->ids_in_use(), 0u);
    EXPECT_TRUE(a.events().empty());
    EXPECT_TRUE(b.events().empty());
  }

  CmHost a{kA, 1};
  CmHost b{kB, 2};
  uint32_t listener = kNobody;
  uint32_t id_a = kNobody;
  uint32_t id_b = kNobody;
};

}  // namespace mprdma::dataplane::test
