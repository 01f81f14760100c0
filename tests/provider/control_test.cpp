// Slow-path verbs: queries, registration, creation, states, lifetimes.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tests/provider/verbs_fixture.hpp"

namespace mprdma::provider_test {
namespace {

TEST_F(Verbs, GidTableIsLinkLocalThenIpv4) {
  ibv_gid_entry entries[4];
  ASSERT_EQ(ibv_query_gid_table(context_, entries, 4, 0), 2);
  EXPECT_EQ(entries[0].gid.raw[0], 0xfe);
  EXPECT_EQ(entries[1].gid.raw[15], 1);
  EXPECT_EQ(entries[1].gid_type, static_cast<uint32_t>(IBV_GID_TYPE_ROCE_V2));
  ibv_gid_entry one;
  ASSERT_EQ(ibv_query_gid_ex(context_, 1, 1, &one, 0), 0);
  EXPECT_EQ(std::memcmp(&one, &entries[1], sizeof(one)), 0);
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, 2, &one, 0), ENODATA) << "an empty entry";
  EXPECT_EQ(ibv_query_gid_ex(context_, 1, 8, &one, 0), EINVAL);
  EXPECT_EQ(ibv_query_gid_ex(context_, 2, 0, &one, 0), EINVAL);
}

TEST_F(Verbs, PkeyTableHasTheDefaultPartition) {
  __be16 pkey = 0;
  ASSERT_EQ(ibv_query_pkey(context_, 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xffff);
}

TEST_F(Verbs, EngineStartsWithTheFirstObjectThatNeedsIt) {
  const uint32_t before = fake_engine_connects();
  ibv_device_attr attr;
  ibv_port_attr port;
  EXPECT_EQ(ibv_query_device(context_, &attr), 0);
  EXPECT_EQ(ibv_query_port(context_, 1, &port), 0);
  EXPECT_EQ(fake_engine_connects(), before);
  make_cq();
  make_cq();
  EXPECT_EQ(fake_engine_connects(), before + 1);
}

TEST_F(Verbs, QueriesOfAbsentThingsFail) {
  ibv_port_attr port;
  EXPECT_EQ(ibv_query_port(context_, 2, &port), EINVAL);
  ibv_srq_init_attr srq{};
  srq.attr.max_wr = 1;
  EXPECT_EQ(ibv_create_srq(pd_, &srq), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

// ---- Memory regions ----

TEST_F(Verbs, RegistrationOfUnmappedMemoryIsEfault) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* memory = static_cast<char*>(
      mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  munmap(memory + 2 * page, page);
  EXPECT_EQ(reg(memory, 4 * page), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_NE(reg(memory, 2 * page), nullptr);
  EXPECT_EQ(reg(reinterpret_cast<void*>(-4096), 8192), nullptr);
  EXPECT_EQ(errno, EFAULT);
}

TEST_F(Verbs, ReadOnlyMemoryCannotBeRegisteredForWriting) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(reg(memory, page, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_NE(reg(memory, page, IBV_ACCESS_REMOTE_READ), nullptr);
}

TEST_F(Verbs, RemoteWriteNeedsLocalWrite) {
  char memory[64];
  EXPECT_EQ(reg(memory, sizeof(memory), IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(reg(memory, sizeof(memory), IBV_ACCESS_MW_BIND), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_NE(reg(memory, sizeof(memory), kAllAccess | int{IBV_ACCESS_RELAXED_ORDERING}), nullptr);
}

TEST_F(Verbs, ProtectionDomainInUseIsBusy) {
  char memory[64];
  ASSERT_NE(reg(memory, sizeof(memory)), nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
}

// ---- Creation and its limits ----

TEST_F(Verbs, QueuePairGetsAtLeastWhatItAskedFor) {
  ibv_qp_init_attr attr = init_attr(make_cq());
  attr.cap = {100, 33, 3, 1, 200};
  ibv_qp* qp = ibv_create_qp(pd_, &attr);
  ASSERT_NE(qp, nullptr);
  qps_.push_back(qp);
  EXPECT_GE(attr.cap.max_send_wr, 100u);
  EXPECT_GE(attr.cap.max_recv_wr, 33u);
  EXPECT_GE(attr.cap.max_inline_data, 200u);
  ibv_qp_attr now;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(qp, &now, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(init.cap.max_send_wr, attr.cap.max_send_wr);
  EXPECT_EQ(now.qp_state, IBV_QPS_RESET);
}

TEST_F(Verbs, LimitsAreEnforced) {
  ibv_cq* cq = make_cq();
  ibv_qp_init_attr attr = init_attr(cq);
  attr.cap.max_send_wr = 4097;
  EXPECT_EQ(ibv_create_qp(pd_, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr = init_attr(cq);
  attr.cap.max_inline_data = 513;
  EXPECT_EQ(ibv_create_qp(pd_, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context_, 65537, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context_, 1, nullptr, nullptr, 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Verbs, QueuePairTypesThatAreNotBuiltAreNotSupported) {
  ibv_qp_init_attr attr = init_attr(make_cq());
  attr.qp_type = IBV_QPT_UD;
  EXPECT_EQ(ibv_create_qp(pd_, &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Verbs, CompletionQueueWithQueuePairsIsBusy) {
  ibv_cq* cq = make_cq();
  ibv_qp* qp = make_qp(cq);
  EXPECT_EQ(destroy(cq), EBUSY);
  EXPECT_EQ(destroy(qp), 0);
  EXPECT_EQ(destroy(cq), 0);
}

// ---- States ----

TEST_F(Verbs, TransitionNeedsItsAttributes) {
  ibv_qp* qp = make_qp(make_cq());
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
  ASSERT_EQ(to_init(qp), 0);
  attr = rtr_attr(7);
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kRtrMask & ~IBV_QP_DEST_QPN), EINVAL);
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kRtrMask | IBV_QP_SQ_PSN), EINVAL);
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kRtrMask), 0);
}

TEST_F(Verbs, TransitionsThatSkipAStateAreRefused) {
  ibv_qp* qp = make_qp(make_cq());
  EXPECT_EQ(to_rtr(qp, 7), EINVAL);
  ASSERT_EQ(to_init(qp), 0);
  EXPECT_EQ(to_rts(qp), EINVAL);
  EXPECT_EQ(to_state(qp, IBV_QPS_ERR), 0);
  EXPECT_EQ(to_rtr(qp, 7), EINVAL);
  EXPECT_EQ(to_state(qp, IBV_QPS_RESET), 0);
  EXPECT_EQ(to_init(qp), 0);
}

TEST_F(Verbs, PathNeedsAGidAndAnMtuThatThePortHas) {
  ibv_qp* qp = make_qp(make_cq());
  ASSERT_EQ(to_init(qp), 0);
  ibv_qp_attr attr = rtr_attr(7);
  attr.ah_attr.is_global = 0;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kRtrMask), EINVAL);
  attr = rtr_attr(7);
  attr.ah_attr.grh.sgid_index = 2;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kRtrMask), EINVAL);
  attr = rtr_attr(7);
  attr.max_dest_rd_atomic = 17;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kRtrMask), EINVAL);
}

// A port whose MTU is not the greatest.
class SmallMtu : public Verbs {
 protected:
  void SetUp() override {
    setenv("MPRDMA_MTU", "1024", 1);
    Verbs::SetUp();
    unsetenv("MPRDMA_MTU");
  }
};

TEST_F(SmallMtu, APathHasNoGreaterOne) {
  ibv_qp* qp = make_qp(make_cq());
  ASSERT_EQ(to_init(qp), 0);
  ibv_qp_attr attr = rtr_attr(qp->qp_num);
  attr.path_mtu = IBV_MTU_2048;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kRtrMask), EINVAL);
  attr.path_mtu = IBV_MTU_1024;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kRtrMask), 0);
}

