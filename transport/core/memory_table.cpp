#include "transport/core/memory_table.hpp"

namespace mprdma::transport {

namespace {

constexpr uint32_t kRemoteRights = kRemoteWrite | kRemoteRead | kRemoteAtomic;

}  // namespace

// ---- Calls of the host -------------------------------------------------------------------------

void MemoryTable::put(uint32_t slot, const MemoryRegion& region) {
  CHECK(slot > 0 && slot < capacity_);
  relaxed_regions_ -= (entries_[slot].access & kRelaxedOrdering) != 0 ? 1 : 0;
  relaxed_regions_ += (region.access & kRelaxedOrdering) != 0 ? 1 : 0;
  entries_[slot] = region;
}

void MemoryTable::set(const MemoryRegion& region) {
  const uint32_t slot = slot_of(region.key);
  CHECK(windows_of(region.key) == 0);
  MemoryRegion entry = region;
  entry.qpn = Qpn();
  entry.parent = entry.windows = entry.list_next = entry.list_previous = 0;
  if (entry.kind != MemoryKind::kRegion) entry.length = entry.access = 0;
  put(slot, entry);
}

void MemoryTable::remove(Key key) {
  const uint32_t slot = slot_of(key);
  CHECK(windows_of(key) == 0);
  unbind(slot, key);
  put(slot, MemoryRegion{});
}

uint32_t MemoryTable::windows_of(Key key) const {
  const uint32_t slot = slot_of(key);
  return slot < capacity_ ? entries_[slot].windows : 0;
}

void MemoryTable::forget_queue_pair(Qpn qpn) {
  for (uint32_t slot = lists_[qpn.value() % kLists]; slot != 0;) {
    const MemoryRegion& entry = entries_[slot];
    const uint32_t next = entry.list_next;
    if (entry.qpn == qpn) unbind(slot, entry.key);
    slot = next;
  }
}

void MemoryTable::unbind_windows_of(Key key) {
  const uint32_t region = slot_of(key);
  for (uint32_t slot = 1; slot < capacity_ && windows_of(key) > 0; ++slot) {
    if (entries_[slot].parent == region) unbind(slot, entries_[slot].key);
  }
}

void MemoryTable::enlist(uint32_t slot) {
  MemoryRegion& entry = entries_[slot];
  uint32_t& head = lists_[entry.qpn.value() % kLists];
  entry.list_previous = 0;
  entry.list_next = head;
  if (head != 0) entries_[head].list_previous = slot;
  head = slot;
}

void MemoryTable::delist(uint32_t slot) {
  MemoryRegion& entry = entries_[slot];
  uint32_t& from = entry.list_previous != 0 ? entries_[entry.list_previous].list_next
                                            : lists_[entry.qpn.value() % kLists];
  from = entry.list_next;
  if (entry.list_next != 0) entries_[entry.list_next].list_previous = entry.list_previous;
  entry.list_next = entry.list_previous = 0;
}

// ---- Calls of send requests --------------------------------------------------------------------

// From now on the window, if the slot is one, opens no memory; `key` is its key.
void MemoryTable::unbind(uint32_t slot, Key key) {
  if (!entries_[slot].is_window()) return;
  if (entries_[slot].parent != 0) {
    --entries_[entries_[slot].parent].windows;
    if (entries_[slot].kind == MemoryKind::kWindow2) delist(slot);
  }
  MemoryRegion entry = entries_[slot];
  entry.key = key;
  entry.qpn = Qpn();
  entry.parent = entry.access = 0;
  entry.iova = entry.addr = entry.length = 0;
  put(slot, entry);
}

BindError MemoryTable::judge_window(const MemoryRegion& window, const WindowBind& request) const {
  if (!window.is_window() || window.pd != request.pd) return BindError::kNoWindow;
  if (window.kind == MemoryKind::kWindow1) {
    if (slot_of(request.new_key) != slot_of(request.window)) return BindError::kWrongKey;
    // A peer that knows the old key must lose its access.
    if (request.new_key == window.key) return BindError::kWrongKey;
    return (request.access & kZeroBased) != 0 ? BindError::kRights : BindError::kNone;
  }
  if (window.parent != 0) return BindError::kStillBound;
  return request.length == 0 ? BindError::kZeroLength : BindError::kNone;
}

BindError MemoryTable::judge_region(const WindowBind& request) const {
  const MemoryRegion* region = find(request.region, request.pd);
  if (region == nullptr || region->kind != MemoryKind::kRegion) return BindError::kNoRegion;
  if ((region->access & kMwBind) == 0) return BindError::kNotBindable;
  // Remote writes need the region's local write (IBTA 10.6.3.1), as at registration.
  const bool remote_writes = (request.access & (kRemoteWrite | kRemoteAtomic)) != 0;
  if (remote_writes && (region->access & kLocalWrite) == 0) return BindError::kRights;
  uint64_t addr = 0;
  return open(*region, request.addr, request.length, 0, &addr) ? BindError::kNone
                                                               : BindError::kBounds;
}

BindError MemoryTable::bind(const WindowBind& request) {
  const uint32_t slot = slot_of(request.window);
  if (slot == 0 || slot >= capacity_) return BindError::kNoWindow;
  const BindError window_error = judge_window(entries_[slot], request);
  if (window_error != BindError::kNone) return window_error;
  if (request.length > 0) {
    const BindError region_error = judge_region(request);
    if (region_error != BindError::kNone) return region_error;
  }
  unbind(slot, make_key(slot, static_cast<uint8_t>(request.new_key.value())));
  if (request.length == 0) return BindError::kNone;
  const uint32_t parent = slot_of(request.region);
  MemoryRegion& region = entries_[parent];
  MemoryRegion window = entries_[slot];
  window.iova = (request.access & kZeroBased) != 0 ? 0 : request.addr;
  window.addr = region.addr + (request.addr - region.iova);
  window.length = request.length;
  window.access = (request.access & kRemoteRights) | (region.access & kRelaxedOrdering);
  window.parent = parent;
  if (window.kind == MemoryKind::kWindow2) window.qpn = request.qpn;
  ++region.windows;
  put(slot, window);
  if (window.kind == MemoryKind::kWindow2) enlist(slot);
  return BindError::kNone;
}

bool MemoryTable::invalidate(Key key, uint32_t pd, Qpn qpn) {
  const MemoryRegion* window = find(key, pd);
  if (window == nullptr || window->kind != MemoryKind::kWindow2) return false;
  if (window->parent == 0) return true;
  if (window->qpn != qpn) return false;
  unbind(slot_of(key), key);
  return true;
}

// ---- Lookups -----------------------------------------------------------------------------------

bool MemoryTable::translate_null(uint64_t length, uint32_t access, uint64_t* addr) const {
  if (length > kNullBytesMax) return false;
  const bool writes = (access & kLocalWrite) != 0;
  const uint8_t* page = writes ? null_pages_->sink.data() : null_pages_->zeros.data();
  *addr = reinterpret_cast<uintptr_t>(page);
  return true;
}

}  // namespace mprdma::transport
