// The contract of a path policy: *where* a packet leaves. *When* it may leave is the business of a
// send gate (transport/stream/send_gate.hpp).
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include "base/prng.hpp"
#include "base/units.hpp"

namespace mprdma::transport {

// An acknowledgement of something new, as a path policy hears it.
struct PathSample {
  Time now = {};
  Duration rtt = {};  // of the acknowledged packet; zero: not measured
  uint16_t vp = 0;    // path that the packet took; 0: the peer echoed no valid one
  bool ece = false;
  bool slow = false;       // the ACK clock found it too slow for the others
  bool congested = false;  // it counts as a sign of congestion (on_round)
};

// ---- The members that a policy may have (see below)
template <class P>
concept HearsAcks = requires(P p, const PathSample& sample) {
  p.on_ack(sample);
};
template <class P>
concept HearsLosses = requires(P p, uint16_t vp) {
  p.on_loss(vp);
};
template <class P>
concept HearsTimeouts = requires(P p, Time now) {
  p.on_timeout(now);
};
template <class P>
concept HearsRounds = requires(P p, bool congested) {
  p.on_round(congested);
};

template <class P>
concept HearsIdle = requires(P p) {
  p.on_idle();
};
template <class P>
concept HearsSpares = requires(P p, const PathSample& sample, Duration usual) {
  p.on_spare(sample, usual);
};
template <class P>
concept HearsPeer = requires(P p, uint16_t vp) {
  p.on_peer(vp);
};
template <class P>
concept Retries = requires(P p, uint16_t avoid, uint32_t attempt, Prng& prng) {
  { p.retry(avoid, attempt, prng) } -> std::same_as<uint16_t>;
};
template <class P>
concept HoldsPaths = requires(P p, uint32_t packets) {
  p.hold(packets);
};
template <class P>
concept Explores = requires(P p, Prng& prng) {
  { p.explore(prng) } -> std::same_as<uint16_t>;
};
template <class P>
concept Seeks = requires(const P p) {
  { p.seeks() } -> std::same_as<bool>;
};

// True if P has none of these names with another signature: such a member would never be called.
template <class P>
inline constexpr bool kHearsAsNamed = (HearsAcks<P> || !requires { &P::on_ack; }) &&
                                      (HearsLosses<P> || !requires { &P::on_loss; }) &&
                                      (HearsTimeouts<P> || !requires { &P::on_timeout; }) &&
                                      (HearsRounds<P> || !requires { &P::on_round; }) &&
                                      (HearsIdle<P> || !requires { &P::on_idle; }) &&
                                      (HearsSpares<P> || !requires { &P::on_spare; }) &&
                                      (HearsPeer<P> || !requires { &P::on_peer; }) &&
                                      (Retries<P> || !requires { &P::retry; }) &&
                                      (HoldsPaths<P> || !requires { &P::hold; }) &&
                                      (Explores<P> || !requires { &P::explore; }) &&
                                      (Seeks<P> || !requires { &P::seeks; });

// A policy is a pure class in a file of its own; each stream has an object of it.
//
//   kName                its name in configurations and scenarios
//   kClocked             true: the gate is the ACK clock (gate_ack_clock.hpp), and next() is asked
//                        only for a packet whose credit has no path; false: the window alone
//                        decides when, and next() is asked for every packet
//   hold(packets)        may be left out: a stream is made, which may have so many packets on the
//                        wire; the place to allocate memory
//   reset(fixed_vp)      begins a connection, which got `fixed_vp` when it was set up
//   next(now, prng)      the virtual path of a packet
//
// A policy that wants to learn has one or more of these members, too; a policy without a member is
// not told, at no cost:
//
//   on_ack(sample)       an acknowledgement of something new
//   on_loss(vp)          a packet is lost, which left on this path; 0: its path is unknown, because
//                        the sender keeps those of the newest packets only. After a NACK the path
//                        of the packet which the receiver's window dropped. This packet arrived;
//                        the hole before it did not
//   on_timeout(now)      silence has lasted for a retransmission timeout
//   on_idle()            just before next(): nothing is outstanding, so that the packet overtakes
//                        none
//   on_spare(sample, usual)
//                        an acknowledgement of something new, on a path that is not too slow, finds
//                        nothing to send, or credits without a path that wait. In the second case
//                        its own credit has no path, either. `usual`: SRTT
//   on_peer(vp)          a packet of the peer's has come on this path: the answer to a READ or an
//                        atomic operation, or, for the stream of answers, the request
//   retry(avoid, n, prng)
//                        in place of next(): the path of a packet that was lost on `avoid` (0: not
//                        known), or is asked for the n-th time in a silence, from 0
//   explore(prng)        in place of next(): a path of which nothing is known
//   seeks()              asked at the end of each round trip, after on_round(), if kClocked is true
//                        and path_probe_per_mille is not 0: true lets the next packet explore
//   on_round(congested)  a round trip ends; true: half of its acknowledgements or more told of
//                        congestion: by a mark, or by what the window's control makes of them
template <class P>
concept PathChoice = std::default_initializable<P> && kHearsAsNamed<P> &&
    requires(P p, uint16_t vp, Time now, Prng& prng) {
  { P::kName } -> std::convertible_to<std::string_view>;
  { P::kClocked } -> std::convertible_to<bool>;
  p.reset(vp);
  { p.next(now, prng) } -> std::same_as<uint16_t>;
};

}  // namespace mprdma::transport