TEST_F(Verbs, CurrentStateMustBeTrue) {
  ibv_cq* cq = make_cq();
  ibv_qp* one = make_qp(cq);
  ibv_qp* other = make_qp(cq);
  establish(one, other);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.cur_qp_state = IBV_QPS_SQD;
  EXPECT_EQ(ibv_modify_qp(one, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
  attr.cur_qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(one, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
}

TEST_F(Verbs, QueryReturnsWhatWasSet) {
  ibv_cq* cq = make_cq();
  ibv_qp* one = make_qp(cq);
  ibv_qp* other = make_qp(cq);
  establish(one, other);
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(one, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.dest_qp_num, other->qp_num);
  EXPECT_EQ(attr.rq_psn, 0x123456u);
  EXPECT_EQ(attr.sq_psn, 0x654321u);
  EXPECT_EQ(attr.path_mtu, IBV_MTU_4096);
  EXPECT_EQ(attr.port_num, 1);
  EXPECT_EQ(attr.ah_attr.grh.sgid_index, 1);
  EXPECT_EQ(attr.timeout, 14);
}

TEST_F(Verbs, DataIsInOrderUnlessTheEngineWasConfiguredOtherwise) {
  ibv_qp* qp = make_qp(make_cq());
  EXPECT_EQ(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0), 1);
  EXPECT_EQ(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_READ, 0), 1);
  EXPECT_EQ(ibv_query_qp_data_in_order(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, 0), 0) << "not offered";
  EXPECT_EQ(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 1), 0) << "unknown flags";
}

// ---- Fork ----

TEST_F(Verbs, ChildGetsAnEngineOfItsOwn) {
  make_cq();
  const uint32_t before = fake_engine_connects();
  const pid_t child = fork();
  if (child == 0) {
    ibv_pd* pd = ibv_alloc_pd(context_);
    ibv_cq* cq = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
    static char memory[64];
    ibv_mr* mr = ibv_reg_mr(pd, memory, sizeof(memory), kAllAccess);
    const bool good = cq != nullptr && mr != nullptr && fake_engine_connects() == before + 1 &&
                      ibv_destroy_cq(cq) == 0 && ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 &&
                      ibv_destroy_cq(cqs_[0]) == 0;  // the parent's: forgotten, not commanded
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(fake_engine_connects(), before);
}

}  // namespace
}  // namespace mprdma::provider_test
