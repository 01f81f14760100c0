// Regions and windows by command: what they open, what keeps them, that keys stay or go.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "dataplane/sys/check_memory.hpp"
#include "tests/unit/dataplane/engine/engine_host.hpp"

namespace mprdma::dataplane {
namespace {

using testing::Host;
using testing::HostMr;
using testing::MemoryWire;
using transport::BindError;

constexpr uint32_t kWrite = MPRDMA_ABI_ACCESS_LOCAL_WRITE;

class MemoryCommands : public ::testing::Test {
 protected:
  int rereg(uint32_t handle, uint32_t what, const mprdma_abi_reg_mr& mr,
            mprdma_abi_reg_mr_out* out) {
    return host_.execute(MPRDMA_ABI_REREG_MR, mprdma_abi_rereg_mr{handle, what, mr}, out);
  }
  int dereg(uint32_t handle) {
    return host_.execute(MPRDMA_ABI_DEREG_MR, mprdma_abi_handle{handle, 0});
  }
  int dealloc(uint32_t handle) {
    return host_.execute(MPRDMA_ABI_DEALLOC_MW, mprdma_abi_handle{handle, 0});
  }
  mprdma_abi_mw_out make_mw(uint32_t type) {
    mprdma_abi_mw_out out{};
    EXPECT_EQ(host_.execute(MPRDMA_ABI_ALLOC_MW, mprdma_abi_alloc_mw{host_.pd, type}, &out), 0);
    return out;
  }
  // Binds a window as a send request does.
  BindError bind(const mprdma_abi_mw_out& mw, uint32_t new_key, const HostMr& mr) {
    transport::WindowBind request;
    request.pd = host_.pd;
    request.qpn = Qpn(77);
    request.window = Key(mw.rkey);
    request.new_key = Key(new_key);
    request.region = Key(mr.key);
    request.access = transport::kRemoteWrite;
    request.addr = mr.addr() + 16;
    request.length = 32;
    return host_.worker->mrs().memory().bind(request);
  }
  bool opens(uint32_t key, uint64_t iova, uint32_t access, uint32_t pd, Qpn qpn = Qpn(77)) {
    uint64_t addr = 0;
    return host_.worker->mrs().memory().translate_remote(Key(key), pd, qpn, iova, 8, access, &addr);
  }

