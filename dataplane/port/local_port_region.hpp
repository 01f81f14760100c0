// The memory of a LocalPort: what one process shows to the other, and how it looks at the other's.
//
// Each side owns one memfd and is its only writer: the other maps it read-only, and the seal
// against future writable mappings keeps it so. The seals are what protects the reader from SIGBUS:
// the file can neither be truncated nor get holes (fallocate(2), EPERM with the seal against
// writing), which would be filled with the reader's memory, or could not be filled. So a region
// without the seals is refused.
//
//   0                 RegionHeader: identity, geometry, the words that the owner publishes
//   4096              TX ring: descriptors (Descriptor) of the owner's frames
//   then              return ring: kEntriesMax slot numbers of the *peer's* frames, given back;
//                     used modulo the entries of the peer's TX ring
//   next page         frames: `slots` times `stride` bytes, then `large_slots` times `large_stride`
//
// The region of an engine has large frames, too, for the long packets that two engines may agree
// on; short packets stay in small ones, so that few lines of the cache are in use.
//
// A ring cannot overflow between honest processes: it has at least as many entries as there are
// slots, and a slot has at most one entry in it. Hence no side publishes what it has consumed.
// Everything that is read from a peer's region may be garbage and may change between two reads.
//
// A kernel before Linux 5.1 does not know the seal against writing, and asks for it in vain: there
// holes read as zeros, in pages that the kernel makes for the reader, if it has any left. On huge
// pages it may have none, so memory of another kind is refused. The file is as long as its geometry
// says, no longer: who unmaps it last frees it all.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "dataplane/port/port.hpp"
#include "wire/bare_packet.hpp"
#include "wire/constants.hpp"

namespace mprdma::dataplane::local {

inline constexpr uint64_t kRegionMagic = 0x4c6f63616c506f72;  // "LocalPor"
inline constexpr uint32_t kRegionVersion = 2;

// Identity::flags: the owner reads bare packets (wire/bare_packet.hpp), in frames of either kind.
inline constexpr uint32_t kReadsBare = 1 << 0;
// Identity::flags: the owner reads short bare packets in RegionHeader. (Bit 1 meant another way to
// do so, and stays unused.)
inline constexpr uint32_t kReadsBeside = 1 << 2;

inline constexpr uint32_t kSlotsMin = 256;
inline constexpr uint32_t kSlotsMax = 4096;
// Entries of a ring: cursors have 16 bits, so at most 2^15.
inline constexpr uint32_t kEntriesMax = 2 * kSlotsMax;
inline constexpr uint32_t kSlotsDefault = 1024;
// Headroom, 4096 bytes of payload, and room for pad, ICRC and whatever a header block spills.
inline constexpr uint32_t kStrideDefault = kFrameHeadroom + 4096 + 128;
inline constexpr uint32_t kStrideMin = kFrameHeadroom + 256;
inline constexpr uint32_t kStrideMax = 16384;
inline constexpr uint32_t kEthernetHeaderBytes = 14;
// Payload of a large frame, and how many of them an engine has for each of its small ones: so many
// bytes in flight that they stay in the cache of a core.
inline constexpr uint32_t kLargePayload = wire::kMaxSegment;
inline constexpr uint32_t kLargeStride = kFrameHeadroom + kLargePayload + 128;
inline constexpr uint32_t kLargeStrideMax = 61440;  // a descriptor's length has 16 bits
inline constexpr uint32_t kSlotsPerLarge = 8;
// A burst takes no more frames after so many bytes, so that a reader gives large frames back while
// the sender still fills others: 8 large ones, or kBurst of 4096 bytes.
inline constexpr uint64_t kBurstBytes = 128 << 10;

// So many frames that were given back wait for the next frame that leaves, or until the port is
// armed or served, if they are the last ones: few beside those that a sender has (kSlotsMin, or an
// eighth of that of large ones), so that it never waits for them. To tell it of each costs a line
// that both cores write and a full fence, for every message of a ping-pong.
inline constexpr uint32_t kReturnsKept = 15;

// Two cache lines: adjacent-line prefetch pairs them.
inline constexpr size_t kSharingBytes = 128;

// Describes a frame in flight in one word, so that it is read and written whole.
struct Descriptor {
  static constexpr uint32_t kFormShift = 14;
  // Of a packed descriptor, in RegionHeader::newest only.
  static constexpr uint64_t kBeside = uint64_t{1} << 45;

  uint16_t slot;
  uint16_t length;    // bytes of the frame
  uint16_t offset;    // of its first byte in the slot (bits 0..11); its FrameForm (14, 15)
  uint16_t sequence;  // number of frames sent, including this one, modulo 2^16

