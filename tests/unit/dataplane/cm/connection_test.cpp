// Connections by the standard's rules (IBTA 12.9), message by message.
#include <gtest/gtest.h>

#include "base/ipv4.hpp"
#include "tests/unit/dataplane/cm/cm_host.hpp"

namespace mprdma::dataplane::test {
namespace {

using wire::CmDrep;
using wire::CmDreq;
using wire::CmMad;
using wire::CmMra;
using wire::CmRej;
using wire::CmRep;
using wire::CmRtu;

using CmConnection = CmPair;

TEST_F(CmConnection, TellsBothSidesWhatTheOtherSaid) {
  listener = b.server(kPort);
  id_a = a.create(kTcp, 0xa);
  ASSERT_EQ(a.option(id_a, MPRDMA_ABI_CM_OPTION_TOS, 0x20), 0);
  ASSERT_EQ(a.resolve(id_a, b.address, kPort), 0);
  a.answer_resolves();
  const auto resolved = a.expect(MPRDMA_ABI_CM_EVENT_ADDRESS_RESOLVED);
  EXPECT_EQ(resolved.remote_mac[5], 9);
  EXPECT_EQ(resolved.cookie, 0xau);
  EXPECT_GE(resolved.local.port, 32768);
  mprdma_abi_cm_params in = params(17, "hello");
  in.responder_resources = 3;
  in.initiator_depth = 4;
  in.retry_count = 5;
  in.rnr_retry_count = 6;
  in.ack_timeout = 14;
  in.ece_vendor = 0x15b3;
  in.ece_options = 0x99;
  ASSERT_EQ(a.connect(id_a, in), 0);
  deliver();
  const auto request = b.expect(MPRDMA_ABI_CM_EVENT_REQUEST);
  EXPECT_EQ(request.listener, listener);
  EXPECT_EQ(request.local.port, kPort);
  EXPECT_EQ(request.remote.port, resolved.local.port);
  EXPECT_EQ(request.params.qpn, 17u);
  EXPECT_EQ(request.params.psn, 1017u);
  EXPECT_EQ(request.params.responder_resources, 3) << "as the peer said it";
  EXPECT_EQ(request.params.initiator_depth, 4);
  EXPECT_EQ(request.params.retry_count, 5);
  EXPECT_EQ(request.params.rnr_retry_count, 6);
  EXPECT_EQ(request.params.ack_timeout, 14);
  EXPECT_EQ(request.params.path_mtu, 3);
  EXPECT_EQ(request.params.traffic_class, 0x20);
  EXPECT_EQ(request.params.ece_vendor, 0x15b3u);
  EXPECT_EQ(request.params.ece_options, 0x99u);
  EXPECT_EQ(request.params.private_bytes, 56) << "all that rdma_cm's header leaves of 92";
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(request.params.private_data)), "hello");
  ASSERT_EQ(b.accept(request.id, params(18, "world")), 0);
  deliver();
  const auto response = a.expect(MPRDMA_ABI_CM_EVENT_RESPONSE);
  EXPECT_EQ(response.params.qpn, 18u);
  EXPECT_EQ(response.params.psn, 1018u);
  EXPECT_EQ(response.params.private_bytes, 196);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(response.params.private_data)), "world");
  ASSERT_EQ(a.establish(id_a), 0);
  deliver();
  EXPECT_EQ(b.expect(MPRDMA_ABI_CM_EVENT_ESTABLISHED).id, request.id);
}

