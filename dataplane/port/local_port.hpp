// LocalPort: the default wire between two processes of one machine, over shared memory.
//
// Two memory regions, one per side, each written by its owner alone (local_port_region.hpp), and
// one socket (local_port_control.hpp). A frame is a slot of the sender's region: the receiver reads
// it where it is, and gives the slot number back when it is done. The port itself copies nothing.
//
// Slots of our own region are free, reserved (between tx_reserve and tx_commit or tx_abandon), or
// in flight (published and not given back). The free lists are stacks, because the frame used last
// is still in the cache. Implemented in local_port.cpp and, sending, in local_port_send.cpp. When
// the peer goes away, slots in flight become free.
//
// Frames borrowed from a peer that went away stay readable: its region stays mapped until the last
// one is released. A cookie is generation << 32 | slot, so a late release finds its own region.
//
// Wake-ups: arm() writes a serial number into need_wakeup, then looks at the peer's ring once more;
// flush() publishes, then looks at the peer's need_wakeup. A full fence between the two steps on
// either side means that at least one of them sees the other. One wake-up is sent per serial.
//
// Slots and lengths from the peer are checked; a cursor that jumps further than the ring is long
// takes the link down. Memory order: contents before cursor (release), cursor before contents
// (acquire); the cursors that a side consumes with are its own and never shared.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/status.hpp"
#include "dataplane/port/local_port_control.hpp"
#include "dataplane/port/local_port_region.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/port/port_result.hpp"
#include "dataplane/sys/peer_memory.hpp"

namespace mprdma::dataplane {

namespace local {

// Frames sent between two looks for returned ones: so few that the frames in use stay in the cache,
// and so many that a look, a line of the peer's, costs little of each.
inline constexpr size_t kReapEvery = 64;
// Frames that data leaves to acknowledgements: what two bursts need, and the reservation of data
// that was let in just before.
inline constexpr size_t kFramesForAnswers = 3 * kBurst;
static_assert(kFramesForAnswers < kSlotsMin);

// Slots that are free; as many as there are of their kind.
class SlotStack {
 public:
  explicit SlotStack(size_t capacity) : slots_(capacity) {}
  [[nodiscard]] size_t size() const { return count_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  void push(uint32_t slot) {
    DCHECK(count_ < slots_.size());
    slots_[count_++] = static_cast<uint16_t>(slot);
  }
  // Requires: not empty().
  uint32_t pop() {
    DCHECK(!empty());
    return slots_[--count_];
  }
  void clear() { count_ = 0; }

 private:
  std::vector<uint16_t> slots_;
  size_t count_ = 0;
};

}  // namespace local

// Port::await_rx() of a port on which arrived() is a look. Without pauses: they cost 35 ns of a
// message's way on one machine, as much as a line of the cache.
template <class Arrived>
Port::Looks look_for_frames(uint32_t looks, const std::atomic<uint32_t>& enough,
                            Arrived&& arrived) {
  for (uint32_t made = 0; made < looks; ++made) {
    if (arrived()) return {made + 1, true};
    if (enough.load(std::memory_order_relaxed) != 0) return {made + 1, false};
  }
  return {looks, false};
}

class LocalPort final : public Port {
 public:
  struct Options {
    std::string path;                       // of the socket: the name of the wire
    uint32_t slots = local::kSlotsDefault;  // power of two in [256, 4096]
    local::Role role = local::Role::kAuto;  // who listens
    std::array<unsigned char, 6> mac{};     // all zero: random, locally administered
    int socket = -1;  // Role::kAdopted: connected, the port's from here on; `path` is not used
    bool can_corrupt = false;  // beyond the other end: our frames need an ICRC
    bool engine = false;       // we read bare packets, and have large frames
    // Role::kAdopted: the other end is untrusted. Descriptors from it are closed on another thread,
    // and its memory must be allocated already.
    bool stranger = false;
    // How a peer that we trust is asked to wake us.
    local::Wake wake = local::Wake::kByEventfd;
    // An engine and a peer that we trust read each other's payloads where they are.
    bool lends = true;
  };

  // Does not wait for a peer to appear, which is service()'s work. If there is a peer, waits until
  // it accepts or refuses: a wire that two others use gives EBUSY.
  static PortResult open(const Options& options);

