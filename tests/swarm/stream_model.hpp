// What a checker knows of one reliable packet stream: which message each PSN belongs to, what has
// been sent, delivered, held, placed and acknowledged. Indices count packets from the stream's
// first one and never wrap; PSNs are their image modulo 2^24.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "base/psn.hpp"
#include "base/units.hpp"
#include "tests/swarm/failure.hpp"
#include "tests/swarm/round_trips.hpp"
#include "wire/packet.hpp"

namespace mprdma::swarm {

struct Message {
  uint64_t op = 0;     // index of the operation that it belongs to
  uint64_t first = 0;  // packet index; filled by StreamModel::add
  uint64_t packets = 1;
  uint64_t bytes = 0;       // to be placed
  uint32_t segment = 1024;  // bytes of its packets but for the last one
  bool relaxed = false;     // may be placed as it arrives
  bool sync = false;        // placed after everything before it
};

// A packet in order whose acknowledgement the receiver owes.
struct OwedPacket {
  uint64_t index = 0;
  uint16_t vp = 0;
  uint32_t timestamp = 0;
  Time at;  // when it came
};

class StreamModel {
 public:
  StreamModel(const char* name, Psn base) : name_(name), base_(base) {}

  // The message follows. Returns its number.
  uint64_t add(Message message) {
    message.first = total_;
    messages_.push_back(message);
    total_ += message.packets;
    placed_.resize(total_);
    return messages_.size() - 1;
  }
  // Forgets the messages from this number on, of which nothing has been sent.
  void cut(uint64_t number);

  // Bytes of the messages that follow need not be placed.
  void excuse_placement() { excused_ = std::min(excused_, messages_.size()); }

  // Index of a PSN near what has been sent; may be negative or beyond.
  [[nodiscard]] int64_t index_of(Psn psn) const {
    const Psn next = base_ + static_cast<uint32_t>(sent_ & kPsnMask);
    return static_cast<int64_t>(sent_) + next.distance_to(psn);
  }
  [[nodiscard]] const Message& message_of(uint64_t index) const;
  [[nodiscard]] const Message& message(uint64_t number) const { return messages_[number]; }
  [[nodiscard]] uint64_t messages() const { return messages_.size(); }

  // ---- Facts, each checked
  // A packet leaves its sender: the next one, or one sent and not yet acknowledged.
  // `marks`: how many PSNs its sender has ever marked lost, or refused; `window_slots`: L.
  uint64_t on_sent(Psn psn, Time now, uint64_t marks, uint32_t window_slots);
  // Why a packet is sent that has been sent before: a NACK says that the receiver refused the last
  // copy or was not ready for it, or that its window dropped it; or that copy is older than any may
  // be that is not lost (RoundTrips::overdue), or was so at a deadline, since when the new one may
  // have waited for its turn.
  enum class Again : uint8_t { kUnasked, kRefused, kOverdue };
  [[nodiscard]] Again why_again(uint64_t index, Time now) const {
    if (refused_[index]) return Again::kRefused;
    return late_[index] || trips_.overdue(index, now) ? Again::kOverdue : Again::kUnasked;
  }
  // The sender may judge by time now.
  void on_deadline(Time now);
  void on_delivered(uint64_t index);
  void on_held(uint64_t index) { held_.insert(index); }
  void on_unheld(uint64_t index) { held_.erase(index); }
  // Bytes are placed: each once, of a packet in order; and packets in order unless their message is
  // relaxed. Returns their message and offset in it.
  struct Place {
    const Message* message;
    uint64_t offset;
  };
  Place on_placed(uint64_t index, uint32_t payload_offset, uint32_t length);
  // Something that places nothing there is executed: everything before it has been.
  void on_executed(uint64_t index);
  // The first packet that has not placed all its bytes.
  [[nodiscard]] uint64_t next_to_place() {
    advance(arrived_, delivered_prefix_);
    return arrived_.packet;
  }
  // The receiver says so. `trigger`: the packet that it answers, or -1.
  void on_ack_made(const wire::Packet& ack, int64_t trigger, uint32_t window_slots);
  // The receiver took the next packet and owes its acknowledgement.
  void on_owed(const OwedPacket& packet);
  // The receiver acknowledges what it owes: all of it, and nothing else.
  void on_owed_ack_made(const wire::Packet& ack, Time now, uint32_t run_max);
  // The packet that the receiver takes next in order.
  [[nodiscard]] uint64_t next_in_order() const { return next_in_order_; }
  [[nodiscard]] bool owes_ack() const { return !owed_.empty(); }
  // When the oldest packet came whose acknowledgement is owed; never: none is.
  [[nodiscard]] Time owed_since() const { return owed_.empty() ? Time::never() : owed_.front().at; }
  // The sender receives an acknowledgement. True: the last copy of the packet that it names was
  // dropped, the sender has not been told so before, and has to mark it lost now. `by_time`: it
  // knows when copies leave; else it marks whatever copy the NACK answers.
  bool on_ack_delivered(const wire::Packet& ack, Time now, uint64_t marks, bool by_time);
  // What lies before has arrived, as something else tells.
  void on_implied_ack(uint64_t index) { acked_ = std::max(acked_, index); }

