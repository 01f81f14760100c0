// Which memory a key opens: the memory regions and memory windows of a process, as the transport
// looks them up for every packet (IBTA 10.6). A flat array indexed by the key's upper 24 bits; the
// low 8 bits must match the entry's key byte, so that a key outlives what it named by nothing.
//
// A window that is bound looks like a region of its own: what it opens lies inside the region that
// it is bound to, and the host keeps that region for as long (EBUSY). A window has an rkey only.
//   type 1   bound within its protection domain, every queue pair of the domain may use it; binding
//            it again moves it, and a range of length 0 unbinds it; each bind changes the key
//   type 2   as 2B (IBTA 10.6.7.2.4): only the queue pair that bound it may use it, in its
//            protection domain; it has to be invalid before it is bound again
// The null region has an lkey only: reads give zeros, writes go nowhere, at any address.
//
// The host adds and removes entries under the worker's lock, send requests bind and invalidate
// windows; lookups are const, bounded and free of pointers into the application's memory: an
// address is only translated, never touched. Of memory that may not be there though a key opens it
// (registered on demand) the host is asked before each access: present().
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/check.hpp"

namespace mprdma::transport {

// As in the queue ABI.
inline constexpr uint32_t kLocalWrite = 1u << 0;
inline constexpr uint32_t kRemoteWrite = 1u << 1;
inline constexpr uint32_t kRemoteRead = 1u << 2;
inline constexpr uint32_t kRemoteAtomic = 1u << 3;
inline constexpr uint32_t kMwBind = 1u << 4;
inline constexpr uint32_t kZeroBased = 1u << 5;  // of a window: addresses count from its start
inline constexpr uint32_t kRelaxedOrdering = 1u << 20;  // data may be placed as it arrives

enum class MemoryKind : uint8_t { kRegion, kNull, kWindow1, kWindow2 };

struct MemoryRegion {
  uint64_t iova = 0;    // address by which requests name it
  uint64_t addr = 0;    // address in the host's memory
  uint64_t length = 0;  // bytes
  uint32_t pd = 0;
  uint32_t access = 0;  // of a window: what it was bound with
  uint32_t key = 0;     // 0: free entry
  MemoryKind kind = MemoryKind::kRegion;
  // The table's own: 0 when an entry is set.
  uint32_t parent = 0;   // window: slot of the region that it is bound to; 0: not bound
  uint32_t qpn = 0;      // window of type 2: who bound it
  uint32_t windows = 0;  // region: windows that are bound to it
  // Window of type 2 that is bound: slots of its neighbours in its queue pair's list; 0: the end.
  uint32_t list_next = 0;
  uint32_t list_previous = 0;

  [[nodiscard]] bool is_window() const { return kind >= MemoryKind::kWindow1; }
};

// A bind request of a queue pair (IBTA 10.6.7.2; 11.4.1.1).
struct WindowBind {
  uint32_t pd = 0;  // of the queue pair
  uint32_t qpn = 0;
  uint32_t window = 0;  // a key of the window; only its upper 24 bits count
  // The key that it gets. Type 1: of the same window. Type 2: only the low 8 bits count, which are
  // the consumer's (IBTA 10.6.7.2.4); the upper 24 are the window's own.
  uint32_t new_key = 0;
  uint32_t region = 0;  // lkey
  uint32_t access = 0;  // kRemote*, kZeroBased; more is ignored
  uint64_t addr = 0;    // as requests name the region's memory
  uint64_t length = 0;
};

enum class BindError : uint8_t {
  kNone,
  kNoWindow,     // no window of this protection domain
  kWrongKey,     // type 1: the new key is not the window's, or the same as before
  kStillBound,   // type 2: invalidate it before
  kZeroLength,   // type 2: binding does not unbind
  kNoRegion,     // no region of this protection domain
  kNotBindable,  // .. or not registered for binding
  kRights,       // remote writes and atomics need the region's local write; type 1 zero-based
  kBounds,       // not all of the range lies in the region
};

class MemoryTable {
 public:
  // The most that one translation of a null region's addresses may ask for: a datagram of the
  // largest MTU behind its GRH.
  static constexpr uint64_t kNullBytesMax = 4096 + 64;

  explicit MemoryTable(uint32_t capacity)
      : capacity_(capacity),
        entries_(std::make_unique<MemoryRegion[]>(capacity)),
        null_pages_(std::make_unique<NullPages>()) {}

