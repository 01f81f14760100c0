// Commands that are written to the device directly, in ways that librdmacm would not use.
#include <linux/in6.h>
#include <linux/socket.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include <array>

#include "tests/provider/cm_fixture.hpp"

// The kernel's header and librdmacm's have constants of the same names.
namespace kernel {
#include <rdma/rdma_user_cm.h>
}

namespace mprdma::provider_test {
namespace {

class CmCommands : public Cm {
 protected:
  // Executes a command; returns 0 or errno.
  template <class In>
  int command(uint32_t number, const In& in, uint16_t out_bytes = 0) const {
    struct {
      kernel::rdma_ucm_cmd_hdr head;
      In in;
    } whole;
    static_assert(sizeof(whole) == sizeof(kernel::rdma_ucm_cmd_hdr) + sizeof(In));
    std::memcpy(&whole.in, &in, sizeof(in));
    whole.head = {number, sizeof(In), out_bytes};
    errno = 0;
    const ssize_t written = write(channel_->fd, &whole, sizeof(whole));
    EXPECT_TRUE(written == -1 || written == static_cast<ssize_t>(sizeof(whole)));
    return written < 0 ? errno : 0;
  }

  uint32_t create(uint16_t space = ::RDMA_PS_TCP) const {
    kernel::rdma_ucm_create_id_resp out{};
    kernel::rdma_ucm_create_id in{};
    in.uid = 1;
    in.response = reinterpret_cast<uint64_t>(&out);
    in.ps = space;
    EXPECT_EQ(command(kernel::RDMA_USER_CM_CMD_CREATE_ID, in, sizeof(out)), 0);
    EXPECT_LE(out.id, 65535u);
    return out.id;
  }
  int end(uint32_t id, uint32_t* events = nullptr) const {
    kernel::rdma_ucm_destroy_id_resp out{};
    kernel::rdma_ucm_destroy_id in{};
    in.response = reinterpret_cast<uint64_t>(&out);
    in.id = id;
    const int error = command(kernel::RDMA_USER_CM_CMD_DESTROY_ID, in, sizeof(out));
    if (events != nullptr) *events = out.events_reported;
    return error;
  }
  int resolve(uint32_t id) const {
    kernel::rdma_ucm_resolve_addr in{};
    const sockaddr_in remote = ip(kOwn, 7);
    in.id = id;
    in.dst_size = sizeof(remote);
    std::memcpy(&in.dst_addr, &remote, sizeof(remote));
    return command(kernel::RDMA_USER_CM_CMD_RESOLVE_ADDR, in);
  }
  kernel::rdma_ucm_event_resp get() const {
    kernel::rdma_ucm_event_resp out{};
    kernel::rdma_ucm_get_event in{reinterpret_cast<uint64_t>(&out)};
    EXPECT_EQ(command(kernel::RDMA_USER_CM_CMD_GET_EVENT, in, sizeof(out)), 0);
    return out;
  }
  template <class Out>
  int query(uint32_t id, uint32_t option, Out* out, uint16_t bytes = sizeof(Out)) const {
    kernel::rdma_ucm_query in{};
    in.response = reinterpret_cast<uint64_t>(out);
    in.id = id;
    in.option = option;
    return command(kernel::RDMA_USER_CM_CMD_QUERY, in, bytes);
  }
  int qp_attr(uint32_t id, uint32_t state, ib_uverbs_qp_attr* out) const {
    kernel::rdma_ucm_init_qp_attr in{reinterpret_cast<uint64_t>(out), id, state};
    return command(kernel::RDMA_USER_CM_CMD_INIT_QP_ATTR, in, sizeof(*out));
  }
};

TEST_F(CmCommands, WhatIsNoCommandIsRefused) {
  std::array<char, 64> junk{};
  EXPECT_EQ(write(channel_->fd, junk.data(), 4), -1);
  EXPECT_EQ(errno, EINVAL) << "shorter than a header";
  EXPECT_EQ(command(23, junk), EINVAL) << "no such command";
  EXPECT_EQ(command(kernel::RDMA_USER_CM_CMD_GET_OPTION, junk), ENOSYS);
  EXPECT_EQ(command(kernel::RDMA_USER_CM_CMD_CONNECT, junk), EINVAL) << "cut off";
  kernel::rdma_ucm_cmd_hdr longer{kernel::RDMA_USER_CM_CMD_DESTROY_ID, 16, 4};
  EXPECT_EQ(write(channel_->fd, &longer, sizeof(longer)), -1);
  EXPECT_EQ(errno, EINVAL) << "says more than it has";
  EXPECT_EQ(end(4711), ENOENT);
  const uint32_t id = create();
  kernel::rdma_ucm_destroy_id in{};
  in.id = id;
  EXPECT_EQ(command(kernel::RDMA_USER_CM_CMD_DESTROY_ID, in, 0), ENOSPC)
      << "no room for the answer";
  EXPECT_EQ(command(kernel::RDMA_USER_CM_CMD_DESTROY_ID, in, 4), EFAULT)
      << "no place for the answer";
  kernel::rdma_ucm_create_id bad{};
  bad.response = reinterpret_cast<uint64_t>(&in);
  bad.ps = 0x999;
  EXPECT_EQ(command(kernel::RDMA_USER_CM_CMD_CREATE_ID, bad, 4), EINVAL) << "port space";
  EXPECT_EQ(end(id), 0);
  EXPECT_EQ(end(id), ENOENT) << "twice";
}

TEST_F(CmCommands, IdOfAnotherFileIsRefused) {
  const uint32_t id = create();
  const int mine = channel_->fd;
  channel_->fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
  EXPECT_EQ(end(id), EINVAL);
  close(channel_->fd);
  channel_->fd = mine;
  EXPECT_EQ(end(id), 0);
}

TEST_F(CmCommands, BindTakesIpAndNoInfiniBandAddresses) {
  const uint32_t id = create(RDMA_PS_IB);
  kernel::rdma_ucm_bind in{};
  in.id = id;
  in.addr_size = 48;
  in.addr.ss_family = 27;  // AF_IB
  EXPECT_EQ(command(kernel::RDMA_USER_CM_CMD_BIND, in), EINVAL);
  const sockaddr_in local = ip(kOwn);
  in.addr_size = sizeof(local);
  std::memcpy(&in.addr, &local, sizeof(local));
  EXPECT_EQ(command(kernel::RDMA_USER_CM_CMD_BIND, in), 0);
  EXPECT_EQ(command(kernel::RDMA_USER_CM_CMD_BIND, in), EINVAL) << "twice";
  EXPECT_EQ(end(id), 0);
}

TEST_F(CmCommands, ReportedEventsAreThoseThatWereFetched) {
  const uint32_t id = create();
  EXPECT_EQ(resolve(id), 0);
  EXPECT_EQ(resolve(id), EINVAL) << "resolved already";
  const kernel::rdma_ucm_event_resp event = get();
  EXPECT_EQ(event.uid, 1u);
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.event, static_cast<uint32_t>(RDMA_CM_EVENT_ADDR_RESOLVED));
  kernel::rdma_ucm_resolve_route route{id, 1000};
  EXPECT_EQ(command(kernel::RDMA_USER_CM_CMD_RESOLVE_ROUTE, route), 0);
  EXPECT_EQ(command(kernel::RDMA_USER_CM_CMD_RESOLVE_ROUTE, route), EINVAL) << "resolved already";
  uint32_t reported = 0;
  EXPECT_EQ(end(id, &reported), 0);
  EXPECT_EQ(reported, 1u);
  expect_silence();
}

TEST_F(CmCommands, QueriesSayWhereTheIdIs) {
  const uint32_t id = create();
  kernel::rdma_ucm_query_addr_resp address{};
  EXPECT_EQ(query(id, kernel::RDMA_USER_CM_QUERY_ADDR, &address), 0);
  EXPECT_EQ(address.node_guid, 0u) << "bound to no device";
  EXPECT_EQ(address.src_size, 0);
  EXPECT_EQ(resolve(id), 0);
  get();
  EXPECT_EQ(query(id, kernel::RDMA_USER_CM_QUERY_ADDR, &address), 0);
  ibv_context** devices = rdma_get_devices(nullptr);
  ASSERT_NE(devices, nullptr);
  EXPECT_EQ(address.node_guid, ibv_get_device_guid(devices[0]->device));
  rdma_free_devices(devices);
  EXPECT_EQ(address.src_size, sizeof(sockaddr_in));
  EXPECT_EQ(address.dst_size, sizeof(sockaddr_in));
  EXPECT_EQ(address.pkey, 0xffff);
  kernel::rdma_ucm_query_addr_resp gids{};
  EXPECT_EQ(query(id, kernel::RDMA_USER_CM_QUERY_GID, &gids), 0);
  EXPECT_EQ(gids.src_addr.ss_family, 27);
  alignas(8) std::array<char, 200> out{};
  uint32_t paths = 9;
  EXPECT_EQ(query(id, kernel::RDMA_USER_CM_QUERY_PATH, &out), 0);
  std::memcpy(&paths, out.data(), sizeof(paths));
  EXPECT_EQ(paths, 0u) << "no route yet";
  kernel::rdma_ucm_resolve_route route{id, 1000};
  EXPECT_EQ(command(kernel::RDMA_USER_CM_CMD_RESOLVE_ROUTE, route), 0);
  EXPECT_EQ(query(id, kernel::RDMA_USER_CM_QUERY_PATH, &out), 0);
  std::memcpy(&paths, out.data(), sizeof(paths));
  EXPECT_EQ(paths, 1u);
  EXPECT_EQ(query(id, kernel::RDMA_USER_CM_QUERY_PATH, &out, 4), ENOSPC);
  EXPECT_EQ(query(id, 3, &out), ENOSYS);
  EXPECT_EQ(end(id), 0);
}

TEST_F(CmCommands, QueuePairMasksAreTheKernels) {
  ib_uverbs_qp_attr attr{};
  const uint32_t unbound = create();
  EXPECT_EQ(qp_attr(unbound, IBV_QPS_INIT, &attr), EINVAL) << "no device";
  EXPECT_EQ(end(unbound), 0);
  for (const uint16_t space : {::RDMA_PS_TCP, ::RDMA_PS_UDP}) {
    const bool datagrams = space == ::RDMA_PS_UDP;
    const uint32_t id = create(space);
    EXPECT_EQ(resolve(id), 0);
    get();
    EXPECT_EQ(qp_attr(id, IBV_QPS_INIT, &attr), 0);
    EXPECT_EQ(attr.qp_attr_mask, datagrams ? 0x71u : 0x39u);
    EXPECT_EQ(attr.qkey, datagrams ? static_cast<uint32_t>(RDMA_UDP_QKEY) : 0u);
    EXPECT_EQ(qp_attr(id, IBV_QPS_RTR, &attr), datagrams ? 0 : EINVAL) << "nobody answered yet";
    EXPECT_EQ(qp_attr(id, IBV_QPS_SQD, &attr), EINVAL);
    EXPECT_EQ(end(id), 0);
  }
  rdma_cm_id* listener = listen();
  const Connected pair = connect(listener);
  for (rdma_cm_id* id : {pair.active, pair.passive}) {
    ibv_qp_attr verbs{};
    int mask = 0;
    verbs.qp_state = IBV_QPS_RTR;
    ASSERT_EQ(rdma_init_qp_attr(id, &verbs, &mask), 0);
    EXPECT_EQ(mask, 0x129181);
    EXPECT_EQ(verbs.ah_attr.grh.sgid_index, 1);
    EXPECT_EQ(verbs.path_mtu, IBV_MTU_4096);
    verbs.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(rdma_init_qp_attr(id, &verbs, &mask), 0);
    EXPECT_EQ(mask, 0x12e01);
    EXPECT_GT(verbs.timeout, 0) << "0 would wait for ever";
  }
}

TEST_F(CmCommands, OptionsReachTheAgentAndThePath) {
  rdma_cm_id* listener = listen();
  rdma_cm_id* id = make();
  uint8_t tos = 0x68;
  uint8_t timeout = 15;
  int yes = 1;
  const auto set = [id](int name, auto* value, size_t bytes) {
    return rdma_set_option(id, RDMA_OPTION_ID, name, value, bytes) == 0 ? 0 : errno;
  };
  EXPECT_EQ(set(RDMA_OPTION_ID_TOS, &tos, 1), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID_TOS, &yes, 4), EINVAL) << "another size";
  EXPECT_EQ(set(RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
  timeout = 32;
  EXPECT_EQ(set(RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), EINVAL);
  EXPECT_EQ(set(99, &yes, 4), ENOSYS);
  sockaddr_in remote = ip(kOwn, ntohs(rdma_get_src_port(listener)));
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, generic(&remote), 1000), 0);
  mprdma_abi_cm_command told{};
  fake_engine_cm_last(MPRDMA_ABI_CM_SET_OPTION, &told);
  EXPECT_EQ(told.value, 15u);
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(set(RDMA_OPTION_ID_AFONLY, &yes, 4), EINVAL) << "too late";
  ASSERT_EQ(rdma_resolve_route(id, 1000), 0);
  expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  give_qp(id);
  rdma_conn_param param = params();
  ASSERT_EQ(rdma_connect(id, &param), 0);
  fake_engine_cm_last(MPRDMA_ABI_CM_CONNECT, &told);
  EXPECT_EQ(told.params.traffic_class, 0x68);
  EXPECT_EQ(told.params.ack_timeout, 15);
  EXPECT_EQ(rdma_reject(request(), nullptr, 0), 0);
  expect(RDMA_CM_EVENT_REJECTED, 28);
}

