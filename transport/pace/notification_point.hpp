// The notification point of a connection (DCQCN 3.1; IBTA volume 1, annex A17.9): when marked
// packets arrive, a CNP asks their sender for less, at most once in an interval. What the sender
// makes of it is its own business, so a connection notifies whether or not its own rate is
// controlled.
#pragma once

#include "base/units.hpp"
#include "cc/dcqcn.hpp"
#include "transport/core/qp_config.hpp"
#include "wire/packet.hpp"

namespace mprdma::transport {

// Shortest time between two CNPs of a connection whose rate controller names none: N of DCQCN's
// paper.
inline constexpr Duration kCnpInterval = cc::dcqcn_constants(cc::DcqcnPreset::kPaper).cnp_interval;

class NotificationPoint {
 public:
  // The connection begins; infinite: no CNP is ever due.
  void reset(Duration interval) {
    interval_ = interval;
    next_ = interval == Duration::infinite() ? Time::never() : Time();
  }
  // Called for a marked packet that is no acknowledgement, because the sender of those could not
  // send fewer: true if a CNP is to leave at once.
  bool due(Time now) {
    if (now < next_) return false;
    next_ = now + interval_;
    return true;
  }

 private:
  Duration interval_ = Duration::infinite();
  Time next_ = Time::never();
};

// A CNP to the sender of marked packets, on the queue pair's own path.
inline wire::Packet make_cnp(const QpAttributes& attributes) {
  wire::Packet cnp;
  cnp.opcode = wire::Opcode::kCnp;
  cnp.becn = true;
  cnp.dest_qpn = attributes.dest_qpn;
  cnp.vp = attributes.vp;
  return cnp;
}

}  // namespace mprdma::transport
