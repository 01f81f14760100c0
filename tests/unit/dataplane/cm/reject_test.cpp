// Refusals, stale connections, and messages of strangers.
#include <gtest/gtest.h>

#include "base/ipv4.hpp"
#include "base/prng.hpp"
#include "tests/unit/dataplane/cm/cm_host.hpp"

namespace mprdma::dataplane::test {
namespace {

using wire::CmDreq;
using wire::CmMad;
using wire::CmRej;
using wire::CmReq;
using wire::CmRtu;

class CmReject : public CmPair {
 protected:
  // Makes a valid REQ.
  CmMad good_req(uint32_t qpn = 17) {
    const uint32_t id = ask(qpn);
    const CmMad req = a.take()[0];
    EXPECT_EQ(a.destroy(id), 0);
    a.take();
    return req;
  }
  uint16_t reason_for(const CmMad& req) {
    b.give(req, a.address);
    return b.take_one<CmRej>().reason;
  }
};

TEST_F(CmReject, ARequestToAPortOfNobody) {
  EXPECT_EQ(reason_for(good_req()), 8);
  b.server(kPort + 1);
  CmMad udp = good_req();
  std::get<CmReq>(udp.body).service_id = wire::cm_service_id(kUdp, kPort);
  b.server(kPort, kUdp);
  EXPECT_EQ(reason_for(udp), 8) << "a connection to a port of datagrams";
  CmMad far = good_req();
  std::get<CmReq>(far.body).service_id |= uint64_t{1} << 40;
  b.server(kPort);
  EXPECT_EQ(reason_for(far), 8);
}

TEST_F(CmReject, WhatTheDeviceCannotDo) {
  listener = b.server(kPort);
  CmMad req = good_req();
  std::get<CmReq>(req.body).remote_gid[15] ^= 7;
  EXPECT_EQ(reason_for(req), 12);
  req = good_req();
  std::get<CmReq>(req.body).local_gid[15] ^= 7;
  EXPECT_EQ(reason_for(req), 12) << "it names another sender than it has";
  for (const uint8_t mtu : {0, 6}) {
    req = good_req();
    std::get<CmReq>(req.body).path_mtu = mtu;
    b.give(req, a.address);
    const CmRej rej = b.take_one<CmRej>();
    EXPECT_EQ(rej.reason, 26);
    EXPECT_EQ(rej.info_bytes, 1);
    EXPECT_EQ(rej.info[0], 5);
  }
  req = good_req();
  std::get<CmReq>(req.body).service = wire::CmService::kCount;
  EXPECT_EQ(reason_for(req), 9);
  req = good_req();
  std::get<CmReq>(req.body).private_data.data[0] = 9;
  EXPECT_EQ(reason_for(req), 28) << "another version of rdma_cm's header";
  EXPECT_EQ(b.agent->ids_in_use(), 1u);
}

TEST_F(CmReject, TheConsumerWithItsOwnWords) {
  listener = b.server(kPort);
  id_a = ask(17);
  id_b = requested();
  ASSERT_EQ(b.reject(id_b, "go away"), 0);
  deliver();
  const auto rejected = a.expect(MPRDMA_ABI_CM_EVENT_REJECTED);
  EXPECT_EQ(rejected.status, 28);
  EXPECT_EQ(rejected.params.private_bytes, 148);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(rejected.params.private_data)), "go away");
  // The active side may reject, too.
  id_a = ask(19);
  id_b = requested();
  ASSERT_EQ(b.accept(id_b, params(18)), 0);
  deliver();
  a.expect(MPRDMA_ABI_CM_EVENT_RESPONSE);
  ASSERT_EQ(a.reject(id_a), 0);
  deliver();
  EXPECT_EQ(b.expect(MPRDMA_ABI_CM_EVENT_REJECTED).status, 28);
}

