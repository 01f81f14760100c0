// Memory beyond plain regions: windows, device memory, dma-bufs, on demand, registered again.
#include "tests/provider/full_fixture.hpp"

namespace mprdma::provider_test {
namespace {

class Memory : public Full {
 protected:
  static constexpr int kBindable = kAllAccess | int{IBV_ACCESS_MW_BIND};
  void SetUp() override {
    Full::SetUp();
    one_ = make(IBV_QPT_RC);
    other_ = make(IBV_QPT_RC);
    establish(one_, other_);
    mr_ = reg(memory_, sizeof(memory_), kBindable);
    ASSERT_NE(mr_, nullptr);
  }
  // Returns the status of a WRITE of 8 bytes through a key.
  int write_by(uint32_t rkey, uint64_t addr) {
    establish(one_, other_);
    ibv_mr target{};
    target.addr = reinterpret_cast<void*>(addr);
    target.rkey = rkey;
    EXPECT_EQ(post_send(one_, 1, IBV_WR_RDMA_WRITE, mr_, 8, &target), 0);
    const std::vector<ibv_wc> wc = poll_all(cq_);
    return wc.empty() ? -1 : wc[0].status;
  }
  uint64_t start() const { return reinterpret_cast<uint64_t>(memory_); }

  alignas(8) char memory_[4096] = {};
  ibv_qp* one_ = nullptr;
  ibv_qp* other_ = nullptr;
  ibv_mr* mr_ = nullptr;
};

TEST_F(Memory, WindowOfTypeOneChangesItsKeyWithEachBind) {
  ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_1);
  ASSERT_NE(mw, nullptr);
  const uint32_t before = mw->rkey;
  ibv_mw_bind bind{};
  bind.wr_id = 9;
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {mr_, start() + 64, 128, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE};
  ASSERT_EQ(ibv_bind_mw(other_, mw, &bind), 0);
  const std::vector<ibv_wc> wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 1u);
  EXPECT_EQ(wc[0].opcode, IBV_WC_BIND_MW);
  EXPECT_EQ(mw->rkey, ibv_inc_rkey(before));
  EXPECT_EQ(write_by(mw->rkey, start() + 64), IBV_WC_SUCCESS);
  EXPECT_EQ(write_by(mw->rkey, start() + 60), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(write_by(before, start() + 64), IBV_WC_REM_ACCESS_ERR);
  establish(one_, other_);
  bind.bind_info = {nullptr, 0, 0, 0};
  const uint32_t bound = mw->rkey;
  ASSERT_EQ(ibv_bind_mw(other_, mw, &bind), 0);
  EXPECT_EQ(write_by(bound, start() + 64), IBV_WC_REM_ACCESS_ERR) << "unbound";
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  EXPECT_EQ(ibv_alloc_mw(pd_, static_cast<ibv_mw_type>(3)), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Memory, WindowOfTypeTwoIsPostedAndInvalidated) {
  ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_BIND_MW;
  wr.bind_mw.mw = mw;
  wr.bind_mw.rkey = (mw->rkey & ~0xffu) | 0x77;
  wr.bind_mw.bind_info = {mr_, start() + 64, 128, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(other_, &wr, &bad), 0);
  EXPECT_EQ(write_by(wr.bind_mw.rkey, 0), IBV_WC_SUCCESS) << "zero based";
  ibv_send_wr inv{};
  inv.opcode = IBV_WR_LOCAL_INV;
  inv.invalidate_rkey = wr.bind_mw.rkey;
  inv.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(ibv_post_send(other_, &inv, &bad), 0);
  const std::vector<ibv_wc> wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 1u);
  EXPECT_EQ(wc[0].opcode, IBV_WC_LOCAL_INV);
  EXPECT_EQ(write_by(wr.bind_mw.rkey, 0), IBV_WC_REM_ACCESS_ERR);
  wr.bind_mw.mw = nullptr;
  EXPECT_EQ(ibv_post_send(other_, &wr, &bad), EINVAL);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Memory, OnlyTheLowestByteOfAWindowsKeyIsChosen) {
  ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  ASSERT_NE(mw, nullptr);
  const uint32_t before = mw->rkey;
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_BIND_MW;
  wr.bind_mw.mw = mw;
  wr.bind_mw.rkey = (~before & ~0xffu) | 0x77;
  wr.bind_mw.bind_info = {mr_, start(), 128, IBV_ACCESS_REMOTE_WRITE};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(other_, &wr, &bad), 0);
  EXPECT_EQ(mw->rkey, (before & ~0xffu) | 0x77);
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
}

