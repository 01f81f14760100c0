// The state of each packet between snd_una and snd_nxt. The scoreboard only records: a loss
// detector (loss_detectors.hpp) decides which packets are lost, and the sender how that changes the
// window.
//
// snd_una = next PSN expected to be acknowledged, snd_nxt = next PSN to send; all comparisons are
// serial. The maps lie over [snd_una, snd_nxt), at most span_max() wide:
//   sacked      the receiver has it, and its own acknowledgement has come, or is not waited for
//   told        the receiver has it, as another acknowledgement said, and its own has not come
//               (disjoint from lost; SACKed, too, once its own is given up)
//   lost        known lost and not yet retransmitted (disjoint from sacked)
//   held        subset of lost: the receiver refused it as too early (synchronise), and it must not
//               be sent yet. This is no loss and does not reduce the window
//   penalised   has reduced the window already, which each hole does once
//   charged     has taken from the window what comes back if it was not lost (subset of penalised)
//   resent      retransmitted within the last one or two epochs: not judged again yet
//
// An epoch lasts 5/4 SRTT or longer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.hpp"
#include "base/psn.hpp"
#include "base/units.hpp"
#include "base/window_bitmap.hpp"
#include "transport/core/params.hpp"
#include "transport/stream/offload_context.hpp"
#include "wire/mp_ack_map.hpp"

namespace mprdma::transport {

class Scoreboard {
 public:
  explicit Scoreboard(uint32_t span_max, Psn first = Psn())
      : una_(first),
        nxt_(first),
        sack_end_(first),
        sacked_(span_max),
        told_(span_max),
        lost_(span_max),
        held_(span_max),
        penalised_(span_max),
        charged_(span_max),
        resent_(span_max),
        resent_before_(span_max) {}

  [[nodiscard]] uint32_t span_max() const { return sacked_.size(); }

  [[nodiscard]] Psn una() const { return una_; }
  [[nodiscard]] Psn nxt() const { return nxt_; }
  // snd_ooh + 1: the PSN behind the highest SACKed one, or snd_una when none above snd_una is
  // SACKed.
  [[nodiscard]] Psn sack_end() const { return sack_end_; }
  [[nodiscard]] bool idle() const { return una_ == nxt_; }
  [[nodiscard]] uint32_t span() const { return static_cast<uint32_t>(una_.distance_to(nxt_)); }
  // How far out of order packets have arrived.
  [[nodiscard]] uint32_t reach() const {
    return static_cast<uint32_t>(una_.distance_to(sack_end_));
  }
  [[nodiscard]] bool outstanding(Psn psn) const {
    return una_.at_or_before(psn) && psn.before(nxt_);
  }
  [[nodiscard]] bool sacked(Psn psn) const { return sacked_.test(psn.value()); }
  [[nodiscard]] bool told(Psn psn) const { return told_.test(psn.value()); }
  // Told of, and its own acknowledgement is not waited for any more, nor has it come.
  [[nodiscard]] bool given_up(Psn psn) const { return told(psn) && sacked(psn); }
  // The receiver has it.
  [[nodiscard]] bool arrived(Psn psn) const { return sacked(psn) || told(psn); }
  [[nodiscard]] bool lost(Psn psn) const { return lost_.test(psn.value()); }
  [[nodiscard]] bool held(Psn psn) const { return held_.test(psn.value()); }
  [[nodiscard]] bool resent(Psn psn) const {
    return resent_.test(psn.value()) || resent_before_.test(psn.value());
  }
  [[nodiscard]] uint32_t sacked_count() const { return sacked_count_; }
  [[nodiscard]] uint32_t lost_count() const { return lost_count_; }
  [[nodiscard]] uint32_t held_count() const { return held_count_; }
  // Packets to be retransmitted now: lost and not held.
  [[nodiscard]] uint32_t due_count() const { return lost_count_ - held_count_; }
  // Packets sent and neither SACKed nor lost.
  [[nodiscard]] uint32_t in_flight() const { return span() - lost_count_ - sacked_count_; }
  // Packets sent and not SACKed.
  [[nodiscard]] uint32_t unacknowledged() const { return span() - sacked_count_; }
  // False: no bit of any map is set, so that nothing but the edges tells one packet from another,
  // and none is watched. May stay true for an epoch after the last bit was cleared.
  [[nodiscard]] bool marked() const { return marked_; }

