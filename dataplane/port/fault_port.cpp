#include "dataplane/port/fault_port.hpp"

#include <algorithm>
#include <cstring>

#include "dataplane/sys/clock.hpp"
#include "wire/pause_frame.hpp"

namespace mprdma::dataplane {

namespace {

constexpr uint64_t kMillion = 1'000'000;
// So soon that no pause ends, on links of up to 60 Gb/s.
constexpr Duration kPauseEvery = Duration::us(500);

}  // namespace

FaultPort::FaultPort(std::unique_ptr<Port> inner, const FaultSpec& spec)
    : inner_(std::move(inner)), spec_(spec), prng_(spec.seed), held_(kHeld) {
  const uint32_t bytes = inner_->info().frame_bytes_max;
  for (Held& held : held_) held.bytes.reserve(bytes);
}

void FaultPort::hold(const TxFrame& frame, Time now) {
  for (Held& held : held_) {
    if (!held.due.is_never()) continue;
    const unsigned char* start = frame.payload - frame.header_bytes;
    held.bytes.assign(start, start + frame.frame_bytes);
    held.header_bytes = frame.header_bytes;
    held.due = now + spec_.delay;
    ++held_count_;
    return;
  }
}

bool FaultPort::send_due(Time now) {
  bool sent = false;
  while (held_count_ > 0) {
    // The oldest first: frames that are all delayed stay in order among themselves.
    Held& held = *std::min_element(held_.begin(), held_.end(),
                                   [](const Held& a, const Held& b) { return a.due < b.due; });
    if (held.due > now) break;
    TxFrame frame{};
    if (inner_->tx_reserve(&frame, 1) == 0) break;
    std::memcpy(frame.payload - held.header_bytes, held.bytes.data(), held.bytes.size());
    frame.header_bytes = held.header_bytes;
    frame.frame_bytes = static_cast<uint32_t>(held.bytes.size());
    inner_->tx_commit(&frame, 1);
    held.due = Time::never();
    --held_count_;
    sent = true;
  }
  return sent;
}

unsigned FaultPort::tx_reserve(TxFrame* frames, unsigned n) {
  return inner_->tx_reserve(frames, n);
}

void FaultPort::tx_commit(const TxFrame* frames, unsigned n) {
  const Time now = clock_now();
  for (unsigned i = 0; i < n; ++i) {
    const bool lose = prng_.chance(spec_.loss_ppm, kMillion);
    const bool delay = prng_.chance(spec_.reorder_ppm, kMillion) && held_count_ < kHeld;
    const bool twice = prng_.chance(spec_.dup_ppm, kMillion);
    if (!lose && (delay || twice)) hold(frames[i], now);
    if (lose || delay) {
      inner_->tx_abandon(&frames[i], 1);
    } else {
      inner_->tx_commit(&frames[i], 1);
    }
  }
}

void FaultPort::flush() {
  inner_->flush();
}

void FaultPort::pause_peer(Time now) {
  if (!inner_->link_up()) {
    storming_ = false;
    pause_at_ = Time::never();
    return;
  }
  if (pause_at_.is_never()) pause_at_ = now + spec_.pause_after;
  if (now < pause_at_) return;
  storming_ = true;
  TxFrame frame{};
  if (inner_->tx_reserve(&frame, 1) == 0) return;
  pause_at_ = now + kPauseEvery;
  frame.header_bytes = kFrameHeadroom;
  frame.frame_bytes =
      static_cast<uint32_t>(wire::PauseFrame::pfc(0xff, wire::PauseFrame::kQuantaMax)
                                .store(inner_->info().mac, frame.payload - kFrameHeadroom));
  inner_->tx_commit(&frame, 1);
  inner_->flush();
}

unsigned FaultPort::rx_burst(RxFrame* frames, unsigned n) {
  // Every burst of the engine begins here.
  if (spec_.pauses()) pause_peer(clock_now());
  if (held_count_ > 0 && send_due(clock_now())) inner_->flush();
  return inner_->rx_burst(frames, n);
}

// While a frame is held back, or the peer is paused again and again, nobody may sleep: there is no
// timer here that would send it.
bool FaultPort::arm() {
  return held_count_ == 0 && !storming_ && inner_->arm();
}

void FaultPort::service(Time now) {
  if (spec_.pauses()) pause_peer(now);
  if (held_count_ > 0 && send_due(now)) inner_->flush();
  inner_->service(now);
}

}  // namespace mprdma::dataplane
