// The port seam: what lies between the engine and a wire, whatever the wire is.
//
// The engine reserves a frame, writes payload and headers straight into it, and commits; on
// receive it borrows frames and returns them, possibly much later and in any order (a frame that
// waits for its turn stays where it is). An ethdev's mbuf and a slot of a shared ring both fit.
//
// Rules
//  - One thread at a time calls a port (the holder of the worker's lock). stats(), link_up(),
//    link_text() and notify_fd() may be called by any thread.
//  - Calls take bursts, so that one virtual call serves up to kBurst packets.
//  - No call blocks, allocates or makes a system call, but for service(), arm(), pull(), and the
//    wake-up of a sleeping peer in flush().
//  - While the link is down frames can be reserved and committed as ever; they are dropped and
//    counted, as a network card does without a carrier.
//  - Whatever the process at the other end does (dies, writes garbage, stops reading) ends in a
//    counted drop, back-pressure or link down; a borrowed frame stays readable until released.
//  - Bytes of a borrowed frame may change while they are read when the peer shares the memory:
//    headers are copied before they are parsed (wire/packet.hpp), payload is only ever copied.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/counters.hpp"
#include "base/units.hpp"

namespace mprdma::dataplane {

inline constexpr unsigned kBurst = 32;

// Bytes free before TxFrame::payload: room for all headers of any packet.
inline constexpr unsigned kFrameHeadroom = 128;
// Bytes free after the largest payload: pad and ICRC.
inline constexpr unsigned kFrameTailroom = 8;

enum class FrameForm : uint8_t {
  kFrame = 0,  // from the Ethernet header to the ICRC
  kBare = 2,   // a bare packet (wire/bare_packet.hpp)
  kLent = 3,   // a bare packet, behind whose header stands a LentPayload (lent_payload.hpp)
};

struct TxFrame {
  unsigned char* payload;  // 64-byte aligned; kFrameHeadroom writable bytes before it
  uint32_t capacity;       // writable bytes from payload on, tailroom included
  // Filled by the engine before tx_commit: the frame is
  // [payload - header_bytes, payload - header_bytes + frame_bytes).
  uint32_t header_bytes;
  uint32_t frame_bytes;
  uint64_t cookie;                     // the port's own
  FrameForm form = FrameForm::kFrame;  // others require Port::takes_bare(), Port::takes_lent()
};

struct RxFrame {
  const unsigned char* data;  // first byte of the Ethernet header, or of the bare packet
  uint32_t length;
  uint64_t cookie;  // names the frame in rx_release
  FrameForm form;   // only ports that take bare packets bring others than frames
};

struct PortInfo {
  std::array<unsigned char, 6> mac{};
  uint32_t frame_bytes_max = 0;  // largest frame, Ethernet header to ICRC, without FCS
  uint32_t rx_frames = 0;        // how many frames the engine may hold at most
  uint32_t rx_large_frames = 0;  // how many of them may be large ones (Port::large_payload)
  uint64_t link_mbps = 0;        // 0: unknown
  bool can_corrupt = true;       // false (a memory ring): ICRC is neither filled nor checked
  bool calls_system = true;      // false: no cancellation point for a packet, but in a wake-up
};

// One list makes the struct, the printed names and the page in docs/operations.md.
#define MPRDMA_PORT_COUNTERS(X)                                                    \
  X(tx_frames, "frames handed to the wire")                                        \
  X(tx_bytes, "bytes of those frames")                                             \
  X(tx_back_pressure, "reservations that found the wire full")                     \
  X(tx_dropped, "frames lost because the link went down")                          \
  X(rx_frames, "frames taken from the wire")                                       \
  X(rx_bytes, "bytes of those frames")                                             \
  X(rx_malformed, "descriptors that the peer had no right to send")                \
  X(rx_no_buffer, "frames that the wire dropped for want of a buffer")             \
  X(rx_other_vlan, "frames of other VLANs than the port's, or of none but pauses") \
  X(wakeups_sent, "system calls made to wake a sleeping peer")                     \
  X(link_ups, "times that a peer attached")                                        \
  X(link_downs, "times that the peer went away")
MPRDMA_DEFINE_COUNTERS(PortCounters, MPRDMA_PORT_COUNTERS);

class Daemon;

class Port {
 public:
  virtual ~Port() = default;
  Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  [[nodiscard]] virtual PortInfo info() const = 0;
  [[nodiscard]] virtual bool link_up() const = 0;
  // True while a peer is away that attaches by itself, within a second if it runs.
  [[nodiscard]] virtual bool expects_peer() const { return false; }
  // "up", or what the link waits for and what to do about it. A static text.
  [[nodiscard]] virtual const char* link_text() const = 0;