  LocalPort(const Options& options, std::unique_ptr<local::OwnRegion> region);
  ~LocalPort() override;

  [[nodiscard]] PortInfo info() const override;
  [[nodiscard]] bool link_up() const override { return up_.load(std::memory_order_relaxed); }
  [[nodiscard]] const char* link_text() const override { return control_.text(); }
  // Role::kAdopted: goes on over another connected socket, the port's from here on; the link comes
  // up in service(). Frames borrowed from the peer before stay readable.
  void adopt(int socket);
  // Role::kAdopted: the link is down, for good unless adopt() is called.
  [[nodiscard]] bool over() const { return control_.over() && !link_up(); }
  // Role::kAdopted: ends the link, for good unless adopt() is called.
  void hang_up();
  // Frames lent to us and not released yet, by this peer and by those that went away.
  [[nodiscard]] uint32_t frames_borrowed() const;
  // True if a peer was disconnected because of its memory or its cursors.
  [[nodiscard]] bool violated() const { return violated_; }

  unsigned tx_reserve(TxFrame* frames, unsigned n) override;
  bool tx_tight() override;
  [[nodiscard]] bool takes_bare() const override { return peer_takes_ != FrameForm::kFrame; }
  [[nodiscard]] uint32_t large_payload() const override;
  unsigned tx_reserve_large(TxFrame* frames, unsigned n) override;
  [[nodiscard]] bool takes_lent() const override {
    return shows_memory_ && peer_.region->header().pulls.load(std::memory_order_relaxed) != 0;
  }
  void lend(TxFrame* frame, uint64_t address, uint32_t lender) override;
  void take_back(uint32_t lender) override;
  void take_back_memory(uint64_t address, uint64_t bytes) override;
  bool pull(std::span<const iovec> to, std::span<const iovec> from, size_t bytes) override {
    return peer_memory_.read(to, from, bytes);
  }
  void pull_no_more() override;
  void tx_commit(const TxFrame* frames, unsigned n) override;
  void tx_abandon(const TxFrame* frames, unsigned n) override;
  void flush() override;
  unsigned rx_burst(RxFrame* frames, unsigned n) override;
  Looks await_rx(uint32_t looks, const std::atomic<uint32_t>& enough) override;
  // rx_burst() will find a frame, or the peer's ring is no good.
  [[nodiscard]] bool arrived() const {
    if (!link_up()) return false;
    const uint64_t newest =
        peer_.region->header().newest.descriptor.load(std::memory_order_relaxed);
    return local::Descriptor::unpack(newest).sequence != rx_taken_;
  }
  void rx_release(const uint64_t* cookies, unsigned n) override;
  [[nodiscard]] int notify_fd() const override { return control_.notify_fd(); }
  bool arm() override;
  void disarm() override;
  [[nodiscard]] int waker_core() const override {
    if (!control_.trusts_peer() || !arrived()) return -1;
    const uint32_t core = peer_.region->header().waker_core.load(std::memory_order_relaxed);
    return static_cast<int>(core - 1);
  }
  int take_costly_waker() override { return control_.take_costly_waker(); }
  void service(Time now) override;
  void close_after_fork() override {
    control_.close_after_fork();
    own_->close_after_fork();
  }
  [[nodiscard]] PortCounters stats() const override;

 private:
  enum class SlotState : uint8_t {
    kFree,
    kReserved,
    kReservedLent,  // filled, with a lent payload
    kInFlight,
    kLent,  // in flight, with a lent payload
  };
  static bool in_flight(SlotState state) { return state >= SlotState::kInFlight; }
  static bool is_reserved(SlotState state) {
    return state == SlotState::kReserved || state == SlotState::kReservedLent;
  }
  static bool is_lent(SlotState state) {
    return state == SlotState::kReservedLent || state == SlotState::kLent;
  }

  // A peer's region and the state of its slots.
  struct Peer {
    std::unique_ptr<local::PeerRegion> region;
    uint32_t generation = 0;
    uint32_t borrowed_count = 0;
    std::vector<uint8_t> borrowed;          // by slot: 1 while we hold it
    std::vector<local::BesideCopy> beside;  // by small slot: a frame that was read there
  };

