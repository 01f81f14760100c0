// Parent and thread domains, imports, clocks, moderation, ECE, and contexts that share objects.
#include <fcntl.h>

#include <cstdlib>
#include <map>

#include "providers/mprdma/mprdmadv.h"
#include "tests/provider/full_fixture.hpp"

namespace mprdma::provider_test {
namespace {

// The pieces that an allocator was asked for and has not got back.
struct Pool {
  std::map<void*, uint64_t> lent;
  uint32_t calls = 0;
  bool use_default = false;
};

void* lend(ibv_pd*, void* pool, size_t bytes, size_t alignment, uint64_t type) {
  auto& p = *static_cast<Pool*>(pool);
  p.calls++;
  if (p.use_default) return IBV_ALLOCATOR_USE_DEFAULT;
  void* memory = nullptr;
  if (bytes % alignment != 0 || posix_memalign(&memory, alignment, bytes) != 0) return nullptr;
  std::memset(memory, 0xee, bytes);
  p.lent[memory] = type;
  return memory;
}

void take_back(ibv_pd*, void* pool, void* memory, uint64_t type) {
  auto& p = *static_cast<Pool*>(pool);
  const auto found = p.lent.find(memory);
  ASSERT_NE(found, p.lent.end());
  EXPECT_EQ(found->second, type);
  p.lent.erase(found);
  free(memory);
}

class Domain : public Full {
 protected:
  ibv_pd* make_parent(ibv_td* td = nullptr) {
    ibv_parent_domain_init_attr attr{};
    attr.pd = pd_;
    attr.td = td;
    attr.comp_mask =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    attr.alloc = lend;
    attr.free = take_back;
    attr.pd_context = &pool_;
    return ibv_alloc_parent_domain(context_, &attr);
  }
  Pool pool_;
};

TEST_F(Domain, ObjectsOfAParentLiveInItsMemory) {
  ibv_pd* parent = make_parent();
  ASSERT_NE(parent, nullptr);
  ibv_cq_init_attr_ex cq_attr{};
  cq_attr.cqe = 16;
  cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  cq_attr.parent_domain = parent;
  ibv_cq_ex* cq = ibv_create_cq_ex(context_, &cq_attr);
  ASSERT_NE(cq, nullptr);
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {8, 1, 0};
  ibv_srq* srq = ibv_create_srq(parent, &srq_attr);
  ASSERT_NE(srq, nullptr);
  ibv_qp_init_attr attr = init_attr(ibv_cq_ex_to_cq(cq));
  ibv_qp* qp = ibv_create_qp(parent, &attr);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(pool_.lent.size(), 3u);
  EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
  char memory[64] = {};
  ibv_mr* mr = ibv_reg_mr(parent, memory, sizeof(memory), kAllAccess);
  ASSERT_NE(mr, nullptr);
  establish_loop(qp);
  ASSERT_EQ(post_send(qp, 1, IBV_WR_RDMA_WRITE, mr, 8, mr), 0);
  EXPECT_EQ(poll_all(ibv_cq_ex_to_cq(cq)).size(), 1u) << "the memory was cleared before use";
  ASSERT_EQ(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 100), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_TRUE(pool_.lent.empty());
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

TEST_F(Domain, AllocatorMayDecline) {
  ibv_pd* parent = make_parent();
  pool_.use_default = true;
  ibv_qp_init_attr attr = init_attr(cq_);
  ibv_qp* qp = ibv_create_qp(parent, &attr);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(pool_.calls, 1u);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

TEST_F(Domain, ParentHoldsItsThreadDomain) {
  ibv_td_init_attr wanted{1};
  EXPECT_EQ(ibv_alloc_td(context_, &wanted), nullptr);
  EXPECT_EQ(errno, EINVAL);
  wanted.comp_mask = 0;
  ibv_td* td = ibv_alloc_td(context_, &wanted);
  ASSERT_NE(td, nullptr);
  ibv_pd* parent = make_parent(td);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
  ibv_parent_domain_init_attr attr{};
  EXPECT_EQ(ibv_alloc_parent_domain(context_, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

// ---- Imports ----

TEST_F(Domain, ImportedContextSharesObjectsAndItsEvents) {
  char memory[64] = {};
  ibv_mr* mr = reg(memory, sizeof(memory));
  ibv_alloc_dm_attr dm_attr{64, 0, 0};
  ibv_dm* dm = ibv_alloc_dm(context_, &dm_attr);
  ibv_context* imported = ibv_import_device(dup(context_->cmd_fd));
  ASSERT_NE(imported, nullptr);
  ibv_pd* pd = ibv_import_pd(imported, pd_->handle);
  ASSERT_NE(pd, nullptr);
  ibv_mr* same = ibv_import_mr(pd, mr->handle);
  ASSERT_NE(same, nullptr);
  EXPECT_EQ(same->rkey, mr->rkey);
  EXPECT_EQ(same->length, mr->length);
  ibv_dm* same_dm = ibv_import_dm(imported, dm->handle);
  ASSERT_NE(same_dm, nullptr);
  char back[4] = {};
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 0, "xyz", 4), 0);
  EXPECT_EQ(ibv_memcpy_from_dm(back, same_dm, 0, 4), 0);
  EXPECT_STREQ(back, "xyz");
  EXPECT_EQ(ibv_import_pd(imported, 12345), nullptr);
  EXPECT_EQ(errno, ENOENT);

  ibv_cq* cq = ibv_create_cq(imported, 16, nullptr, nullptr, 0);
  ibv_qp_init_attr attr = init_attr(cq);
  ibv_qp* qp = ibv_create_qp(pd, &attr);
  ASSERT_NE(qp, nullptr);
  ASSERT_TRUE(fake_engine_raise_qp(MPRDMA_ABI_EVENT_COMM_EST, qp->qp_num));
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(imported, &event), 0);
  EXPECT_EQ(event.element.qp, qp);
  ibv_ack_async_event(&event);
  ibv_unimport_mr(same);
  ibv_unimport_dm(same_dm);
  ibv_unimport_pd(pd);
  EXPECT_EQ(ibv_destroy_qp(qp), 0) << "an object may outlive the import that it was made on";
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  EXPECT_EQ(ibv_close_device(imported), 0);
}

TEST_F(Domain, RegionOfDeviceMemoryOutlivesTheImportThatItWasMadeOn) {
  ibv_alloc_dm_attr dm_attr{64, 0, 0};
  ibv_dm* dm = ibv_alloc_dm(context_, &dm_attr);
  ibv_context* imported = ibv_import_device(dup(context_->cmd_fd));
  ASSERT_NE(imported, nullptr);
  ibv_pd* pd = ibv_import_pd(imported, pd_->handle);
  ibv_dm* same = ibv_import_dm(imported, dm->handle);
  ibv_mr* mr = ibv_reg_dm_mr(pd, same, 0, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
  ASSERT_NE(mr, nullptr);
  ibv_unimport_dm(same);
  EXPECT_EQ(ibv_free_dm(dm), EBUSY) << "its memory is registered";
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  ibv_unimport_pd(pd);
  EXPECT_EQ(ibv_close_device(imported), 0);
}

TEST_F(Domain, ClosedContextTakesItsLeftoversAlong) {
  const uint32_t before = fake_engine_objects();
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_context* other = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  ibv_pd* pd = ibv_alloc_pd(other);
  ibv_cq* cq = ibv_create_cq(other, 16, nullptr, nullptr, 0);
  ibv_qp_init_attr attr = init_attr(cq);
  // The handles are the application's, which may look at them still: closing frees none, and the
  // leak sanitizer has to see who holds them.
  static ibv_qp* in_a_group = nullptr;
  static ibv_qp* held = nullptr;
  held = ibv_create_qp(pd, &attr);
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(fake_engine_objects(), before + 3) << "and no connection more";
  attr.qp_type = IBV_QPT_UD;
  in_a_group = ibv_create_qp(pd, &attr);
  ibv_gid group{};
  group.raw[0] = 0xff;
  ASSERT_EQ(ibv_attach_mcast(in_a_group, &group, 0), 0);
  EXPECT_EQ(ibv_close_device(other), 0);
  EXPECT_EQ(fake_engine_objects(), before);
}

// ---- Clocks, moderation, ECE ----

TEST_F(Domain, CompletionsAreStampedWithTheClockThatCanBeAsked) {
  ibv_cq_init_attr_ex cq_attr{};
  cq_attr.cqe = 16;
  cq_attr.wc_flags =
      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  ibv_cq_ex* cq = ibv_create_cq_ex(context_, &cq_attr);
  ASSERT_NE(cq, nullptr);
  cqs_.push_back(ibv_cq_ex_to_cq(cq));
  ibv_qp* qp = make_qp(ibv_cq_ex_to_cq(cq));
  char memory[64] = {};
  ibv_mr* mr = reg(memory, sizeof(memory));
  establish_loop(qp);
  ibv_values_ex before{};
  ibv_values_ex after{};
  before.comp_mask = after.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  timespec wall_before{};
  timespec wall_after{};
  ASSERT_EQ(ibv_query_rt_values_ex(context_, &before), 0);
  clock_gettime(CLOCK_REALTIME, &wall_before);
  ASSERT_EQ(post_send(qp, 1, IBV_WR_RDMA_WRITE, mr, 8, mr), 0);
  clock_gettime(CLOCK_REALTIME, &wall_after);
  ASSERT_EQ(ibv_query_rt_values_ex(context_, &after), 0);
  ibv_poll_cq_attr poll{};
  ASSERT_EQ(ibv_start_poll(cq, &poll), 0);
  const auto stamp = static_cast<int64_t>(ibv_wc_read_completion_ts(cq));
  const auto wall = static_cast<int64_t>(ibv_wc_read_completion_wallclock_ns(cq));
  ibv_end_poll(cq);
  EXPECT_GE(stamp, before.raw_clock.tv_nsec);
  EXPECT_LE(stamp, after.raw_clock.tv_nsec);
  // The time of day may be set meanwhile, so the test checks only that it is about right.
  EXPECT_GE(wall, (wall_before.tv_sec - 10) * 1000000000);
  EXPECT_LE(wall, (wall_after.tv_sec + 10) * 1000000000);
  before.comp_mask = 2;
  EXPECT_EQ(ibv_query_rt_values_ex(context_, &before), EINVAL);
}

TEST_F(Domain, ModerationIsHandedOn) {
  ibv_modify_cq_attr attr{};
  attr.attr_mask = IBV_CQ_ATTR_MODERATE;
  attr.moderate = {16, 100};
  ASSERT_EQ(ibv_modify_cq(cq_, &attr), 0);
  EXPECT_EQ(fake_engine_moderation().count, 16u);
  EXPECT_EQ(fake_engine_moderation().period_us, 100u);
  attr.attr_mask = 2;
  EXPECT_EQ(ibv_modify_cq(cq_, &attr), EINVAL);
}

TEST_F(Domain, OptionsOfAnotherVendorAreNotOurs) {
  ibv_qp* qp = make(IBV_QPT_RC);
  ibv_ece ece{};
  ASSERT_EQ(ibv_query_ece(qp, &ece), 0);
  EXPECT_NE(ece.options, 0u);
  EXPECT_EQ(ibv_set_ece(qp, &ece), 0);
  const uint32_t options = ece.options;
  ece.options = UINT32_MAX;
  ASSERT_EQ(ibv_set_ece(qp, &ece), 0);
  ASSERT_EQ(ibv_query_ece(qp, &ece), 0);
  EXPECT_EQ(ece.options, options) << "never more than both have";
  ece.vendor_id = 0x15b3;
  EXPECT_EQ(ibv_set_ece(qp, &ece), EINVAL);
}

TEST_F(Domain, DeviceSaysWhatItCan) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &attr), 0);
  const unsigned flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_XRC |
                         IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_SRQ_RESIZE;
  EXPECT_EQ(attr.orig_attr.device_cap_flags & flags, flags);
  EXPECT_EQ(attr.orig_attr.atomic_cap, IBV_ATOMIC_HCA);
  EXPECT_EQ(attr.hca_core_clock, 1000000u);
  EXPECT_EQ(attr.odp_caps.general_caps,
            static_cast<uint64_t>(IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT));
  EXPECT_EQ(attr.max_dm_size % 32, 0u);
  EXPECT_EQ(attr.tso_caps.max_tso, 0u);
  EXPECT_EQ(attr.raw_packet_caps, 0u);
}

}  // namespace
}  // namespace mprdma::provider_test
