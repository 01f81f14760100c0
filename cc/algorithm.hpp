// The contract of a congestion control: events in, a window or a rate out; and the defaults that a
// new one may inherit.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "base/fixed_point.hpp"
#include "base/units.hpp"

namespace mprdma::cc {

// ---- Events. A field can be added without a change to any algorithm.

// What kept the stream from sending more. A window that was not in use is no measure of the
// network, so it may not grow; nor may it on a path that is nearly too slow for the others (kPath).
enum class LimitedBy : uint8_t { kWindow, kApplication, kWire, kPath };

// An acknowledgement of something new, or the own one of a packet that another had covered.
struct AckSample {
  Time now = {};
  Duration rtt = {};     // of the acknowledged packet; zero: not measured
  uint32_t packets = 1;  // that it acknowledges for the first time; 0: all were acknowledged before
  uint32_t in_flight = 0;  // after it: sent, and neither acknowledged nor known lost
  // Most packets that can have been in flight when the acknowledged one left; the largest number
  // if the stream does not count them.
  uint32_t in_use = UINT32_MAX;
  uint16_t vp = 0;   // virtual path of the packet; 0: unknown
  bool ece = false;  // the packet was marked
  LimitedBy limited_by = LimitedBy::kWindow;

  // True if the window was in use, and its path may take more.
  [[nodiscard]] bool may_grow() const { return limited_by == LimitedBy::kWindow; }
};

enum class LossKind : uint8_t {
  kHole,        // the network lost a packet
  kWindowDrop,  // the receiver dropped a packet because its window was full
};

// A lost packet; reported once for each. Packets that a timeout marks lost are not reported:
// on_timeout() is. Nothing is told while Params::loss_shrinks_window is off.
struct LossSample {
  Time now = {};
  LossKind kind = LossKind::kHole;
  uint16_t vp = 0;  // virtual path of the packet; 0: unknown
};

// What an algorithm begins with. A stream gives no thresholds of TIMELY, a connection no packets.
struct Setup {
  uint32_t initial_packets = 1;
  uint32_t max_packets = 1;
  uint64_t link_bps = 0;
  Duration base_rtt = {};      // of the empty network; zero: the smallest sample
  Duration target_delay = {};  // of queues; zero: as long as the base RTT
  Duration rtt_low = {};       // TIMELY: below it the rate grows
  Duration rtt_high = {};      // TIMELY: above it the rate falls
  bool spaces = false;         // spacing() may be more than zero
};

inline constexpr Fixed16 kNoWindow = Fixed16::max();
inline constexpr uint64_t kNoRate = 0;

// ---- The members that an algorithm may have (see below)
template <class A>
concept HearsSlowPaths = requires(A a, const AckSample& sample) {
  a.on_slow_path(sample);
};
template <class A>
concept HearsUnusedAcks = requires(A a) {
  a.on_unused_ack();
};
template <class A>
concept UndoesLosses = requires(A a) {
  a.on_loss_undone();
  { A::kLossCost } -> std::convertible_to<Fixed16>;
};
template <class A>
concept GivesBack = requires(A a, const A& c) {
  a.give_back();
  { c.owed() } -> std::same_as<Fixed16>;
};
template <class A>
concept Recovers = requires(A a) {
  a.recover();
};
template <class A>
concept Follows = requires(A a, uint32_t packets) {
  a.follow(packets, packets);
};
template <class A>
concept Ramps = requires(const A& c) {
  { c.ramps() } -> std::same_as<bool>;
};
template <class A>
concept JudgesAcks = requires(const A& c, const AckSample& sample) {
  { c.congested(sample) } -> std::same_as<bool>;
};
template <class A>
concept NamesGiveBack = requires {
  &A::give_back;
}
|| requires {
  &A::owed;
};
// True if A has none of these names with another signature: such a member would never be called.
template <class A>
inline constexpr bool kHearsAsNamed = (HearsSlowPaths<A> || !requires { &A::on_slow_path; }) &&
                                      (HearsUnusedAcks<A> || !requires { &A::on_unused_ack; }) &&
                                      (UndoesLosses<A> || !requires { &A::on_loss_undone; }) &&
                                      (Recovers<A> || !requires { &A::recover; }) &&
                                      (Follows<A> || !requires { &A::follow; }) &&
                                      (Ramps<A> || !requires { &A::ramps; }) &&
                                      (JudgesAcks<A> || !requires { &A::congested; }) &&
                                      (GivesBack<A> || !NamesGiveBack<A>);

// An algorithm is a pure class in a file of its own: no clock, no packets, no allocation, integers
// and fixed point only. A stream (window.hpp) or a connection (rate.hpp) owns an object of it, and
// tells it what it sees there.
//
//   kName               its name in configurations and scenarios
//   A(setup)
//   reset()             the connection begins, or restarts
//   on_ack(sample)      stream: an acknowledgement of something new. Connection: one that gives an
//                       RTT; the sample has the time, the RTT, the path and the mark only
//   on_loss(sample)     stream: a packet is lost
//   on_timeout(now)     stream: once for each silence
//   on_cnp(now)         connection: a congestion notification packet came
//   on_sent(now, bytes) connection: a packet left while there is a limit; bytes of the wire
//   on_deadline(now)    connection: next_deadline() has come
//   window()            packets, never below one; kNoWindow: no limit. A stream obeys it
//   rate_bps()          bits of the wire per second; kNoRate: no limit. A connection obeys it
//   next_deadline()     never: events are enough
//   spacing()           stream: round trips that the next packet waits after the acknowledgement of
//                       the only one, where a window of one packet is too much
//   deficit()           what marks or delay have left of that, and acknowledgements have to take
//                       back; zero: spacing() is zero until the next sign of congestion
//   forget_deficit()    stream: the application has rested for long
//   kCnpInterval        shortest time between two CNPs that a receiver sends; infinite: none
//   kNeedsMarks         it knows congestion by ece only, so that it is of no use where
//                       acknowledgements echo no mark
//
// The rules of MP-RDMA for paths and unused windows are events of a stream, too, for an algorithm
// that has the member:
//
//   on_slow_path(sample)  in place of on_ack(): the path is too slow; without it on_ack() is told
//   on_loss_undone()      a packet of on_loss() has arrived, so that kHole was wrong. Told only if
//                         the loss had taken kLossCost from the window, no less
//   on_unused_ack()       an acknowledgement found nothing to send
//   give_back()           the application has packets again after on_unused_ack()
//   recover()             the application has packets again, and congestion was long ago
//   owed()                most that give_back() would add, packets
//   congested(sample)     whether the acknowledgement tells of congestion, asked before on_ack();
//                         without it a mark does
//   follow(initial, max)  one and two bandwidth-delay products of the network as it proves to be,
//                         packets, in place of those of Setup
//   ramps()               the window grows by a packet with each acknowledgement now; meanwhile the
//                         wire is no limit
template <class A>
concept Algorithm = std::constructible_from<A, const Setup&> && kHearsAsNamed<A> &&
    requires(A a, const A& c, const AckSample& ack, const LossSample& loss, Time now,
             uint32_t bytes) {
  { A::kName } -> std::convertible_to<std::string_view>;
  { A::kCnpInterval } -> std::convertible_to<Duration>;
  { A::kNeedsMarks } -> std::convertible_to<bool>;
  a.reset();
  a.on_ack(ack);
  a.on_loss(loss);
  a.on_timeout(now);
  a.on_cnp(now);
  a.on_sent(now, bytes);
  a.on_deadline(now);
  { c.window() } -> std::same_as<Fixed16>;
  { c.rate_bps() } -> std::same_as<uint64_t>;
  { c.next_deadline() } -> std::same_as<Time>;
  a.forget_deficit();
  { c.deficit() } -> std::same_as<Fixed16>;
  { c.spacing() } -> std::same_as<Fixed16>;
};

// No limit, whatever happens. Algorithms inherit what they do not need.
struct AlgorithmDefaults {
  static constexpr Duration kCnpInterval = Duration::infinite();
  static constexpr bool kNeedsMarks = false;

