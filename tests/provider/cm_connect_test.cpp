// Connections as applications make them with librdmacm.
#include <sys/wait.h>

#include <thread>

#include "tests/provider/cm_fixture.hpp"

namespace mprdma::provider_test {
namespace {

TEST_F(Cm, ConnectsSendsAndDisconnects) {
  rdma_cm_id* listener = listen();
  const Connected pair = connect(listener);
  std::string from = "over a connection made by rdma_cm";
  std::string to(from.size(), ' ');
  ibv_mr* from_mr = rdma_reg_msgs(pair.active, from.data(), from.size());
  ibv_mr* to_mr = rdma_reg_msgs(pair.passive, to.data(), to.size());
  ASSERT_EQ(rdma_post_recv(pair.passive, nullptr, to.data(), to.size(), to_mr), 0);
  ASSERT_EQ(rdma_post_send(pair.active, nullptr, from.data(), from.size(), from_mr, 0), 0);
  ibv_wc wc{};
  EXPECT_EQ(rdma_get_recv_comp(pair.passive, &wc), 1);
  EXPECT_EQ(to, from);
  rdma_dereg_mr(from_mr);
  rdma_dereg_mr(to_mr);
  EXPECT_EQ(rdma_disconnect(pair.active), 0);
  expect(RDMA_CM_EVENT_DISCONNECTED);
  expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(rdma_disconnect(pair.passive), 0);
  expect_silence();
}

TEST_F(Cm, BothSidesKnowTheAddressesAndTheDevice) {
  rdma_cm_id* listener = listen();
  EXPECT_EQ(listener->verbs, nullptr) << "bound to any address is bound to no device";
  const Connected pair = connect(listener);
  EXPECT_EQ(rdma_get_dst_port(pair.active), rdma_get_src_port(listener));
  EXPECT_EQ(rdma_get_dst_port(pair.passive), rdma_get_src_port(pair.active));
  for (rdma_cm_id* id : {pair.active, pair.passive}) {
    EXPECT_EQ(id->port_num, 1);
    EXPECT_STREQ(ibv_get_device_name(id->verbs->device), "mprdma0");
    EXPECT_EQ(id->route.num_paths, 1);
    sockaddr_in local = ip(kOwn);
    EXPECT_EQ(reinterpret_cast<sockaddr_in*>(rdma_get_local_addr(id))->sin_addr.s_addr,
              local.sin_addr.s_addr);
    EXPECT_EQ(id->route.addr.addr.ibaddr.dgid.raw[11], 0xff) << "the GID is the mapped address";
  }
}

TEST_F(Cm, PrivateDataTravelsBothWaysAndResourcesChangeSides) {
  rdma_cm_id* listener = listen();
  rdma_cm_id* active = resolved(ntohs(rdma_get_src_port(listener)));
  give_qp(active);
  rdma_conn_param asks = params("ask");
  ASSERT_EQ(rdma_connect(active, &asks), 0);
  rdma_cm_event* event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->listen_id, listener);
  EXPECT_EQ(data_of(event), "ask");
  EXPECT_EQ(event->param.conn.initiator_depth, 3) << "what the peer serves";
  EXPECT_EQ(event->param.conn.responder_resources, 5) << "what the peer asks for";
  EXPECT_EQ(event->param.conn.qp_num, active->qp->qp_num);
  rdma_cm_id* passive = event->id;
  ids_.push_back(passive);
  rdma_ack_cm_event(event);
  give_qp(passive);
  rdma_conn_param answers = params("answer");
  answers.responder_resources = 2;
  answers.initiator_depth = 1;
  ASSERT_EQ(rdma_accept(passive, &answers), 0);
  event = next(RDMA_CM_EVENT_ESTABLISHED);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(data_of(event), "answer");
  rdma_ack_cm_event(event);
  expect(RDMA_CM_EVENT_ESTABLISHED);
  const auto attr_of = [](rdma_cm_id* id, ibv_qp_state state) {
    ibv_qp_attr attr{};
    int mask = 0;
    attr.qp_state = state;
    EXPECT_EQ(rdma_init_qp_attr(id, &attr, &mask), 0);
    return attr;
  };
  EXPECT_EQ(attr_of(active, IBV_QPS_RTS).max_rd_atomic, 2) << "what the passive side serves";
  EXPECT_EQ(attr_of(active, IBV_QPS_RTR).max_dest_rd_atomic, 1);
  EXPECT_EQ(attr_of(active, IBV_QPS_RTR).dest_qp_num, passive->qp->qp_num);
  mprdma_abi_cm_command told{};
  fake_engine_cm_last(MPRDMA_ABI_CM_CONNECT, &told);
  EXPECT_EQ(attr_of(active, IBV_QPS_RTR).rq_psn, told.params.psn) << "what it waits for";
  EXPECT_EQ(attr_of(passive, IBV_QPS_RTR).rq_psn, attr_of(active, IBV_QPS_RTS).sq_psn);
  EXPECT_EQ(attr_of(active, IBV_QPS_RTR).rq_psn, attr_of(passive, IBV_QPS_RTS).sq_psn);
  EXPECT_EQ(attr_of(passive, IBV_QPS_RTS).retry_cnt, 6);
  EXPECT_EQ(attr_of(passive, IBV_QPS_RTS).rnr_retry, 4);
  // The kernel's CM chooses this RNR timer; applications with a finite rnr_retry count on its
  // length.
  EXPECT_EQ(attr_of(passive, IBV_QPS_RTR).min_rnr_timer, 0) << "655.36 ms";
  EXPECT_EQ(attr_of(active, IBV_QPS_RTR).min_rnr_timer, 0);
  EXPECT_EQ(active->qp->state, IBV_QPS_RTS);
  EXPECT_EQ(passive->qp->state, IBV_QPS_RTS);
}

TEST_F(Cm, RejectionHasReasonAndData) {
  rdma_cm_id* listener = listen();
  rdma_cm_id* active = resolved(ntohs(rdma_get_src_port(listener)));
  give_qp(active);
  rdma_conn_param param = params();
  ASSERT_EQ(rdma_connect(active, &param), 0);
  rdma_cm_id* passive = request();
  EXPECT_EQ(rdma_reject(passive, "no", 2), 0);
  rdma_cm_event* event = next(RDMA_CM_EVENT_REJECTED);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->status, 28);
  EXPECT_EQ(data_of(event), "no");
  rdma_ack_cm_event(event);
}

