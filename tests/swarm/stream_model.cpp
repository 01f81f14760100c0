#include "tests/swarm/stream_model.hpp"

#include <algorithm>

#include "transport/core/params.hpp"
#include "wire/rnr_timer.hpp"

namespace mprdma::swarm {

const Message& StreamModel::message_of(uint64_t index) const {
  const auto after = std::upper_bound(messages_.begin(), messages_.end(), index,
                                      [](uint64_t i, const Message& m) { return i < m.first; });
  return *(after - 1);
}

void StreamModel::cut(uint64_t number) {
  if (number >= messages_.size()) return;
  total_ = messages_[number].first;
  expect(total_ >= sent_, "{}: message {} has begun", name_, number);
  messages_.resize(number);
  placed_.resize(total_);
}

uint64_t StreamModel::on_sent(Psn psn, Time now, uint64_t marks, uint32_t window_slots) {
  const int64_t index = index_of(psn);
  expect(index >= 0, "{}: sends PSN {} from before the stream's first", name_, psn.value());
  const auto at = static_cast<uint64_t>(index);
  expect(at <= sent_, "{}: PSN {} leaves a gap, packet {} is next", name_, psn.value(), sent_);
  expect(at < total_, "{}: packet {} belongs to no message", name_, at);
  expect(at >= acked_, "{}: packet {} is sent again after its acknowledgement", name_, at);
  if (at == sent_) ++sent_;
  sacked_.resize(sent_);
  marks_when_sent_.resize(sent_);
  marks_when_sent_[at] = marks;
  refused_.resize(sent_);
  refused_[at] = false;
  late_.resize(sent_);
  late_[at] = false;
  trips_.on_sent(at, now);
  expect(rnr_for_ != acked_ || now >= rnr_until_, "{}: sends {} ns before the RNR timer ends",
         name_, (rnr_until_ - now).count_ns());
  if (now >= rnr_until_) rnr_for_ = UINT64_MAX;
  expect(sent_ - acked_ <= transport::send_span(window_slots),
         "{}: {} packets between snd_una and snd_nxt", name_, sent_ - acked_);
  return at;
}

void StreamModel::on_delivered(uint64_t index) {
  if (delivered_.size() <= index) delivered_.resize(index + 1);
  delivered_[index] = true;
  while (delivered_prefix_ < delivered_.size() && delivered_[delivered_prefix_]) {
    ++delivered_prefix_;
  }
}

void StreamModel::advance(Cursor& cursor, uint64_t empty_until) {
  while (cursor.message < messages_.size()) {
    const Message& message = messages_[cursor.message];
    while (cursor.packet < message.first + message.packets) {
      const uint64_t bytes = bytes_of(message, cursor.packet);
      const bool passed = bytes > 0 ? placed_[cursor.packet] == bytes : cursor.packet < empty_until;
      if (!passed) return;
      ++cursor.packet;
    }
    ++cursor.message;
  }
}

StreamModel::Place StreamModel::on_placed(uint64_t index, uint32_t payload_offset,
                                          uint32_t length) {
  expect(length > 0, "{}: packet {}: an empty placement", name_, index);
  expect(index < total_, "{}: packet {} is placed after the last byte", name_, index);
  const Message& message = message_of(index);
  advance(arrived_, delivered_prefix_);
  const uint64_t next = arrived_.packet;
  expect(message.relaxed || index == next, "{}: packet {} is placed out of order, {} is next",
         name_, index, next);
  expect(!message.sync || next >= message.first,
         "{}: packet {} of a synchronise operation is placed, {} is next", name_, index, next);
  expect(payload_offset == placed_[index],
         "{}: packet {}: places its byte {} where byte {} is next", name_, index, payload_offset,
         placed_[index]);
  expect(payload_offset + length <= bytes_of(message, index),
         "{}: packet {}: places {} bytes too many", name_, index, length);
  placed_[index] += length;
  return {&message, (index - message.first) * message.segment + payload_offset};
}

void StreamModel::on_executed(uint64_t index) {
  advance(arrived_, delivered_prefix_);
  expect(arrived_.packet > index, "{}: packet {} is executed, {} is next", name_, index,
         arrived_.packet);
}

uint64_t StreamModel::placed_packets() {
  advance(arrived_, delivered_prefix_);
  uint64_t placed = delivered_prefix_;
  if (arrived_.message < std::min(messages_.size(), excused_)) {
    placed = std::min(placed, arrived_.packet);
  }
  return placed;
}

void StreamModel::on_ack_made(const wire::Packet& ack, int64_t trigger, uint32_t window_slots) {
  const int64_t aack = index_of(ack.psn);
  expect(aack >= static_cast<int64_t>(ack_made_), "{}: AACK goes back from packet {} to {}", name_,
         ack_made_, aack);
  const uint64_t placed = placed_packets();
  expect(aack <= static_cast<int64_t>(placed), "{}: AACK {} passes what is placed, {}", name_, aack,
         placed);
  ack_made_ = static_cast<uint64_t>(aack);
  next_in_order_ = std::max(next_in_order_, ack_made_);
  expect(ack.mp_ack.run == 0 && ack.mp_ack.delay_us == 0,
         "{}: an answer at once has run {} and delay {}", name_, ack.mp_ack.run,
         uint32_t{ack.mp_ack.delay_us});
  if ((ack.mp_ack.flags & wire::kMpAckSackValid) == 0) return;
  const int64_t sack = index_of(ack.mp_ack.sack);
  if (ack.mp_ack.nack == wire::NackCode::kNone) {
    if (trigger < 0) return;  // answers a forged packet, or none
    expect(sack == trigger, "{}: SACK {} answers packet {}", name_, sack, trigger);
    expect(sack < aack || kept(static_cast<uint64_t>(sack)),
           "{}: SACK of packet {} that was dropped", name_, sack);
    expect(sack < aack + window_slots, "{}: SACK {} lies beyond the window from {}", name_, sack,
           aack);
    if (ack.opcode == wire::Opcode::kMpAckMap) check_map(ack.mp_ack_map, aack, sack);
  } else if (ack.mp_ack.nack == wire::NackCode::kWindowOverflow) {
    expect(sack >= aack + window_slots, "{}: packet {} overflows no window from {}", name_, sack,
           aack);
  } else if (ack.mp_ack.nack == wire::NackCode::kSyncTooEarly) {
    if (trigger < 0) return;
    expect(sack == trigger, "{}: too early, says the answer to packet {} of {}", name_, trigger,
           sack);
    const Message& message = message_of(static_cast<uint64_t>(trigger));
    expect(message.sync && aack < static_cast<int64_t>(message.first),
           "{}: packet {} is refused as too early, {} is next", name_, sack, aack);
    expect(!kept(static_cast<uint64_t>(sack)), "{}: packet {} is refused and kept", name_, sack);
  } else if (ack.mp_ack.nack == wire::NackCode::kRnr) {
    const bool says_held = (ack.mp_ack.flags & wire::kMpAckHeld) != 0;
    expect(sack == aack, "{}: RNR names packet {}, the head is {}", name_, sack, aack);
    expect(says_held == kept(static_cast<uint64_t>(sack)), "{}: RNR says of packet {} held: {}",
           name_, sack, says_held);
  }
}

// Each bit of a map says what is kept here.
void StreamModel::check_map(const wire::MpAckMap& map, int64_t aack, int64_t sack) const {
  for (uint32_t back = 1; back <= wire::MpAckMap::kPackets; ++back) {
    const int64_t index = sack - back;
    const bool here = index < aack || kept(static_cast<uint64_t>(index));
    const bool told = (map.received >> (wire::MpAckMap::kPackets - back) & 1) != 0;
    expect(told == here, "{}: the map of SACK {} says of packet {} received: {}", name_, sack,
           index, told);
  }
}

void StreamModel::on_owed(const OwedPacket& packet) {
  expect(packet.index == next_in_order_, "{}: packet {} is taken in order, {} is next", name_,
         packet.index, next_in_order_);
  next_in_order_ = packet.index + 1;
  owed_.push_back(packet);
}

void StreamModel::on_owed_ack_made(const wire::Packet& ack, Time now, uint32_t run_max) {
  const wire::MpAckExt& ext = ack.mp_ack;
  const int64_t sack = index_of(ext.sack);
  const int64_t aack = index_of(ack.psn);
  constexpr uint8_t kStream = wire::kMpAckResponseStream | wire::kMpAckOrderedPlacement;
  expect((ext.flags & static_cast<uint8_t>(~kStream)) == wire::kMpAckSackValid &&
             ext.nack == wire::NackCode::kNone && ext.detail == 0,
         "{}: an owed acknowledgement with flags {:x}, NACK code {}, detail {}", name_, ext.flags,
         static_cast<int>(ext.nack), ext.detail);
  expect(ext.run < run_max, "{}: a run of {} packets, {} are allowed", name_, ext.run + 1u,
         run_max);
  expect(ext.run + 1u == owed_.size(), "{}: a run of {} packets up to {}, {} came in order", name_,
         ext.run + 1u, sack, owed_.size());
  const OwedPacket& last = owed_.back();
  expect(sack == static_cast<int64_t>(last.index) && aack == sack + 1,
         "{}: SACK {} and AACK {} after packet {}", name_, sack, aack, last.index);
  for (const OwedPacket& packet : owed_) {
    expect(packet.vp == ack.vp, "{}: packet {} of the run came on path {}, not {}", name_,
           packet.index, packet.vp, ack.vp);
  }
  expect(ext.echoed_timestamp == last.timestamp, "{}: wrong timestamp echo of a run", name_);
  const int64_t delay_us = (now - last.at).count_ns() / 1000;
  expect(ext.delay_us == std::min<int64_t>(delay_us, wire::kMpAckDelayMax),
         "{}: kept for {} us, says {}", name_, delay_us, uint32_t{ext.delay_us});
  expect(aack >= static_cast<int64_t>(ack_made_) && aack <= static_cast<int64_t>(placed_packets()),
         "{}: AACK {} after {}, {} are placed", name_, aack, ack_made_, placed_packets());
  ack_made_ = static_cast<uint64_t>(aack);
  owed_.clear();
}

void StreamModel::on_deadline(Time now) {
  for (uint64_t index = acked_; index < sent_; ++index) {
    if (!sacked_[index] && trips_.overdue(index, now)) late_[index] = true;
  }
}

bool StreamModel::on_ack_delivered(const wire::Packet& ack, Time now, uint64_t marks,
                                   bool by_time) {
  const int64_t aack = index_of(ack.psn);
  // The acknowledgement answers a forged packet, so the sender must ignore it.
  const bool names_one = (ack.mp_ack.flags & wire::kMpAckSackValid) != 0;
  const Psn next = base_ + static_cast<uint32_t>(sent_ & kPsnMask);
  if (names_one && ack.mp_ack.sack.at_or_after(next)) return false;
  if (aack > static_cast<int64_t>(acked_)) acked_ = static_cast<uint64_t>(aack);
  if (names_one && ack.mp_ack.nack == wire::NackCode::kNone) {
    trips_.on_echo(ack.mp_ack.echoed_timestamp, now);
  }
  const int64_t sack = index_of(ack.mp_ack.sack);
  if (!names_one || sack < static_cast<int64_t>(acked_)) return false;
  const auto named = static_cast<uint64_t>(sack);
  if (ack.mp_ack.nack == wire::NackCode::kNone) sacked_[named] = true;
  refused_[named] = ack.mp_ack.nack == wire::NackCode::kSyncTooEarly ||
                    ack.mp_ack.nack == wire::NackCode::kWindowOverflow ||
                    ack.mp_ack.nack == wire::NackCode::kRnr;
  const bool head = aack == static_cast<int64_t>(acked_) && named == acked_;
  if (ack.mp_ack.nack == wire::NackCode::kRnr && head && rnr_for_ != acked_) {
    rnr_for_ = acked_;
    rnr_until_ = now + wire::rnr_timer(ack.mp_ack.detail);
  }
  return ack.mp_ack.nack == wire::NackCode::kWindowOverflow && !sacked_[named] &&
         marks_when_sent_[named] == marks &&
         (!by_time || trips_.answers_last_copy(named, ack.mp_ack.echoed_timestamp));
}

}  // namespace mprdma::swarm