TEST_F(CmReject, BeyondTheBacklogThereAreNoResources) {
  listener = b.server(kPort, kTcp, 2);
  ask(1);
  const uint32_t second = ask(2);
  ask(3);
  deliver();
  EXPECT_EQ(a.expect(MPRDMA_ABI_CM_EVENT_REJECTED).status, 3);
  const auto waiting = b.events();
  ASSERT_EQ(waiting.size(), 2u);
  ASSERT_EQ(b.reject(waiting[0].id), 0);
  ASSERT_EQ(a.destroy(second), 0);
  deliver();
  a.events();
  ask(4);
  ask(5);
  deliver();
  EXPECT_TRUE(a.events().empty()) << "an answer and an end made room for two";
}

TEST_F(CmReject, APeerThatWasRestartedIsToldThatItsQueuePairIsStale) {
  connect_both(17, 18);
  a = CmHost(kA, 99);
  id_a = ask(17);
  deliver();
  EXPECT_EQ(a.expect(MPRDMA_ABI_CM_EVENT_REJECTED).status, 10);
  EXPECT_EQ(b.expect(MPRDMA_ABI_CM_EVENT_DISCONNECTED).id, id_b)
      << "the DREQ of the old one was answered by an agent that does not know it";
  EXPECT_EQ(b.agent->counters().cm_stale, 1u);
  connect_both(17, 19);
}

// If it ended one, a stranger who can send a request could end any connection of the peer whose
// address he uses.
TEST_F(CmReject, ARequestToAPortOfNobodyEndsNoConnection) {
  connect_both(17, 18);
  a = CmHost(kA, 99);
  CmMad req = good_req(17);
  std::get<CmReq>(req.body).service_id = wire::cm_service_id(kTcp, kPort + 1);
  EXPECT_EQ(reason_for(req), 8);
  EXPECT_EQ(b.agent->counters().cm_stale, 0u);
  EXPECT_TRUE(b.events().empty());
  EXPECT_EQ(b.disconnect(id_b), 0) << "still connected";
}

TEST_F(CmReject, ConnectionsWithoutAQueuePairAreNotTheSameOne) {
  connect_both(0, 0);
  const uint32_t first = id_b;
  connect_both(0, 0);
  EXPECT_EQ(b.agent->counters().cm_stale, 0u);
  EXPECT_EQ(a.agent->counters().cm_stale, 0u);
  EXPECT_EQ(b.disconnect(first), 0) << "still connected";
}

TEST_F(CmReject, ARepFromAQueuePairThatWeAreConnectedToIsStale) {
  connect_both(17, 18);
  b = CmHost(kB, 99);
  listener = b.server(kPort);
  const uint32_t second = ask(20);
  id_b = requested();
  ASSERT_EQ(b.accept(id_b, params(18)), 0);
  deliver();
  const auto all = a.events();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].id, second);
  EXPECT_EQ(all[0].status, 10);
  EXPECT_EQ(all[1].type, uint32_t{MPRDMA_ABI_CM_EVENT_DISCONNECTED});
  EXPECT_EQ(b.expect(MPRDMA_ABI_CM_EVENT_REJECTED).status, 10);
}

TEST_F(CmReject, AConnectionHearsItsPeerOnly) {
  connect_both();
  const wire::IpAddress stranger = wire::map_ipv4(Ipv4(0x0a000009));
  ASSERT_EQ(a.disconnect(id_a), 0);
  const CmDreq dreq = a.take_one<CmDreq>();
  const auto tell = [&](const wire::CmBody& body) {
    b.give({.transaction = 5, .modifier = 0, .body = body}, stranger);
    EXPECT_TRUE(b.take().empty());
    EXPECT_TRUE(b.events().empty());
  };
  tell(dreq);
  tell(CmRej{.local_comm_id = dreq.local_comm_id,
             .remote_comm_id = dreq.remote_comm_id,
             .message = 2,
             .reason = 28,
             .info = {},
             .private_data = {}});
  tell(CmRtu{.local_comm_id = dreq.local_comm_id,
             .remote_comm_id = dreq.remote_comm_id,
             .private_data = {}});
  // The message comes from the peer's address, but concerns another queue pair or another
  // connection.
  CmDreq other = dreq;
  other.remote_qpn = Qpn(other.remote_qpn.value() ^ 1);
  b.give({.transaction = 5, .modifier = 0, .body = other}, a.address);
  other = dreq;
  other.local_comm_id ^= 1;
  b.give({.transaction = 5, .modifier = 0, .body = other}, a.address);
  EXPECT_TRUE(b.events().empty());
  EXPECT_TRUE(b.take().empty());
  EXPECT_EQ(b.disconnect(id_b), 0) << "still connected";
}