  // The lowest lost PSN that may be sent now; requires due_count() > 0.
  [[nodiscard]] Psn first_due() const {
    Psn psn = una_;
    while (true) {
      psn += lost_.next_set(psn.value(), static_cast<uint32_t>(psn.distance_to(nxt_)));
      if (held_count_ == 0 || !held(psn)) return psn;
      ++psn;
    }
  }
  // The first PSN of [from, end) that is neither SACKed nor lost nor resent lately, or `end`.
  // Requires snd_una <= from.
  [[nodiscard]] Psn next_suspect(Psn from, Psn end) const {
    for (Psn psn = from; psn.before(end); ++psn) {
      psn += sacked_.next_clear(psn.value(), static_cast<uint32_t>(psn.distance_to(end)));
      if (!psn.before(end)) break;
      if (!lost(psn) && !resent(psn)) return psn;
    }
    return end;
  }

  // Of the 64 packets before `end`, in the order of a map (wire/mp_ack_map.hpp): those that are
  // outstanding, and of which nobody has said that they have arrived. Requires end <= snd_nxt.
  [[nodiscard]] uint64_t unheard_before(Psn end) const {
    constexpr auto kPackets = static_cast<int32_t>(wire::MpAckMap::kPackets);
    const int32_t ahead = una_.distance_to(end);
    if (ahead <= 0) return 0;
    const uint32_t from = (end - wire::MpAckMap::kPackets).value();
    const uint64_t unheard = ~(sacked_.next_64(from) | told_.next_64(from));
    return ahead < kPackets ? unheard & ~uint64_t{0} << (kPackets - ahead) : unheard;
  }

  // ---- Events
  // A new packet leaves.
  void send_new() { ++nxt_; }
  // A stream that was idle sends again.
  void begin_epoch(Time now) {
    DCHECK(idle());
    epoch_start_ = now;
    marked_ = false;  // all bits are those of outstanding packets
  }
  // snd_una moves to `aack`, at most snd_nxt. Returns by how much.
  uint32_t advance(Psn aack) {
    const auto count = static_cast<uint32_t>(una_.distance_to(aack));
    DCHECK(count <= span());
    if (marked_) [[unlikely]]
      clear(count);
    una_ = aack;
    sack_end_ = psn_max(sack_end_, una_);
    return count;
  }
  // Requires that `psn` is outstanding and not SACKed.
  void sack(Psn psn) {
    marked_ = true;
    sacked_.set(psn.value());
    ++sacked_count_;
    told_.clear(psn.value());
    found(psn);
    sack_end_ = psn_max(sack_end_, psn + 1);
  }
  // Requires the same, and that a map has told of it.
  void give_up(Psn psn) {
    sack(psn);
    told_.set(psn.value());
  }
  // The own acknowledgement of a given-up packet has come.
  void answer(Psn psn) { told_.clear(psn.value()); }
  // Requires that `psn` is outstanding and neither SACKed nor lost.
  void tell(Psn psn) {
    DCHECK(outstanding(psn) && !sacked(psn) && !lost(psn));
    marked_ = true;
    told_.set(psn.value());
  }
  // Requires that `psn` is outstanding and neither arrived nor lost.
  void lose(Psn psn) {
    DCHECK(outstanding(psn));
    DCHECK(!arrived(psn) && !lost(psn));
    marked_ = true;
    lost_.set(psn.value());
    ++lost_count_;
  }
  void hold(Psn psn) {
    lose(psn);
    held_.set(psn.value());
    ++held_count_;
  }
  // Held packets become ordinary lost ones, so that they are sent.
  void release_all() {
    held_.reset();
    held_count_ = 0;
  }
  // A packet has been overtaken, and will be late.
  void watch() { marked_ = true; }
  // The packet is not, or no longer, lost.
  void found(Psn psn) {
    if (lost(psn)) --lost_count_;
    if (held(psn)) --held_count_;
    lost_.clear(psn.value());
    held_.clear(psn.value());
  }
  void retransmit(Psn psn) {
    found(psn);
    marked_ = true;
    resent_.set(psn.value());
  }
  void forget_resent() {
    resent_.reset();
    resent_before_.reset();
  }
  // True the first time: the packet reduces the window now.
  bool penalise(Psn psn) {
    const bool first = !penalised_.test(psn.value());
    marked_ = true;
    penalised_.set(psn.value());
    return first;
  }
  // Requires that the packet has been penalised: what it took may come back.
  void charge(Psn psn) { charged_.set(psn.value()); }
  // True if it was charged, and had not been forgiven.
  bool forgive(Psn psn) {
    const bool charged = charged_.test(psn.value());
    charged_.clear(psn.value());
    return charged;
  }
  // The window is as if nothing had been charged.
  void forgive_all() { charged_.reset(); }
  // `copies`: a copy may be outstanding.
  void roll_epoch(Time now, Duration srtt, bool copies) {
    if (now - epoch_start_ < srtt + srtt / 4) return;
    epoch_start_ = now;
    if (!marked_) return;
    resent_before_ = resent_;
    resent_.reset();
    marked_ = sacked_.any() || told_.any() || lost_.any() || penalised_.any() ||
              resent_before_.any() || copies;
  }