TEST_F(CmConnection, IsThereFromItsAcceptToItsEndAndItsOwnersOnly) {
  const auto has = [](const CmHost& host, uint32_t client, uint32_t id) {
    return host.agent->has_connection(client, id);
  };
  listener = b.server(kPort);
  EXPECT_FALSE(has(b, kClient, listener));
  id_a = ask(17);
  EXPECT_FALSE(has(a, kClient, id_a));
  id_b = requested();
  EXPECT_FALSE(has(b, kClient, id_b));
  ASSERT_EQ(b.accept(id_b, params(18)), 0);
  EXPECT_TRUE(has(b, kClient, id_b)) << "its queue pair may receive";
  deliver();
  a.expect(MPRDMA_ABI_CM_EVENT_RESPONSE);
  ASSERT_EQ(a.establish(id_a), 0);
  deliver();
  EXPECT_TRUE(has(a, kClient, id_a));
  EXPECT_TRUE(has(b, kClient, id_b));
  EXPECT_FALSE(has(b, kClient + 1, id_b));
  EXPECT_FALSE(has(b, kClient, id_b + 1));
  ASSERT_EQ(a.disconnect(id_a), 0);
  EXPECT_FALSE(has(a, kClient, id_a));
  deliver();
  EXPECT_TRUE(has(b, kClient, id_b)) << "its client has still to hang up";
  ASSERT_EQ(b.destroy(id_b), 0);
  EXPECT_FALSE(has(b, kClient, id_b)) << "nobody's any more";
}

TEST_F(CmConnection, EndsInTimeWaitOnBothSides) {
  connect_both();
  ASSERT_EQ(a.disconnect(id_a), 0);
  deliver();
  b.expect(MPRDMA_ABI_CM_EVENT_DISCONNECTED);
  EXPECT_TRUE(a.events().empty()) << "the passive side has not answered yet";
  ASSERT_EQ(b.disconnect(id_b), 0);
  deliver();
  a.expect(MPRDMA_ABI_CM_EVENT_DISCONNECTED);
  pass(Duration::ms(1900));
  EXPECT_TRUE(a.events().empty());
  pass(Duration::ms(200));
  a.expect(MPRDMA_ABI_CM_EVENT_TIMEWAIT_EXIT);
  b.expect(MPRDMA_ABI_CM_EVENT_TIMEWAIT_EXIT);
  for (const uint32_t id : {id_a}) EXPECT_EQ(a.destroy(id), 0);
  for (const uint32_t id : {id_b, listener}) EXPECT_EQ(b.destroy(id), 0);
  EXPECT_EQ(a.agent->ids_in_use() + b.agent->ids_in_use(), 0u);
}

TEST_F(CmConnection, AClientThatDoesNotAnswerADreqIsAnsweredFor) {
  connect_both();
  ASSERT_EQ(a.disconnect(id_a), 0);
  pass(Duration::ms(1100));  // a quarter of 4.3 s
  a.expect(MPRDMA_ABI_CM_EVENT_DISCONNECTED);
}

TEST_F(CmConnection, ARepeatedReqGetsNothingThenAnMraThenTheRepAgain) {
  listener = b.server(kPort);
  id_a = ask(17);
  const CmMad req = a.take()[0];
  b.give(req, a.address);
  id_b = b.expect(MPRDMA_ABI_CM_EVENT_REQUEST).id;
  b.give(req, a.address);
  EXPECT_TRUE(b.take().empty());
  pass(Duration::ms(1100), false);
  EXPECT_EQ(b.take_one<CmMra>().message, 0) << "a quarter of the peer's timeout has passed";
  b.give(req, a.address);
  EXPECT_EQ(b.take_one<CmMra>().message, 0);
  ASSERT_EQ(b.accept(id_b, params(18)), 0);
  const CmRep rep = b.take_one<CmRep>();
  b.give(req, a.address);
  EXPECT_EQ(b.take_one<CmRep>(), rep);
  EXPECT_TRUE(b.events().empty());
  EXPECT_EQ(b.agent->counters().cm_duplicates, 3u);
}

TEST_F(CmConnection, ARepeatedRepGetsTheRtuAgain) {
  listener = b.server(kPort);
  id_a = ask(17);
  id_b = requested();
  ASSERT_EQ(b.accept(id_b, params(18)), 0);
  const CmMad rep = b.take()[0];
  a.give(rep, b.address);
  a.expect(MPRDMA_ABI_CM_EVENT_RESPONSE);
  a.give(rep, b.address);
  EXPECT_TRUE(a.take().empty()) << "the client has not answered yet";
  pass(Duration::ms(1100), false);
  EXPECT_EQ(a.take_one<CmMra>().message, 1);
  ASSERT_EQ(a.establish(id_a), 0);
  const CmRtu rtu = a.take_one<CmRtu>();
  a.give(rep, b.address);
  EXPECT_EQ(a.take_one<CmRtu>(), rtu);
  EXPECT_TRUE(a.events().empty());
}

