#include "dataplane/client/direct_rings.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "dataplane/sys/async_close.hpp"

namespace mprdma::dataplane::client {

DirectRings::~DirectRings() = default;

// ---- Asking

bool DirectRings::want(uint32_t block, Time now, uint32_t* last) {
  if (refuses_ || block >= kBlocks) return false;
  Peer& peer = peers_[block];
  if (peer.ring != nullptr || now - peer.asked_at < kRetryAfter) return false;
  peer.asked = true;
  peer.asked_at = now;
  *last = peer.last_number;
  return true;
}

RingState DirectRings::state(uint32_t block, Time now) const {
  if (block >= kBlocks) return RingState::kNone;
  const Peer& peer = peers_[block];
  if (peer.ring != nullptr && peer.ring->up) return RingState::kUp;
  const bool patient = now - peer.asked_at < kPatience;
  return patient && (peer.asked || peer.ring != nullptr) ? RingState::kComing : RingState::kNone;
}

void DirectRings::on_refused(uint32_t block, Time now) {
  if (block >= kBlocks || !peers_[block].asked) return;
  peers_[block].asked = false;
  peers_[block].asked_at = now;
  ++changes_;
}

void DirectRings::forget_requests() {
  for (Peer& peer : peers_) peer.asked = false;
  ++changes_;
}

// A ring that is there already is replaced: the other end would not have asked if it still had it.
void DirectRings::on_offer(const OfferedRing& offer, Time now) {
  if (refuses_ || offer.block >= kBlocks || rings_.size() >= kRingsMax) {
    close_elsewhere(offer.socket);
    return on_refused(offer.block, now);
  }
  Peer& peer = peers_[offer.block];
  peer.asked = false;
  peer.last_number = offer.number;
  if (peer.ring != nullptr) close(*peer.ring);
  LocalPort::Options options;
  options.role = local::Role::kAdopted;
  options.slots = kSlots;
  options.mac = mac_;
  options.socket = offer.socket;
  options.stranger = !offer.same_user;
  options.engine = true;
  PortResult opened = LocalPort::open(options);
  ++changes_;
  if (!opened) return;
  auto ring = std::make_unique<Ring>(
      offer.block, std::unique_ptr<LocalPort>(static_cast<LocalPort*>(opened.port.release())));
  ring->number = offer.number;
  ring->unused_since = now;
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, ring->local->notify_fd(), &event) != 0) return;
  peer.ring = ring.get();
  const std::lock_guard<std::mutex> guard(list_);
  rings_.push_back(std::move(ring));
}

// ---- Life of a ring

void DirectRings::close(Ring& ring) {
  if (ring.closed) return;
  ring.closed = true;
  ring.up = false;
  ring.local->hang_up();
  Peer& peer = peers_[ring.block];
  if (peer.ring == &ring) peer.ring = nullptr;
  changed();
}

void DirectRings::close_all() {
  for (const auto& ring : rings_) close(*ring);
}

void DirectRings::refuse() {
  refuses_ = true;
  close_all();
}

void DirectRings::changed() {
  up_.clear();
  for (const auto& ring : rings_) {
    if (ring->up) up_.push_back(ring.get());
  }
  ++changes_;
}

DirectRing* DirectRings::ring_to(uint32_t block) {
  if (block >= kBlocks) return nullptr;
  Ring* ring = peers_[block].ring;
  return ring != nullptr && ring->up ? ring : nullptr;
}

void DirectRings::follow(Ring& ring, Time now) {
  if (ring.closed) return;
  ring.local->service(now);
  const bool up = ring.local->link_up();
  if ((ring.up && !up) || ring.local->over()) return close(ring);
  if (up && !ring.up) {
    ring.up = true;
    changed();
  }
  // The peer may send here while our own queue pairs still have requests outstanding elsewhere.
  const uint64_t frames = ring.local->stats().rx_frames;
  if (ring.users > 0 || frames != ring.frames_seen) ring.unused_since = now;
  ring.frames_seen = frames;
  if (now - ring.unused_since > kUnusedMax) close(ring);
}

void DirectRings::service(Time now) {
  for (const auto& ring : rings_) follow(*ring, now);
  reap();
}

void DirectRings::reap() {
  const auto done = [](const Ring& ring) {
    return ring.closed && ring.users == 0 && ring.local->frames_borrowed() == 0;
  };
  if (std::none_of(rings_.begin(), rings_.end(), [&](const auto& ring) { return done(*ring); })) {
    return;
  }
  const std::lock_guard<std::mutex> guard(list_);
  std::erase_if(rings_, [&](const auto& ring) {
    if (!done(*ring)) return false;
    departed_ += ring->local->stats();
    return true;
  });
}

// ---- The part of a port

void DirectRings::flush() {
  for (DirectRing* ring : up_) static_cast<Ring*>(ring)->local->flush();
}

// Of several such peers any one.
int DirectRings::take_costly_waker() {
  int core = -1;
  for (DirectRing* ring : up_) {
    const int its = static_cast<Ring*>(ring)->local->take_costly_waker();
    if (its >= 0) core = its;
  }
  return core;
}

// Of several peers any one.
int DirectRings::waker_core() const {
  int core = -1;
  for (const DirectRing* ring : up_) {
    core = std::max(core, static_cast<const Ring*>(ring)->local->waker_core());
  }
  return core;
}

bool DirectRings::arm() {
  for (DirectRing* ring : up_) {
    if (static_cast<Ring*>(ring)->local->arm()) continue;
    disarm();
    return false;
  }
  return true;
}

void DirectRings::disarm() {
  for (DirectRing* ring : up_) static_cast<Ring*>(ring)->local->disarm();
}

void DirectRings::close_after_fork() {
  for (const auto& ring : rings_) ring->local->close_after_fork();
}

PortCounters DirectRings::stats() const {
  const std::lock_guard<std::mutex> guard(list_);
  PortCounters sum = departed_;
  for (const auto& ring : rings_) sum += ring->local->stats();
  return sum;
}

}  // namespace mprdma::dataplane::client
