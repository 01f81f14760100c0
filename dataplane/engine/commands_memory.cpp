// Memory regions and memory windows.
#include <cerrno>

#include "dataplane/engine/command_io.hpp"
#include "dataplane/engine/commands.hpp"
#include "dataplane/sys/check_memory.hpp"

namespace mprdma::dataplane {

using transport::MemoryKind;
using transport::MemoryRegion;
using transport::MemoryTable;

static_assert(MPRDMA_ABI_ACCESS_LOCAL_WRITE == transport::kLocalWrite);
static_assert(MPRDMA_ABI_ACCESS_REMOTE_WRITE == transport::kRemoteWrite);
static_assert(MPRDMA_ABI_ACCESS_REMOTE_READ == transport::kRemoteRead);
static_assert(MPRDMA_ABI_ACCESS_REMOTE_ATOMIC == transport::kRemoteAtomic);
static_assert(MPRDMA_ABI_ACCESS_MW_BIND == transport::kMwBind);
static_assert(MPRDMA_ABI_ACCESS_ZERO_BASED == transport::kZeroBased);
static_assert(MPRDMA_ABI_ACCESS_RELAXED_ORDERING == transport::kRelaxedOrdering);

namespace {

constexpr uint32_t kRegionAccess = MPRDMA_ABI_ACCESS_LOCAL_WRITE | MPRDMA_ABI_ACCESS_REMOTE_WRITE |
                                   MPRDMA_ABI_ACCESS_REMOTE_READ | MPRDMA_ABI_ACCESS_REMOTE_ATOMIC |
                                   MPRDMA_ABI_ACCESS_MW_BIND | MPRDMA_ABI_ACCESS_RELAXED_ORDERING;
constexpr uint32_t kRemoteWrites = MPRDMA_ABI_ACCESS_REMOTE_WRITE | MPRDMA_ABI_ACCESS_REMOTE_ATOMIC;

bool writes(uint32_t access) {
  return (access & (MPRDMA_ABI_ACCESS_LOCAL_WRITE | kRemoteWrites)) != 0;
}

bool on_demand(uint32_t flags) {
  return (flags & MPRDMA_ABI_MR_ON_DEMAND) != 0;
}

// Remote write access requires local write access (IBTA 10.6.3.1).
bool good_access(uint32_t access) {
  return (access & ~kRegionAccess) == 0 &&
         ((access & kRemoteWrites) == 0 || (access & MPRDMA_ABI_ACCESS_LOCAL_WRITE) != 0);
}

bool good_range(const mprdma_abi_reg_mr& in) {
  const bool everything = on_demand(in.flags) && in.addr == 0 && in.iova == 0;
  uint64_t end = 0;
  return !__builtin_add_overflow(in.addr, in.length, &end) &&
         !__builtin_add_overflow(in.iova, in.length, &end) &&
         (in.length <= device_limits().max_mr_bytes || everything);
}

bool good_flags(uint32_t flags) {
  return flags == 0 || flags == MPRDMA_ABI_MR_NULL || flags == MPRDMA_ABI_MR_ON_DEMAND;
}

// A region's handle and both of its keys are one number.
mprdma_abi_reg_mr_out reg_mr_out(Key key) {
  return {key.value(), key.value(), key.value(), 0};
}

}  // namespace

int Commands::prepare(const Call& call) {
  if (call.command == MPRDMA_ABI_REG_MR) {
    mprdma_abi_reg_mr in;
    if (!read_input(call, &in)) return EINVAL;
    return in.flags == 0 ? probe_memory(in.addr, in.length, writes(in.access)) : 0;
  }
  if (call.command == MPRDMA_ABI_REREG_MR) {
    mprdma_abi_rereg_mr in;
    if (!read_input(call, &in)) return EINVAL;
    if ((in.what & MPRDMA_ABI_REREG_TRANSLATION) == 0 || in.mr.flags != 0) return 0;
    const bool known_to_write = (in.what & MPRDMA_ABI_REREG_ACCESS) != 0 && writes(in.mr.access);
    return probe_memory(in.mr.addr, in.mr.length, known_to_write);
  }
  return 0;
}

int Commands::reg_mr(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_reg_mr in;
  if (!read_input(call, &in) || call.out_bytes < sizeof(mprdma_abi_reg_mr_out)) return EINVAL;
  Pd* pd = find_pd(client, in.pd);
  if (pd == nullptr || !good_access(in.access) || !good_flags(in.flags)) return EINVAL;
  const bool null = in.flags == MPRDMA_ABI_MR_NULL;
  if (!null && !good_range(in)) return EINVAL;
  MemoryRegion region;
  region.iova = in.iova;
  region.addr = in.addr;
  region.length = in.length;
  region.pd = in.pd;
  region.access = in.access;
  region.kind = null ? MemoryKind::kNull : MemoryKind::kRegion;
  const Key key = worker_.mrs().add(region, on_demand(in.flags));
  if (key == Key(0)) return ENOMEM;
  mrs_[key.value()] = {client, in.pd, on_demand(in.flags)};
  ++pd->users;
  return write_output(call, reg_mr_out(key));
}

int Commands::rereg_mr(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_rereg_mr in;
  if (!read_input(call, &in) || call.out_bytes < sizeof(mprdma_abi_reg_mr_out)) return EINVAL;
  const auto it = mrs_.find(in.handle);
  if (it == mrs_.end() || it->second.client != client) return EINVAL;
  const bool moves = (in.what & MPRDMA_ABI_REREG_TRANSLATION) != 0;
  const bool changes_pd = (in.what & MPRDMA_ABI_REREG_PD) != 0;
  const bool changes_access = (in.what & MPRDMA_ABI_REREG_ACCESS) != 0;
  constexpr uint32_t kAll =
      MPRDMA_ABI_REREG_TRANSLATION | MPRDMA_ABI_REREG_PD | MPRDMA_ABI_REREG_ACCESS;
  if (in.what == 0 || (in.what & ~kAll) != 0) return EINVAL;
  MemoryRegion region = *worker_.mrs().find(Key(in.handle));
  if (region.kind != MemoryKind::kRegion || !good_flags(in.mr.flags)) return EINVAL;
  const bool later = moves ? on_demand(in.mr.flags) : it->second.on_demand;
  if (moves) {
    if (in.mr.flags == MPRDMA_ABI_MR_NULL || !good_range(in.mr)) return EINVAL;
    region.iova = in.mr.iova;
    region.addr = in.mr.addr;
    region.length = in.mr.length;
  }
  if (changes_access) region.access = in.mr.access;
  if (changes_pd) region.pd = in.mr.pd;
  Pd* pd = find_pd(client, region.pd);
  if (pd == nullptr || !good_access(region.access)) return EINVAL;
  if (region.windows > 0) return EBUSY;
  // What prepare() could not know: that the memory is written to, or where it is.
  const bool probed = moves == changes_access;
  if (!probed && !later && writes(region.access)) {
    const int error = probe_memory(region.addr, region.length, true);
    if (error != 0) return error;
  }
  if (moves || changes_pd) take_back(Key(in.handle));
  worker_.mrs().change(region, later);
  --pds_[it->second.pd].users;
  ++pd->users;
  it->second = {client, region.pd, later};
  return write_output(call, reg_mr_out(region.key));
}

// Called before a region is no longer what it was. What other regions have lent at these addresses
// comes back, too, and is sent again.
void Commands::take_back(Key key) {
  const MemoryRegion& region = *worker_.mrs().find(key);
  if (region.kind == MemoryKind::kRegion) worker_.take_back_memory(region.addr, region.length);
}

int Commands::dereg_mr(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_handle in;
  if (!read_input(call, &in)) return EINVAL;
  const auto it = mrs_.find(in.handle);
  if (it == mrs_.end() || it->second.client != client) return EINVAL;
  const Key key(in.handle);
  if (worker_.mrs().memory().windows_of(key) > 0) {
    if ((in.reserved & MPRDMA_ABI_DEREG_UNBINDS) == 0) return EBUSY;
    worker_.mrs().memory().unbind_windows_of(key);
  }
  take_back(key);
  worker_.mrs().remove(key);
  --pds_[it->second.pd].users;
  mrs_.erase(it);
  return 0;
}

int Commands::alloc_mw(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_alloc_mw in;
  if (!read_input(call, &in) || call.out_bytes < sizeof(mprdma_abi_mw_out)) return EINVAL;
  Pd* pd = find_pd(client, in.pd);
  const bool known = in.type == MPRDMA_ABI_MW_TYPE_1 || in.type == MPRDMA_ABI_MW_TYPE_2;
  if (pd == nullptr || !known) return EINVAL;
  MemoryRegion window;
  window.pd = in.pd;
  window.kind = in.type == MPRDMA_ABI_MW_TYPE_1 ? MemoryKind::kWindow1 : MemoryKind::kWindow2;
  const Key key = worker_.mrs().add(window);
  if (key == Key(0)) return ENOMEM;
  const uint32_t handle = MemoryTable::slot_of(key);
  mws_[handle] = {client, in.pd, false};
  ++pd->users;
  return write_output(call, mprdma_abi_mw_out{handle, key.value()});
}

int Commands::dealloc_mw(const mprdma_abi_client* client, const Call& call) {
  mprdma_abi_handle in;
  if (!read_input(call, &in)) return EINVAL;
  const auto it = mws_.find(in.handle);
  if (it == mws_.end() || it->second.client != client) return EINVAL;
  worker_.mrs().remove_window(in.handle);
  --pds_[it->second.pd].users;
  mws_.erase(it);
  return 0;
}

// Windows first, and of the regions' windows what is left: no region stays because of them.
void Commands::forget_memory(const mprdma_abi_client* client) {
  std::erase_if(mws_, [&](const auto& mw) {
    if (mw.second.client != client) return false;
    worker_.mrs().remove_window(mw.first);
    return true;
  });
  std::erase_if(mrs_, [&](const auto& mr) {
    if (mr.second.client != client) return false;
    worker_.mrs().memory().unbind_windows_of(Key(mr.first));
    worker_.mrs().remove(Key(mr.first));
    return true;
  });
}

}  // namespace mprdma::dataplane