  void reset() {}
  void on_ack(const AckSample&) {}
  void on_loss(const LossSample&) {}
  void on_timeout(Time) {}
  void on_cnp(Time) {}
  void on_sent(Time, uint32_t) {}
  void on_deadline(Time) {}
  [[nodiscard]] Fixed16 window() const { return kNoWindow; }
  [[nodiscard]] uint64_t rate_bps() const { return kNoRate; }
  [[nodiscard]] Time next_deadline() const { return Time::never(); }
  void forget_deficit() {}
  [[nodiscard]] Fixed16 deficit() const { return Fixed16(); }
  [[nodiscard]] Fixed16 spacing() const { return Fixed16(); }
};

// Which limit an algorithm sets: the other one has the default.
template <class A>
inline constexpr bool kSetsWindow =
    !std::is_same_v<decltype(&A::window), decltype(&AlgorithmDefaults::window)>;
template <class A>
inline constexpr bool kSetsRate =
    !std::is_same_v<decltype(&A::rate_bps), decltype(&AlgorithmDefaults::rate_bps)>;

// What an algorithm listens to; nothing is gathered for one that has the default.
template <class A>
inline constexpr bool kHearsAcks =
    !std::is_same_v<decltype(&A::on_ack), decltype(&AlgorithmDefaults::on_ack)>;
template <class A>
inline constexpr bool kHearsCnps =
    !std::is_same_v<decltype(&A::on_cnp), decltype(&AlgorithmDefaults::on_cnp)>;

// A window between one packet and its maximum.
class PlainWindow : public AlgorithmDefaults {
 public:
  explicit PlainWindow(const Setup& setup)
      : initial_(Fixed16::from_int(setup.initial_packets)),
        max_(Fixed16::from_int(setup.max_packets)),
        window_(initial_) {}

  void reset() { window_ = initial_; }
  // The window gives up the packet of the slow path.
  void on_slow_path(const AckSample&) { set(window_ - kOne); }
  void follow(uint32_t initial_packets, uint32_t max_packets) {
    initial_ = Fixed16::from_int(initial_packets);
    max_ = Fixed16::from_int(max_packets);
    set(window_);
  }
  [[nodiscard]] Fixed16 window() const { return window_; }

 protected:
  static constexpr Fixed16 kOne = Fixed16::from_int(1);

  void set(Fixed16 window) { window_ = std::clamp(window, kOne, max_); }
  // Grows by one packet in a round trip.
  void grow() { set(window_ + window_.reciprocal()); }

 private:
  Fixed16 initial_;
  Fixed16 max_;
  Fixed16 window_;
};

}  // namespace mprdma::cc
