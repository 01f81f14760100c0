// Types between the transport and its host: work requests in; completions, packets to send and data
// to place out. Values of statuses and states are those of the standard (IBTA volume 1, 11.6.2 and
// 10.3.1) and so of the queue ABI.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/check.hpp"
#include "base/key.hpp"
#include "base/psn.hpp"
#include "base/qpn.hpp"
#include "base/units.hpp"
#include "transport/core/params.hpp"
#include "wire/bare_packet.hpp"
#include "wire/packet.hpp"

namespace mprdma::transport {

// Scatter/gather entries of a work request; also the most pieces of one packet.
inline constexpr uint32_t kMaxSge = 16;
// Largest message, bytes: its packets number well below 2^23 at every MTU.
inline constexpr uint32_t kMaxMessageBytes = 1u << 30;

enum class QpState : uint8_t { kReset, kInit, kRtr, kRts, kSqd, kSqe, kErr, kCount };

enum class WorkOpcode : uint8_t {
  kSend,
  kSendImm,
  kSendInvalidate,
  kWrite,
  kWriteImm,
  kRead,
  kCompareSwap,
  kFetchAdd,
  kLocalInvalidate,
  kBindMw,
  kCount
};

enum class WcOpcode : uint8_t {
  kSend = 0,
  kWrite = 1,
  kRead = 2,
  kCompareSwap = 3,
  kFetchAdd = 4,
  kBindMw = 5,
  kLocalInvalidate = 6,
  kRecv = 128,
  kRecvWriteImm = 129,
};

enum class WcStatus : uint8_t {
  kSuccess = 0,
  kLocalLengthError = 1,
  kLocalQpOperationError = 2,
  kLocalProtectionError = 4,
  kFlushError = 5,
  kMwBindError = 6,
  kBadResponseError = 7,
  kLocalAccessError = 8,
  kRemoteInvalidRequestError = 9,
  kRemoteAccessError = 10,
  kRemoteOperationError = 11,
  kRetryExceeded = 12,
  kRnrRetryExceeded = 13,
};

struct Sge {
  uint64_t addr;  // iova of the registration; for inline data an address in the host's memory
  uint32_t length;
  Key lkey;
};

// Send work request flags.
inline constexpr uint16_t kSignaled = 1 << 0;
inline constexpr uint16_t kSolicited = 1 << 1;
inline constexpr uint16_t kFence = 1 << 2;
inline constexpr uint16_t kInline = 1 << 3;       // sges address host memory: no lkey is checked
inline constexpr uint16_t kSynchronise = 1 << 4;  // update memory after all earlier operations

struct SendRequest {
  uint64_t wr_id = 0;
  WorkOpcode opcode = WorkOpcode::kSend;
  uint16_t flags = 0;
  uint32_t imm_or_rkey = 0;  // LOCAL_INV and BIND_MW: see struct send_wqe of the queue ABI
  Key rkey{};
  uint64_t remote_addr = 0;
  uint64_t compare_add = 0;
  uint64_t swap = 0;
  uint32_t ah = 0;  // UD: the host's number of the address
  Qpn remote_qpn{};
  uint32_t remote_qkey = 0;   // UD; top bit set: use the queue pair's own (IBTA 10.2.5)
  uint32_t xrc_srqn = 0;      // XRC
  std::span<const Sge> sges;  // copied by post_send
};

// A SEND or WRITE of one piece without fence, synchronise and immediate: what applications send
// most. Qp::post_plain() takes it with less work than post_send() takes a SendRequest.
struct PlainRequest {
  uint64_t wr_id;
  uint64_t remote_addr;  // WRITE
  Key rkey;              // WRITE
  WorkOpcode opcode;
  uint16_t flags;
  Sge sge;  // inline data: as in SendRequest
};

struct RecvRequest {
  uint64_t wr_id = 0;
  std::span<const Sge> sges;  // copied by post_recv
};

struct SharedReceives;

struct Completion {
  uint64_t wr_id = 0;
  WcStatus status = WcStatus::kSuccess;
  WcOpcode opcode = WcOpcode::kSend;
  bool has_imm = false;
  bool invalidated = false;  // imm holds the rkey that a SEND invalidated
  bool solicited = false;
  bool has_grh = false;
  bool grh_ipv4 = false;  // the GRH holds an IPv4 header
  bool is_recv = false;
  bool emit = true;  // false: unsignaled success, which only frees its slot
  uint32_t byte_len = 0;
  uint32_t imm = 0;
  Qpn src_qpn{};                           // UD; 0: the connection's peer
  uint32_t vendor_err = 0;                 // wire::NackCode or VendorError: the cause of an error
  const SharedReceives* shared = nullptr;  // the queue that a receive came from
};

// A success of a send request, as Qp::pop_plain() hands it out.
struct PlainCompletion {
  uint64_t wr_id;
  uint32_t byte_len;
  WcOpcode opcode;
  bool emit;  // as in Completion
};

// A receive of the queue pair's own has succeeded, by a SEND without immediate and key.
struct PlainReceive {
  uint64_t wr_id;
  uint32_t byte_len;
  bool solicited;
};

// Affiliated asynchronous events (IBTA 11.6.3).
enum class QpEvent : uint8_t {
  kNone,
  kFatal,
  kRequestError,
  kAccessError,
  kCommEstablished,
  kSqDrained,
  kLastWqeReached,  // ERR: the queue pair takes no more from its shared receive queue
};

// What the host has to look at again after a call of the queue pair. The other answers are the same
// as before, but that next_deadline() may have moved: on, or nearer by a shorter round trip.
using QpChanges = uint8_t;
inline constexpr QpChanges kCompletionsChanged = 1 << 0;  // poll_completion() may have one
inline constexpr QpChanges kSendingChanged = 1 << 1;      // wants_to_send() may have become true
inline constexpr QpChanges kDeadlineChanged = 1 << 2;     // next_deadline() may be earlier
inline constexpr QpChanges kBusyChanged = 1 << 3;         // busy() may have become true
inline constexpr QpChanges kOthersChanged = 1 << 4;       // poll_event(), state(), ...
inline constexpr QpChanges kAllChanged = 0x1f;

// A frame that the host lent: opaque to the transport, which returns it in RxActions::released.
using FrameHandle = uint64_t;

enum class PlacementKind : uint8_t {
  kPayload,      // copy `length` bytes at `payload_offset` of the frame's payload to `addr`
  kGrh,          // write bytes [payload_offset, + length) of the packet's 40-byte GRH to `addr`
                 // (IBTA 11.4.1.2; over IPv4: 20 bytes of zeros and the IPv4 header, annex A17.4.4)
  kCompareSwap,  // one atomic access to the 8 aligned bytes at `addr`, host byte order; the old
  kFetchAdd,     // value goes to *original, before the next call of the transport
  kValue,        // copy `length` bytes at `payload_offset` of `compare`, host byte order, to `addr`
};

// A change of host memory; the memory table has checked and translated `addr`. The host makes the
// changes in order. Only kPayload and kGrh use a frame; only these two and kValue use a length.
struct Placement {
  FrameHandle frame = 0;
  uint32_t payload_offset = 0;
  uint32_t length = 0;
  uint64_t addr = 0;
  PlacementKind kind = PlacementKind::kPayload;
  uint64_t compare = 0;
  uint64_t swap_add = 0;
  uint64_t* original = nullptr;  // memory of the transport, which waits for the value
};

// Sets the fields that kPayload uses.
inline void place_payload(Placement& out, FrameHandle frame, uint32_t payload_offset,
                          uint32_t length, uint64_t addr) {
  out.frame = frame;
  out.payload_offset = payload_offset;
  out.length = length;
  out.addr = addr;
  out.kind = PlacementKind::kPayload;
}

// A piece of a packet's payload in host memory (checked and translated).
struct Segment {
  uint64_t addr;
  uint32_t length;
};

struct TxPacket {
  wire::Packet header;  // payload_len set
  uint32_t ah = 0;      // UD: the host's number of the address; otherwise the connection's address
  bool retransmission = false;  // an earlier copy was sent
  bool more = true;             // false: no other packet may leave now
  uint32_t num_segments = 0;
  std::array<Segment, kMaxSge> segments;
};

// A packet of a PlainRequest, as Qp::poll_plain() hands it out.
struct PlainPacket {
  wire::BarePacket header;
  uint64_t from = 0;  // host memory of the payload, all of it
  bool more = false;  // another one may be ready
};

// What Qp::send_plain() did.
enum class PlainSend : uint8_t {
  kNothing,
  kPosted,  // as post_plain(); no packet may leave now
  kSent,    // as post_plain() and poll_plain(): the packet is the whole request
};

// The effect of a packet that Qp::take_plain() took.
struct PlainPlacement {
  uint64_t to = 0;      // host memory for the payload
  uint32_t length = 0;  // bytes; 0: there is nothing to place
};

// A small vector whose storage the host allocates once, for the worst case.
template <class T>
class ActionList {
 public:
  explicit ActionList(std::span<T> storage) : storage_(storage) {}
  void push(const T& value) {
    CHECK(size_ < storage_.size());
    storage_[size_++] = value;
  }
  // As push(), for a caller that fills the entry in place: it holds what an earlier one held.
  T& append() {
    CHECK(size_ < storage_.size());
    return storage_[size_++];
  }
  [[nodiscard]] uint32_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  const T& operator[](uint32_t i) const { return storage_[i]; }
  const T* begin() const { return storage_.data(); }
  const T* end() const { return storage_.data() + size_; }
  void clear() { size_ = 0; }