  Host host_{std::make_shared<MemoryWire>(), 0};
};

TEST_F(MemoryCommands, RegionRegisteredAnewKeepsItsKeysAndChangesWhatIsNamed) {
  const auto mr = host_.make_mr(4096, kWrite);
  const uint32_t other = host_.out_handle(MPRDMA_ABI_ALLOC_PD);
  std::vector<unsigned char> memory(4096);
  const auto moved = reinterpret_cast<uint64_t>(memory.data());
  mprdma_abi_reg_mr_out out{};

  ASSERT_EQ(rereg(mr->handle, MPRDMA_ABI_REREG_ACCESS,
                  {0, 0, 0, 0, kWrite | MPRDMA_ABI_ACCESS_REMOTE_WRITE, 0, 0}, &out),
            0);
  EXPECT_EQ(out.handle, mr->handle);
  EXPECT_EQ(out.lkey, mr->key);
  EXPECT_EQ(out.rkey, mr->key);
  EXPECT_TRUE(opens(mr->key, mr->addr(), transport::kRemoteWrite, host_.pd));

  ASSERT_EQ(rereg(mr->handle, MPRDMA_ABI_REREG_TRANSLATION, {moved, 64, 0x5000, 0, 0, 0, 0}, &out),
            0);
  EXPECT_FALSE(opens(mr->key, mr->addr(), transport::kRemoteWrite, host_.pd));
  EXPECT_TRUE(opens(mr->key, 0x5000, transport::kRemoteWrite, host_.pd));
  EXPECT_FALSE(opens(mr->key, 0x5000 + 57, transport::kRemoteWrite, host_.pd));

  ASSERT_EQ(rereg(mr->handle, MPRDMA_ABI_REREG_PD, {0, 0, 0, other, 0, 0, 0}, &out), 0);
  EXPECT_FALSE(opens(mr->key, 0x5000, transport::kRemoteWrite, host_.pd));
  EXPECT_TRUE(opens(mr->key, 0x5000, transport::kRemoteWrite, other));
  EXPECT_EQ(host_.execute(MPRDMA_ABI_FREE_PD, mprdma_abi_handle{host_.pd, 0}), 0)
      << "the domain that it left";
  EXPECT_EQ(host_.execute(MPRDMA_ABI_FREE_PD, mprdma_abi_handle{other, 0}), EBUSY);

  ASSERT_EQ(rereg(mr->handle, MPRDMA_ABI_REREG_TRANSLATION | MPRDMA_ABI_REREG_ACCESS,
                  {mr->addr(), 100, mr->addr(), 0, MPRDMA_ABI_ACCESS_REMOTE_READ, 0, 0}, &out),
            0);
  EXPECT_FALSE(opens(mr->key, mr->addr(), transport::kRemoteWrite, other));
  EXPECT_TRUE(opens(mr->key, mr->addr(), transport::kRemoteRead, other));
  EXPECT_EQ(dereg(mr->handle), 0);
  EXPECT_EQ(host_.execute(MPRDMA_ABI_FREE_PD, mprdma_abi_handle{other, 0}), 0);
}

TEST_F(MemoryCommands, RegistrationThatIsRefusedLeavesTheRegionAsItWas) {
  const auto mr = host_.make_mr(4096, MPRDMA_ABI_ACCESS_REMOTE_READ);
  mprdma_abi_reg_mr_out out{};
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* mapped = mmap(nullptr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const auto read_only = reinterpret_cast<uint64_t>(mapped);
  const uint32_t translation = MPRDMA_ABI_REREG_TRANSLATION;
  EXPECT_EQ(rereg(mr->handle, 0, {}, &out), EINVAL);
  EXPECT_EQ(rereg(mr->handle, 8, {}, &out), EINVAL);
  EXPECT_EQ(rereg(mr->handle + 1, MPRDMA_ABI_REREG_PD, {0, 0, 0, host_.pd, 0, 0, 0}, &out), EINVAL);
  EXPECT_EQ(rereg(mr->handle, MPRDMA_ABI_REREG_PD, {0, 0, 0, 999, 0, 0, 0}, &out), EINVAL);
  EXPECT_EQ(rereg(mr->handle, MPRDMA_ABI_REREG_ACCESS,
                  {0, 0, 0, 0, MPRDMA_ABI_ACCESS_REMOTE_WRITE, 0, 0}, &out),
            EINVAL);
  EXPECT_EQ(rereg(mr->handle, translation, {UINT64_MAX, 2, 0, 0, 0, 0, 0}, &out), EINVAL);
  EXPECT_EQ(rereg(mr->handle, translation | MPRDMA_ABI_REREG_ACCESS,
                  {read_only, page, 0, 0, kWrite, 0, 0}, &out),
            EFAULT);
  EXPECT_TRUE(opens(mr->key, mr->addr(), transport::kRemoteRead, host_.pd));
  EXPECT_EQ(rereg(mr->handle, translation, {read_only, page, 0, 0, 0, 0, 0}, &out), 0);
  EXPECT_EQ(rereg(mr->handle, MPRDMA_ABI_REREG_ACCESS, {0, 0, 0, 0, kWrite, 0, 0}, &out), EFAULT)
      << "it lies in memory that cannot be written";
  munmap(mapped, page);
}

TEST_F(MemoryCommands, WindowOpensWhatItIsBoundToAndKeepsTheRegion) {
  const auto mr = host_.make_mr(4096, kWrite | MPRDMA_ABI_ACCESS_MW_BIND);
  const mprdma_abi_mw_out mw = make_mw(MPRDMA_ABI_MW_TYPE_2);
  EXPECT_FALSE(opens(mw.rkey, mr->addr() + 16, transport::kRemoteWrite, host_.pd));
  const uint32_t key = (mw.rkey & ~0xffu) | ((mw.rkey + 1) & 0xff);
  ASSERT_EQ(bind(mw, key, *mr), BindError::kNone);
  EXPECT_TRUE(opens(key, mr->addr() + 16, transport::kRemoteWrite, host_.pd));
  mprdma_abi_reg_mr_out out{};
  EXPECT_EQ(dereg(mr->handle), EBUSY);
  EXPECT_EQ(rereg(mr->handle, MPRDMA_ABI_REREG_ACCESS, {}, &out), EBUSY);
  EXPECT_EQ(host_.execute(MPRDMA_ABI_FREE_PD, mprdma_abi_handle{host_.pd, 0}), EBUSY);
  EXPECT_EQ(dealloc(mw.handle), 0) << "also after its key changed";
  EXPECT_EQ(dealloc(mw.handle), EINVAL);
  EXPECT_FALSE(opens(key, mr->addr() + 16, transport::kRemoteWrite, host_.pd));
  EXPECT_EQ(dereg(mr->handle), 0);
  EXPECT_EQ(host_.worker->mrs().in_use(), 0u);
}

TEST_F(MemoryCommands, WindowsOfAQueuePairEndWithIt) {
  const auto cq = host_.make_cq();
  const auto qp = host_.make_qp(*cq);
  const auto mr = host_.make_mr(4096, kWrite | MPRDMA_ABI_ACCESS_MW_BIND);
  const mprdma_abi_mw_out mw = make_mw(MPRDMA_ABI_MW_TYPE_2);
  transport::WindowBind request;
  request.pd = host_.pd;
  request.qpn = Qpn(qp->qpn);
  request.window = request.new_key = Key(mw.rkey);
  request.region = Key(mr->key);
  request.access = transport::kRemoteWrite;
  request.addr = mr->addr();
  request.length = 8;
  ASSERT_EQ(host_.worker->mrs().memory().bind(request), BindError::kNone);
  EXPECT_EQ(dereg(mr->handle), EBUSY);
  EXPECT_EQ(host_.execute(MPRDMA_ABI_DESTROY_QP, mprdma_abi_handle{qp->handle, 0}), 0);
  EXPECT_EQ(dereg(mr->handle), 0);
}

TEST_F(MemoryCommands, WindowHandlesAndTypesAreChecked) {
  const auto mr = host_.make_mr(4096);
  mprdma_abi_mw_out out{};
  EXPECT_EQ(host_.execute(MPRDMA_ABI_ALLOC_MW, mprdma_abi_alloc_mw{host_.pd, 3}, &out), EINVAL);
  EXPECT_EQ(host_.execute(MPRDMA_ABI_ALLOC_MW, mprdma_abi_alloc_mw{999, 1}, &out), EINVAL);
  EXPECT_EQ(dealloc(mr->key >> 8), EINVAL) << "a region is no window";
  const mprdma_abi_mw_out mw = make_mw(MPRDMA_ABI_MW_TYPE_1);
  EXPECT_EQ(dereg(mw.rkey), EINVAL) << "nor a window a region";
}

TEST_F(MemoryCommands, NullRegionReadsZerosAndForgetsWrites) {
  const mprdma_abi_reg_mr in{0, 0, 0, host_.pd, kWrite, MPRDMA_ABI_MR_NULL, 0};
  mprdma_abi_reg_mr_out out{};
  ASSERT_EQ(host_.execute(MPRDMA_ABI_REG_MR, in, &out), 0);
  const transport::MemoryTable& memory = host_.worker->mrs().memory();
  uint64_t addr = 0;
  ASSERT_TRUE(
      memory.translate(Key(out.lkey), host_.pd, 0x123456789, 100, transport::kLocalWrite, &addr));
  std::memset(reinterpret_cast<void*>(addr), 0xff, 100);
  ASSERT_TRUE(memory.translate(Key(out.lkey), host_.pd, 0x123456789, 100, 0, &addr));
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(reinterpret_cast<unsigned char*>(addr)[i], 0);
  mprdma_abi_reg_mr_out again{};
  EXPECT_EQ(rereg(out.handle, MPRDMA_ABI_REREG_ACCESS, {}, &again), EINVAL);
  EXPECT_EQ(dereg(out.handle), 0);
}

// An access to this page would raise SIGBUS.
TEST_F(MemoryCommands, AMappingBeyondTheEndOfItsFileIsNoMemory) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const int file = memfd_create("shorter", 0);
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(page)), 0);
  void* mapped = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const auto base = reinterpret_cast<uint64_t>(mapped);
  constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ
  const bool old_kernel = madvise(mapped, page, kPopulateRead) != 0;
  for (const bool writes : {false, true}) {
    EXPECT_EQ(probe_memory(base, page, writes), 0);
    EXPECT_EQ(probe_memory(base, 2 * page, writes), old_kernel ? 0 : EFAULT);
  }
  munmap(mapped, 2 * page);
  EXPECT_EQ(probe_memory(base, page, false), EFAULT);
  close(file);
}