TEST_F(Memory, SendWithInvalidateSaysWhichKey) {
  ASSERT_EQ(post_recv(other_, 1, mr_, 8), 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND_WITH_INV;
  wr.invalidate_rkey = 0x1234;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(one_, &wr, &bad), 0);
  const std::vector<ibv_wc> wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 1u);
  EXPECT_EQ(wc[0].wc_flags, static_cast<unsigned>(IBV_WC_WITH_INV));
  EXPECT_EQ(wc[0].invalidated_rkey, 0x1234u);
}

TEST_F(Memory, AtomicsAndTheirBuilders) {
  ibv_mr* target = reg(memory_, sizeof(memory_), kAllAccess | int{IBV_ACCESS_REMOTE_ATOMIC});
  ibv_qp* qp = make_qp_ex(cq_, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                                   IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_WRITE);
  ASSERT_NE(qp, nullptr);
  establish(qp, other_);
  auto* words = reinterpret_cast<uint64_t*>(memory_);
  words[0] = 40;
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  ibv_wr_start(ex);
  ex->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_atomic_fetch_add(ex, target->rkey, start(), 2);
  ibv_wr_set_sge(ex, mr_->lkey, start() + 8, 8);
  ibv_wr_atomic_cmp_swp(ex, target->rkey, start(), 42, 7);
  ibv_wr_set_sge(ex, mr_->lkey, start() + 16, 8);
  const uint64_t value = 99;
  ibv_wr_atomic_write(ex, target->rkey, start() + 24, &value);
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  const std::vector<ibv_wc> wc = poll_all(cq_);
  ASSERT_EQ(wc.size(), 3u);
  EXPECT_EQ(wc[0].opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(wc[1].opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(wc[2].opcode, IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(words[0], 7u);
  EXPECT_EQ(words[1], 40u);
  EXPECT_EQ(words[2], 42u);
  EXPECT_EQ(words[3], 99u);
}

TEST_F(Memory, AtomicWriteIsOfOnePiece) {
  ibv_sge sge[2] = {{start(), 8, mr_->lkey}, {start() + 8, 8, mr_->lkey}};
  ibv_send_wr wr{};
  wr.sg_list = sge;
  wr.num_sge = 2;
  wr.opcode = IBV_WR_ATOMIC_WRITE;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(one_, &wr, &bad), EINVAL);
}

TEST_F(Memory, AtomicWriteIsOfEightBytes) {
  for (const unsigned flags : {0u, unsigned{IBV_SEND_INLINE}}) {
    for (const uint32_t length : {0u, 4u, 16u}) {
      ibv_sge sge{start(), length, mr_->lkey};
      ibv_send_wr wr{};
      wr.sg_list = &sge;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_ATOMIC_WRITE;
      wr.send_flags = flags;
      ibv_send_wr* bad = nullptr;
      EXPECT_EQ(ibv_post_send(one_, &wr, &bad), EINVAL) << length;
      EXPECT_EQ(bad, &wr);
    }
  }
}

// ---- Regions ----

TEST_F(Memory, RegisteredAgainItKeepsItsKeysAndMovesItsPd) {
  ibv_pd* other_pd = ibv_alloc_pd(context_);
  ibv_mr* mr = ibv_reg_mr(pd_, memory_, 64, kAllAccess);
  const uint32_t rkey = mr->rkey;
  ASSERT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other_pd, nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dealloc_pd(other_pd), EBUSY);
  ASSERT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory_ + 64, 32, 0), 0);
  ASSERT_EQ(
      ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE), 0);
  EXPECT_EQ(mr->rkey, rkey);
  FakeMr seen{};
  ASSERT_TRUE(fake_engine_mr(mr->lkey, &seen));
  EXPECT_EQ(seen.addr, start() + 64);
  EXPECT_EQ(seen.access, static_cast<uint32_t>(IBV_ACCESS_LOCAL_WRITE));
  EXPECT_NE(
      ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE), 0)
      << "a peer may write what we may not";
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(other_pd), 0);
}

