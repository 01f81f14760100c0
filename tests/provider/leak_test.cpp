// Ten thousand cycles of every object leave nothing behind: no memory, mapping or descriptor, and
// nothing in the engine.
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>

#include <fstream>
#include <functional>
#include <string>

#include "tests/provider/full_fixture.hpp"

namespace mprdma::provider_test {
namespace {

constexpr int kCycles = 10000;

size_t descriptors() {
  DIR* directory = opendir("/proc/self/fd");
  size_t count = 0;
  while (directory != nullptr && readdir(directory) != nullptr) count++;
  closedir(directory);
  return count;
}

size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count++;
  return count;
}

class Leak : public Full {
 protected:
  void SetUp() override {
    Full::SetUp();
    xrcd_ = open_xrcd();
    ASSERT_NE(xrcd_, nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_close_xrcd(xrcd_), 0);
    Full::TearDown();
  }

  // The heap reaches its size in some cycles before the measurement.
  static void repeat(const std::function<bool()>& cycle) {
    for (int i = 0; i < kCycles / 10; i++) ASSERT_TRUE(cycle());
    const size_t heap = mallinfo2().uordblks;
    const size_t fds = descriptors();
    const size_t maps = mappings();
    const uint32_t objects = fake_engine_objects();
    for (int i = 0; i < kCycles; i++) ASSERT_TRUE(cycle());
    EXPECT_LT(mallinfo2().uordblks, heap + kCycles) << "less than a byte a cycle";
    EXPECT_EQ(descriptors(), fds);
    EXPECT_LE(mappings(), maps + 4);
    EXPECT_EQ(fake_engine_objects(), objects);
  }

  ibv_xrcd* open_xrcd() {
    ibv_xrcd_init_attr attr{};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = -1;
    attr.oflags = O_CREAT;
    return ibv_open_xrcd(context_, &attr);
  }
  ibv_xrcd* xrcd_ = nullptr;
  alignas(8) char memory_[64] = {};
};

TEST_F(Leak, DomainsAndRegions) {
  repeat([&] {
    ibv_td_init_attr td_attr{};
    ibv_td* td = ibv_alloc_td(context_, &td_attr);
    ibv_pd* pd = ibv_alloc_pd(context_);
    ibv_parent_domain_init_attr attr{};
    attr.pd = pd;
    attr.td = td;
    ibv_pd* parent = ibv_alloc_parent_domain(context_, &attr);
    ibv_mr* mr = ibv_reg_mr(parent, memory_, 64, kAllAccess);
    ibv_mw* mw = ibv_alloc_mw(parent, IBV_MW_TYPE_2);
    ibv_ah_attr where = address(1);
    ibv_ah* ah = ibv_create_ah(parent, &where);
    ibv_mr* null = ibv_alloc_null_mr(pd);
    return mr != nullptr && mw != nullptr && ah != nullptr && null != nullptr &&
           ibv_dereg_mr(null) == 0 && ibv_destroy_ah(ah) == 0 && ibv_dealloc_mw(mw) == 0 &&
           ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(parent) == 0 && ibv_dealloc_pd(pd) == 0 &&
           ibv_dealloc_td(td) == 0;
  });
}

TEST_F(Leak, DeviceMemoryAndDmaBufs) {
  const int fd = memfd_create("buffer", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 8192), 0);
  repeat([&] {
    ibv_alloc_dm_attr attr{4096, 0, 0};
    ibv_dm* dm = ibv_alloc_dm(context_, &attr);
    ibv_mr* mr = ibv_reg_dm_mr(pd_, dm, 0, 64, kAllAccess | IBV_ACCESS_ZERO_BASED);
    ibv_mr* buffer = ibv_reg_dmabuf_mr(pd_, 100, 4096, 0, fd, kAllAccess);
    return mr != nullptr && buffer != nullptr && ibv_dereg_mr(buffer) == 0 &&
           ibv_dereg_mr(mr) == 0 && ibv_free_dm(dm) == 0;
  });
  close(fd);
}

TEST_F(Leak, CompletionQueuesAndChannels) {
  repeat([&] {
    ibv_comp_channel* channel = ibv_create_comp_channel(context_);
    ibv_cq* cq = ibv_create_cq(context_, 4, nullptr, channel, 0);
    ibv_cq_init_attr_ex attr{};
    attr.cqe = 4;
    ibv_cq_ex* ex = ibv_create_cq_ex(context_, &attr);
    return cq != nullptr && ex != nullptr && ibv_resize_cq(cq, 8) == 0 && ibv_destroy_cq(cq) == 0 &&
           ibv_destroy_cq(ibv_cq_ex_to_cq(ex)) == 0 && ibv_destroy_comp_channel(channel) == 0;
  });
}

TEST_F(Leak, QueuePairsOfEveryType) {
  repeat([&] {
    bool good = true;
    for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND}) {
      ibv_qp_init_attr attr = init_attr(cq_);
      attr.qp_type = type;
      ibv_qp* qp = ibv_create_qp(pd_, &attr);
      good = good && qp != nullptr && ibv_destroy_qp(qp) == 0;
    }
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_XRC_RECV;
    attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attr.xrcd = xrcd_;
    ibv_qp* qp = ibv_create_qp_ex(context_, &attr);
    return good && qp != nullptr && ibv_destroy_qp(qp) == 0;
  });
}

TEST_F(Leak, SharedQueuesAndXrcDomains) {
  repeat([&] {
    ibv_srq_init_attr plain{};
    plain.attr = {4, 1, 0};
    ibv_srq* srq = ibv_create_srq(pd_, &plain);
    ibv_srq_attr more{8, 0, 0};
    bool good = srq != nullptr && ibv_modify_srq(srq, &more, IBV_SRQ_MAX_WR) == 0 &&
                ibv_destroy_srq(srq) == 0;
    ibv_xrcd* xrcd = open_xrcd();
    ibv_srq_init_attr_ex attr{};
    attr.attr = {4, 1, 0};
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    attr.srq_type = IBV_SRQT_XRC;
    attr.pd = pd_;
    attr.xrcd = xrcd;
    attr.cq = cq_;
    srq = ibv_create_srq_ex(context_, &attr);
    return good && srq != nullptr && ibv_destroy_srq(srq) == 0 && ibv_close_xrcd(xrcd) == 0;
  });
}

TEST_F(Leak, ContextsAndImports) {
  ibv_device** list = ibv_get_device_list(nullptr);
  repeat([this, list] {
    ibv_context* context = ibv_open_device(list[0]);
    if (context == nullptr) return false;
    ibv_context* imported = ibv_import_device(dup(context->cmd_fd));
    if (imported == nullptr) return false;
    ibv_cq* cq = ibv_create_cq(imported, 4, nullptr, nullptr, 0);
    ibv_pd* pd = ibv_import_pd(imported, pd_->handle);
    if (cq == nullptr || pd == nullptr) return false;
    ibv_unimport_pd(pd);
    return ibv_destroy_cq(cq) == 0 && ibv_close_device(imported) == 0 &&
           ibv_close_device(context) == 0;
  });
  ibv_free_device_list(list);
}

}  // namespace
}  // namespace mprdma::provider_test
