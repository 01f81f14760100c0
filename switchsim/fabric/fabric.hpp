// A network in real time: ports of hosts at its edge, the switch model (switchsim/model) between
// them. One thread calls it; nothing here waits, and the caller passes the time in.
//
// A frame that a host sends is copied once into the fabric's own memory, and only the copy is
// looked at: the sender can still write the original. The copy travels the model as a packet whose
// number is also that of its buffer, and is copied once more into a frame of the receiver's port.
//
// ARP and frames to groups pass beside the links, after a constant delay: they are neither hashed
// nor lost, so that a link that is down or loses never takes an address away. A host's own link
// that is down stops them, too.
//
// A host whose link is full is not read from, so that it sees back-pressure as behind a network
// card; a host that does not take its frames in time loses them, and that is counted.
//
// With PFC the host's end of its link pauses and is paused (fabric_pfc.cpp). The model stops its
// packets there by itself, as a network card would; the host is told, too, in PFC frames. Its own
// PFC frames pause the switch, and so do frames that find no room in its port, which wait then.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/counters.hpp"
#include "base/ipv4.hpp"
#include "base/units.hpp"
#include "dataplane/port/port.hpp"
#include "switchsim/fabric/fabric_config.hpp"
#include "switchsim/fabric/frame_classifier.hpp"
#include "switchsim/fabric/link_change.hpp"
#include "switchsim/model/network.hpp"
#include "switchsim/model/pause_watchdogs.hpp"
#include "wire/pause_frame.hpp"

namespace mprdma::switchsim {

// The counters of each host; page: docs/operations.md.
#define MPRDMA_FABRIC_COUNTERS(X)                                                               \
  X(frames_in, "frames taken from the host")                                                    \
  X(frames_out, "frames handed to the host")                                                    \
  X(frames_flooded, "ARP and group frames of the host, passed on beside the links")             \
  X(back_pressure, "turns in which the host was not read: its link, or its buffers, were full") \
  X(drop_short, "frames that end inside a header")                                              \
  X(drop_long, "frames longer than a buffer")                                                   \
  X(drop_ether_type, "frames that are neither IP nor ARP")                                      \
  X(drop_header, "frames with an IP header that contradicts itself")                            \
  X(drop_unknown_destination, "frames to an address of no host")                                \
  X(drop_to_itself, "frames of the host to itself")                                             \
  X(drop_no_buffer, "frames that found all buffers of the fabric in use")                       \
  X(drop_flood_full, "group frames beyond what the fabric carries at once")                     \
  X(drop_host_slow, "frames to the host that it did not take in time")                          \
  X(drop_host_away, "frames to the host while nobody was at the other end of its port")         \
  X(pause_received, "pauses of the host that were obeyed, and their ends")                      \
  X(pause_ignored,                                                                              \
    "pauses of the host that were not: there is no PFC, or none of these priorities")           \
  X(drop_bad_pause, "frames of MAC Control that are no pause")                                  \
  X(pause_full, "times that the host was taken to pause because its port had no room")          \
  X(pause_sent, "pauses sent to the host, refreshed ones and ends of pauses, too")              \
  X(watchdog_trips, "times that the switch gave the host up because it paused without end")     \
  X(nic_watchdog_trips, "times that the NIC's watchdog forbade it to pause, for the same reason")
MPRDMA_DEFINE_COUNTERS(FabricCounters, MPRDMA_FABRIC_COUNTERS);

class Fabric {
 public:
  static constexpr uint32_t kFramesMax = 8192;

  // One port for each host, in order. `epoch`: where the network's time begins.
  Fabric(const FabricConfig& config, std::vector<std::unique_ptr<dataplane::Port>> ports,
         Time epoch);
  ~Fabric();

  // Takes frames in, advances the network to `now`, hands frames out. True: more frames wait.
  bool turn(Time now);
  // Frames that the last turn took from hosts, and those that reached the port of a host.
  [[nodiscard]] uint32_t frames_moved() const { return frames_moved_; }
  // When the network has something to do by itself; never() when it has not.
  [[nodiscard]] Time next_event() const;
  void service(Time now);
  // Asks every port for a wake-up. False: frames wait, do not sleep.
  bool arm();
  void disarm();

  // Changes a link, and what is shown of it. `directions`: bit 0 a to b, bit 1 b to a.
  void apply(LinkId link, const LinkChange& change, unsigned directions);

  [[nodiscard]] const FabricConfig& config() const { return config_; }
  // Links as they are now: the configuration with the changes since.
  [[nodiscard]] const Topology& links_now() const { return now_; }
  [[nodiscard]] bool link_up(LinkId link) const;
  [[nodiscard]] const LinkCounters& link_counters(PortId port) const;
  [[nodiscard]] uint64_t queue_bytes(PortId port) const;
  [[nodiscard]] bool has_pfc() const { return config_.topology.pfc.on; }
  [[nodiscard]] PauseState pause_state(PortId port) const;
  [[nodiscard]] const FabricCounters& counters(size_t host) const;
  [[nodiscard]] dataplane::Port& port(size_t host) const;
  [[nodiscard]] uint32_t frames_in_use() const;

