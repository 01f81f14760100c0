// Queue pair 1 of a device. It checks the management datagrams that arrive and hands those of the
// standard's connection management (wire/cm_mad.hpp) and of mode negotiation (wire/mad.hpp) to its
// host; it answers the path probes of peers (wire/probe_mad.hpp), and sends datagrams of all kinds.
//
// Pure: frames in, frames out by the host; time is an argument. Called by the worker and by
// mprdmad's switch.
#pragma once

#include <cstdint>
#include <span>

#include "base/token_bucket.hpp"
#include "base/units.hpp"
#include "dataplane/mgmt/nic_host.hpp"
#include "dataplane/mgmt/path_prober.hpp"
#include "dataplane/mgmt/probe_responder.hpp"
#include "wire/frame.hpp"
#include "wire/mad.hpp"

namespace mprdma::dataplane {

class Qp1 {
 public:
  // `prober`: the open questions of this device's clients, which lives as long; nullptr: the device
  // sends no probes.
  explicit Qp1(PathProber* prober = nullptr) : prober_(prober) {}

  // Takes a frame to queue pair 1 of one of our addresses. The payload may change meanwhile, so the
  // beginning that matters is copied. `from_loop`: the device itself sent it, which is only right
  // for connection management.
  void on_datagram(const wire::DecodedFrame& decoded, const unsigned char* payload, bool from_loop,
                   Time now, NicHost& host);

  // Send a datagram. False: the host had no room, or no link.
  bool send(const wire::FrameAddress& to, uint16_t source_port,
            std::span<const unsigned char, wire::kMadBytes> mad, NicHost& host);
  bool send_pair(const wire::FrameAddress& to, uint16_t source_port, const wire::PairMad& mad,
                 NicHost& host);
  bool send_probe(const wire::FrameAddress& to, uint16_t source_port, const wire::ProbeMad& mad,
                  NicHost& host);

 private:
  void on_probe(const wire::DecodedFrame& decoded,
                std::span<const unsigned char, wire::kMadBytes> head, Time now, NicHost& host);
  bool put(const wire::FrameAddress& to, const wire::Packet& packet, unsigned char* payload,
           NicHost& host);

  PathProber* prober_;
  TokenBucket probe_limit_{kProbeInterval, kProbeBurst};
  Psn psn_;
};

}  // namespace mprdma::dataplane
