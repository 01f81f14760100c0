// The contract of a loss detector, and the defaults that a new one may inherit.
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "base/psn.hpp"
#include "transport/core/params.hpp"
#include "transport/stream/rtt_estimator.hpp"
#include "transport/stream/scoreboard.hpp"

namespace mprdma::transport {

enum class LossCause : uint8_t {
  kNack,
  kTrigger,  // far below the highest SACKed PSN
  kEarly,    // a packet that left later has come, and it is old; mp-paper: nothing else to send
  kTimeout,
};

constexpr std::string_view to_string(LossCause cause) {
  constexpr std::string_view kNames[] = {"nack", "trigger", "early", "timeout"};
  static_assert(std::size(kNames) == static_cast<size_t>(LossCause::kTimeout) + 1);
  return kNames[static_cast<size_t>(cause)];
}

// A packet that reached the receiver, as the answer to it says.
struct Delivery {
  Psn psn;
  Time sent = {};     // when the copy left that arrived; epoch: not known
  bool copy = false;  // it was sent again
};

// A NACK of the receiver's window: snd_una at the receiver, and the packet that it dropped.
struct Nack {
  Psn aack;
  std::optional<Delivery> dropped = {};  // outstanding
};

// What is known of time.
struct LossClock {
  Time now = {};
  const RttEstimator* rtt = nullptr;
  std::optional<Psn> long_trip = {};  // a packet that may take longer than the others
  Duration long_trip_takes = {};      // at most
};

// The report that a detector writes its verdicts to. The sender has its own; this one only serves
// the concept below.
struct LossReport {
  // The packet is lost: reduces the window, once for a packet. Or a map has told of it, and its
  // acknowledgement is lost. Requires that the packet is outstanding and neither SACKed nor lost.
  void lose(Psn, LossCause) {}
  // Reduces the window for a hole without naming a packet.
  void penalise_hole() {}
  // The receiver's window dropped the packet: reduces the window, once for a packet.
  void penalise_drop(Psn) {}
  // The receiver holds the head of line and does not advance: it was not ready, and its RNR NAK was
  // lost. The head of line is sent again to ask.
  void probe_head() {}
};

// kName                its name in scenarios
// kExact               in_flight() follows the SACKs exactly: a timeout that was too early can be
//                      undone, and an empty network is known to be empty
// kCopiesWait          a retransmission leaves only when the send gate lets a packet leave
// D(params)            makes a detector for one stream
// reset(first)         the stream begins; its first packet will be `first`
// on_received()        an acknowledgement of a received packet came
// on_advance(b, n)     snd_una moved by n
// on_nack(b, nack, r)  the receiver's window was full
// on_hole(b, r)        may be missing: the receiver had no frame for a packet behind a hole
// on_ack(b, r)         any acknowledgement is in the scoreboard
// on_begin(una)        an idle stream sends again
// on_sent(now, psn, srtt), on_copy(now, psn, srtt)
//                      a new packet leaves; one leaves again
// on_delivery(b, d, clock)
//                      the own acknowledgement of a packet came, and is not in the scoreboard yet;
//                      true: the packet, or its acknowledgement, was held for lost
// find_late(b, clock, r)
//                      any acknowledgement is in the scoreboard, or deadline() has come
// has_copies()         a copy that it has been told of may be outstanding
// deadline()           never: acknowledgements are enough
// on_timeout(b, r)     silence has lasted for a retransmission timeout
// on_restart()         a connection restart: nothing is outstanding
// in_flight(b)         packets
// next(b)              PSN to retransmit next, before anything new
// on_retransmit(psn)   the packet leaves; returns the cause, if it was not reported before
// early(b)             PSN to retransmit, maybe without need, when there is nothing else to send
// on_early()           that packet leaves, before on_copy()
// burst()              most packets that one acknowledgement may release
// exceeds_window()     true: the window does not hold retransmissions back now
template <class D>
concept LossDetector = std::constructible_from<D, const Params&> &&
    requires(D d, const D& c, const Scoreboard& b, const Nack& nack, LossReport& r, Psn psn,
             uint32_t n, Duration srtt, Time now, const Delivery& delivery,
             const LossClock& clock) {
  { D::kName } -> std::convertible_to<std::string_view>;
  { D::kExact } -> std::convertible_to<bool>;
  { D::kCopiesWait } -> std::convertible_to<bool>;
  d.reset(psn);
  d.on_received();
  d.on_advance(b, n);
  d.on_nack(b, nack, r);
  d.on_ack(b, r);
  d.on_begin(psn);
  d.on_sent(now, psn, srtt);
  d.on_copy(now, psn, srtt);
  { d.on_delivery(b, delivery, clock) } -> std::same_as<bool>;
  d.find_late(b, clock, r);
  { c.has_copies() } -> std::same_as<bool>;
  { c.deadline() } -> std::same_as<Time>;
  d.on_timeout(b, r);
  d.on_restart();
  { c.in_flight(b) } -> std::same_as<uint32_t>;
  { c.next(b) } -> std::same_as<std::optional<Psn>>;
  { d.on_retransmit(psn) } -> std::same_as<std::optional<LossCause>>;
  { c.early(b) } -> std::same_as<std::optional<Psn>>;
  d.on_early();
  { c.burst() } -> std::same_as<uint32_t>;
  { c.exceeds_window() } -> std::same_as<bool>;
};

// Reports every packet before `end` that is neither SACKed nor lost nor resent lately.
template <class Report>
void lose_suspects(const Scoreboard& board, Psn end, LossCause cause, Report& report) {
  for (Psn psn = board.next_suspect(board.una(), end); psn.before(end);
       psn = board.next_suspect(psn + 1, end)) {
    report.lose(psn, cause);
  }
}

// Selective repeat: in_flight() follows the map of SACKed packets, and exactly the packets marked
// lost are retransmitted. Only a NACK and a timeout mark packets lost, not reordering or age. A
// NACK marks two: the packet that the receiver dropped, for certain, and the hole before it, unless
// that was retransmitted lately. Without the second, each retransmission of the first would restart
// the timeout, and the hole that keeps the receiver's window full would never be sent again.
struct SelectiveRepeat {
  static constexpr bool kExact = true;
  static constexpr bool kCopiesWait = true;

