// Which memory a key opens: the memory regions and memory windows of a process, as the transport
// looks them up for every packet (IBTA 10.6). A flat array indexed by the key's upper 24 bits; the
// low 8 bits must match the entry's key byte, so that a stale key matches nothing.
//
// A bound window looks like a region of its own: its range lies inside the region that it is bound
// to, and the host keeps that region while the window is bound (EBUSY). A window has an rkey only.
//   type 1   bound within its protection domain, every queue pair of the domain may use it; binding
//            it again moves it, and a range of length 0 unbinds it; each bind changes the key
//   type 2   type 2B of the standard (IBTA 10.6.7.2.4): only the queue pair that bound it may use
//            it, in its protection domain; it has to be invalid before it is bound again
// The null region has an lkey only: reads give zeros, writes go nowhere, at any address.
//
// The host adds and removes entries under the worker's lock, send requests bind and invalidate
// windows; lookups are const, bounded and free of pointers into the application's memory: an
// address is only translated, never touched. Memory that is registered on demand may be absent
// although a key opens it: present() asks the host before each access.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/check.hpp"
#include "base/key.hpp"
#include "base/qpn.hpp"
#include "wire/constants.hpp"

namespace mprdma::transport {

// Access rights, with the values of the queue ABI.
inline constexpr uint32_t kLocalWrite = 1u << 0;
inline constexpr uint32_t kRemoteWrite = 1u << 1;
inline constexpr uint32_t kRemoteRead = 1u << 2;
inline constexpr uint32_t kRemoteAtomic = 1u << 3;
inline constexpr uint32_t kMwBind = 1u << 4;
inline constexpr uint32_t kZeroBased = 1u << 5;         // window: addresses count from its start
inline constexpr uint32_t kRelaxedOrdering = 1u << 20;  // data may be placed as it arrives

enum class MemoryKind : uint8_t { kRegion, kNull, kWindow1, kWindow2 };

struct MemoryRegion {
  uint64_t iova = 0;    // start address in requests
  uint64_t addr = 0;    // start address in the host's memory
  uint64_t length = 0;  // bytes
  uint32_t pd = 0;
  uint32_t access = 0;  // window: rights of its bind request
  Key key{};            // 0: free entry
  MemoryKind kind = MemoryKind::kRegion;
  // Bookkeeping of the table: 0 when an entry is set.
  uint32_t parent = 0;   // window: slot of the region that it is bound to; 0: not bound
  Qpn qpn{};             // window of type 2: queue pair that bound it
  uint32_t windows = 0;  // region: windows that are bound to it
  // Bound window of type 2: slots of its neighbours in its queue pair's list; 0: the end.
  uint32_t list_next = 0;
  uint32_t list_previous = 0;

  [[nodiscard]] bool is_window() const { return kind >= MemoryKind::kWindow1; }
};

// A bind request of a queue pair (IBTA 10.6.7.2; 11.4.1.1).
struct WindowBind {
  uint32_t pd = 0;  // of the queue pair
  Qpn qpn{};
  Key window{};  // a key of the window; only its upper 24 bits count
  // New key of the window. Type 1: its slot must be the window's. Type 2: only the low 8 bits
  // count, which the consumer chooses (IBTA 10.6.7.2.4); the upper 24 stay.
  Key new_key{};
  Key region{};         // lkey
  uint32_t access = 0;  // kRemote*, kZeroBased; other bits are ignored
  uint64_t addr = 0;    // in the region's iova space
  uint64_t length = 0;
};

enum class BindError : uint8_t {
  kNone,
  kNoWindow,     // no window of this protection domain
  kWrongKey,     // type 1: the new key is not the window's, or the same as before
  kStillBound,   // type 2: it has to be invalidated first
  kZeroLength,   // type 2: binding does not unbind
  kNoRegion,     // no region of this protection domain
  kNotBindable,  // the region is not registered for binding
  kRights,       // remote writes and atomics need the region's local write; type 1 zero-based
  kBounds,       // not all of the range lies in the region
};

class MemoryTable {
 public:
  // Largest range of a null region that one translation may ask for, bytes: a segment, or a
  // datagram of the largest MTU behind its GRH.
  static constexpr uint64_t kNullBytesMax = wire::kMaxSegment + 64;

  explicit MemoryTable(uint32_t capacity)
      : capacity_(capacity),
        entries_(std::make_unique<MemoryRegion[]>(capacity)),
        null_pages_(std::make_unique<NullPages>()) {}

  [[nodiscard]] uint32_t capacity() const { return capacity_; }

  // Slot 0 is never used, so that key 0 opens nothing.
  static constexpr uint32_t slot_of(Key key) { return key.value() >> 8; }
  static constexpr Key make_key(uint32_t slot, uint8_t key_byte) {
    return Key(slot << 8 | key_byte);
  }

