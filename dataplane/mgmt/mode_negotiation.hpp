// Negotiation of the mode that a pair of queue pairs speaks, so that both sides come to the same
// answer (design 3.4; docs/algorithms.md, "Who talks what to whom"). One object for each queue
// pair; the worker sends and receives the management datagrams (wire/mad.hpp) and does what a Step
// asks for.
//
// A side asks when it knows its peer (RTR). It decides by agree(), a function of both sides'
// preferences that is the same from either side; a peer that does not answer, or does not know the
// question, speaks roce. A decision is tentative until a packet of the peer arrives in that mode:
// until then nothing that was sent has had an effect, so that it can be taken back and sent anew.
// A packet of the other mode makes a side ask again, and a fixed mode of one side is taken over by
// the other; so the sides disagree no longer than one datagram takes to arrive.
//
// Pure: no clock, no I/O. Called by the holder of the worker's lock.
#pragma once

#include <array>
#include <cstdint>

#include "base/qpn.hpp"
#include "base/units.hpp"
#include "wire/ip_address.hpp"
#include "wire/mad.hpp"
#include "wire/packet.hpp"

namespace mprdma::dataplane {

struct Agreement {
  wire::PairMode mode = wire::PairMode::kRoce;
  uint16_t window_slots = 0;

  constexpr bool operator==(const Agreement&) const = default;
};

// Symmetric: agree(a, b) == agree(b, a), unless both have pinned different modes.
Agreement agree(const wire::PairInfo& own, const wire::PairInfo& peer);

// What a packet tells of the mode in which it was sent.
enum class PacketOf : uint8_t {
  kRoce,
  kMp,       // data of mp, mp-single or mp-paper
  kIrn,      // data of irn
  kStreams,  // an acknowledgement of one of these, or an answer that ends in an error
};

// Of a reliable service.
constexpr PacketOf packet_of(const wire::Packet& packet) {
  const wire::OpcodeInfo& info = packet.info();
  if (packet.irn) return PacketOf::kIrn;
  if (info.transport != wire::TransportService::kMp) return PacketOf::kRoce;
  const bool either =
      info.stream == wire::PacketStream::kAck || info.operation == wire::Operation::kResponseError;
  return either ? PacketOf::kStreams : PacketOf::kMp;
}

class PairNegotiation {
 public:
  // Waits for an answer before the question is sent again; after the last one the peer is taken to
  // be no mprdma device. If one of four paths is dead, 7 of 16 questions stay unanswered.
  static constexpr std::array<Duration, 5> kPatience = {
      Duration::ms(20), Duration::ms(30), Duration::ms(50), Duration::ms(80), Duration::ms(320)};
  // Time for an answer to the last question, as long as for the second one: requests that stop
  // waiting after it take the peer for silent.
  static constexpr Duration kFairTime = Duration::ms(30);
  // A decision that the peer is no mprdma device is questioned again this often, after this time
  // (doubled each time), until a packet arrives: the standard's mode has one path, which may be the
  // dead one, and the peer may only have been away. For longer than a silent peer is remembered.
  static constexpr uint32_t kDoubts = 16;
  static constexpr Duration kFirstDoubt = Duration::ms(50);
  static constexpr Duration kLastDoubt = Duration::s(1);
  // Shortest time between questions that packets of the wrong mode cause: doubled each time.
  static constexpr Duration kFirstReminder = Duration::ms(5);
  static constexpr Duration kLastReminder = Duration::s(1);

  // What a queue pair wants and can do; it never changes.
  struct Preferences {
    bool negotiates = false;  // RC and XRC
    wire::PairMode pinned = wire::PairMode::kNone;
    uint32_t abilities = 0;
    uint16_t window_slots = 0;
    bool ordered = false;
  };
  struct Step {
    bool changed = false;  // mode() is new
    bool ask = false;      // send info() to the peer as a question
    bool silent = false;   // the peer said nothing at all
  };

  PairNegotiation() { reset(); }
  explicit PairNegotiation(const Preferences& preferences);

  // Called on the transition to RTR, when the peer is known. `silent`: other queue pairs just found
  // that the peer does not answer. Then nothing waits for an answer, but the question is asked
  // before anything is sent, so that a peer that is back can still decide for mp.
  Step begin(Time now, uint64_t transaction, bool silent);
  // Called on the transition to RESET: forgets the peer.
  void reset();