  void reset(Psn) {}
  void on_received() {}
  void on_advance(const Scoreboard&, uint32_t) {}
  template <class Report>
  void on_nack(const Scoreboard& board, const Nack& nack, Report& report) {
    const Psn una = board.una();
    if (una == nack.aack && board.outstanding(una) && !board.resent(una)) {
      if (board.arrived(una)) {
        report.probe_head();
      } else if (!board.lost(una)) {
        report.lose(una, LossCause::kNack);
      }
    }
    if (!nack.dropped) return;
    const Psn dropped = nack.dropped->psn;
    if (board.arrived(dropped) || board.lost(dropped)) return;
    report.penalise_drop(dropped);
    report.lose(dropped, LossCause::kNack);
  }
  template <class Report>
  void on_ack(const Scoreboard&, Report&) {}
  void on_begin(Psn) {}
  void on_sent(Time, Psn, Duration) {}
  void on_copy(Time, Psn, Duration) {}
  bool on_delivery(const Scoreboard&, const Delivery&, const LossClock&) { return false; }
  template <class Report>
  void find_late(const Scoreboard&, const LossClock&, Report&) {}
  [[nodiscard]] bool has_copies() const { return false; }
  [[nodiscard]] Time deadline() const { return Time::never(); }
  template <class Report>
  void on_timeout(const Scoreboard& board, Report& report) {
    lose_suspects(board, board.nxt(), LossCause::kTimeout, report);
  }
  void on_restart() {}
  [[nodiscard]] uint32_t in_flight(const Scoreboard& board) const { return board.in_flight(); }
  [[nodiscard]] std::optional<Psn> next(const Scoreboard& board) const {
    if (board.due_count() == 0) return std::nullopt;
    return board.first_due();
  }
  std::optional<LossCause> on_retransmit(Psn) { return std::nullopt; }
  [[nodiscard]] std::optional<Psn> early(const Scoreboard&) const { return std::nullopt; }
  void on_early() {}
  [[nodiscard]] uint32_t burst() const { return kBurstPackets; }
  [[nodiscard]] bool exceeds_window() const { return false; }
};

}  // namespace mprdma::transport