TEST_F(MemoryCommands, MemoryOnDemandIsNotLookedAtWhenItIsRegistered) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* mapped = mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const auto base = reinterpret_cast<uint64_t>(mapped);
  mprdma_abi_reg_mr_out out{};
  mprdma_abi_reg_mr in{base, page, base, host_.pd, kWrite, 0, 0};
  EXPECT_EQ(host_.execute(MPRDMA_ABI_REG_MR, in, &out), EFAULT);
  in.flags = MPRDMA_ABI_MR_ON_DEMAND;
  ASSERT_EQ(host_.execute(MPRDMA_ABI_REG_MR, in, &out), 0);
  EXPECT_TRUE(host_.worker->mrs().is_on_demand(base + 8, 8));
  EXPECT_EQ(dereg(out.handle), 0);
  EXPECT_FALSE(host_.worker->mrs().is_on_demand(base + 8, 8));
  in = {0, UINT64_MAX, 0, host_.pd, kWrite, MPRDMA_ABI_MR_ON_DEMAND, 0};
  ASSERT_EQ(host_.execute(MPRDMA_ABI_REG_MR, in, &out), 0) << "all memory of the process";
  uint64_t addr = 0;
  const auto opens = [&] {
    return host_.worker->mrs().memory().translate(Key(out.lkey), host_.pd, base, 8, kWrite, &addr);
  };
  EXPECT_FALSE(opens()) << "it is looked at when it is used";
  ASSERT_EQ(mprotect(mapped, page, PROT_READ | PROT_WRITE), 0);
  EXPECT_TRUE(opens());
  EXPECT_EQ(addr, base);
  EXPECT_EQ(dereg(out.handle), 0);
  munmap(mapped, page);
}

}  // namespace
}  // namespace mprdma::dataplane