  [[nodiscard]] uint32_t capacity() const { return capacity_; }

  // Slot 0 is never used, so that key 0 opens nothing.
  static constexpr uint32_t slot_of(uint32_t key) { return key >> 8; }
  static constexpr uint32_t make_key(uint32_t slot, uint8_t key_byte) {
    return slot << 8 | key_byte;
  }

  // ---- The host's
  // A region, a null region (range and access mean nothing), or a window, which opens nothing yet.
  void set(const MemoryRegion& region);
  // Ends whatever has the slot of `key`; a window is unbound. No region with bound windows.
  void remove(uint32_t key);
  // Windows bound to the region of `key`: for as long it must neither go nor change.
  [[nodiscard]] uint32_t windows_of(uint32_t key) const;
  // They open nothing any more. A walk over the table: for a region whose owner is gone.
  void unbind_windows_of(uint32_t key);
  // The key of whatever is in this slot now; 0: nothing. A window's changes with each bind.
  [[nodiscard]] uint32_t key_at(uint32_t slot) const {
    return slot < capacity_ ? entries_[slot].key : 0;
  }
  // Is the host's memory [addr, addr + bytes) there, to be read or written?
  using Presence = bool (*)(void* host, uint64_t addr, uint64_t bytes, bool writes);
  void set_presence(Presence presence, void* host) { presence_ = presence, host_ = host; }
  // Only then it is asked: somebody has registered memory on demand.
  void ask_presence(bool ask) { asks_presence_ = ask; }
  // The queue pair is gone: its windows of type 2 open nothing any more.
  void forget_queue_pair(uint32_t qpn);

  // Regions and bound windows that are open for placement on arrival; without any, all placement
  // is in order.
  [[nodiscard]] uint32_t relaxed_regions() const { return relaxed_regions_; }

  // ---- The send requests'
  BindError bind(const WindowBind& request);
  // LOCAL_INV of queue pair `qpn`, or a SEND with invalidate that reached it. False: `key` names no
  // window of type 2 that it may use (registered regions cannot be invalidated; IBTA 10.6.5). One
  // that is invalid already stays so.
  [[nodiscard]] bool invalidate(uint32_t key, uint32_t pd, uint32_t qpn);

  // ---- Lookups
  // The entry of `key` in this protection domain, or nullptr.
  [[nodiscard]] const MemoryRegion* find(uint32_t key, uint32_t pd) const {
    const uint32_t slot = slot_of(key);
    if (slot == 0 || slot >= capacity_) return nullptr;
    const MemoryRegion& region = entries_[slot];
    return region.key == key && region.pd == pd ? &region : nullptr;
  }

  // Local access: translates [iova, iova + length) if the lkey `key` opens all of it for every
  // right in `access`, and all of it is there; kRelaxedOrdering among the rights asks for memory
  // that was registered with it.
  [[nodiscard]] bool translate(uint32_t key, uint32_t pd, uint64_t iova, uint64_t length,
                               uint32_t access, uint64_t* addr) const {
    const MemoryRegion* region = find(key, pd);
    if (region == nullptr) return false;
    if (region->kind != MemoryKind::kRegion) {
      return region->kind == MemoryKind::kNull && translate_null(length, access, addr);
    }
    return open(*region, iova, length, access, addr) &&
           present(*addr, length, (access & kLocalWrite) != 0);
  }

  // What translate_remote() found is about to be accessed: of a message only the part that is, for
  // asking touches each page.
  [[nodiscard]] bool present(uint64_t addr, uint64_t bytes, bool writes) const {
    return !asks_presence_ || presence_ == nullptr || presence_(host_, addr, bytes, writes);
  }

  // Remote access through queue pair `qpn`, by an rkey.
  // A length of zero needs no valid key (IBTA 9.7.4.1.3) and is for the caller to skip.
  [[nodiscard]] bool translate_remote(uint32_t key, uint32_t pd, uint32_t qpn, uint64_t iova,
                                      uint64_t length, uint32_t access, uint64_t* addr) const {
    const MemoryRegion* region = find(key, pd);
    if (region == nullptr) return false;
    if (region->kind != MemoryKind::kRegion) {
      if (region->parent == 0) return false;  // null, or a window that is not bound
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
  void unbind(uint32_t slot, uint32_t key);
  // Windows of type 2 by the queue pair that bound them, so that it finds them when it goes: queue
  // pairs share a list if their numbers agree in the low bits.
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
