#include "dataplane/port/local_port.hpp"

#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "dataplane/port/atomic_counters.hpp"
#include "dataplane/port/lent_payload.hpp"
#include "dataplane/sys/async_close.hpp"
#include "dataplane/sys/clock.hpp"
#include "dataplane/sys/prefetch.hpp"
#include "wire/bare_packet.hpp"

namespace mprdma::dataplane {

using local::Descriptor;
using local::Geometry;
using local::PeerRegion;

namespace {

// Frames that an engine must leave to the peer, so that the one it waits for can come.
constexpr uint32_t kFramesLeftToPeer = 2 * kBurst;
// Regions of dead peers that are kept for borrowed frames; beyond it no new peer is attached.
constexpr size_t kDepartedMax = 64;
// How long open() waits for a peer that has accepted, and for one that refuses.
constexpr Duration kAnswerTakes = Duration::ms(250);
constexpr Duration kRefusalLasts = Duration::s(1);
// The frames of a peer that went away are taken within this time, or never.
constexpr Duration kLeftFramesLast = Duration::ms(100);
// Comings and goings that one service() follows: who dials without end must not hold it for ever.
constexpr int kEventsPerService = 8;

uint64_t random_word() {
  uint64_t word = 0;
  return getrandom(&word, sizeof word, 0) == sizeof word ? word : 0;
}

std::array<unsigned char, 6> mac_or_random(std::array<unsigned char, 6> mac) {
  if (mac != std::array<unsigned char, 6>{}) return mac;
  // Short reads do not happen at this size; a failure leaves a valid, if common, address.
  if (getrandom(mac.data(), mac.size(), 0) < 0) mac[5] = 1;
  mac[0] = 0x02;  // locally administered, unicast
  return mac;
}

}  // namespace

PortResult LocalPort::open(const Options& options) {
  const Geometry geometry = options.engine ? Geometry::of_engine(options.slots)
                                           : Geometry{options.slots, local::kStrideDefault};
  if (!geometry.sane()) {
    close_elsewhere(options.socket);
    return PortResult::failure(EINVAL, "slots=" + std::to_string(options.slots) +
                                           " is not a power of two from 256 to 4096");
  }
  auto region = local::OwnRegion::create(
      geometry, options.engine ? local::kReadsBare | local::kReadsBeside : 0);
  if (region == nullptr) {
    const int error = errno;
    close_elsewhere(options.socket);
    return PortResult::failure(error, std::string("no shared memory for the local port (") +
                                          std::strerror(error) + "); it takes " +
                                          std::to_string(geometry.bytes() >> 10) +
                                          " KiB: free some, or use fewer slots");
  }
  auto port = std::make_unique<LocalPort>(options, std::move(region));
  if (Status status = port->start(); !status.ok()) return PortResult::failure(std::move(status));
  return PortResult::success(std::move(port));
}

Status LocalPort::start() {
  if (Status status = control_.start(); !status.ok()) return status;
  if (control_.adopted()) {
    service(clock_now());
    return {};
  }
  await_answer();
  if (!control_.refused() || link_up()) return {};
  return {EBUSY, control_.text()};
}

// A process that leaves a wire may need a moment, so only a lasting refusal counts.
void LocalPort::await_answer() {
  const Time start = clock_now();
  for (Time now = start;; now = clock_now()) {
    service(now);
    const Duration patience = control_.refused() ? kRefusalLasts : kAnswerTakes;
    if (link_up() || !(control_.agreeing() || control_.refused()) || now - start > patience) return;
    pollfd waiting{control_.notify_fd(), POLLIN, 0};
    ::poll(&waiting, 1, 5);
  }
}

LocalPort::LocalPort(const Options& options, std::unique_ptr<local::OwnRegion> region)
    : own_(std::move(region)),
      control_(options.path, options.role, own_->fd(), options.socket, options.stranger,
               options.wake),
      mac_(mac_or_random(options.mac)),
      can_corrupt_(options.can_corrupt),
      reads_bare_(options.engine),
      stranger_(options.stranger),
      lends_(options.lends && options.engine && !options.stranger),
      mark_(random_word()),
      slot_state_(own_->geometry().all_slots(), SlotState::kFree),
      lender_(own_->geometry().all_slots(), 0),
      free_slots_(own_->geometry().slots),
      free_large_(own_->geometry().large_slots),
      tx_mask_(own_->geometry().entries() - 1) {
  reset_own_rings();
}

LocalPort::~LocalPort() = default;

// Once a peer is there: shows our mark to one that we trust, and looks for its own, which may come
// later than the peer.
void LocalPort::agree_to_lend() {
  if (!lends_ || !takes_bare() || !control_.trusts_peer()) return;
  local::RegionHeader& own = own_->header();
  if (!shows_memory_) {
    own.mark_value.store(mark_, std::memory_order_relaxed);
    own.mark_address.store(reinterpret_cast<uint64_t>(&mark_), std::memory_order_release);
    shows_memory_ = true;
  }
  const local::RegionHeader& peer = peer_.region->header();
  const uint64_t address = peer.mark_address.load(std::memory_order_acquire);
  if (looked_at_memory_ || address == 0) return;
  looked_at_memory_ = true;
  const MemoryMark mark{address, peer.mark_value.load(std::memory_order_relaxed)};
  if (peer_memory_.open(control_.peer_pid(), mark)) own.pulls.store(1, std::memory_order_relaxed);
}

void LocalPort::pull_no_more() {
  peer_memory_.close();
  own_->header().pulls.store(0, std::memory_order_relaxed);
}

PortInfo LocalPort::info() const {
  PortInfo info;
  info.mac = mac_;
  info.frame_bytes_max = own_->geometry().stride;
  const Geometry& lender = peer_.region != nullptr ? peer_.region->geometry() : own_->geometry();
  info.rx_frames = lender.slots - kFramesLeftToPeer;
  info.rx_large_frames = lender.large_slots;
  info.can_corrupt = can_corrupt_;
  info.calls_system = false;
  return info;
}

// ---- Receiving

// True if a packet of such a form and length may come here. form() is not 0.
inline bool LocalPort::may_be_bare(const Descriptor& descriptor) const {
  if (descriptor.form() == static_cast<uint32_t>(FrameForm::kBare)) [[likely]] {
    return reads_bare_ && descriptor.length >= wire::BarePacket::kBytes;
  }
  return descriptor.form() == static_cast<uint32_t>(FrameForm::kLent) && lends_ &&
         descriptor.length == wire::BarePacket::kBytes + LentPayload::kBytes &&
         descriptor.first_byte() % sizeof(uint64_t) == 0;
}

// Borrows one frame, if the peer had a right to send it.
[[gnu::always_inline]] inline bool LocalPort::take(Descriptor descriptor, RxFrame* frame) {
  const Geometry& geometry = peer_.region->geometry();
  const bool known = descriptor.slot < peer_.borrowed.size() && !peer_.borrowed[descriptor.slot];
  const uint32_t form = descriptor.form();
  const uint32_t offset = descriptor.first_byte();
  if (!known || (form != 0 && !may_be_bare(descriptor)) ||
      descriptor.length < local::kEthernetHeaderBytes ||
      offset + descriptor.length > geometry.stride_of(descriptor.slot)) [[unlikely]] {
    count(counters_.rx_malformed);
    if (known) give_back(descriptor.slot);
    return false;
  }
  peer_.borrowed[descriptor.slot] = 1;
  ++peer_.borrowed_count;
  frame->data = peer_.region->frame(descriptor.slot) + offset;
  frame->length = descriptor.length;
  frame->form = static_cast<FrameForm>(form);
  frame->cookie = uint64_t{peer_.generation} << 32 | descriptor.slot;
  return true;
}

unsigned LocalPort::rx_burst(RxFrame* frames, unsigned n) {
  if (!link_up()) return 0;
  uint16_t waiting = rx_waiting();
  if (waiting < n) {
    rx_newest_ = peer_.region->header().newest.descriptor.load(std::memory_order_acquire);
    waiting = rx_waiting();
    if (waiting == 0) return 0;
  }
  if (waiting > peer_.borrowed.size()) {
    protocol_violation("the process at the other end sent more than its ring holds");
    return 0;
  }
  const std::atomic<uint64_t>* ring = peer_.region->tx_ring();
  unsigned taken = 0;
  uint64_t bytes = 0;
  if (waiting == 2 && n >= 2 && (rx_newest_ & Descriptor::kBeside) != 0 &&
      take_beside(frames, &taken)) {
    waiting = 0;
    for (unsigned i = 0; i < taken; ++i) bytes += frames[i].length;
  }
  while (waiting > 0 && taken < n && bytes < local::kBurstBytes) {
    const uint64_t word =
        waiting == 1 ? rx_newest_ : ring[rx_taken_ & rx_mask_].load(std::memory_order_relaxed);
    ++rx_taken_;
    --waiting;
    if (!take(Descriptor::unpack(word), &frames[taken])) continue;
    __builtin_prefetch(frames[taken].data);
    __builtin_prefetch(frames[taken].data + 64);
    bytes += frames[taken].length;
    ++taken;
  }
  count(counters_.rx_frames, taken);
  count(counters_.rx_bytes, bytes);
  return taken;
}

Port::Looks LocalPort::await_rx(uint32_t looks, const std::atomic<uint32_t>& enough) {
  return look_for_frames(looks, enough, [this] { return arrived(); });
}

// How many frames the peer has announced, as far as we know, and we have not taken.
uint16_t LocalPort::rx_waiting() const {
  return static_cast<uint16_t>(Descriptor::unpack(rx_newest_).sequence - rx_taken_);
}

// Takes the two frames that wait, if they still stand in the header. False: they do not.
bool LocalPort::take_beside(RxFrame* frames, unsigned* taken) {
  const local::RegionHeader& header = peer_.region->header();
  const uint64_t before = header.before.descriptor.load(std::memory_order_acquire);
  const uint32_t distance =
      Descriptor::unpack(rx_newest_).sequence - Descriptor::unpack(before).sequence;
  if (static_cast<uint16_t>(distance) != 1) return false;
  local::BesideCopy copies[2];
  header.before.load(copies[0]);
  header.newest.load(copies[1]);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (header.before.descriptor.load(std::memory_order_relaxed) != before) return false;
  // The answer to them goes there.
  prefetch_to_write(&own_->header().before);
  take_copy(before, copies[0], frames, taken);
  take_copy(rx_newest_, copies[1], frames, taken);
  rx_taken_ = static_cast<uint16_t>(rx_taken_ + 2);
  return true;
}

// A frame that was read already. It stays readable until it is released, as all others do.
void LocalPort::take_copy(uint64_t word, const local::BesideCopy& copy, RxFrame* frames,
                          unsigned* taken) {
  const Descriptor descriptor = Descriptor::unpack(word);
  RxFrame& frame = frames[*taken];
  if (!take(descriptor, &frame)) return;
  ++*taken;
  if (descriptor.length > local::kBesideBytes || descriptor.slot >= peer_.beside.size()) return;
  peer_.beside[descriptor.slot] = copy;
  frame.data = reinterpret_cast<const unsigned char*>(peer_.beside[descriptor.slot].data());
}

// Writes one entry of the return ring. flush() publishes some at a time: the peer reads that line
// at its reservations.
void LocalPort::give_back(uint32_t slot) {
  own_->return_ring()[rx_returned_ & rx_mask_].store(static_cast<uint16_t>(slot),
                                                     std::memory_order_relaxed);
  ++rx_returned_;
  ++returns_waiting_;
}

void LocalPort::rx_release(const uint64_t* cookies, unsigned n) {
  for (unsigned i = 0; i < n; ++i) {
    const auto slot = static_cast<uint32_t>(cookies[i]);
    if (cookies[i] >> 32 != peer_.generation || peer_.region == nullptr) {
      release_departed(cookies[i]);
      continue;
    }
    DCHECK(slot < peer_.borrowed.size() && peer_.borrowed[slot]);
    peer_.borrowed[slot] = 0;
    --peer_.borrowed_count;
    give_back(slot);
  }
}

// A frame of a peer that is gone. Its memory goes with the last one, in service().
void LocalPort::release_departed(uint64_t cookie) {
  const auto slot = static_cast<uint32_t>(cookie);
  for (Peer& peer : departed_) {
    if (peer.generation != cookie >> 32) continue;
    DCHECK(slot < peer.borrowed.size() && peer.borrowed[slot]);
    peer.borrowed[slot] = 0;
    --peer.borrowed_count;
  }
}

void LocalPort::protocol_violation(const char* text) {
  count(counters_.rx_malformed);
  violated_ = true;
  violation_ = text;
  up_.store(false, std::memory_order_relaxed);
}

// ---- Sleeping

bool LocalPort::arm() {
  // The control socket alone wakes while the link is down.
  if (!link_up()) return violation_ == nullptr;
  publish(true);
  arm_serial_ = (arm_serial_ + 1) & 0x7fffffff;
  if (arm_serial_ == 0) arm_serial_ = 1;
  own_->header().need_wakeup.store(arm_serial_ << 1 | (starved() ? 1U : 0U),
                                   std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const local::RegionHeader& peer = peer_.region->header();
  rx_newest_ = peer.newest.descriptor.load(std::memory_order_acquire);
  const bool some = tx_starved_ || tx_starved_for_data_;
  const bool returned =
      starved() &&
      (static_cast<uint16_t>(peer.returned.load(std::memory_order_acquire)) != tx_returns_taken_ ||
       (some && free_slots_.size() >= local::kFramesForAnswers) ||
       (tx_starved_of_large_ && !free_large_.empty()));
  if (rx_waiting() == 0 && !returned) return true;
  // Told once; the next reservation decides anew.
  if (returned) starve_no_more();
  disarm();
  return false;
}

void LocalPort::disarm() {
  own_->header().need_wakeup.store(0, std::memory_order_relaxed);
}

// ---- Peers come and go

void LocalPort::service(Time now) {
  publish(true);
  if (violation_ != nullptr) {
    control_.hang_up(violation_);
    detach();
  }
  if (link_up()) agree_to_lend();
  std::erase_if(departed_, [](const Peer& peer) { return peer.borrowed_count == 0; });
  if (departed_.size() >= kDepartedMax && peer_.region == nullptr) return;
  if (peer_left_) {
    if (frames_wait() && now < left_frames_until_) return;
    detach();
  }
  for (int i = 0; i < kEventsPerService; ++i) {
    const local::Control::Event event = control_.poll(now);
    if (event.kind == local::Control::Event::Kind::kNone) return;
    if (event.kind == local::Control::Event::Kind::kUp) {
      attach(event.memfd);
    } else if (link_up() && frames_wait()) {
      // The peer's last frames may hold the acknowledgement that a queue pair waits for.
      peer_left_ = true;
      left_frames_until_ = now + kLeftFramesLast;
      return;
    } else {
      detach();
    }
  }
}

// Looks at the peer's ring.
bool LocalPort::frames_wait() {
  rx_newest_ = peer_.region->header().newest.descriptor.load(std::memory_order_acquire);
  return rx_waiting() > 0;
}

void LocalPort::adopt(int socket) {
  if (!control_.over()) control_.hang_up("another socket was handed over");
  if (peer_.region != nullptr) detach();
  control_.hand_over(socket);
}

void LocalPort::hang_up() {
  publish(true);
  control_.hang_up("this process has closed the link");
  // Our memory stays as it is: the peer may be looking at it still.
  up_.store(false, std::memory_order_relaxed);
}

uint32_t LocalPort::frames_borrowed() const {
  uint32_t borrowed = peer_.borrowed_count;
  for (const Peer& peer : departed_) borrowed += peer.borrowed_count;
  return borrowed;
}

void LocalPort::attach(int memfd) {
  const char* reason = "";
  auto region = PeerRegion::attach(memfd, own_->seals(), stranger_, &reason);
  if (stranger_) {
    close_elsewhere(memfd);
  } else {
    close(memfd);
  }
  if (region == nullptr) {
    count(counters_.rx_malformed);
    violated_ = true;
    control_.hang_up(reason);
    return;
  }
  generation_ = generation_ + 1 == 0 ? 1 : generation_ + 1;
  peer_.borrowed.assign(region->geometry().all_slots(), 0);
  peer_.borrowed_count = 0;
  peer_.beside.resize(reads_bare_ ? region->geometry().slots : 0);
  const uint32_t large = region->geometry().large_slots;
  returns_kept_ = large == 0 ? local::kReturnsKept : std::min(local::kReturnsKept, large / 2);
  peer_.generation = generation_;
  peer_.region = std::move(region);
  const bool reads_bare = (peer_.region->flags() & local::kReadsBare) != 0;
  peer_takes_ = reads_bare ? FrameForm::kLent : FrameForm::kFrame;
  peer_reads_beside_ = (peer_.region->flags() & local::kReadsBeside) != 0;
  rx_mask_ = peer_.region->geometry().entries() - 1;
  rx_newest_ = 0;
  rx_taken_ = 0;
  tx_returns_taken_ = 0;
  last_wakeup_ = 0;
  agree_to_lend();
  count(counters_.link_ups);
  up_.store(true, std::memory_order_relaxed);
}

void LocalPort::detach() {
  up_.store(false, std::memory_order_relaxed);
  peer_left_ = false;
  violation_ = nullptr;
  count(counters_.link_downs);
  if (peer_.borrowed_count > 0) departed_.push_back(std::move(peer_));
  peer_ = Peer{};
  peer_takes_ = FrameForm::kFrame;
  peer_reads_beside_ = false;
  peer_memory_.close();
  reset_own_rings();
}

// Before a peer can see our memory: it finds cursors at zero. Frames that the engine has reserved
// stay its own.
void LocalPort::reset_own_rings() {
  own_->header().newest.descriptor.store(0, std::memory_order_relaxed);
  own_->header().pulls.store(0, std::memory_order_relaxed);
  own_->header().mark_address.store(0, std::memory_order_relaxed);
  shows_memory_ = looked_at_memory_ = false;
  own_->header().returned.store(0, std::memory_order_release);
  tx_newest_ = tx_announced_ = 0;
  tx_sequence_ = 0;
  starve_no_more();
  reap_above_ = local::kReapEvery;
  rx_returned_ = 0;
  returns_waiting_ = 0;
  free_slots_.clear();
  free_large_.clear();
  for (uint32_t slot = static_cast<uint32_t>(slot_state_.size()); slot-- > 0;) {
    // Who has left may still be reading.
    if (is_lent(slot_state_[slot])) LentPayload::set_ticket(lent_at(slot), 0);
    if (in_flight(slot_state_[slot])) count(counters_.tx_dropped);
    if (!is_reserved(slot_state_[slot])) free_slot(slot);
  }
}

PortCounters LocalPort::stats() const {
  return read_counters(counters_);
}

}  // namespace mprdma::dataplane