  // ---- For the network
  void on_packet(NodeId host, PacketId packet);
  void on_drop(PacketId packet) { --hosts_[frames_[packet].source].frames_in_use; }
  static bool pull(NodeId /*host*/) { return false; }
  static void on_timer(TimerId /*timer*/) {}

 private:
  // Frames in the fabric's buffers, linked by FrameInfo::next.
  struct FrameQueue {
    PacketId head = kNoPacket;
    PacketId tail = kNoPacket;
    uint32_t count = 0;
  };

  // Frames of a port that the fabric has borrowed and not looked into, oldest first: the host's
  // pauses must not wait behind its data when its link is full, or two hosts that pause each other
  // would wait for ever. They hold the host back as frames do that are not read.
  struct FrameBacklog {
    std::vector<dataplane::RxFrame> frames;  // of fixed size
    size_t first = 0;
    size_t count = 0;
  };

  struct Host {
    std::unique_ptr<dataplane::Port> port;
    wire::MacAddress mac{};
    Ipv4 ipv4{};
    bool corrupts = false;  // the wire at this port can: it checks ICRCs
    bool blocked = false;   // its link is full: it is not read
    bool armed = false;
    bool sent = false;  // something to flush
    FabricCounters counters;
    FrameQueue outbox;
    uint32_t frames_in_use = 0;  // buffers of frames that it sent
    // ---- With PFC
    FrameBacklog backlog;  // of frames that the host sent
    bool full = false;     // its port had no room; what is lossless waits in the outbox
    bool pauses = false;   // by its own frames, until pauses_until
    std::array<Time, wire::PauseFrame::kPriorities> paused_until{};  // by priority
    Time pauses_until;                                               // the latest of them
    bool told = false;                                               // that it is paused
    Time tell_at;                                                    // when it is told so again
    bool given_up = false;       // by the watchdog of the switch
    bool may_not_pause = false;  // as that of its NIC says, until its program leaves
    uint64_t nic_trips = 0;      // of that one, as of the last turn

    // What is lossless waits until its port has room.
    [[nodiscard]] bool keeps_lossless() const { return !given_up && !may_not_pause; }
  };

  // What is known of the frame in a buffer.
  struct FrameInfo {
    uint16_t bytes = 0;
    bool is_ipv6 = false;
    bool lacks_icrc = false;
    bool marked = false;  // carries CE already
    bool lossless = false;
    uint32_t source = 0;        // the host that sent it
    PacketId next = kNoPacket;  // in FrameQueue
  };

  struct ControlFrame {
    Time due;
    PacketId packet;
    uint32_t host;
  };

  [[nodiscard]] static NetworkConfig network_config(const FabricConfig& config);
  [[nodiscard]] unsigned char* buffer(PacketId packet) const;
  [[nodiscard]] SimTime sim_time(Time now) const;
  [[nodiscard]] Time real_time(SimTime time) const;
  bool receive(uint32_t host, Time now);
  [[nodiscard]] bool is_blocked(uint32_t host) const;
  void receive_from_host(uint32_t host, const dataplane::RxFrame& frame, Time now);
  void send_flow(uint32_t host, PacketId packet, const FrameClass& found);
  void send_control(uint32_t host, PacketId packet, const FrameClass& found, Time now);
  void flood_copy(uint32_t from, uint32_t to, PacketId packet, Time now);
  void deliver_control(Time now);
  [[nodiscard]] uint32_t find_host(const FrameClass& found) const;
  [[nodiscard]] uint32_t find_mac(const wire::MacAddress& mac) const;
  void drop(uint64_t FabricCounters::*cause, uint32_t host, PacketId packet);
  void release(PacketId packet);
  void hand_out(uint32_t host);
  PacketId take_from(FrameQueue* queue);
  void drop_waiting(Host* host, bool up);
  void copy_out(Host& host, PacketId packet, dataplane::TxFrame* frame);

  // fabric_pfc.cpp
  bool receive_past_pauses(uint32_t host, Time now);
  bool take_pause(uint32_t host, const dataplane::RxFrame& frame, Time now);
  void tell_pauses(Time now);
  bool tell_pause(uint32_t host, bool paused, Time now);
  void follow_pauses(Time now);
  [[nodiscard]] Time next_pause_event() const;
  [[nodiscard]] bool has_work(const Host& host) const;
  [[nodiscard]] static size_t backlog_room(const Host& host);

  FabricConfig config_;
  Topology now_;
  Time epoch_;
  Duration control_delay_;
  std::vector<Host> hosts_;
  std::unique_ptr<Network<Fabric>> network_;
  PauseWatchdogs<Fabric> watchdogs_;
  uint32_t share_;  // of the buffers, for each host
  std::unique_ptr<unsigned char[]> buffers_;
  std::vector<FrameInfo> frames_;
  std::deque<ControlFrame> control_;
  uint32_t frames_moved_ = 0;
};

}  // namespace mprdma::switchsim