TEST_F(Cm, NobodyListens) {
  rdma_cm_id* active = resolved(9);
  give_qp(active);
  rdma_conn_param param = params();
  ASSERT_EQ(rdma_connect(active, &param), 0);
  expect(RDMA_CM_EVENT_REJECTED, 8);
}

TEST_F(Cm, AddressesThatCannotBe) {
  rdma_cm_id* id = make();
  sockaddr_in foreign = ip("192.0.2.1");
  EXPECT_EQ(rdma_bind_addr(id, generic(&foreign)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, generic(&foreign), 100), -1);
  EXPECT_EQ(errno, ENETUNREACH);
  sockaddr_in silent = ip("10.73.0.99", 7);
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, generic(&silent), 100), 0);
  expect(RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
  sockaddr_in there = ip(kOwn, 7);  // now the device's own address
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, generic(&there), 100), 0);
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
}

TEST_F(Cm, LoopbackAndAnyAddressMeanTheDevice) {
  for (const char* address : {"127.0.0.1", "0.0.0.0"}) {
    rdma_cm_id* id = make();
    sockaddr_in remote = ip(address, 7);
    EXPECT_EQ(rdma_resolve_addr(id, nullptr, generic(&remote), 100), 0) << strerror(errno);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    const auto* found = reinterpret_cast<sockaddr_in*>(rdma_get_peer_addr(id));
    EXPECT_EQ(found->sin_addr.s_addr, ip(kOwn).sin_addr.s_addr) << address;
    EXPECT_EQ(ntohs(found->sin_port), 7);
  }
}

TEST_F(Cm, PortIsTakenUnlessBothShareIt) {
  rdma_cm_id* first = listen();
  sockaddr_in same = ip("0.0.0.0", ntohs(rdma_get_src_port(first)));
  rdma_cm_id* second = make();
  EXPECT_EQ(rdma_bind_addr(second, generic(&same)), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  int yes = 1;
  rdma_cm_id* third = make();
  rdma_cm_id* fourth = make();
  sockaddr_in shared = ip("0.0.0.0", 1234);
  for (rdma_cm_id* id : {third, fourth}) {
    ASSERT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)), 0);
    EXPECT_EQ(rdma_bind_addr(id, generic(&shared)), 0) << strerror(errno);
  }
}

TEST_F(Cm, AgentsErrorsBecomeThoseOfTheNetwork) {
  sockaddr_in local = ip("0.0.0.0");
  fake_engine_cm_fail(MPRDMA_ABI_CM_BIND, ENOTCONN);
  EXPECT_EQ(rdma_bind_addr(make(), generic(&local)), -1);
  EXPECT_EQ(errno, ENETDOWN);
  fake_engine_cm_fail(MPRDMA_ABI_CM_BIND, EOPNOTSUPP);
  EXPECT_EQ(rdma_bind_addr(make(), generic(&local)), -1);
  EXPECT_EQ(errno, ENODEV);
  fake_engine_cm_fail(MPRDMA_ABI_CM_CREATE, ENOMEM);
  EXPECT_EQ(rdma_bind_addr(make(), generic(&local)), -1);
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(Cm, FailedConnectCanBeTriedAgain) {
  rdma_cm_id* listener = listen();
  rdma_cm_id* active = resolved(ntohs(rdma_get_src_port(listener)));
  give_qp(active);
  rdma_conn_param param = params();
  fake_engine_cm_fail(MPRDMA_ABI_CM_CONNECT, ENOTCONN);
  EXPECT_EQ(rdma_connect(active, &param), -1);
  EXPECT_EQ(rdma_connect(active, &param), 0) << strerror(errno);
  rdma_cm_id* passive = request();
  EXPECT_EQ(rdma_connect(active, &param), -1) << "twice";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_reject(passive, nullptr, 0), 0);
  expect(RDMA_CM_EVENT_REJECTED, 28);
}