TEST_F(Memory, OnDemandMemoryNeedNotBeThere) {
  void* nowhere = mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(reg(nowhere, 8192), nullptr);
  ibv_mr* mr = reg(nowhere, 8192, kAllAccess | int{IBV_ACCESS_ON_DEMAND});
  ASSERT_NE(mr, nullptr);
  FakeMr seen{};
  ASSERT_TRUE(fake_engine_mr(mr->lkey, &seen));
  EXPECT_EQ(seen.flags, MPRDMA_ABI_MR_ON_DEMAND);
  ibv_mr* all = reg(nullptr, SIZE_MAX, kAllAccess | int{IBV_ACCESS_ON_DEMAND});
  ASSERT_NE(all, nullptr);
  ibv_sge sge{start(), 64, all->lkey};
  EXPECT_EQ(
      ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
      0);
  sge = {reinterpret_cast<uint64_t>(nowhere), 8192, mr->lkey};
  EXPECT_EQ(ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
  EXPECT_EQ(ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &sge, 1), 0);
  sge.length = 8193;
  EXPECT_EQ(ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &sge, 1), EFAULT);
  sge = {start(), 64, mr_->lkey};
  EXPECT_EQ(ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EINVAL)
      << "not on demand";
  EXPECT_EQ(ibv_advise_mr(pd_, static_cast<ibv_advise_mr_advice>(99), 0, &sge, 1), EOPNOTSUPP);
  munmap(nowhere, 8192);
}

TEST_F(Memory, DmaBufIsMappedWhereverItBegins) {
  const int fd = memfd_create("buffer", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 3 * 4096), 0);
  ASSERT_EQ(pwrite(fd, "dma-buf", 8, 4096 + 5), 8);
  ibv_mr* mr = ibv_reg_dmabuf_mr(pd_, 4096 + 5, 100, 4096 + 5, fd, kAllAccess);
  ASSERT_NE(mr, nullptr);
  FakeMr seen{};
  ASSERT_TRUE(fake_engine_mr(mr->lkey, &seen));
  EXPECT_STREQ(reinterpret_cast<const char*>(seen.addr), "dma-buf");
  EXPECT_EQ(seen.iova, 4096u + 5);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_reg_dmabuf_mr(pd_, 0, 3 * 4096 + 1, 0, fd, kAllAccess), nullptr);
  EXPECT_EQ(errno, EINVAL) << "beyond its end";
  EXPECT_EQ(ibv_reg_dmabuf_mr(pd_, 0, 64, 0, fd, IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  mr = ibv_reg_dmabuf_mr(pd_, 64, 0, 64, fd, kAllAccess);
  ASSERT_NE(mr, nullptr) << "of nothing";
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  close(fd);
}

TEST_F(Memory, ZeroBasedAndNullRegions) {
  ibv_mr* mr = reg(memory_, 64, kAllAccess | int{IBV_ACCESS_ZERO_BASED});
  FakeMr seen{};
  ASSERT_TRUE(fake_engine_mr(mr->lkey, &seen));
  EXPECT_EQ(seen.iova, 0u);
  ibv_mr* null = ibv_alloc_null_mr(pd_);
  ASSERT_NE(null, nullptr);
  ASSERT_TRUE(fake_engine_mr(null->lkey, &seen));
  EXPECT_EQ(seen.flags, MPRDMA_ABI_MR_NULL);
  EXPECT_EQ(ibv_dereg_mr(null), 0);
}

// ---- Device memory ----

TEST_F(Memory, DeviceMemoryIsCopiedInWordsAndHasAnEnd) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &attr), 0);
  ibv_alloc_dm_attr wanted{attr.max_dm_size + 1, 0, 0};
  EXPECT_EQ(ibv_alloc_dm(context_, &wanted), nullptr);
  wanted = {64, 0, 1};
  EXPECT_EQ(ibv_alloc_dm(context_, &wanted), nullptr);
  EXPECT_EQ(errno, EINVAL);
  wanted = {26214, 6, 0};
  ibv_dm* dm = ibv_alloc_dm(context_, &wanted);
  ASSERT_NE(dm, nullptr);
  char back[8] = {};
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 8, "abcdefg", 8), 0);
  EXPECT_EQ(ibv_memcpy_from_dm(back, dm, 8, 8), 0);
  EXPECT_STREQ(back, "abcdefg");
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 1, back, 4), EINVAL);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 0, back, 3), EINVAL);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 26212, back, 4), EINVAL) << "beyond its end";
  EXPECT_EQ(ibv_reg_dm_mr(pd_, dm, 0, 64, kAllAccess), nullptr) << "regions of it count from 0";
  EXPECT_EQ(errno, EINVAL);
  const unsigned int access = kAllAccess | IBV_ACCESS_ZERO_BASED;
  EXPECT_EQ(ibv_reg_dm_mr(pd_, dm, 26214, 1, access), nullptr);
  ibv_mr* mr = ibv_reg_dm_mr(pd_, dm, 8, 8, access);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_free_dm(dm), EBUSY);
  FakeMr seen{};
  ASSERT_TRUE(fake_engine_mr(mr->lkey, &seen));
  EXPECT_EQ(seen.iova, 0u);
  EXPECT_STREQ(reinterpret_cast<const char*>(seen.addr), "abcdefg");
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

}  // namespace
}  // namespace mprdma::provider_test
