// What surrounds the two queue pairs of an exploration: the setup, the packets in flight, the
// memory of both sides and what the applications have done. Plain values, so that a state is copied
// and put back at once.
//
// Side 0 is "a", side 1 "b". Either posts messages to the other.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "base/check.hpp"
#include "base/key.hpp"
#include "base/units.hpp"
#include "transport/core/memory_table.hpp"
#include "transport/core/params.hpp"
#include "transport/core/types.hpp"
#include "wire/packet.hpp"

namespace mprdma::explore {

inline constexpr uint32_t kPathMtu = 256;
inline constexpr uint32_t kMessagesMax = 5;
inline constexpr uint32_t kPacketsMax = 4;  // of a message
inline constexpr uint32_t kAreaBytes = kPacketsMax * kPathMtu;
inline constexpr uint32_t kLastBytes = 40;  // of a message, in its last packet
inline constexpr uint32_t kFlightsMax = 24;
inline constexpr uint32_t kFramesMax = 12;
// The time that a packet needs at least.
inline constexpr Duration kDelay = Duration::us(10);
inline constexpr int64_t kStartNs = 1'000'000;
// Memory of the hosts: message i has the area at kBase + i * kAreaBytes, on either side. There are
// no bytes in it. A packet carries where its payload was read at its sender; it has to be placed
// there at the receiver, which is the same as that every byte is right.
inline constexpr uint64_t kBase = 0x10000;
inline constexpr Key kKey = transport::MemoryTable::make_key(1, 0x55);
// First PSNs: both directions pass the wrap.
inline constexpr uint32_t kFirstPsnA = 0xfffffe;
inline constexpr uint32_t kFirstPsnB = 0xffffff;
struct Message {
  transport::WorkOpcode opcode = transport::WorkOpcode::kWrite;
  uint32_t packets = 1;
  uint32_t poster = 0;  // side
  [[nodiscard]] uint32_t length() const { return (packets - 1) * kPathMtu + kLastBytes; }
  // The side whose memory takes the data.
  [[nodiscard]] uint32_t target() const {
    return opcode == transport::WorkOpcode::kRead ? poster : 1 - poster;
  }
};

// How often the network and the applications may do what they like.
struct Budgets {
  uint8_t losses = 0;
  uint8_t duplicate_packets = 0;
  uint8_t duplicate_acks = 0;
  uint8_t overtakes = 0;  // a packet is delivered before an older one of its direction
  uint8_t delays = 0;     // time passes although a packet is in flight or a post is due
  bool operator==(const Budgets&) const = default;
};
inline constexpr uint8_t kUnlimited = UINT8_MAX;

struct Setup {
  transport::Params params;
  std::vector<Message> messages;
  Budgets budgets;
  uint32_t held_budget = 0;    // frames that a side may hold
  bool late_posts = false;     // requests are posted at any time, instead of at the start
  bool late_receives = false;  // so are receives
  bool owes_acks = false;      // acknowledgements are owed, of runs, and leave at any time
  bool verbose = false;
};

enum class EventKind : uint8_t {
  kDeliver,
  kLose,
  kDuplicate,
  kAcknowledge,  // what `side` owes
  kTime,
  kPost,
  kPostReceive,
};

// One step of a run. `side` has sent the packet, or acts; `index` is the place of the packet among
// those in flight, else 0.
struct Event {
  EventKind kind = EventKind::kTime;
  uint8_t side = 0;
  uint8_t index = 0;
};
// "da0": the oldest packet from a arrives; "lb1", "ua0": lost, duplicated; "ka0": a sends the
// acknowledgement that it owes; "pa0", "ra0": a posts a message, a receive; "t": time passes.
std::string to_string(const Event& event);
std::string to_string(const std::vector<Event>& events);
bool parse_events(const std::string& text, std::vector<Event>& events);

template <class T, size_t kMax>
class FixedList {
 public:
  void push(const T& value) {
    CHECK(size_ < kMax);
    items_[size_++] = value;
  }
  void erase(size_t i) {
    CHECK(i < size_);
    std::copy(items_.begin() + i + 1, items_.begin() + size_, items_.begin() + i);
    --size_;
  }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] bool full() const { return size_ == kMax; }
  T& operator[](size_t i) { return items_[i]; }
  const T& operator[](size_t i) const { return items_[i]; }

 private:
  std::array<T, kMax> items_{};
  uint32_t size_ = 0;
};

struct Flight {
  wire::Packet header;
  Time sent;
  uint64_t hash = 0;    // of everything but `sent`
  uint32_t source = 0;  // of the payload, bytes from kBase
  [[nodiscard]] bool is_ack() const {
    return header.info().stream == wire::PacketStream::kAck ||
           header.opcode == wire::Opcode::kRcAck;
  }
};

// A frame lent to the transport; its handle is its index + 1.
struct Frame {
  bool used = false;
  uint32_t source = 0;  // as in Flight
  uint32_t bytes = 0;
  uint64_t hash = 0;
};

struct Side {
  FixedList<Flight, kFlightsMax> flights;  // that it has sent, the oldest first
  std::array<Frame, kFramesMax> frames;
};

struct Scene {
  Time now = Time::from_ns(kStartNs);
  Budgets left;
  // Of each side.
  struct Progress {
    uint8_t posted = 0;  // messages
    uint8_t completed = 0;
    uint8_t receives_posted = 0;
    uint8_t receives_done = 0;
  };
  std::array<Progress, 2> progress;
  std::array<std::array<uint8_t, kPacketsMax>, kMessagesMax> placed{};  // how often each piece was
  std::array<Side, 2> sides;
};
static_assert(std::is_trivially_copyable_v<Scene>);

}  // namespace mprdma::explore