TEST_F(Cm, DatagramServiceIsResolvedToAQueuePair) {
  rdma_cm_id* listener = listen(RDMA_PS_UDP);
  rdma_cm_id* active = resolved(ntohs(rdma_get_src_port(listener)), RDMA_PS_UDP);
  give_qp(active);
  rdma_conn_param param = params("where");
  param.qp_num = active->qp->qp_num;
  ASSERT_EQ(rdma_connect(active, &param), 0);
  rdma_cm_event* event = next(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(data_of(event, true), "where");
  rdma_cm_id* passive = event->id;
  ids_.push_back(passive);
  rdma_ack_cm_event(event);
  give_qp(passive);
  param = params("here");
  param.qp_num = passive->qp->qp_num;
  ASSERT_EQ(rdma_accept(passive, &param), 0);
  event = next(RDMA_CM_EVENT_ESTABLISHED);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(data_of(event, true), "here");
  EXPECT_EQ(event->param.ud.qp_num, passive->qp->qp_num);
  EXPECT_EQ(event->param.ud.qkey, RDMA_UDP_QKEY);
  ibv_ah* ah = ibv_create_ah(active->pd, &event->param.ud.ah_attr);
  EXPECT_NE(ah, nullptr) << "the event says where it is";
  if (ah != nullptr) ibv_destroy_ah(ah);
  rdma_ack_cm_event(event);
  expect_silence();
}

TEST_F(Cm, JoinsAndLeavesAGroup) {
  rdma_cm_id* id = make(RDMA_PS_UDP);
  sockaddr_in group = ip("239.1.2.3");
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, generic(&group), 1000), 0) << strerror(errno);
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  give_qp(id);
  int context = 0;
  ASSERT_EQ(rdma_join_multicast(id, generic(&group), &context), 0) << strerror(errno);
  rdma_cm_event* event = next(RDMA_CM_EVENT_MULTICAST_JOIN);
  ASSERT_NE(event, nullptr);
  const std::vector<uint8_t> mgid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3};
  const auto& raw = event->param.ud.ah_attr.grh.dgid.raw;
  EXPECT_EQ(std::vector<uint8_t>(raw, raw + 16), mgid);
  EXPECT_EQ(event->param.ud.qp_num, 0xffffffu);
  EXPECT_EQ(event->param.ud.qkey, RDMA_UDP_QKEY);
  EXPECT_EQ(event->param.ud.private_data, &context);
  rdma_ack_cm_event(event);
  EXPECT_EQ(rdma_leave_multicast(id, generic(&group)), 0);
  EXPECT_EQ(rdma_join_multicast(id, generic(&group), nullptr), 0);
  EXPECT_EQ(rdma_leave_multicast(id, generic(&group)), 0) << "with its event still in the queue";
  expect_silence();
}

TEST_F(Cm, EarlyReceptionEstablishes) {
  rdma_cm_id* listener = listen();
  rdma_cm_id* active = resolved(ntohs(rdma_get_src_port(listener)));
  give_qp(active);
  rdma_conn_param param = params();
  ASSERT_EQ(rdma_connect(active, &param), 0);
  rdma_cm_id* passive = request();
  give_qp(passive);
  ASSERT_EQ(rdma_accept(passive, &param), 0);
  EXPECT_EQ(rdma_notify(passive, IBV_EVENT_COMM_EST), 0);
  EXPECT_EQ(rdma_notify(passive, IBV_EVENT_PATH_MIG), -1);
  EXPECT_EQ(errno, EINVAL);
  expect(RDMA_CM_EVENT_ESTABLISHED);
  expect(RDMA_CM_EVENT_ESTABLISHED);
  expect_silence();
}

// The listener's queue holds a request of which the application knows nothing yet.
TEST_F(Cm, DestroyedListenerTurnsWaitingRequestsAway) {
  rdma_cm_id* listener = listen();
  rdma_cm_id* active = resolved(ntohs(rdma_get_src_port(listener)));
  give_qp(active);
  rdma_conn_param param = params();
  ASSERT_EQ(rdma_connect(active, &param), 0);
  EXPECT_EQ(fake_engine_cm_ids(), 3u);
  EXPECT_EQ(destroy(listener), 0);
  expect(RDMA_CM_EVENT_REJECTED, 28);
  EXPECT_EQ(fake_engine_cm_ids(), 1u);
  expect_silence();
}

