// PFC between the fabric and its hosts: pauses that the hosts send, pauses that they are sent, and
// ports that have no room.
#include <algorithm>
#include <array>
#include <cstring>

#include "switchsim/fabric/fabric.hpp"
#include "wire/pause_frame.hpp"

namespace mprdma::switchsim {

namespace {

using dataplane::kBurst;
using dataplane::kFrameHeadroom;
using dataplane::RxFrame;
using dataplane::TxFrame;
using wire::PauseFrame;

// A host is told again that it is paused so often at least. One that does not know the rate of its
// link takes it for 100 Gb/s, where the longest pause lasts 335 us.
constexpr Duration kTellEvery = Duration::us(160);
// Source of the fabric's pauses. No address of a host is derived from it (derived_mac()).
constexpr wire::MacAddress kSwitchMac = {0x02, 0x4d, 0x53, 0x00, 0x00, 0x01};

}  // namespace

// ---- From the hosts

// Reads a burst of frames from a host, of which pauses overtake the frames that wait for a blocked
// link. True: more may wait.
bool Fabric::receive_past_pauses(uint32_t index, Time now) {
  Host& host = hosts_[index];
  FrameBacklog& backlog = host.backlog;
  std::array<RxFrame, kBurst> frames;
  std::array<uint64_t, kBurst> done;
  unsigned done_count = 0;
  const size_t room = std::min<size_t>(backlog_room(host), kBurst);
  const unsigned count =
      room == 0 ? 0 : host.port->rx_burst(frames.data(), static_cast<unsigned>(room));
  for (unsigned i = 0; i < count; ++i) {
    if (take_pause(index, frames[i], now)) {
      done[done_count++] = frames[i].cookie;
      continue;
    }
    backlog.frames[(backlog.first + backlog.count++) % backlog.frames.size()] = frames[i];
  }
  if (done_count > 0) host.port->rx_release(done.data(), done_count);
  host.sent |= done_count > 0;  // returned frames need a flush, too
  host.counters.frames_in += count;
  frames_moved_ += count;
  if (host.blocked) return count == kBurst;
  done_count = 0;
  while (backlog.count > 0 && done_count < kBurst) {
    const RxFrame& frame = backlog.frames[backlog.first];
    receive_from_host(index, frame, now);
    done[done_count++] = frame.cookie;
    backlog.first = (backlog.first + 1) % backlog.frames.size();
    --backlog.count;
  }
  if (done_count == 0) return false;
  host.port->rx_release(done.data(), done_count);
  host.sent = true;
  if (done_count > count) frames_moved_ += done_count - count;  // those of this turn count once
  return count == kBurst || backlog.count > 0;
}

// False: the frame is not of MAC Control. The host may still write it: the branch is chosen by one
// look, what it says is read from a copy.
bool Fabric::take_pause(uint32_t index, const RxFrame& frame, Time now) {
  if (!PauseFrame::is_on(frame.data, frame.length)) return false;
  Host& host = hosts_[index];
  std::array<unsigned char, wire::kMinFrameBytes> bytes;
  const size_t copied = std::min<size_t>(frame.length, bytes.size());
  std::memcpy(bytes.data(), frame.data, copied);
  PauseFrame pause;
  if (PauseFrame::parse({bytes.data(), copied}, pause) != wire::PauseDrop::kNone) {
    ++host.counters.drop_bad_pause;
  } else if (!has_pfc() || !pause.concerns(config_.lossless_priorities) || host.may_not_pause) {
    ++host.counters.pause_ignored;
  } else {
    const uint64_t rate = now_.links[index].ba.rate.bits_per_second();
    ++host.counters.pause_received;
    for (unsigned p = 0; p < PauseFrame::kPriorities; ++p) {
      const auto priority = static_cast<uint8_t>(1U << p);
      if ((config_.lossless_priorities & priority) == 0 || !pause.concerns(priority)) continue;
      host.paused_until[p] = now + wire::pause_time(pause.quanta[p], rate);
    }
    // The model has one lossless class, which stops as long as any priority of it.
    host.pauses_until = *std::max_element(host.paused_until.begin(), host.paused_until.end());
    host.pauses = host.pauses_until > now;
  }
  return true;
}

// How many frames more the fabric may borrow of the port.
size_t Fabric::backlog_room(const Host& host) {
  const FrameBacklog& backlog = host.backlog;
  const size_t lent = std::max<size_t>(host.port->info().rx_frames, kBurst);
  return std::min(backlog.frames.size(), lent) - std::min(backlog.count, lent);
}

// ---- To the hosts

// Tells the hosts whose packets the network has stopped, or lets go on. Before frames are handed
// out, which may take all the room there is.
void Fabric::tell_pauses(Time now) {
  for (uint32_t i = 0; i < hosts_.size(); ++i) {
    Host& host = hosts_[i];
    const bool paused = network_->pause_state(2 * i).paused;
    if (!paused && !host.told) continue;
    if (!host.port->link_up()) {
      host.told = false;
    } else if (!paused || !host.told || now >= host.tell_at) {
      tell_pause(i, paused, now);
    }
  }
}

// False: the port has no room.
bool Fabric::tell_pause(uint32_t index, bool paused, Time now) {
  Host& host = hosts_[index];
  TxFrame frame;
  if (host.port->tx_reserve(&frame, 1) == 0) {
    host.tell_at = now + kTellEvery;
    return false;
  }
  const uint16_t quanta = paused ? PauseFrame::kQuantaMax : 0;
  const PauseFrame pause = config_.topology.pfc.global
                               ? PauseFrame::of_link(quanta)
                               : PauseFrame::pfc(config_.lossless_priorities, quanta);
  frame.header_bytes = kFrameHeadroom;
  frame.frame_bytes =
      static_cast<uint32_t>(pause.store(kSwitchMac, frame.payload - kFrameHeadroom));
  host.port->tx_commit(&frame, 1);
  host.sent = true;
  host.told = paused;
  ++host.counters.pause_sent;
  const uint64_t rate = now_.links[index].ab.rate.bits_per_second();
  const Duration lasts = wire::pause_time(PauseFrame::kQuantaMax, rate);
  host.tell_at = now + std::min(lasts / 2, kTellEvery);
  return true;
}

// ---- What the network is to know

void Fabric::follow_pauses(Time now) {
  for (uint32_t i = 0; i < hosts_.size(); ++i) {
    Host& host = hosts_[i];
    if (!host.port->link_up()) {  // it is gone
      host.paused_until.fill(host.pauses_until = Time());
      host.may_not_pause = false;
    }
    host.pauses = host.pauses && now < host.pauses_until && !host.may_not_pause;
    const bool was_pausing = network_->pausing(2 * i + 1);
    network_->set_host_pausing(i, host.pauses || host.full);
    if (host.full && !was_pausing) ++host.counters.pause_full;
  }
  watchdogs_.look();
  for (uint32_t i = 0; i < hosts_.size(); ++i) {
    Host& host = hosts_[i];
    const bool given_up = watchdogs_.given_up(i);
    if (given_up && !host.given_up) ++host.counters.watchdog_trips;
    host.given_up = given_up;
    if (watchdogs_.nic_trips_of(i) == host.nic_trips) continue;
    // It may not pause again, because a card that is broken would go on as before. From now on it
    // loses what it has no room for.
    host.nic_trips = watchdogs_.nic_trips_of(i);
    host.may_not_pause = true;
    ++host.counters.nic_watchdog_trips;
  }
}

Time Fabric::next_pause_event() const {
  Time next = Time::never();
  for (const Host& host : hosts_) {
    if (host.pauses) next = std::min(next, host.pauses_until);
    if (host.told) next = std::min(next, host.tell_at);
    if (host.pauses || host.full || host.given_up)
      next = std::min(next, real_time(watchdogs_.next()));
  }
  return next;
}

// The host has frames that the fabric borrowed and may take in.
bool Fabric::has_work(const Host& host) const {
  return has_pfc() && !host.blocked && host.backlog.count > 0;
}

}  // namespace mprdma::switchsim