TEST_F(CmConnection, ARepeatedDreqGetsTheDrepAgainAndAfterTimeWaitToo) {
  connect_both();
  ASSERT_EQ(a.disconnect(id_a), 0);
  const CmMad dreq = a.take()[0];
  b.give(dreq, a.address);
  b.give(dreq, a.address);
  EXPECT_TRUE(b.take().empty());
  ASSERT_EQ(b.disconnect(id_b), 0);
  EXPECT_EQ(b.take().size(), 1u);
  b.give(dreq, a.address);
  const CmDrep again = b.take_one<CmDrep>();
  EXPECT_EQ(again.remote_comm_id, std::get<CmDreq>(dreq.body).local_comm_id);
  pass(Duration::ms(2100), false);
  b.events();
  b.give(dreq, a.address);
  EXPECT_EQ(b.take_one<CmDrep>().remote_comm_id, again.remote_comm_id);
}

TEST_F(CmConnection, BothMayDisconnectAtOnce) {
  connect_both();
  ASSERT_EQ(a.disconnect(id_a), 0);
  ASSERT_EQ(b.disconnect(id_b), 0);
  const CmMad from_a = a.take()[0];
  const CmMad from_b = b.take()[0];
  a.give(from_b, b.address);
  b.give(from_a, a.address);
  a.expect(MPRDMA_ABI_CM_EVENT_DISCONNECTED);
  b.expect(MPRDMA_ABI_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(a.take_one<CmDrep>().local_comm_id, std::get<CmDreq>(from_a.body).local_comm_id);
  EXPECT_EQ(b.take_one<CmDrep>().local_comm_id, std::get<CmDreq>(from_b.body).local_comm_id);
}

TEST_F(CmConnection, AReqIsRepeatedAndThenGivenUp) {
  listener = b.server(kPort);
  id_a = ask(17);
  const CmMad req = a.take()[0];
  b.give(req, a.address);
  id_b = b.expect(MPRDMA_ABI_CM_EVENT_REQUEST).id;
  pass(Duration::s(200), false);
  const auto failed = a.expect(MPRDMA_ABI_CM_EVENT_UNREACHABLE);
  EXPECT_EQ(failed.status, -ETIMEDOUT);
  const std::vector<CmMad> sent = a.take();
  ASSERT_EQ(sent.size(), 16u) << "15 repetitions and a REJ";
  for (size_t i = 0; i < 15; ++i) EXPECT_EQ(sent[i], req);
  const auto rej = std::get<CmRej>(sent[15].body);
  EXPECT_EQ(rej.reason, 4);
  EXPECT_EQ(rej.info_bytes, 8) << "the GUID, for Linux looks there";
  // b finds its half of the connection by that REJ, although a never learnt its id.
  b.give(sent[15], a.address);
  EXPECT_EQ(b.expect(MPRDMA_ABI_CM_EVENT_REJECTED).status, 4);
  EXPECT_EQ(b.accept(id_b, params(18)), EINVAL);
}

TEST_F(CmConnection, ARequestThatIsTakenBackBeforeAnybodyHasSeenItHasNeverBeen) {
  listener = b.server(kPort);
  id_a = ask(17);
  ASSERT_EQ(a.destroy(id_a), 0);
  deliver();
  EXPECT_TRUE(b.events().empty());
  EXPECT_EQ(b.agent->ids_in_use(), 1u) << "the listener";
}

TEST_F(CmConnection, AnMraBuysTheTimeThatItNamesOnce) {
  listener = b.server(kPort);
  id_a = ask(17);
  id_b = requested();
  pass(Duration::s(60));
  EXPECT_TRUE(a.events().empty());
  EXPECT_EQ(a.agent->counters().cm_repeated, 0u);
  pass(Duration::s(16));
  EXPECT_EQ(a.agent->counters().cm_repeated, 1u) << "69 s and the response timeout have passed";
  ASSERT_EQ(b.accept(id_b, params(18)), 0);
  deliver();
  a.expect(MPRDMA_ABI_CM_EVENT_RESPONSE);
}

TEST_F(CmConnection, ALostRtuIsMadeUpForByDataOrByTheEnd) {
  connect_both();
  id_a = ask(21);
  id_b = requested();
  ASSERT_EQ(b.accept(id_b, params(22)), 0);
  deliver();
  a.expect(MPRDMA_ABI_CM_EVENT_RESPONSE);
  ASSERT_EQ(a.establish(id_a), 0);
  EXPECT_EQ(a.take().size(), 1u);
  ASSERT_EQ(b.run(MPRDMA_ABI_CM_NOTIFY, id_b), 0);
  b.expect(MPRDMA_ABI_CM_EVENT_ESTABLISHED);

  id_a = ask(31);
  id_b = requested();
  ASSERT_EQ(b.accept(id_b, params(32)), 0);
  deliver();
  a.expect(MPRDMA_ABI_CM_EVENT_RESPONSE);
  ASSERT_EQ(a.establish(id_a), 0);
  EXPECT_EQ(a.take().size(), 1u);
  ASSERT_EQ(a.disconnect(id_a), 0);
  deliver();
  const auto all = b.events();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].type, uint32_t{MPRDMA_ABI_CM_EVENT_ESTABLISHED});
  EXPECT_EQ(all[1].type, uint32_t{MPRDMA_ABI_CM_EVENT_DISCONNECTED});
}