  // Up to n frames (n <= kBurst) to write into; fewer, or 0, is back-pressure. A frame may stay
  // reserved over bursts, and be committed after one that was reserved later; each is committed or
  // abandoned before the port ends.
  virtual unsigned tx_reserve(TxFrame* frames, unsigned n) = 0;
  // True when only the reserve for acknowledgements is left: data must wait, as if a reservation
  // had fallen short, or a link full of data in both directions would deadlock. Call it before a
  // reservation.
  virtual bool tx_tight() { return false; }
  // ---- Between two engines of one host
  // True while the other end reads bare packets (wire/bare_packet.hpp), which then may stand in
  // place of a frame.
  [[nodiscard]] virtual bool takes_bare() const { return false; }
  // Payload that a large frame holds, bytes; 0: there is none to this peer.
  [[nodiscard]] virtual uint32_t large_payload() const { return 0; }
  // As tx_reserve(), of large frames.
  virtual unsigned tx_reserve_large(TxFrame*, unsigned) { return 0; }

  // ---- Payloads that are read in the sender's memory (lent_payload.hpp)
  // True while the other end reads them.
  [[nodiscard]] virtual bool takes_lent() const { return false; }
  // Puts the address of a payload in front of frame->payload, in a reserved frame. From here on it
  // can be taken back by its lender, a number, or its address. Requires: takes_lent().
  virtual void lend(TxFrame* /*frame*/, uint64_t /*address*/, uint32_t /*lender*/) {}
  // Takes back what this lender has lent: what has not been taken yet will not be.
  virtual void take_back(uint32_t /*lender*/) {}
  // Takes back the payloads that begin in this range of memory.
  virtual void take_back_memory(uint64_t /*address*/, uint64_t /*bytes*/) {}
  // Reads `bytes` bytes of the other end's memory, in a system call. False: some are missing. `to`
  // and `from` have PeerMemory::kPiecesMax pieces at most (sys/peer_memory.hpp), and as many bytes.
  virtual bool pull(std::span<const iovec> /*to*/, std::span<const iovec> /*from*/,
                    size_t /*bytes*/) {
    return false;
  }
  // Nothing is lent to us any more, as soon as the other end sees it.
  virtual void pull_no_more() {}

  // Sends frames in this order. Never fails, because a reserved frame can always be sent.
  virtual void tx_commit(const TxFrame* frames, unsigned n) = 0;
  virtual void tx_abandon(const TxFrame* frames, unsigned n) = 0;
  // End of a burst: publishes what was committed, and frames that were given back, but for a few,
  // which the peer can do without; wakes a peer that sleeps until frames come, or until it gets
  // frames back to send with.
  virtual void flush() = 0;

  virtual unsigned rx_burst(RxFrame* frames, unsigned n) = 0;
  struct Looks {
    uint32_t made = 0;
    bool arrived = false;  // rx_burst() will find a frame
  };
  // Looks at most `looks` times whether a frame has come, for some tens of nanoseconds each, and
  // not again once `enough` is not zero. A port that cannot tell at little cost does not look at
  // all.
  virtual Looks await_rx(uint32_t /*looks*/, const std::atomic<uint32_t>& /*enough*/) { return {}; }
  virtual void rx_release(const uint64_t* cookies, unsigned n) = 0;

  // A descriptor that becomes readable when frames arrive after arm(), or when the link needs
  // service(); -1 if this port cannot notify and has to be polled.
  [[nodiscard]] virtual int notify_fd() const = 0;
  // Asks for a notification of the next frame (and, if the last reservation fell short, of room to
  // send). False: something waits already, do not sleep.
  virtual bool arm() = 0;
  virtual void disarm() = 0;

  // The core of a peer to whom our being woken is a burden, since the last call; -1: there is none.
  // A thread that sleeps there is woken at little cost.
  virtual int take_costly_waker() { return -1; }

  // The core on which a peer whose frames wait last woke this end; -1: nobody knows, or the peer is
  // not trusted. It may be any number.
  [[nodiscard]] virtual int waker_core() const { return -1; }

  // Slow path, at least every 10 ms and when notify_fd is readable: accepts or dials a peer,
  // notices that it went away, drains the descriptor. May make system calls, never blocks.
  virtual void service(Time now) = 0;

  // In a forked child, before anything else: closes its copies of the descriptors, so that the
  // peer sees the parent's death. Afterwards the object must be neither called nor destroyed.
  virtual void close_after_fork() = 0;

  // The daemon behind the port (client/daemon.hpp); nullptr: the wire is this process's own.
  [[nodiscard]] virtual Daemon* daemon() { return nullptr; }

  [[nodiscard]] virtual PortCounters stats() const = 0;
};

}  // namespace mprdma::dataplane
