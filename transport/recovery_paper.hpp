// The paper's own accounting and loss recovery, to the letter (3.2, 3.4, figure 7), for comparison:
// Params::sack_map = false. The sender (stream_sender.hpp) asks it instead of its maps.
//
//   in flight = span - inflate; `inflate` grows by one with every acknowledgement of a received
//   packet and falls by as much as snd_una advances. A lost acknowledgement leaks.
//   A NACK begins recovery: snd_retx = the NACKed PSN, recovery = snd_nxt. Until snd_una reaches
//   `recovery`, acknowledgements clock out snd_retx, snd_retx + 1, .. up to `recovery`, one each,
//   then new packets; nothing is detected a second time. The copies do not count as in flight.
//   A timeout begins the sweep again, from snd_una.
//
// snd_retx and recovery never lie before snd_una, so no comparison inverts.
#pragma once

#include <cstdint>

#include "base/check.hpp"
#include "base/psn.hpp"

namespace mprdma::transport {

class PaperRecovery {
 public:
  void reset(Psn first) {
    inflate_ = 0;
    retx_ = recovery_ = first;
    recovering_ = by_timeout_ = false;
  }

  void on_ack() { ++inflate_; }
  // snd_una moves to `una`, by `count`.
  void on_advance(Psn una, uint32_t count) {
    inflate_ -= static_cast<int32_t>(count);
    retx_ = psn_max(retx_, una);
    recovery_ = psn_max(recovery_, una);
    if (recovery_ == una) recovering_ = false;
  }
  // False: recovery was on already.
  bool on_nack(Psn hole, Psn nxt) {
    if (recovering_) return false;
    begin(hole, nxt);
    by_timeout_ = false;
    return true;
  }
  void on_timeout(Psn una, Psn nxt) {
    begin(una, nxt);
    by_timeout_ = true;
  }
  // A connection restart: nothing is outstanding.
  void on_restart() { inflate_ = 0; }

  [[nodiscard]] bool recovering() const { return recovering_; }
  [[nodiscard]] bool by_timeout() const { return by_timeout_; }
  [[nodiscard]] bool has_next() const { return recovering_ && retx_.before(recovery_); }
  [[nodiscard]] Psn next() const { return retx_; }
  void on_sent() { ++retx_; }

  [[nodiscard]] uint32_t in_flight(uint32_t span) const {
    const int32_t count = static_cast<int32_t>(span) - inflate_;
    return count > 0 ? static_cast<uint32_t>(count) : 0;
  }

 private:
  void begin(Psn from, Psn nxt) {
    retx_ = from;
    recovery_ = nxt;
    recovering_ = retx_.before(recovery_);
  }

  int32_t inflate_ = 0;
  Psn retx_;
  Psn recovery_;
  bool recovering_ = false;
  bool by_timeout_ = false;
};

}  // namespace mprdma::transport
