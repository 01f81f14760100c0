// The host of the NIC's part (neighbours.hpp, qp1.hpp): the worker of a process, or the switch of
// mprdmad. It carries frames to the wire, counts under its own names, and hears what frames tell.
//
// Its functions are called within the calls that the host makes, for frames of ARP, of neighbour
// discovery and to queue pair 1, and for their timers: never for a packet of a connection.
#pragma once

#include <cstdint>
#include <span>

#include "wire/ethernet.hpp"
#include "wire/frame.hpp"
#include "wire/ip_address.hpp"
#include "wire/mad.hpp"

namespace mprdma::dataplane {

// Events that a host counts, or not.
enum class NicCount : uint8_t {
  // ARP and neighbour discovery
  kArpReceived,
  kArpTruncated,
  kArpBad,
  kArpNotForUs,  // requests for other addresses
  kArpRequestsSent,
  kArpRepliesSent,
  kNeighbourMessagesReceived,
  kNeighbourMessagesBad,  // ICMPv6, and no valid neighbour message (RFC 4861, 7.1)
  kSolicitationsSent,
  kAdvertisementsSent,
  kAddressConflicts,  // another host claims our address
  // Queue pair 1
  kMadsDropped,    // not for us, or of no class that we know
  kProbesDropped,  // malformed, or an answer to no question of ours
  kProbesRefused,  // beyond the rate that is answered
  kProbesAnswered,
  kProbeAnswersReceived,
};

class NicHost {
 public:
  virtual ~NicHost() = default;
  // Sends a whole frame to the wire. False: there is no room, or no link.
  virtual bool send(std::span<const unsigned char> frame) = 0;
  // False: the wire cannot corrupt, and no ICRC is needed.
  [[nodiscard]] virtual bool with_icrc() const = 0;
  virtual void count(NicCount what) = 0;
  // A neighbour has a new Ethernet address; nullptr: it did not answer, and is given up.
  virtual void on_neighbour(const wire::IpAddress& ip, const wire::MacAddress* mac) = 0;
  // A datagram of connection management; `from_loop`: the device itself sent it.
  virtual void on_cm_mad(std::span<const unsigned char, wire::kMadBytes> mad,
                         const wire::FrameAddress& from, bool from_loop) = 0;
  // A datagram that negotiates the mode of a pair of queue pairs.
  virtual void on_pair_mad(const wire::PairMad& mad) = 0;
};

}  // namespace mprdma::dataplane