TEST_F(CmCommands, RejectionTakesTheTwoReasonsThatThereAre) {
  rdma_cm_id* listener = listen();
  rdma_cm_id* active = resolved(ntohs(rdma_get_src_port(listener)));
  give_qp(active);
  rdma_conn_param param = params();
  ASSERT_EQ(rdma_connect(active, &param), 0);
  const kernel::rdma_ucm_event_resp event = get();
  ASSERT_EQ(event.event, static_cast<uint32_t>(RDMA_CM_EVENT_CONNECT_REQUEST));
  kernel::rdma_ucm_reject in{};
  in.id = event.id;
  in.reason = 7;
  EXPECT_EQ(command(kernel::RDMA_USER_CM_CMD_REJECT, in), EINVAL);
  in.reason = 35;
  EXPECT_EQ(command(kernel::RDMA_USER_CM_CMD_REJECT, in), 0);
  expect(RDMA_CM_EVENT_REJECTED, 35);
  EXPECT_EQ(end(event.id), 0);
  // The request was the listener's event, which librdmacm never saw.
  uint32_t reported = 0;
  mprdma_abi_cm_command listened{};
  fake_engine_cm_last(MPRDMA_ABI_CM_LISTEN, &listened);
  EXPECT_EQ(end(static_cast<uint32_t>(listened.cookie & 0xffff), &reported), 0);
  EXPECT_EQ(reported, 1u);
  std::erase(ids_, listener);
}