TEST_F(CmConnection, WhoGaveUpTellsAPeerThatStillBelievesInIt) {
  listener = b.server(kPort);
  id_a = ask(17);
  id_b = requested();
  ASSERT_EQ(b.accept(id_b, params(18)), 0);
  const CmMad rep = b.take()[0];
  a.give(rep, b.address);
  a.expect(MPRDMA_ABI_CM_EVENT_RESPONSE);
  ASSERT_EQ(a.establish(id_a), 0);
  const CmMad rtu = a.take()[0];
  ASSERT_EQ(b.destroy(id_b), 0);
  b.take();
  b.give(rtu, a.address);
  const CmRej rej = b.take_one<CmRej>();
  EXPECT_EQ(rej.reason, 6);
  a.give({.transaction = 1, .modifier = 0, .body = rej}, b.address);
  EXPECT_EQ(a.expect(MPRDMA_ABI_CM_EVENT_DISCONNECTED).status, 6);
  // A REP for an id that was destroyed gets the same reason.
  ASSERT_EQ(a.destroy(id_a), 0);
  pass(Duration::s(3), false);
  a.take();
  a.give(rep, b.address);
  EXPECT_EQ(a.take_one<CmRej>().reason, 6);
}

TEST_F(CmConnection, EveryStateTellsThePeerWhenItsIdIsDestroyed) {
  listener = b.server(kPort);
  id_a = ask(17);
  id_b = requested();
  ASSERT_EQ(b.destroy(id_b), 0);  // REQUESTED
  deliver();
  EXPECT_EQ(a.expect(MPRDMA_ABI_CM_EVENT_REJECTED).status, 28);

  id_a = ask(19);
  id_b = requested();
  ASSERT_EQ(b.accept(id_b, params(18)), 0);
  deliver();
  a.expect(MPRDMA_ABI_CM_EVENT_RESPONSE);
  ASSERT_EQ(a.destroy(id_a), 0);  // RESPONDED
  deliver();
  EXPECT_EQ(b.expect(MPRDMA_ABI_CM_EVENT_REJECTED).status, 28);

  id_a = ask(20);
  id_b = requested();
  ASSERT_EQ(b.accept(id_b, params(28)), 0);
  deliver();
  a.expect(MPRDMA_ABI_CM_EVENT_RESPONSE);
  ASSERT_EQ(b.destroy(id_b), 0);  // ACCEPTED
  deliver();
  EXPECT_EQ(a.expect(MPRDMA_ABI_CM_EVENT_REJECTED).status, 28);

  connect_both(41, 42);
  ASSERT_EQ(a.destroy(id_a), 0);  // CONNECTED
  EXPECT_EQ(a.destroy(id_a), ENOENT);
  deliver();
  b.expect(MPRDMA_ABI_CM_EVENT_DISCONNECTED);
  ASSERT_EQ(b.destroy(id_b), 0);  // a DREQ has come
  deliver();
  a.agent->forget_client(kClient, a.now);
  b.agent->forget_client(kClient, b.now);
  expect_nothing_left();
}

