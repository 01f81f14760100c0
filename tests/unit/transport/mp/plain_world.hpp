// Two queue pairs of two engines, and a wire between them that delays, and may lose, repeat, mark
// and forge packets. All that happens follows from the seed and from what the queue pairs do. So a
// world whose hosts use the functions of the common case (Qp::post_plain() and so on) wherever
// these accept, and one whose hosts use the general ones only, must tell the same story.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "base/prng.hpp"
#include "base/zeroed_array.hpp"
#include "transport/qp.hpp"

namespace mprdma::transport::plain {

// The same seed gives the same application and, for the same packets, the same wire.
struct Conditions {
  uint64_t seed = 1;
  bool lossy = false;    // packets are lost, repeated, marked, late
  bool forged = false;   // fields of some packets hold anything
  bool others = false;   // requests that are not plain
  bool breaks = false;   // requests for memory that is not open, receives that are too short
  uint32_t ack_run = 1;  // as in QpAttributes
  uint32_t segment = 0;
  bool narrow = false;    // a window of few packets
  bool one_path = false;  // packets need a window, and no credits
  bool one_way = false;   // the second queue pair only receives, and stays in RTR
  Psn first{100};
};

// What is on the wire.
struct Parcel {
  bool bare = true;
  wire::BarePacket raw{};  // bare
  wire::Packet header{};   // what a bare packet does not carry
  std::vector<uint8_t> payload;
};

// How often functions of the common case have accepted.
struct Accepted {
  uint64_t posts = 0;
  uint64_t packets = 0;
  uint64_t at_once = 0;  // posted and sent
  uint64_t kept = 0;     // posted to be sent at once, and not sent for want of room
  uint64_t owed = 0;     // owed acknowledgements sent
  uint64_t writes = 0;   // packets of WRITEs taken
  uint64_t planned = 0;  // of these, foreseen before the packet in front was taken
  uint64_t sends = 0;    // SENDs taken
  uint64_t acks = 0;
  uint64_t completions = 0;
  uint64_t receives = 0;  // completions of receives
};

// A queue pair and its host. A plain one looks at nothing of the queue pair that take_changes()
// does not name.
class Host {
 public:
  static constexpr uint64_t kBase = 0x10000;
  static constexpr uint32_t kMemoryBytes = 64 * 1024;

  Host(const Conditions& conditions, bool plain, int side);

  void post(Time now, const PlainRequest& request);
  void post(Time now, const SendRequest& request);
  // Posts, and sends one packet, if one may leave.
  std::optional<Parcel> post_and_send(Time now, const PlainRequest& request);
  void post_recv(Time now);
  void set_segment(uint32_t bytes);
  [[nodiscard]] bool sends_next() { return !answers_.empty() || wants_to_send(); }
  // The answers to what has come, then `most` packets.
  std::vector<Parcel> send(Time now, uint32_t most);
  void receive(Time now, const Parcel& parcel);
  [[nodiscard]] Time deadline() const { return deadline_; }
  void on_time(Time now);
  void send_owed(Time now);
  // Takes completions and events.
  void complete();
  Qp& qp() { return *qp_; }

  const Key key = MemoryTable::make_key(1, 0x55);
  std::vector<uint8_t> memory = std::vector<uint8_t>(kMemoryBytes);
  std::vector<std::string> story;  // results of posts, completions, events
  TransportCounters counters;
  Accepted accepted;

 private:
  bool wants_to_send();
  bool take_plain(Time now, const Parcel& parcel, RxActions& actions);
  bool plan(const Parcel& parcel, uint64_t* to);
  bool poll_plain(Time now, Parcel& out);
  bool poll_general(Time now, Parcel& out);
  Parcel parcel_of(const PlainPacket& packet);
  bool tell_completion();
  void do_actions(const RxActions& actions);
  void place(const Placement& placement);
  void look_at_changes();
  uint8_t* at(uint64_t addr, uint32_t length);

  bool plain_;
  bool breaks_;
  MemoryTable regions_{8};
  HeldPool held_{64};
  QpAttributes attributes_;
  std::unique_ptr<Qp> qp_;
  bool may_send_ = false;
  bool may_complete_ = false;
  bool may_have_event_ = false;
  Time deadline_ = Time::never();
  std::vector<Parcel> answers_;
  PlannedWrites plan_;  // of the packets to come
  bool plan_stands_ = false;
  std::map<FrameHandle, std::vector<uint8_t>> frames_;
  FrameHandle last_frame_ = 0;
  uint64_t next_recv_ = 1'000'000;
  ZeroedArray<Placement> placements_{kMaxPlacements};
  ZeroedArray<FrameHandle> released_{kMaxReleased};
};

class World {
 public:
  struct Sent {
    Time at;
    int from;
    wire::Packet header;
    std::vector<uint8_t> payload;
  };

  World(const Conditions& conditions, bool plain);
  void run();

  std::array<Host, 2> hosts;
  std::vector<Sent> sent;

 private:
  struct Flight {
    Time at;
    uint64_t order;
    int to;
    Parcel parcel;
    bool operator<(const Flight& other) const {
      return at != other.at ? other.at < at : other.order < order;
    }
  };

  [[nodiscard]] Time next_event() const;
  void act(int side);
  void post_plain(int side);
  void post_other(Host& host);
  void send_from(int side);
  void put_on_wire(int from, Parcel parcel);
  void forge(Parcel& parcel);
  void deliver();
  uint32_t draw(uint32_t below) { return static_cast<uint32_t>(prng_.below(below)); }
  Duration draw_us(uint32_t below) { return Duration::us(draw(below)); }

  Conditions conditions_;
  Prng prng_;
  Time now_ = Time::from_ns(1'000'000);
  std::priority_queue<Flight> flights_;
  uint64_t order_ = 0;
  std::array<Time, 2> acts_at_ = {now_, now_};
  std::array<Time, 2> acks_at_ = {Time::never(), Time::never()};
  bool stalled_ = false;  // a host has more to send than it was let
  int acts_left_ = 120;
  uint64_t next_wr_ = 1;
};

}  // namespace mprdma::transport::plain
