// A port that loses, delays and duplicates the frames sent through it, or pauses its peer without
// end, for tests of whole programs on an imperfect wire. The seed determines which frames are
// affected. Wraps any port. Delayed frames are copies, so the constructor allocates, and each
// affected frame costs a copy: not for figures.
#pragma once

#include <memory>
#include <vector>

#include "base/prng.hpp"
#include "dataplane/port/fault_spec.hpp"
#include "dataplane/port/port.hpp"

namespace mprdma::dataplane {

class FaultPort final : public Port {
 public:
  // Limit of frames held back at a time; further ones are sent undelayed.
  static constexpr uint32_t kHeld = 256;

  FaultPort(std::unique_ptr<Port> inner, const FaultSpec& spec);

  [[nodiscard]] PortInfo info() const override { return inner_->info(); }
  [[nodiscard]] bool link_up() const override { return inner_->link_up(); }
  [[nodiscard]] const char* link_text() const override { return inner_->link_text(); }
  unsigned tx_reserve(TxFrame* frames, unsigned n) override;
  bool tx_tight() override { return inner_->tx_tight(); }
  void tx_commit(const TxFrame* frames, unsigned n) override;
  void tx_abandon(const TxFrame* frames, unsigned n) override { inner_->tx_abandon(frames, n); }
  void flush() override;
  unsigned rx_burst(RxFrame* frames, unsigned n) override;
  void rx_release(const uint64_t* cookies, unsigned n) override { inner_->rx_release(cookies, n); }
  [[nodiscard]] int notify_fd() const override { return inner_->notify_fd(); }
  bool arm() override;
  void disarm() override { inner_->disarm(); }
  [[nodiscard]] int waker_core() const override { return inner_->waker_core(); }
  int take_costly_waker() override { return inner_->take_costly_waker(); }
  void service(Time now) override;
  void close_after_fork() override { inner_->close_after_fork(); }
  [[nodiscard]] Daemon* daemon() override { return inner_->daemon(); }
  [[nodiscard]] PortCounters stats() const override { return inner_->stats(); }

 private:
  struct Held {
    Time due = Time::never();  // never: free
    uint32_t header_bytes = 0;
    std::vector<unsigned char> bytes;
  };

  void hold(const TxFrame& frame, Time now);
  // Sends the frames that are due; true if there were any.
  bool send_due(Time now);
  // Pauses every priority of the peer again, if that is due.
  void pause_peer(Time now);

  std::unique_ptr<Port> inner_;
  FaultSpec spec_;
  Prng prng_;
  std::vector<Held> held_;
  uint32_t held_count_ = 0;
  Time pause_at_ = Time::never();  // the next pause of the peer
  bool storming_ = false;
};

}  // namespace mprdma::dataplane