  static constexpr Descriptor unpack(uint64_t word) {
    return {static_cast<uint16_t>(word), static_cast<uint16_t>(word >> 16),
            static_cast<uint16_t>(word >> 32), static_cast<uint16_t>(word >> 48)};
  }
  static constexpr uint16_t pack_offset(uint32_t offset, FrameForm form) {
    return static_cast<uint16_t>(offset | uint32_t{static_cast<uint8_t>(form)} << kFormShift);
  }
  [[nodiscard]] constexpr uint32_t form() const { return offset >> kFormShift; }
  [[nodiscard]] constexpr uint32_t first_byte() const { return offset & 0xfff; }
  [[nodiscard]] constexpr uint64_t pack() const {
    return uint64_t{slot} | uint64_t{length} << 16 | uint64_t{offset} << 32 |
           uint64_t{sequence} << 48;
  }
};

struct Identity {
  uint64_t magic;
  uint32_t version;
  uint32_t slots;
  uint32_t stride;
  uint32_t large_slots;
  uint32_t large_stride;
  uint32_t flags;
};

inline constexpr size_t kBesideBytes = 56;
using BesideCopy = std::array<uint64_t, kBesideBytes / sizeof(uint64_t)>;

// A short bare packet (a bare header and at most 8 bytes), with a descriptor in front: one line.
struct BesideLine {
  std::atomic<uint64_t> descriptor;
  std::array<std::atomic<uint64_t>, std::tuple_size_v<BesideCopy>> frame;

  void store(const BesideCopy& copy) {
    for (size_t i = 0; i < copy.size(); ++i) frame[i].store(copy[i], std::memory_order_relaxed);
  }
  void load(BesideCopy& copy) const {
    for (size_t i = 0; i < copy.size(); ++i) copy[i] = frame[i].load(std::memory_order_relaxed);
  }
};

struct RegionHeader {
  Identity identity;
  // The newest descriptor of the TX ring. Its sequence is the ring's producer cursor; a reader
  // that finds exactly one new frame needs no look at the ring, which is a cache miss less.
  // With Descriptor::kBeside, its frame stands behind it, and the frame before it, with its
  // descriptor, in `before`: an answer and the acknowledgement that leaves with it go from one core
  // to the other in two lines, not five. The owner stores the descriptor of `before` first, so that
  // a reader whose copy lies between two looks at the right one has a whole copy. (`newest`, at
  // which the reader looks all the time, is written once, at the end.)
  alignas(kSharingBytes) BesideLine newest;
  BesideLine before;
  // Producer cursor of the return ring, modulo 2^16.
  alignas(kSharingBytes) std::atomic<uint32_t> returned;
  // 0: awake. Otherwise a serial number, new at every arm(), shifted left by one; bit 0: returned
  // frames also wake the owner, which has none left to send with.
  alignas(kSharingBytes) std::atomic<uint32_t> need_wakeup;
  // Not 0: the owner reads lent payloads (lent_payload.hpp) in the peer's memory, which it has
  // recognised by the mark in the peer's region.
  alignas(kSharingBytes) std::atomic<uint32_t> pulls;
  // Address and value of the owner's MemoryMark; the value is there before the address. Address 0:
  // the owner lends this peer nothing, or not yet. So it is in regions of versions before.
  std::atomic<uint64_t> mark_address;
  std::atomic<uint64_t> mark_value;
  // 1 + the core on which the owner was when it last woke the peer; 0: it has not, or is of a
  // version before.
  alignas(kSharingBytes) std::atomic<uint32_t> waker_core;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::atomic<uint16_t>::is_always_lock_free && sizeof(std::atomic<uint16_t>) == 2);
static_assert(sizeof(RegionHeader) <= 4096);
static_assert(sizeof(BesideLine) == 64 && kBesideBytes >= wire::BarePacket::kBytes + 8);

struct Geometry {
  uint32_t slots = kSlotsDefault;
  uint32_t stride = kStrideDefault;
  uint32_t large_slots = 0;
  uint32_t large_stride = 0;

