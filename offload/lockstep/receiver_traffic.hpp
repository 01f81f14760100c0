// What a receiver of many connections may see: packets in order, lost ones, copies, packets out of
// order, at and beyond both ends of the window, from far before and far ahead, messages that
// synchronise, and contexts that are loaded meanwhile.
#pragma once

#include <cstdint>
#include <vector>

#include "base/prng.hpp"
#include "base/psn.hpp"
#include "offload/lockstep/receiver_device.hpp"

namespace mprdma::offload {

class ReceiverTraffic {
 public:
  // Draws the connections that are used; where they are few, packets of the same one follow each
  // other.
  ReceiverTraffic(uint64_t seed, uint32_t connections);

  // The next request; `nxt` tells where a connection's receiver is.
  template <class Nxt>
  ReceiverRequest next(const Nxt& nxt) {
    if (!unloaded_.empty()) return first_load();
    // Packets of one connection come in bursts.
    if (!prng_.chance(1, 3)) current_ = static_cast<uint32_t>(prng_.below(connections_.size()));
    const Psn expected = nxt(connections_[current_].number);
    return prng_.chance(1, 500) ? load(current_, expected) : packet(current_, expected);
  }
  // Nothing arrives in this cycle.
  bool rests() { return prng_.chance(1, 12); }
  // The device is reset now.
  bool resets() { return prng_.chance(1, 20'000); }
  // The context of this connection is lost: it is loaded before its next packet.
  void forget(uint32_t number);

 private:
  struct Connection {
    uint32_t number;
    Psn front;  // the next packet that its peer sends for the first time
    uint64_t seed;
  };

  ReceiverRequest first_load();
  ReceiverRequest begin(uint32_t index);
  ReceiverRequest load(uint32_t index, Psn nxt);
  ReceiverRequest packet(uint32_t index, Psn nxt);
  Psn draw(Connection& connection, Psn nxt);
  Psn far(Psn nxt);

  Prng prng_;
  std::vector<Connection> connections_;
  std::vector<uint32_t> unloaded_;  // indices
  uint32_t current_ = 0;
};

}  // namespace mprdma::offload