TEST_F(CmReject, ARepFromElsewhereIsNotAnAnswer) {
  listener = b.server(kPort);
  id_a = ask(17);
  id_b = requested();
  ASSERT_EQ(b.accept(id_b, params(18)), 0);
  const CmMad rep = b.take()[0];
  a.give(rep, wire::map_ipv4(Ipv4(0x0a000009)));
  EXPECT_TRUE(a.events().empty());
  a.give(rep, b.address);
  a.expect(MPRDMA_ABI_CM_EVENT_RESPONSE);
}

TEST_F(CmReject, AFloodOfRequestsIsBounded) {
  CmConfig config;
  config.ids_max = 64;
  b = CmHost(kB, 2, config);
  connect_both(17, 18);
  b.server(kPort + 1);
  CmMad req = good_req(1);
  for (uint32_t i = 0; i < 100'000; ++i) {
    auto& body = std::get<CmReq>(req.body);
    body.local_comm_id = 0x1000000 + i;
    body.qpn = Qpn(1000 + i);
    body.service_id = wire::cm_service_id(kTcp, static_cast<uint16_t>(kPort + i % 2));
    b.give(req, a.address);
  }
  EXPECT_LE(b.agent->ids_in_use(), 2u + 1u + 32u);
  EXPECT_NE(b.create(), kNobody) << "clients always have room";
  EXPECT_LE(b.take().size(), 1024u);
  EXPECT_EQ(b.events().size(), 32u);
  EXPECT_EQ(b.disconnect(id_b), 0) << "the connection is unharmed";
  deliver();
  EXPECT_EQ(a.expect(MPRDMA_ABI_CM_EVENT_DISCONNECTED).id, id_a);
}

TEST_F(CmReject, RepetitionsOfOneMessageFillNoMemory) {
  connect_both();
  ASSERT_EQ(a.disconnect(id_a), 0);
  const CmMad dreq = a.take()[0];
  b.give(dreq, a.address);
  ASSERT_EQ(b.disconnect(id_b), 0);
  for (int i = 0; i < 100'000; ++i) b.give(dreq, a.address);
  EXPECT_EQ(b.take().size(), 1024u);
}

TEST_F(CmReject, RandomDatagramsHarmNobody) {
  connect_both();
  Prng prng(42);
  CmMad seed_mad = good_req();
  std::array<unsigned char, wire::kMadBytes> bytes{};
  for (int i = 0; i < 200'000; ++i) {
    if (i % 3 == 0) {
      for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(prng.next_u64());
    } else {
      wire::encode_cm_mad(seed_mad, bytes);
      for (uint64_t n = prng.below(6); n > 0; --n) {
        bytes[prng.below(bytes.size())] = static_cast<unsigned char>(prng.next_u64());
      }
    }
    if (i % 3 != 2) {  // of our class, with every attribute
      bytes[0] = 1;
      bytes[1] = wire::kCmClass;
      bytes[2] = wire::kCmClassVersion;
      bytes[3] = wire::kMadMethodSend;
      bytes[16] = 0;
      bytes[17] = static_cast<unsigned char>(0x10 + prng.below(10));
    }
    const size_t length = prng.chance(1, 50) ? prng.below(bytes.size()) : bytes.size();
    b.agent->on_mad(std::span(bytes).first(length), a.address, b.now);
    if (prng.chance(1, 100)) b.take();
  }
  b.events();
  EXPECT_GT(b.agent->counters().cm_drop_malformed, 0u);
  EXPECT_GT(b.agent->counters().cm_drop_unexpected, 0u);
  EXPECT_EQ(b.disconnect(id_b), 0) << "still connected";
  b.agent->forget_client(kClient, b.now);
  a.agent->forget_client(kClient, a.now);
  expect_nothing_left();
}

}  // namespace
}  // namespace mprdma::dataplane::test