  [[nodiscard]] static constexpr Geometry of_engine(uint32_t slots) {
    return {slots, kStrideDefault, slots / kSlotsPerLarge, kLargeStride};
  }
  [[nodiscard]] constexpr bool sane() const {
    const bool large_sane = large_slots == 0
                                ? large_stride == 0
                                : large_slots <= slots && large_stride >= kStrideMin &&
                                      large_stride <= kLargeStrideMax && large_stride % 64 == 0;
    return slots >= kSlotsMin && slots <= kSlotsMax && (slots & (slots - 1)) == 0 &&
           stride >= kStrideMin && stride <= kStrideMax && stride % 64 == 0 && large_sane;
  }
  // Slots of both kinds; the large ones have the last numbers.
  [[nodiscard]] constexpr uint32_t all_slots() const { return slots + large_slots; }
  [[nodiscard]] constexpr bool is_large(uint32_t slot) const { return slot >= slots; }
  [[nodiscard]] constexpr uint32_t stride_of(uint32_t slot) const {
    return is_large(slot) ? large_stride : stride;
  }
  // Of the TX ring; a power of two.
  [[nodiscard]] constexpr uint32_t entries() const { return large_slots == 0 ? slots : 2 * slots; }
  [[nodiscard]] static constexpr size_t tx_ring_offset() { return 4096; }
  [[nodiscard]] constexpr size_t return_ring_offset() const {
    return tx_ring_offset() + size_t{entries()} * sizeof(uint64_t);
  }
  [[nodiscard]] constexpr size_t frames_offset() const {
    const size_t end = return_ring_offset() + size_t{kEntriesMax} * sizeof(uint16_t);
    return (end + 4095) / 4096 * 4096;
  }
  // From the first frame.
  [[nodiscard]] constexpr size_t offset_of(uint32_t slot) const {
    return is_large(slot) ? size_t{slots} * stride + size_t{slot - slots} * large_stride
                          : size_t{slot} * stride;
  }
  [[nodiscard]] constexpr size_t bytes() const { return frames_offset() + offset_of(all_slots()); }
};

// A mapping, unmapped at the end of its life. Not inherited by a forked child.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* address, size_t bytes)
      : address_(static_cast<unsigned char*>(address)), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  [[nodiscard]] unsigned char* at(size_t offset) const { return address_ + offset; }

 private:
  unsigned char* address_ = nullptr;
  size_t bytes_ = 0;
};

// Our own region, the only one that this process writes.
class OwnRegion {
 public:
  // Null, and errno set, when the kernel refuses. `flags` as in Identity.
  static std::unique_ptr<OwnRegion> create(Geometry geometry, uint32_t flags = 0);
  ~OwnRegion();
  OwnRegion(const OwnRegion&) = delete;
  OwnRegion& operator=(const OwnRegion&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  // Closes the memfd in the child of a fork. The child has no mapping, so it must not destroy this.
  void close_after_fork();
  // The requested seals that this kernel knows; a peer on this kernel has at least these.
  [[nodiscard]] int seals() const { return seals_; }
  [[nodiscard]] const Geometry& geometry() const { return geometry_; }
  [[nodiscard]] RegionHeader& header() const { return *header_; }
  [[nodiscard]] std::atomic<uint64_t>* tx_ring() const { return tx_ring_; }
  [[nodiscard]] std::atomic<uint16_t>* return_ring() const { return return_ring_; }
  [[nodiscard]] unsigned char* frame(uint32_t slot) const {
    return frames_ + geometry_.offset_of(slot);
  }

 private:
  OwnRegion(int fd, int seals, Mapping mapping, Geometry geometry, uint32_t flags);

  int fd_;
  int seals_;
  Mapping mapping_;
  Geometry geometry_;
  RegionHeader* header_;
  std::atomic<uint64_t>* tx_ring_;
  std::atomic<uint16_t>* return_ring_;
  unsigned char* frames_;
};

// The peer's region, read only.
class PeerRegion {
 public:
  // Maps the peer's memfd. Null, and a static text in *reason, when the region cannot be read
  // safely. The caller keeps fd. `seals`: the required seals (OwnRegion::seals()). `all_there`:
  // also refuses memory that the peer has not written to yet, which would be allocated at our cost.
  static std::unique_ptr<PeerRegion> attach(int fd, int seals, bool all_there, const char** reason);

  [[nodiscard]] const Geometry& geometry() const { return geometry_; }
  // Of its Identity.
  [[nodiscard]] uint32_t flags() const { return flags_; }
  [[nodiscard]] const RegionHeader& header() const { return *header_; }
  [[nodiscard]] const std::atomic<uint64_t>* tx_ring() const { return tx_ring_; }
  [[nodiscard]] const std::atomic<uint16_t>* return_ring() const { return return_ring_; }
  [[nodiscard]] const unsigned char* frame(uint32_t slot) const {
    return frames_ + geometry_.offset_of(slot);
  }

 private:
  PeerRegion(Mapping mapping, Geometry geometry, uint32_t flags);

  Mapping mapping_;
  // Private copies: checked once, never read again from shared memory.
  Geometry geometry_;
  uint32_t flags_;
  const RegionHeader* header_;
  const std::atomic<uint64_t>* tx_ring_;
  const std::atomic<uint16_t>* return_ring_;
  const unsigned char* frames_;
};

}  // namespace mprdma::dataplane::local