// The peer of a request goes before it is accepted: the application hears of it when it accepts.
TEST_F(Cm, RequestWhosePeerIsGone) {
  rdma_cm_id* listener = listen();
  rdma_cm_id* active = resolved(ntohs(rdma_get_src_port(listener)));
  give_qp(active);
  rdma_conn_param param = params();
  ASSERT_EQ(rdma_connect(active, &param), 0);
  EXPECT_EQ(destroy(active), 0);
  rdma_cm_id* passive = request();
  give_qp(passive);
  EXPECT_EQ(rdma_accept(passive, &param), -1);
  EXPECT_EQ(errno, EINVAL);
  expect_silence();
}

// rdma_destroy_id() waits until what was delivered is acknowledged, and for nothing else.
TEST_F(Cm, DestroyWaitsForUnacknowledgedEvents) {
  rdma_cm_id* id = make();
  sockaddr_in remote = ip(kOwn, 7);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, generic(&remote), 1000), 0);
  rdma_cm_event* event = next(RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_NE(event, nullptr);
  std::thread acknowledges([event] { rdma_ack_cm_event(event); });
  EXPECT_EQ(destroy(id), 0);
  acknowledges.join();
  id = make();
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, generic(&remote), 1000), 0);
  EXPECT_EQ(destroy(id), 0) << "with an event in the queue";
  expect_silence();
}

TEST_F(Cm, MigrationTakesQueuedEventsAlong) {
  rdma_cm_id* stays = make();
  rdma_cm_id* moves = make();
  sockaddr_in remote = ip(kOwn, 7);
  ASSERT_EQ(rdma_resolve_addr(moves, nullptr, generic(&remote), 1000), 0);
  ASSERT_EQ(rdma_resolve_addr(stays, nullptr, generic(&remote), 1000), 0);
  rdma_event_channel* other = rdma_create_event_channel();
  ASSERT_NE(other, nullptr);
  ASSERT_EQ(rdma_migrate_id(moves, other), 0) << strerror(errno);
  rdma_cm_event* event = next(RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->id, stays);
  rdma_ack_cm_event(event);
  expect_silence();
  ASSERT_TRUE(readable(other));
  ASSERT_EQ(rdma_get_cm_event(other, &event), 0);
  EXPECT_EQ(event->id, moves);
  rdma_ack_cm_event(event);
  ASSERT_EQ(rdma_resolve_route(moves, 1000), 0) << "from now on by the new channel";
  EXPECT_TRUE(readable(other));
  ASSERT_EQ(rdma_migrate_id(moves, channel_), 0);
  EXPECT_FALSE(readable(other));
  expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  rdma_destroy_event_channel(other);
}

// rdma_create_ep() and what belongs to it: each id has a channel of its own, calls wait.
TEST_F(Cm, SynchronousEndpoints) {
  rdma_addrinfo hints{};
  rdma_addrinfo* found = nullptr;
  hints.ai_flags = RAI_PASSIVE;
  hints.ai_port_space = RDMA_PS_TCP;
  ASSERT_EQ(rdma_getaddrinfo(const_cast<char*>(kOwn), const_cast<char*>("7471"), &hints, &found),
            0);
  ibv_qp_init_attr attr{};
  attr.cap = {4, 4, 1, 1, 16};
  attr.sq_sig_all = 1;
  rdma_cm_id* listener = nullptr;
  ASSERT_EQ(rdma_create_ep(&listener, found, nullptr, &attr), 0) << strerror(errno);
  rdma_freeaddrinfo(found);
  ASSERT_EQ(rdma_listen(listener, 0), 0);
  std::thread server([listener] {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(rdma_get_request(listener, &id), 0) << strerror(errno);
    ASSERT_EQ(rdma_accept(id, nullptr), 0) << strerror(errno);
    EXPECT_EQ(rdma_disconnect(id), 0) << strerror(errno);
    rdma_destroy_ep(id);
  });
  hints.ai_flags = 0;
  rdma_cm_id* client = nullptr;
  ASSERT_EQ(rdma_getaddrinfo(const_cast<char*>(kOwn), const_cast<char*>("7471"), &hints, &found),
            0);
  ASSERT_EQ(rdma_create_ep(&client, found, nullptr, &attr), 0) << strerror(errno);
  rdma_freeaddrinfo(found);
  EXPECT_EQ(rdma_connect(client, nullptr), 0) << strerror(errno);
  server.join();
  EXPECT_EQ(rdma_disconnect(client), 0) << strerror(errno);
  rdma_destroy_ep(client);
  rdma_destroy_ep(listener);
}

}  // namespace
}  // namespace mprdma::provider_test