TEST_F(CmConnection, WhatWaitsToBeToldOfADestroyedIdIsNotTold) {
  connect_both();
  ASSERT_EQ(b.disconnect(id_b), 0);
  deliver();
  ASSERT_EQ(a.destroy(id_a), 0);
  EXPECT_TRUE(a.events().empty());
  EXPECT_GT(a.agent->ids_in_use(), 0u) << "it is in TIME WAIT";
}

TEST_F(CmConnection, ADreqOfADestroyedIdIsRepeatedUntilItIsHeard) {
  connect_both();
  ASSERT_EQ(a.destroy(id_a), 0);
  EXPECT_EQ(a.take().size(), 1u);  // lost
  pass(Duration::s(1));
  b.expect(MPRDMA_ABI_CM_EVENT_DISCONNECTED);
  EXPECT_TRUE(a.events().empty());
  b.agent->forget_client(kClient, b.now);
  expect_nothing_left();
}

// A process that owned its port and died says nothing. Its peer waits neither for 16 response
// timeouts, as for a REQ, nor so briefly that a lost message matters.
TEST_F(CmConnection, ADisconnectionFromADeadPeerTakesSecondsNotAMinute) {
  connect_both();
  ASSERT_EQ(a.disconnect(id_a), 0);
  size_t messages = a.take().size();
  for (int i = 0; i < 81; ++i) {
    pass(Duration::ms(100), false);
    messages += a.take().size();
    ASSERT_TRUE(a.events().empty()) << "after " << i << " x 100 ms";
  }
  EXPECT_EQ(messages, 5u);
  pass(Duration::ms(500), false);
  a.expect(MPRDMA_ABI_CM_EVENT_DISCONNECTED);
}

TEST_F(CmConnection, AClientThatIsGoneIsHungUpForAndItsPortsAreFree) {
  connect_both();
  const uint32_t second = ask(51);
  const uint32_t waiting = requested();
  const uint32_t unseen = ask(52);
  deliver();
  b.agent->forget_client(kClient, b.now);
  deliver();
  const auto all = a.events();
  ASSERT_EQ(all.size(), 3u);
  for (const auto& event : all) {
    EXPECT_EQ(event.type, uint32_t{event.id == id_a ? MPRDMA_ABI_CM_EVENT_DISCONNECTED
                                                    : MPRDMA_ABI_CM_EVENT_REJECTED});
    EXPECT_TRUE(event.id == id_a || event.id == second || event.id == unseen);
  }
  EXPECT_TRUE(b.events().empty());
  EXPECT_EQ(b.accept(waiting, params(18)), ENOENT);
  listener = b.server(kPort);
  ASSERT_EQ(b.destroy(listener), 0);
  a.agent->forget_client(kClient, a.now);
  expect_nothing_left();
}

TEST_F(CmConnection, AListenerThatEndsRejectsTheRequestsThatNobodyHasSeen) {
  listener = b.server(kPort);
  const uint32_t seen = ask(17);
  id_b = requested();
  const uint32_t unseen = ask(18);
  deliver();
  ASSERT_EQ(b.destroy(listener), 0);
  deliver();
  const auto rejected = a.expect(MPRDMA_ABI_CM_EVENT_REJECTED);
  EXPECT_EQ(rejected.id, unseen);
  EXPECT_TRUE(b.events().empty());
  ASSERT_EQ(b.accept(id_b, params(19)), 0) << "as in Linux";
  deliver();
  EXPECT_EQ(a.expect(MPRDMA_ABI_CM_EVENT_RESPONSE).id, seen);
}