 private:
  std::span<T> storage_;
  uint32_t size_ = 0;
};

// Most frames that one call releases: a whole receive window may become deliverable at once.
inline constexpr uint32_t kMaxReleased = 2 * kWindowSlotsMax;
inline constexpr uint32_t kMaxPlacements = kMaxReleased * kMaxSge;

// The work that one call leaves to the host, in this order: all placements, then release the
// frames, then send the acknowledgements (the owed one first), then poll completions. The host
// clears it between calls.
struct RxActions {
  RxActions(std::span<Placement> placement_storage, std::span<FrameHandle> released_storage)
      : placements(placement_storage), released(released_storage) {}
  ActionList<Placement> placements;
  ActionList<FrameHandle> released;  // held frames that the transport needs no longer
  // An acknowledgement of earlier packets that was owed (Qp::take_ack) and may wait no longer.
  bool has_owed_ack = false;
  wire::Packet owed_ack;
  bool has_ack = false;
  // The immediate answer to the packet, sent ahead of any queue: an acknowledgement of the mode mp,
  // or a CNP. dest_qpn, vp and psn are filled in.
  wire::Packet ack;
  void clear() {
    placements.clear();
    released.clear();
    has_ack = has_owed_ack = false;
  }
};

enum class RxVerdict : uint8_t {
  kDone,  // the frame may go back as soon as the placements are copied
  kHeld,  // the transport keeps the frame until it names it in RxActions::released
};

}  // namespace mprdma::transport
