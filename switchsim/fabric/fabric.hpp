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

namespace mprdma::switchsim {

// The counters of each host; page: docs/operations.md.
#define MPRDMA_FABRIC_COUNTERS(X)                                                    \
  X(frames_in, "frames taken from the host")                                         \
  X(frames_out, "frames handed to the host")                                         \
  X(frames_flooded, "ARP and group frames of the host, passed on beside the links")  \
  X(back_pressure, "turns in which the host was not read because its link was full") \
  X(drop_short, "frames that end inside a header")                                   \
  X(drop_long, "frames longer than a buffer")                                        \
  X(drop_ether_type, "frames that are neither IP nor ARP")                           \
  X(drop_header, "frames with an IP header that contradicts itself")                 \
  X(drop_unknown_destination, "frames to an address of no host")                     \
  X(drop_to_itself, "frames of the host to itself")                                  \
  X(drop_no_buffer, "frames that found all buffers of the fabric in use")            \
  X(drop_flood_full, "group frames beyond what the fabric carries at once")          \
  X(drop_host_slow, "frames to the host that it did not take in time")               \
  X(drop_host_away, "frames to the host while nobody was at the other end of its port")
MPRDMA_DEFINE_COUNTERS(FabricCounters, MPRDMA_FABRIC_COUNTERS);

class Fabric {
 public:
  // Largest frame: headers, 4096 bytes of payload, pad, ICRC; as LocalPort's.
  static constexpr uint32_t kFrameBytesMax = 4352;
  static constexpr uint32_t kFramesMax = 8192;

  // One port for each host, in order. `epoch`: where the network's time begins.
  Fabric(const FabricConfig& config, std::vector<std::unique_ptr<dataplane::Port>> ports,
         Time epoch);
  ~Fabric();

  // Takes frames in, advances the network to `now`, hands frames out. True: more frames wait.
  bool turn(Time now);
  // Anything moved in the last turn.
  [[nodiscard]] bool moved() const { return moved_; }
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
  [[nodiscard]] const FabricCounters& counters(size_t host) const;
  [[nodiscard]] dataplane::Port& port(size_t host) const;
  [[nodiscard]] uint32_t frames_in_use() const;

  // ---- For the network
  void on_packet(NodeId host, PacketId packet);
  static bool pull(NodeId /*host*/) { return false; }
  static void on_timer(TimerId /*timer*/) {}

 private:
  struct Host {
    std::unique_ptr<dataplane::Port> port;
    wire::MacAddress mac{};
    Ipv4 ipv4{};
    bool corrupts = false;  // the wire at this port can: it checks ICRCs
    bool blocked = false;   // its link is full: it is not read
    bool armed = false;
    bool sent = false;  // something to flush
    FabricCounters counters;
    std::array<PacketId, dataplane::kBurst> outbox{};
    unsigned outbox_count = 0;
  };

  // What is known of the frame in a buffer.
  struct FrameInfo {
    uint16_t bytes = 0;
    bool is_ipv6 = false;
    bool lacks_icrc = false;
    bool marked = false;  // carries CE already
  };

  struct ControlFrame {
    Time due;
    PacketId packet;
    uint32_t host;
  };

  [[nodiscard]] static NetworkConfig network_config(const FabricConfig& config);
  [[nodiscard]] unsigned char* buffer(PacketId packet) const;
  [[nodiscard]] SimTime sim_time(Time now) const;
  bool receive(uint32_t host, Time now);
  void receive_from_host(uint32_t host, const dataplane::RxFrame& frame, Time now);
  void send_flow(uint32_t host, PacketId packet, const FrameClass& found);
  void send_control(uint32_t host, PacketId packet, const FrameClass& found, Time now);
  void flood_copy(uint32_t from, uint32_t to, PacketId packet, Time now);
  void deliver_control(Time now);
  [[nodiscard]] uint32_t find_host(const FrameClass& found) const;
  [[nodiscard]] uint32_t find_mac(const wire::MacAddress& mac) const;
  void drop(uint64_t FabricCounters::*cause, uint32_t host, PacketId packet);
  void hand_out(uint32_t host);
  void copy_out(Host& host, PacketId packet, dataplane::TxFrame* frame);

  FabricConfig config_;
  Topology now_;
  Time epoch_;
  Duration control_delay_;
  std::vector<Host> hosts_;
  std::unique_ptr<Network<Fabric>> network_;
  std::unique_ptr<unsigned char[]> buffers_;
  std::vector<FrameInfo> frames_;
  std::deque<ControlFrame> control_;
  bool moved_ = false;
};

}  // namespace mprdma::switchsim