  // Takes the peer's preferences from a question, or from what `answers` one of ours.
  Step on_info(Time now, const wire::PairInfo& peer, bool answers);
  // Takes preferences that arrive before begin(), from a sender that may turn out to be the peer.
  void remember(const wire::IpAddress& gid, const wire::PairInfo& peer);
  // begin() for a peer that has asked before: true if its preferences decided the mode, so
  // that no question is needed.
  bool recall(Time now, const wire::IpAddress& gid, Qpn qpn);
  // The peer answered that it does not know the question, or cannot be reached.
  Step on_refusal(Time now);
  // Called when requests stop waiting: the standard's mode, until the peer says otherwise.
  Step on_impatience(Time now);
  // Before a decision, the packet arrived with which the peer begins in the standard's mode, as far
  // as its PSN tells: its sender has decided. Before the connection gets the packet.
  Step on_first_packet(Time now);
  // A packet of a reliable service arrived. `taken`: the connection has taken a packet of the peer,
  // perhaps this one. A stranger can send packets of any mode, and so does a former life of the
  // queue pair.
  [[nodiscard]] bool wants_packet(PacketOf of) const {
    return begun_ && !(info_.phase == wire::PairPhase::kFixed && fits(of));
  }
  // Whether a queue pair of the pair's mode takes such packets.
  [[nodiscard]] bool fits(PacketOf of) const {
    switch (info_.mode) {
      case wire::PairMode::kNone:
        return false;
      case wire::PairMode::kRoce:
        return of == PacketOf::kRoce;
      case wire::PairMode::kIrn:
        return of == PacketOf::kIrn || of == PacketOf::kStreams;
      default:
        return of == PacketOf::kMp || of == PacketOf::kStreams;
    }
  }
  Step on_packet(Time now, PacketOf of, bool taken);
  Step on_deadline(Time now);
  // ---- What the wire to the peer offers, which does not have to be agreed: each side sends what
  // the other takes. It may change at any time.
  struct WireOffer {
    uint32_t segment = 0;  // as in PairInfo
    bool runs = false;

    constexpr bool operator==(const WireOffer&) const = default;
  };
  // Ours: told in each question and answer. A new one is told in questions of its own, as often as
  // one for the mode, until the peer answers. True if it is new: next_deadline() may have moved.
  bool offer(Time now, const WireOffer& wire);
  // The wire was down, and what was asked meanwhile may have been in vain; or it leads to a peer
  // that is back.
  void tell_again(Time now);
  // The peer's, as it said last.
  [[nodiscard]] const WireOffer& peer_offer() const { return peer_offer_; }

  // The peer is on our own device and its preferences are known: no packet is needed.
  Step decide_here(Time now, const wire::PairInfo& peer);
  // The question that a Step asked for could not be sent: it is not counted, and is due at this
  // time.
  void postpone(Time until);

  [[nodiscard]] Time next_deadline() const { return next_ask_; }
  [[nodiscard]] bool decided() const { return info_.phase != wire::PairPhase::kUndecided; }
  [[nodiscard]] wire::PairMode mode() const { return info_.mode; }
  [[nodiscard]] uint16_t window_slots() const { return info_.window_slots; }
  [[nodiscard]] uint64_t transaction() const { return transaction_; }
  [[nodiscard]] bool begun() const { return begun_; }
  [[nodiscard]] const Preferences& preferences() const { return preferences_; }
  // Without the numbers of the queue pairs.
  [[nodiscard]] const wire::PairInfo& info() const { return info_; }

 private:
  [[nodiscard]] bool speaks_mp() const { return info_.mode != wire::PairMode::kRoce; }
  Step decide(Time now, const Agreement& agreement);
  // A question is due, or was sent, because the peer may not know our offer.
  [[nodiscard]] bool tells() const { return told_ != Told::kYes && decided() && speaks_mp(); }
  void start_telling(Time now);
  void note_offer(const wire::PairInfo& peer) {
    peer_offer_ = {.segment = peer.segment, .runs = peer.takes_runs};
  }
  Step remind(Time now);
  Step give_up(Time now);
  void doubt_at_once(Time now);

  Preferences preferences_;
  wire::PairInfo info_;
  wire::PairInfo remembered_;
  wire::IpAddress remembered_gid_{};
  WireOffer peer_offer_;
  enum class Told : uint8_t { kYes, kNo, kAsked };  // our offer; kAsked: in a question
  Told told_ = Told::kYes;
  uint64_t transaction_ = 0;
  Time next_ask_ = Time::never();
  Time next_reminder_;
  Duration reminder_ = kFirstReminder;
  uint32_t asked_ = 0;
  bool unheard_ = false;  // decided for want of an answer, and none came since
  uint32_t doubts_left_ = 0;
  Duration doubt_ = kFirstDoubt;
  bool begun_ = false;
  bool remembers_ = false;
};

// Peers that did not answer: only the first queue pair to such a peer waits.
class SilentPeers {
 public:
  static constexpr Duration kFor = Duration::s(10);
  static constexpr size_t kMax = 64;

  [[nodiscard]] bool contains(const wire::IpAddress& gid, Time now) const {
    for (const Entry& entry : entries_) {
      if (entry.gid == gid && now < entry.until) return true;
    }
    return false;
  }
  void add(const wire::IpAddress& gid, Time now);
  void forget_all() { entries_ = {}; }
  // Removes a peer that sent a datagram of our class.
  void remove(const wire::IpAddress& gid) {
    for (Entry& entry : entries_) {
      if (entry.gid == gid) entry.until = Time();
    }
  }

 private:
  struct Entry {
    wire::IpAddress gid{};
    Time until;
  };
  std::array<Entry, kMax> entries_;
  size_t next_ = 0;
};

}  // namespace mprdma::dataplane