TEST_F(CmConnection, BothEndsMayBeOnOneDevice) {
  listener = a.server(kPort);
  id_a = a.create();
  ASSERT_EQ(a.resolve(id_a, wire::map_ipv4(Ipv4(0x7f000001)), kPort), 0);
  deliver();
  a.expect(MPRDMA_ABI_CM_EVENT_ADDRESS_RESOLVED);
  ASSERT_EQ(a.connect(id_a, params(17)), 0);
  deliver();
  id_b = a.expect(MPRDMA_ABI_CM_EVENT_REQUEST).id;
  ASSERT_EQ(a.accept(id_b, params(18)), 0);
  deliver();
  a.expect(MPRDMA_ABI_CM_EVENT_RESPONSE);
  ASSERT_EQ(a.establish(id_a), 0);
  deliver();
  EXPECT_EQ(a.expect(MPRDMA_ABI_CM_EVENT_ESTABLISHED).id, id_b);
  ASSERT_EQ(a.disconnect(id_b), 0);
  deliver();
  EXPECT_EQ(a.expect(MPRDMA_ABI_CM_EVENT_DISCONNECTED).id, id_a);
  a.agent->forget_client(kClient, a.now);
  expect_nothing_left();
}

TEST_F(CmConnection, XrcNamesItsTargetInTheEeContextAndUcIsUc) {
  listener = b.server(kPort);
  id_a = a.create();
  ASSERT_EQ(a.resolve(id_a, b.address, kPort), 0);
  deliver();
  a.events();
  ASSERT_EQ(a.connect(id_a, params(17, {}, 9)), 0);
  deliver();
  const auto request = b.expect(MPRDMA_ABI_CM_EVENT_REQUEST);
  EXPECT_EQ(request.params.qp_type, 10);
  ASSERT_EQ(b.accept(request.id, params(18)), 0);
  const CmMad rep = b.take()[0];
  EXPECT_EQ(std::get<CmRep>(rep.body).ee_context, Qpn(18));
  EXPECT_EQ(std::get<CmRep>(rep.body).qpn, Qpn(0));
  EXPECT_TRUE(std::get<CmRep>(rep.body).srq);
  a.give(rep, b.address);
  EXPECT_EQ(a.expect(MPRDMA_ABI_CM_EVENT_RESPONSE).params.qpn, 18u);

  id_a = a.create();
  ASSERT_EQ(a.resolve(id_a, b.address, kPort), 0);
  deliver();
  a.events();
  ASSERT_EQ(a.connect(id_a, params(27, {}, 3)), 0);
  deliver();
  EXPECT_EQ(b.expect(MPRDMA_ABI_CM_EVENT_REQUEST).params.qp_type, 3);
}

TEST_F(CmConnection, CommandsOutOfTurnAndValuesOutOfRangeAreRefused) {
  connect_both();
  EXPECT_EQ(a.establish(id_a), EINVAL);
  EXPECT_EQ(a.connect(id_a, params(17)), EINVAL);
  EXPECT_EQ(b.accept(id_b, params(18)), EINVAL);
  EXPECT_EQ(a.disconnect(a.create()), EINVAL);
  a.client = kClient + 1;
  EXPECT_EQ(a.disconnect(id_a), ENOENT) << "somebody else's";
  a.client = kClient;
  EXPECT_EQ(a.create(0x107), kNobody);
  const uint32_t id = a.create();
  ASSERT_EQ(a.resolve(id, b.address, kPort), 0);
  deliver();
  a.events();
  EXPECT_EQ(a.connect(id, params(0x1000000)), EINVAL);
  EXPECT_EQ(a.connect(id, params(1, std::string(57, 'x'))), EINVAL);
  EXPECT_EQ(a.connect(id, params(1, {}, 10)), EINVAL);
  EXPECT_EQ(a.connect(id, params(1, std::string(56, 'x'))), 0);
}

}  // namespace
}  // namespace mprdma::dataplane::test
