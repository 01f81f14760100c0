// Which mode a pair of queue pairs speaks, and how both sides come to the same answer (design 3.4;
// docs/algorithms.md, "Who talks what to whom"). One object for each queue pair; the worker sends
// and receives the management datagrams (wire/mad.hpp) and does what a Step asks for.
//
// A side asks when it knows its peer (RTR). It decides by agree(), a function of both sides' facts
// that is the same from either side; who does not answer, or answers that it does not know the
// question, speaks roce. A decision is tentative until a packet of the peer arrives in that mode:
// until then nothing that was sent has had an effect, so that it can be taken back and sent anew.
// A packet of the other mode makes a side ask again, and what is fixed on one side is taken over by
// the other; so the two never stay apart for longer than it takes one datagram to get through.
//
// Pure: no clock, no I/O. Called by the holder of the worker's lock.
#pragma once

#include <array>
#include <cstdint>

#include "base/units.hpp"
#include "wire/ip_address.hpp"
#include "wire/mad.hpp"

namespace mprdma::dataplane {

struct Agreement {
  wire::PairMode mode = wire::PairMode::kRoce;
  uint16_t window_slots = 0;

  constexpr bool operator==(const Agreement&) const = default;
};

// Symmetric: agree(a, b) == agree(b, a), unless both have pinned different modes.
Agreement agree(const wire::PairInfo& own, const wire::PairInfo& peer);

class PairNegotiation {
 public:
  // After so long without an answer the question is asked again; after the last the peer is taken
  // to be none of ours. Over four paths of which one is dead 7 of 16 questions have no answer.
  static constexpr std::array<Duration, 5> kPatience = {
      Duration::ms(20), Duration::ms(30), Duration::ms(50), Duration::ms(80), Duration::ms(320)};
  // The last question had time for an answer: as much as the second one, and requests that wait no
  // longer take the peer for silent.
  static constexpr Duration kFairTime = Duration::ms(30);
  // That it is none of ours is doubted, so often and after so long (doubled each time), until
  // something is heard: the standard's mode has one path, and that may be the dead one.
  static constexpr uint32_t kDoubts = 8;
  static constexpr Duration kFirstDoubt = Duration::ms(50);
  static constexpr Duration kLastDoubt = Duration::s(1);
  // How often a packet of the wrong mode leads to a question: doubled each time.
  static constexpr Duration kFirstReminder = Duration::ms(5);
  static constexpr Duration kLastReminder = Duration::s(1);

  // What never changes of a queue pair.
  struct Facts {
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
  explicit PairNegotiation(const Facts& facts);

  // To RTR: the peer is known. `silent`: nobody answers there, as others found out just now.
  Step begin(Time now, uint64_t transaction, bool silent);
  // To RESET, or never connected: nothing is known of the peer.
  void reset();

  // What the peer said of this pair, in a question or an answer.
  Step on_info(Time now, const wire::PairInfo& peer);
  // .. before begin(): it is about whoever turns out to be the peer.
  void remember(const wire::IpAddress& gid, const wire::PairInfo& peer);
  // begin() for a peer that has asked before: true if that decided, and nobody needs to be asked.
  bool recall(const wire::IpAddress& gid, uint32_t qpn);
  // It answered that it does not know the question, or there is no way to ask it.
  Step on_refusal(Time now);
  // Requests wait no longer: the standard's mode, until something else is heard.
  Step on_impatience(Time now);
  // A packet of a reliable service came: `mp` or the standard's.
  [[nodiscard]] bool wants_packet(bool mp) const {
    return begun_ && !(info_.phase == wire::PairPhase::kFixed && mp == speaks_mp());
  }
  Step on_packet(Time now, bool mp);
  Step on_deadline(Time now);
  // The peer is on our own device and its facts are known: no packet is needed.
  Step decide_here(const wire::PairInfo& peer);
  // The question that a Step asked for could not be sent: it counts for nothing, and is asked then.
  void postpone(Time until);

  [[nodiscard]] Time next_deadline() const { return next_ask_; }
  [[nodiscard]] bool decided() const { return info_.phase != wire::PairPhase::kUndecided; }
  [[nodiscard]] wire::PairMode mode() const { return info_.mode; }
  [[nodiscard]] uint16_t window_slots() const { return info_.window_slots; }
  [[nodiscard]] uint64_t transaction() const { return transaction_; }
  [[nodiscard]] bool begun() const { return begun_; }
  [[nodiscard]] const Facts& facts() const { return facts_; }
  // Without the numbers of the queue pairs.
  [[nodiscard]] const wire::PairInfo& info() const { return info_; }

 private:
  [[nodiscard]] bool speaks_mp() const { return info_.mode != wire::PairMode::kRoce; }
  Step decide(const Agreement& agreement);
  Step remind(Time now);
  Step give_up(Time now);

  Facts facts_;
  wire::PairInfo info_;
  wire::PairInfo remembered_;
  wire::IpAddress remembered_gid_{};
  uint64_t transaction_ = 0;
  Time next_ask_ = Time::never();
  Time next_reminder_;
  Duration reminder_ = kFirstReminder;
  uint32_t asked_ = 0;
  uint32_t doubts_left_ = 0;  // decided for want of an answer, and nothing was heard since
  Duration doubt_ = kFirstDoubt;
  bool begun_ = false;
  bool remembers_ = false;
};

// Peers that did not answer, so that only the first queue pair to them waits.
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
  // A datagram of ours came from there.
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