  // ---- Calls of the host
  // Enters a region, a null region (range and access mean nothing), or a window, which opens
  // nothing yet.
  void set(const MemoryRegion& region);
  // Frees the slot of `key`; a window is unbound. Requires that a region has no bound windows.
  void remove(Key key);
  // Windows that are bound to the region of `key`; while there is one, the region must neither go
  // nor change.
  [[nodiscard]] uint32_t windows_of(Key key) const;
  // Unbinds the windows of a region whose owner is gone. Walks over the whole table.
  void unbind_windows_of(Key key);
  // The current key of a slot; 0: free. A window's key changes with each bind.
  [[nodiscard]] Key key_at(uint32_t slot) const {
    return slot < capacity_ ? entries_[slot].key : Key(0);
  }
  // Tells whether the host's memory [addr, addr + bytes) is present, to be read or written.
  using Presence = bool (*)(void* host, uint64_t addr, uint64_t bytes, bool writes);
  void set_presence(Presence presence, void* host) { presence_ = presence, host_ = host; }
  // `ask`: some memory is registered on demand; without any, present() skips the host.
  void ask_presence(bool ask) { asks_presence_ = ask; }
  // Unbinds the windows of type 2 of a queue pair that is gone.
  void forget_queue_pair(Qpn qpn);

  // Number of regions and bound windows that allow placement on arrival; at 0 all placement is in
  // order.
  [[nodiscard]] uint32_t relaxed_regions() const { return relaxed_regions_; }

  // ---- Calls of send requests
  BindError bind(const WindowBind& request);
  // LOCAL_INV of queue pair `qpn`, or a SEND with invalidate that reached it. False: `key` names no
  // window of type 2 that it may use (registered regions cannot be invalidated; IBTA 10.6.5). A
  // window that is invalid already stays invalid, which is no error.
  [[nodiscard]] bool invalidate(Key key, uint32_t pd, Qpn qpn);

  // ---- Lookups
  // The entry of `key` in this protection domain, or nullptr.
  [[nodiscard]] const MemoryRegion* find(Key key, uint32_t pd) const {
    const uint32_t slot = slot_of(key);
    if (slot == 0 || slot >= capacity_) return nullptr;
    const MemoryRegion& region = entries_[slot];
    return region.key == key && region.pd == pd ? &region : nullptr;
  }

  // Local access: translates [iova, iova + length) if the lkey `key` opens the whole range for
  // every right in `access`, and the whole range is present; kRelaxedOrdering among the rights asks
  // for memory that was registered with it.
  [[nodiscard]] bool translate(Key key, uint32_t pd, uint64_t iova, uint64_t length,
                               uint32_t access, uint64_t* addr) const {
    const MemoryRegion* region = find(key, pd);
    if (region == nullptr) return false;
    if (region->kind != MemoryKind::kRegion) {
      return region->kind == MemoryKind::kNull && translate_null(length, access, addr);
    }
    return open(*region, iova, length, access, addr) &&
           present(*addr, length, (access & kLocalWrite) != 0);
  }

  // Asks the host whether memory that translate_remote() found is present. The caller asks just
  // before an access, and only for the part that it accesses, because asking touches each page.
  [[nodiscard]] bool present(uint64_t addr, uint64_t bytes, bool writes) const {
    return !asks_presence_ || presence_ == nullptr || presence_(host_, addr, bytes, writes);
  }

  // Remote access through queue pair `qpn`, by an rkey.
  // A length of zero needs no valid key (IBTA 9.7.4.1.3) and is for the caller to skip.
  [[nodiscard]] bool translate_remote(Key key, uint32_t pd, Qpn qpn, uint64_t iova, uint64_t length,
                                      uint32_t access, uint64_t* addr) const {
    const MemoryRegion* region = find(key, pd);
    if (region == nullptr) return false;
    if (region->kind != MemoryKind::kRegion) {
      if (region->parent == 0) return false;  // a null region, or a window that is not bound
      if (region->kind == MemoryKind::kWindow2 && region->qpn != qpn) return false;
    }
    return open(*region, iova, length, access, addr);
  }

 private:
  struct NullPages {
    alignas(8) std::array<uint8_t, kNullBytesMax> zeros{};
    alignas(8) std::array<uint8_t, kNullBytesMax> sink{};
  };

  [[nodiscard]] static bool open(const MemoryRegion& region, uint64_t iova, uint64_t length,
                                 uint32_t access, uint64_t* addr) {
    if ((region.access & access) != access) return false;
    if (iova < region.iova || length > region.length) return false;
    const uint64_t offset = iova - region.iova;
    if (offset > region.length - length) return false;
    *addr = region.addr + offset;
    return true;
  }
  bool translate_null(uint64_t length, uint32_t access, uint64_t* addr) const;
  void put(uint32_t slot, const MemoryRegion& region);
  void unbind(uint32_t slot, Key key);
  // Lists of the windows of type 2 by the queue pair that bound them, for forget_queue_pair().
  // Queue pairs share a list if their numbers agree in the low bits.
  static constexpr uint32_t kLists = 1024;
  void enlist(uint32_t slot);
  void delist(uint32_t slot);
  [[nodiscard]] BindError judge_window(const MemoryRegion& window, const WindowBind& request) const;
  [[nodiscard]] BindError judge_region(const WindowBind& request) const;

  uint32_t capacity_;
  uint32_t relaxed_regions_ = 0;
  std::array<uint32_t, kLists> lists_{};  // slot of the first window; 0: none
  Presence presence_ = nullptr;
  void* host_ = nullptr;
  bool asks_presence_ = false;
  std::unique_ptr<MemoryRegion[]> entries_;
  std::unique_ptr<NullPages> null_pages_;
};

}  // namespace mprdma::transport
