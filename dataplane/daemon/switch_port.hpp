// A port of the switch, for a client or the wire, with the frames on their way into it.
//
// Frames to send are reserved 32 at a time and kept: the unused rest serves the next turn, so that
// a lone frame costs no reservation. room() tells how many frames can be sent without a loss,
// before they are taken from another port.
#pragma once

#include <array>
#include <memory>
#include <utility>

#include "base/units.hpp"
#include "dataplane/daemon/counters.hpp"
#include "dataplane/port/port.hpp"
#include "wire/pause_frame.hpp"

namespace mprdma::dataplane::mprdmad {

class Outbox {
 public:
  explicit Outbox(Port* port) : port_(port) {}
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;
  ~Outbox() {
    commit();
    if (used_ < reserved_) port_->tx_abandon(frames_.data() + used_, reserved_ - used_);
  }

  // The next frame to fill; nullptr: the port is full.
  TxFrame* next() {
    if (used_ == reserved_ && !refill()) return nullptr;
    return &frames_[used_++];
  }
  void put_back() { --used_; }
  // The frame that next() gave last, until it is committed.
  TxFrame* last() { return &frames_[used_ - 1]; }

  // Number of frames that next() will give at least; kBurst where the port has room.
  unsigned room() {
    if (reserved_ - used_ >= kBurst / 2) return reserved_ - used_;
    commit();
    if (used_ < reserved_) port_->tx_abandon(frames_.data() + used_, reserved_ - used_);
    used_ = reserved_ = committed_ = 0;
    refill();
    return reserved_;
  }

  void commit() {
    if (used_ == committed_) return;
    port_->tx_commit(frames_.data() + committed_, used_ - committed_);
    committed_ = used_;
  }

 private:
  bool refill() {
    commit();
    used_ = committed_ = 0;
    reserved_ = port_->tx_reserve(frames_.data(), kBurst);
    return reserved_ > 0;
  }

  Port* port_;
  unsigned reserved_ = 0;
  unsigned used_ = 0;
  unsigned committed_ = 0;
  std::array<TxFrame, kBurst> frames_;
};

struct Station {
  Station(std::unique_ptr<Port> the_port, Time now)
      : port(std::move(the_port)),
        outbox(port.get()),
        frame_bytes_max(port->info().frame_bytes_max),
        last_moved(now) {}

  std::unique_ptr<Port> port;
  Outbox outbox;  // destroyed before the port
  uint32_t frame_bytes_max;
  StationCounters counters;
  bool dirty = false;    // to be flushed at the end of the turn
  bool awake = true;     // read in every turn; else armed
  bool to_wire = false;  // a client whose last frames were for the wire
  Time last_moved;
  Time arp_period_end;
  uint32_t arp_questions_left = 0;  // in this period
  wire::PauseFrame pause;           // of the wire, which a client has to be told
  bool owes_pause = false;
};

}  // namespace mprdma::dataplane::mprdmad
