#include "dataplane/mgmt/mode_negotiation.hpp"

#include <algorithm>

namespace mprdma::dataplane {

using wire::PairInfo;
using wire::PairMode;
using wire::PairPhase;

Agreement agree(const PairInfo& own, const PairInfo& peer) {
  const Agreement roce{PairMode::kRoce, std::min(own.window_slots, peer.window_slots)};
  if (own.wire_version != peer.wire_version) return {PairMode::kRoce, own.window_slots};
  // A fixed mode stays: the other side follows if it can.
  for (const auto& [fixed, other] : {std::pair{&own, &peer}, std::pair{&peer, &own}}) {
    if (fixed->phase != PairPhase::kFixed) continue;
    if (fixed == &own || other->able(fixed->mode)) return {fixed->mode, fixed->window_slots};
    return roce;
  }
  if (own.able(PairMode::kMp) && peer.able(PairMode::kMp)) {
    return {PairMode::kMp, roce.window_slots};
  }
  return roce;
}

PairNegotiation::PairNegotiation(const Preferences& preferences) : preferences_(preferences) {
  reset();
}

void PairNegotiation::reset() {
  const bool pinned = preferences_.pinned != PairMode::kNone;
  info_ = {.phase = pinned ? PairPhase::kFixed : PairPhase::kUndecided,
           .ordered = preferences_.ordered,
           .pinned = preferences_.pinned,
           .mode = preferences_.pinned,
           .abilities = preferences_.abilities,
           .window_slots = preferences_.window_slots};
  next_ask_ = Time::never();
  next_reminder_ = Time();
  reminder_ = kFirstReminder;
  asked_ = doubts_left_ = 0;
  begun_ = remembers_ = unheard_ = false;
  peer_offer_ = {};
  told_ = Told::kYes;
}

PairNegotiation::Step PairNegotiation::begin(Time now, uint64_t transaction, bool silent) {
  begun_ = preferences_.negotiates;
  transaction_ = transaction;
  if (!begun_ || decided()) return {};
  if (silent) {
    const Step step = give_up(now);
    doubt_at_once(now);
    return step;
  }
  next_ask_ = now;
  return {};
}

void PairNegotiation::remember(const wire::IpAddress& gid, const PairInfo& peer) {
  remembered_ = peer;
  remembered_gid_ = gid;
  remembers_ = true;
}

bool PairNegotiation::recall(Time now, const wire::IpAddress& gid, Qpn qpn) {
  if (!begun_ || !remembers_ || remembered_gid_ != gid || remembered_.sender_qpn != qpn) {
    return false;
  }
  note_offer(remembered_);
  if (decided()) return false;
  decide(now, agree(info_, remembered_));
  return true;
}

PairNegotiation::Step PairNegotiation::decide_here(Time now, const PairInfo& peer) {
  if (!begun_ || decided()) return {};
  note_offer(peer);
  const Step step = decide(now, agree(info_, peer));
  info_.phase = PairPhase::kFixed;
  return step;
}

bool PairNegotiation::offer(Time now, const WireOffer& wire) {
  if (info_.segment == wire.segment && info_.takes_runs == wire.runs) return false;
  info_.segment = wire.segment;
  info_.takes_runs = wire.runs;
  told_ = Told::kNo;
  start_telling(now);
  return true;
}

void PairNegotiation::tell_again(Time now) {
  if (next_ask_.is_never()) start_telling(now);
  if (unheard_ && info_.phase == PairPhase::kTentative) doubt_at_once(now);
}

// A side that has not decided asks anyway.
void PairNegotiation::start_telling(Time now) {
  if (!begun_ || !tells()) return;
  asked_ = 0;
  next_ask_ = now;
}

PairNegotiation::Step PairNegotiation::decide(Time now, const Agreement& agreement) {
  doubts_left_ = 0;
  unheard_ = false;
  // The standard's mode has no window to agree on: nothing that was sent has to be sent anew.
  const bool same_window =
      agreement.mode == PairMode::kRoce || agreement.window_slots == info_.window_slots;
  const bool same = decided() && agreement.mode == info_.mode && same_window;
  if (!same || !tells()) next_ask_ = Time::never();
  if (same) return {};
  info_.phase = PairPhase::kTentative;
  info_.mode = agreement.mode;
  info_.window_slots = agreement.window_slots;
  reminder_ = kFirstReminder;
  next_reminder_ = Time();
  start_telling(now);
  return {.changed = true};
}

PairNegotiation::Step PairNegotiation::on_info(Time now, const PairInfo& peer, bool answers) {
  if (!begun_) return {};
  note_offer(peer);
  if (answers && told_ == Told::kAsked) {
    if (tells()) next_ask_ = Time::never();
    told_ = Told::kYes;
  }
  if (info_.phase == PairPhase::kFixed) return {};
  // L of an earlier decision is not a fact of ours.
  PairInfo own = info_;
  own.window_slots = preferences_.window_slots;
  return decide(now, agree(own, peer));
}

PairNegotiation::Step PairNegotiation::on_refusal(Time now) {
  if (!begun_) return {};
  if (decided()) {
    next_ask_ = Time::never();
    doubts_left_ = 0;
    unheard_ = false;
    told_ = Told::kYes;  // nobody wants to know
    return {};
  }
  return decide(now, {.mode = PairMode::kRoce, .window_slots = preferences_.window_slots});
}

// Nobody answers.
PairNegotiation::Step PairNegotiation::give_up(Time now) {
  const Step step = on_refusal(now);
  if (!step.changed) return step;
  unheard_ = true;
  doubts_left_ = kDoubts;
  doubt_ = kFirstDoubt;
  next_ask_ = now + doubt_;
  return step;
}

// As give_up() leaves it, with one more question before the others.
void PairNegotiation::doubt_at_once(Time now) {
  doubts_left_ = kDoubts + 1;
  doubt_ = kFirstDoubt / 2;
  next_ask_ = now;
}

PairNegotiation::Step PairNegotiation::on_impatience(Time now) {
  const Time last_asked = next_ask_ - kPatience.back();
  const bool heard_nothing = asked_ == kPatience.size() && last_asked + kFairTime <= now;
  Step step = give_up(now);
  step.silent = step.changed && heard_nothing;
  return step;
}

// The decision is tentative, as one for want of an answer: the connection may refuse the packet.
PairNegotiation::Step PairNegotiation::on_first_packet(Time now) {
  return decided() ? Step{} : give_up(now);
}

PairNegotiation::Step PairNegotiation::on_packet(Time now, PacketOf of, bool taken) {
  if (!wants_packet(of)) return {};
  // Not its first one; the question is asked as it is.
  if (!decided() && of == PacketOf::kRoce) return {};
  if (decided() && fits(of)) {
    if (!taken) return {};
    info_.phase = PairPhase::kFixed;
    if (!tells()) next_ask_ = Time::never();
    return {};
  }
  return remind(now);
}

// The other side speaks something else: what each knows has to be said again.
PairNegotiation::Step PairNegotiation::remind(Time now) {
  if (now < next_reminder_) return {};
  next_reminder_ = now + reminder_;
  reminder_ = std::min(reminder_ * 2, kLastReminder);
  return {.ask = true};
}

PairNegotiation::Step PairNegotiation::on_deadline(Time now) {
  if (now < next_ask_) return {};
  next_ask_ = Time::never();
  if (!begun_) return {};
  if (decided() && !tells()) {
    if (doubts_left_ == 0) return {};
    doubt_ = std::min(doubt_ * 2, kLastDoubt);
    if (--doubts_left_ > 0) next_ask_ = now + doubt_;
    return {.ask = true};
  }
  if (asked_ == kPatience.size()) {
    if (decided()) return {};  // it does not want to know our offer
    Step step = give_up(now);
    step.silent = true;
    return step;
  }
  next_ask_ = now + kPatience[asked_++];
  if (told_ == Told::kNo) told_ = Told::kAsked;
  return {.ask = true};
}

void PairNegotiation::postpone(Time until) {
  next_ask_ = until;
  if (!decided() || tells()) {
    asked_ -= asked_ > 0 ? 1 : 0;
    if (told_ == Told::kAsked) told_ = Told::kNo;
    return;
  }
  ++doubts_left_;
  doubt_ = std::max(doubt_ / 2, kFirstDoubt);
}

void SilentPeers::add(const wire::IpAddress& gid, Time now) {
  for (Entry& entry : entries_) {
    if (entry.gid == gid) {
      entry.until = now + kFor;
      return;
    }
  }
  entries_[next_] = {gid, now + kFor};
  next_ = (next_ + 1) % kMax;
}

}  // namespace mprdma::dataplane