TEST_F(CmCommands, GroupsNeedADatagramIdAndAGroup) {
  const auto join = [this](uint32_t id, const char* address) {
    kernel::rdma_ucm_create_id_resp out{};
    kernel::rdma_ucm_join_mcast in{};
    const sockaddr_in group = ip(address);
    in.response = reinterpret_cast<uint64_t>(&out);
    in.id = id;
    in.addr_size = sizeof(group);
    std::memcpy(&in.addr, &group, sizeof(group));
    return command(kernel::RDMA_USER_CM_CMD_JOIN_MCAST, in, sizeof(out));
  };
  const uint32_t reliable = create();
  const uint32_t datagrams = create(::RDMA_PS_UDP);
  EXPECT_EQ(join(datagrams, "239.0.0.1"), EINVAL) << "not bound";
  for (const uint32_t id : {reliable, datagrams}) {
    EXPECT_EQ(resolve(id), 0);
    get();
  }
  EXPECT_EQ(join(reliable, "239.0.0.1"), EINVAL);
  EXPECT_EQ(join(datagrams, "10.73.0.9"), EINVAL);
  EXPECT_EQ(join(datagrams, "239.0.0.1"), 0);
  EXPECT_EQ(end(datagrams), 0) << "with the group and its event";
  expect_silence();
  EXPECT_EQ(end(reliable), 0);
}

}  // namespace
}  // namespace mprdma::provider_test