  // ---- Synchronise operations that the receiver refused; each requires held_count() > 0
  [[nodiscard]] Psn first_held() const { return una_ + held_.next_set(una_.value(), span()); }
  // True if everything before the first held packet has arrived: then it cannot be refused again.
  [[nodiscard]] bool held_is_next() const { return una_ == first_held(); }
  // True if no packet before the first held one is to be retransmitted.
  [[nodiscard]] bool only_held_lost_first() const {
    const auto before = static_cast<uint32_t>(una_.distance_to(first_held()));
    return lost_.next_set(una_.value(), before) == before;
  }

  // ---- What hardware keeps of it (offload_context.hpp)
  // False: it does not have room for this state.
  [[nodiscard]] bool fits_offload() const {
    return span() <= OffloadContext::kSpan && reach() <= OffloadContext::kSlots &&
           held_count_ == 0 && !told_.any();
  }
  // Requires fits_offload(). All but the time.
  void store(OffloadContext& out) const {
    out.sacked = sacked_.next_bits(una_.value(), std::min(span(), 64u));
    store(lost_, out.lost);
    store(penalised_, out.penalised);
    store(resent_, out.resent);
    store(resent_before_, out.resent_before);
    out.ooh_offset = static_cast<uint8_t>(reach());
  }
  [[nodiscard]] Time epoch_start() const { return epoch_start_; }
  // Requires that nothing is outstanding at `una`, and a context of store().
  void load(const OffloadContext& in, Psn nxt, Time epoch_start) {
    nxt_ = nxt;
    epoch_start_ = epoch_start;
    marked_ = true;
    sacked_.set_bits(una_.value(), in.sacked);
    load(in.lost, lost_);
    load(in.penalised, penalised_);
    load(in.resent, resent_);
    load(in.resent_before, resent_before_);
    sacked_count_ = sacked_.count();
    lost_count_ = lost_.count();
    sack_end_ = una_ + in.ooh_offset;
  }

 private:
  void store(const WindowBitmap& map, PsnMap& out) const {
    const uint32_t low = std::min(span(), 64u);
    out.words = {map.next_bits(una_.value(), low), map.next_bits(una_.value() + 64, span() - low)};
  }
  void load(const PsnMap& in, WindowBitmap& map) const {
    map.set_bits(una_.value(), in.words[0]);
    map.set_bits(una_.value() + 64, in.words[1]);
  }
  // Clears the bits of the `count` packets from snd_una on, which leave the window.
  void clear(uint32_t count) {
    for (uint32_t pos = una_.value(), n = count; n > 0; ++pos, --n) {
      sacked_count_ -= sacked_.test(pos) ? 1 : 0;
      lost_count_ -= lost_.test(pos) ? 1 : 0;
      held_count_ -= held_.test(pos) ? 1 : 0;
    }
    for (WindowBitmap* map :
         {&sacked_, &told_, &lost_, &held_, &penalised_, &charged_, &resent_, &resent_before_}) {
      map->clear_range(una_.value(), count);
    }
  }

  Psn una_;
  Psn nxt_;
  Psn sack_end_;
  WindowBitmap sacked_;
  WindowBitmap told_;
  WindowBitmap lost_;
  WindowBitmap held_;
  WindowBitmap penalised_;
  WindowBitmap charged_;
  WindowBitmap resent_;         // in this epoch
  WindowBitmap resent_before_;  // in the epoch before it
  uint32_t sacked_count_ = 0;
  uint32_t lost_count_ = 0;
  uint32_t held_count_ = 0;
  bool marked_ = false;
  Time epoch_start_;
};

}  // namespace mprdma::transport
