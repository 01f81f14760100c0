// What a checker knows of one reliable packet stream: which message each PSN belongs to, what has
// been sent, delivered, held, placed and acknowledged. Indices count packets from the stream's
// first one and never wrap; PSNs are their image modulo 2^24.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "base/psn.hpp"
#include "base/units.hpp"
#include "tests/swarm/failure.hpp"
#include "wire/packet.hpp"

namespace mprdma::swarm {

struct Message {
  uint64_t op = 0;     // index of the operation that it belongs to
  uint64_t first = 0;  // packet index
  uint64_t packets = 1;
  uint64_t bytes = 0;  // to be placed
};

class StreamModel {
 public:
  StreamModel(const char* name, Psn base, uint32_t mtu) : name_(name), base_(base), mtu_(mtu) {}

  // A message of so many placed bytes in so many packets follows. Returns its number.
  uint64_t add(uint64_t op, uint64_t packets, uint64_t bytes) {
    messages_.push_back({op, total_, packets, bytes});
    total_ += packets;
    return messages_.size() - 1;
  }

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
  // `marks`: how many PSNs its sender has ever marked lost.
  uint64_t on_sent(Psn psn, Time now, uint64_t marks);
  void on_delivered(uint64_t index);
  void on_held(uint64_t index) { held_.insert(index); }
  void on_unheld(uint64_t index) { held_.erase(index); }
  // Bytes are placed: exactly the next ones. Returns their message and offset in it.
  struct Place {
    const Message* message;
    uint64_t offset;
  };
  Place on_placed(uint64_t index, uint32_t payload_offset, uint32_t length);
  // The receiver says so. `trigger`: the packet that it answers, or -1.
  void on_ack_made(const wire::Packet& ack, int64_t trigger, uint32_t window_slots);
  // .. and the sender hears it. True: the packet that it names was dropped, nothing else has told
  // the sender so yet, and it must be marked lost now.
  bool on_ack_delivered(const wire::Packet& ack, Time now, uint64_t marks);
  // What lies before has arrived, as something else tells.
  void on_implied_ack(uint64_t index) { acked_ = std::max(acked_, index); }

  [[nodiscard]] uint64_t sent() const { return sent_; }
  [[nodiscard]] uint64_t total() const { return total_; }
  [[nodiscard]] uint64_t acked() const { return acked_; }
  // Messages whose every byte has been placed.
  [[nodiscard]] uint64_t placed_messages() {
    skip_empty();
    return cursor_;
  }
  // A message has been placed in part.
  [[nodiscard]] bool placing() const { return cursor_bytes_ > 0; }
  // Packets [0, n) have no byte left to place and have arrived.
  [[nodiscard]] uint64_t placed_packets();

 private:
  void skip_empty() {  // also behind a message that is complete
    while (cursor_ < messages_.size() && cursor_bytes_ == messages_[cursor_].bytes) {
      const Message& message = messages_[cursor_];
      // Without bytes only its arrival can be seen.
      if (message.bytes == 0 && delivered_prefix_ < message.first + message.packets) return;
      ++cursor_;
      cursor_bytes_ = 0;
    }
  }

  const char* name_;
  Psn base_;
  uint32_t mtu_;
  std::vector<Message> messages_;
  uint64_t total_ = 0;
  uint64_t sent_ = 0;
  std::vector<bool> delivered_;
  uint64_t delivered_prefix_ = 0;
  std::set<uint64_t> held_;
  uint64_t cursor_ = 0;
  size_t excused_ = SIZE_MAX;
  uint64_t cursor_bytes_ = 0;
  uint64_t ack_made_ = 0;
  uint64_t acked_ = 0;
  std::vector<bool> sacked_;               // the sender knows
  std::vector<uint64_t> marks_when_sent_;  // of each packet's last copy
  // The receiver was not ready for packet rnr_for_: silence until rnr_until_.
  uint64_t rnr_for_ = UINT64_MAX;
  Time rnr_until_;
};

}  // namespace mprdma::swarm