  Status start();
  void await_answer();
  bool frames_wait();
  void reap_returned();
  void reap_if_due(size_t wanted, size_t free);
  void note_starved(bool* of, bool starved);
  [[nodiscard]] bool starved() const {
    return tx_starved_ || tx_starved_for_data_ || tx_starved_of_large_;
  }
  void starve_no_more() { tx_starved_ = tx_starved_for_data_ = tx_starved_of_large_ = false; }
  unsigned reserve(local::SlotStack& from, uint32_t stride, TxFrame* frames, unsigned n);
  void free_slot(uint32_t slot) {
    slot_state_[slot] = SlotState::kFree;
    (own_->geometry().is_large(slot) ? free_large_ : free_slots_).push(slot);
  }
  bool take(local::Descriptor descriptor, RxFrame* frame);
  bool take_beside(RxFrame* frames, unsigned* taken);
  void take_copy(uint64_t word, const local::BesideCopy& copy, RxFrame* frames, unsigned* taken);
  void publish(bool returns);
  [[gnu::noinline]] uint64_t put_beside();
  [[nodiscard]] local::BesideCopy copy_of(uint64_t word) const;
  [[nodiscard]] bool may_be_bare(const local::Descriptor& descriptor) const;
  [[nodiscard]] uint16_t rx_waiting() const;
  void give_back(uint32_t slot);
  void release_departed(uint64_t cookie);
  void protocol_violation(const char* text);
  void attach(int memfd);
  void detach();
  void reset_own_rings();
  void agree_to_lend();
  template <class Which>
  void take_back_if(Which&& which);
  [[nodiscard]] unsigned char* lent_at(uint32_t slot) const;

  std::unique_ptr<local::OwnRegion> own_;
  local::Control control_;
  std::array<unsigned char, 6> mac_;
  bool can_corrupt_;
  bool reads_bare_;
  FrameForm peer_takes_ = FrameForm::kFrame;  // the highest of the forms that it may be sent
  bool peer_reads_beside_ = false;
  bool stranger_;
  bool lends_;                 // Options::lends, of an engine, towards a peer that is no stranger
  bool shows_memory_ = false;  // to this peer
  bool looked_at_memory_ = false;
  const uint64_t mark_;  // stands in our memory, for peers that we trust to recognise it by
  PeerMemory peer_memory_;
  Peer peer_;
  std::vector<Peer> departed_;  // regions of former peers from which frames are still borrowed
  std::atomic<bool> up_ = false;
  // The peer went away and left unread frames; the link counts as up until they are taken.
  bool peer_left_ = false;
  Time left_frames_until_;
  const char* violation_ = nullptr;  // why the link has to go; for service()
  bool violated_ = false;
  uint32_t generation_ = 0;

  // Sending.
  std::vector<SlotState> slot_state_;
  std::vector<uint32_t> lender_;  // by slot, is_lent(): as in lend()
  uint64_t last_ticket_ = 0;      // of a lent payload
  local::SlotStack free_slots_;
  local::SlotStack free_large_;
  uint32_t tx_mask_;           // of a position in our TX ring
  uint64_t tx_newest_ = 0;     // last descriptor committed
  uint64_t tx_announced_ = 0;  // the last one that was published
  uint16_t tx_sequence_ = 0;
  uint16_t tx_returns_taken_ = 0;  // cursor into the peer's return ring
  size_t reap_above_ = 0;          // frames in use above which returned ones are looked for
  // The last reservation fell short: of any frames, of those for data, of large ones.
  bool tx_starved_ = false;
  bool tx_starved_for_data_ = false;
  bool tx_starved_of_large_ = false;

  // Receiving.
  uint64_t rx_newest_ = 0;  // last seen descriptor that the peer published
  uint16_t rx_taken_ = 0;   // cursor into the peer's TX ring
  uint32_t rx_mask_ = 0;    // of a position in that ring, and in our ring of returns
  uint16_t rx_returned_ = 0;
  uint32_t returns_waiting_ = 0;                 // frames given back that the peer was not told of
  uint32_t returns_kept_ = local::kReturnsKept;  // of this peer, at most

  // Waking.
  uint32_t arm_serial_ = 0;
  uint32_t last_wakeup_ = 0;  // the peer's need_wakeup word that was answered last

  PortCounters counters_;  // written through count(), read by any thread
};

}  // namespace mprdma::dataplane
