// Two ends of a wire in memory, for tests of the engine: a Port on each side, and a hand in between
// that injects any bytes, holds frames back, or fills the wire. May be used by two threads.
#pragma once

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "dataplane/port/port.hpp"

namespace mprdma::dataplane::testing {

using Bytes = std::vector<unsigned char>;

// What the two ports and the test share.
struct MemoryWire {
  struct Arrival : Bytes {
    Arrival(Bytes bytes, FrameForm its_form) : Bytes(std::move(bytes)), form(its_form) {}
    FrameForm form;
  };
  struct Side {
    std::deque<Arrival> incoming;
    bool armed = false;
    int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ~Side() { close(event_fd); }
  };
  std::mutex mutex;
  Side side[2];
  // Sees every frame that a port sends, with the sender's side; false: the frame is lost.
  std::function<bool(int, const Bytes&)> on_frame;
  std::function<void(int)> on_await;  // Port::await_rx() of that side
  // Port::pull() of either side; none: it fails.
  std::function<bool(std::span<const iovec> to, std::span<const iovec> from)> on_pull;
  FrameForm form = FrameForm::kFrame;  // of the frames that are injected
  bool bare = false;                   // the ports take bare packets of each other
  uint32_t room = 1024;                // frames that may lie in one direction
  bool can_corrupt = true;             // so that ICRC is filled and checked
  uint64_t notifications = 0;
  Daemon* daemon[2] = {};  // behind each port; null: none
  bool plugged = true;     // a port that is made has a link
  uint64_t link_mbps = 0;  // 0: the ports do not know

  void inject(int to, Bytes frame) {
    const std::lock_guard<std::mutex> guard(mutex);
    deliver(to, std::move(frame), form);
  }
  void deliver(int to, Bytes frame, FrameForm its_form = FrameForm::kFrame) {
    Side& receiver = side[to];
    receiver.incoming.emplace_back(std::move(frame), its_form);
    if (!receiver.armed) return;
    receiver.armed = false;
    ++notifications;
    const uint64_t one = 1;
    (void)!write(receiver.event_fd, &one, sizeof(one));
  }
};

class MemoryPort final : public Port {
 public:
  MemoryPort(std::shared_ptr<MemoryWire> wire, int side, std::array<unsigned char, 6> mac)
      : up(wire->plugged), wire_(std::move(wire)), side_(side), mac_(mac) {
    for (unsigned i = 0; i < kSlots; ++i) {
      tx_[i].resize(64 + kFrameHeadroom + kPayload);
      free_tx_.push_back(i);
    }
  }

  ~MemoryPort() override { EXPECT_EQ(reserved, 0) << "a reserved frame did not come back"; }

  [[nodiscard]] PortInfo info() const override {
    PortInfo info;
    info.mac = mac_;
    info.frame_bytes_max = kFrameHeadroom + kPayload;
    info.rx_frames = 256;
    info.link_mbps = wire_->link_mbps;
    info.can_corrupt = wire_->can_corrupt;
    return info;
  }
  [[nodiscard]] bool link_up() const override { return up.load(std::memory_order_relaxed); }
  [[nodiscard]] const char* link_text() const override { return "test"; }
  [[nodiscard]] bool takes_bare() const override { return wire_->bare; }

  unsigned tx_reserve(TxFrame* frames, unsigned n) override {
    const std::lock_guard<std::mutex> guard(wire_->mutex);
    const size_t queued = wire_->side[1 - side_].incoming.size();
    unsigned got = 0;
    while (got < n && !free_tx_.empty() && queued + got < wire_->room) {
      const unsigned slot = free_tx_.back();
      free_tx_.pop_back();
      frames[got++] = {payload(slot), kPayload, 0, 0, slot};
    }
    reserved += got;
    return got;
  }
  void tx_commit(const TxFrame* frames, unsigned n) override {
    for (unsigned i = 0; i < n; ++i) {
      const unsigned char* start = frames[i].payload - frames[i].header_bytes;
      Bytes frame(start, start + frames[i].frame_bytes);
      const bool kept = !wire_->on_frame || wire_->on_frame(side_, frame);
      const std::lock_guard<std::mutex> guard(wire_->mutex);
      if (kept) wire_->deliver(1 - side_, std::move(frame), frames[i].form);
      ++stats_.tx_frames;
    }
    tx_abandon(frames, n);
  }
  void tx_abandon(const TxFrame* frames, unsigned n) override {
    for (unsigned i = 0; i < n; ++i) free_tx_.push_back(static_cast<unsigned>(frames[i].cookie));
    reserved -= n;
  }
  void flush() override { ++flushes; }
  bool pull(std::span<const iovec> to, std::span<const iovec> from, size_t) override {
    return wire_->on_pull && wire_->on_pull(to, from);
  }
  void pull_no_more() override { pulls_no_more = true; }

  unsigned rx_burst(RxFrame* frames, unsigned n) override {
    const std::lock_guard<std::mutex> guard(wire_->mutex);
    auto& incoming = wire_->side[side_].incoming;
    unsigned got = 0;
    while (got < n && !incoming.empty()) {
      const FrameForm form = incoming.front().form;
      auto frame = std::make_unique<Bytes>(std::move(incoming.front()));
      incoming.pop_front();
      Bytes* raw = frame.release();
      frames[got++] = {raw->data(), static_cast<uint32_t>(raw->size()),
                       reinterpret_cast<uint64_t>(raw), form};
      ++borrowed;
    }
    return got;
  }
  Looks await_rx(uint32_t looks, const std::atomic<uint32_t>&) override {
    if (wire_->on_await) wire_->on_await(side_);
    const std::lock_guard<std::mutex> guard(wire_->mutex);
    return {looks, !wire_->side[side_].incoming.empty()};
  }
  void rx_release(const uint64_t* cookies, unsigned n) override {
    for (unsigned i = 0; i < n; ++i) delete reinterpret_cast<Bytes*>(cookies[i]);
    borrowed -= static_cast<int>(n);
  }
  [[nodiscard]] int notify_fd() const override { return wire_->side[side_].event_fd; }
  bool arm() override {
    const std::lock_guard<std::mutex> guard(wire_->mutex);
    if (!wire_->side[side_].incoming.empty()) return false;
    wire_->side[side_].armed = true;
    return true;
  }
  void disarm() override {
    const std::lock_guard<std::mutex> guard(wire_->mutex);
    wire_->side[side_].armed = false;
  }
  void service(Time) override {
    uint64_t value = 0;
    (void)!read(notify_fd(), &value, sizeof(value));
  }
  void close_after_fork() override {}
  [[nodiscard]] Daemon* daemon() override { return wire_->daemon[side_]; }
  [[nodiscard]] PortCounters stats() const override { return stats_; }

  std::atomic<bool> up;
  int reserved = 0;  // 0 when the worker is gone
  int borrowed = 0;
  uint64_t flushes = 0;
  bool pulls_no_more = false;

 private:
  static constexpr unsigned kSlots = 256;
  static constexpr uint32_t kPayload = 4096 + kFrameTailroom;

  unsigned char* payload(unsigned slot) {
    const auto base = reinterpret_cast<uintptr_t>(tx_[slot].data());
    return reinterpret_cast<unsigned char*>((base + kFrameHeadroom + 63) & ~uintptr_t{63});
  }

  std::shared_ptr<MemoryWire> wire_;
  int side_;
  std::array<unsigned char, 6> mac_;
  std::array<Bytes, kSlots> tx_;
  std::vector<unsigned> free_tx_;
  PortCounters stats_;
};

}  // namespace mprdma::dataplane::testing