  [[nodiscard]] uint64_t sent() const { return sent_; }
  [[nodiscard]] uint64_t total() const { return total_; }
  [[nodiscard]] uint64_t acked() const { return acked_; }
  // Messages at the start of the stream whose every byte has been placed.
  [[nodiscard]] uint64_t placed_messages() {
    advance(executed_, next_in_order_);
    return executed_.message;
  }
  // The first packet of the message after those has been placed, too.
  [[nodiscard]] bool placing() {
    const uint64_t done = placed_messages();
    return done < messages_.size() && executed_.packet > messages_[done].first;
  }
  // Packets [0, n) have no byte left to place and have arrived.
  [[nodiscard]] uint64_t placed_packets();

 private:
  // How far the start of the stream is placed.
  struct Cursor {
    uint64_t packet = 0;
    uint64_t message = 0;
  };
  // A packet without bytes leaves no trace in memory; those before `empty_until` have passed.
  void advance(Cursor& cursor, uint64_t empty_until);
  [[nodiscard]] uint64_t bytes_of(const Message& message, uint64_t index) const {
    const uint64_t offset = (index - message.first) * message.segment;
    return std::min<uint64_t>(message.segment, message.bytes - std::min(message.bytes, offset));
  }
  void check_map(const wire::MpAckMap& map, int64_t aack, int64_t sack) const;
  // The receiver has it, ahead of its turn.
  [[nodiscard]] bool kept(uint64_t index) const {
    return held_.contains(index) || (index < total_ && is_placed(index));
  }
  [[nodiscard]] bool is_placed(uint64_t index) const {
    const uint64_t bytes = bytes_of(message_of(index), index);
    return bytes > 0 && placed_[index] == bytes;
  }

  const char* name_;
  Psn base_;
  std::vector<Message> messages_;
  uint64_t total_ = 0;
  uint64_t sent_ = 0;
  std::vector<bool> delivered_;
  uint64_t delivered_prefix_ = 0;
  std::set<uint64_t> held_;
  std::vector<uint32_t> placed_;  // bytes of each packet
  Cursor arrived_;                // empty packets count when they arrive
  Cursor executed_;               // empty packets count when they are taken in order
  size_t excused_ = SIZE_MAX;
  uint64_t ack_made_ = 0;
  uint64_t next_in_order_ = 0;
  std::deque<OwedPacket> owed_;  // each the next one of the one before it
  uint64_t acked_ = 0;
  std::vector<bool> sacked_;               // the sender knows
  std::vector<uint64_t> marks_when_sent_;  // of each packet's last copy
  std::vector<bool> refused_;              // that copy, as the sender knows
  std::vector<bool> late_;                 // that copy was overdue at a deadline
  RoundTrips trips_;
  // The receiver was not ready for packet rnr_for_: silence until rnr_until_.
  uint64_t rnr_for_ = UINT64_MAX;
  Time rnr_until_;
};

}  // namespace mprdma::swarm
