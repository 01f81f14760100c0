// The switch of mprdmad: frames between the processes of a host, and between them and the wire.
//
// Frames from a client are checked against its permissions (protocol.hpp) on a copy of the headers,
// and the copy is forwarded. A frame to the device's own address goes into the port of the client
// that owns the destination queue pair, any other to the wire. A frame is copied once, from ring to
// ring.
// Frames from the wire are steered by destination queue pair number. Datagrams of connection
// management go to the host's agent (Management), those of our own class (wire/mad.hpp) to the
// client whose queue pair they name, those to a group to every client. ARP and neighbour discovery
// are answered by mgmt/neighbours, path probes by mgmt/qp1, ping here. Pauses of the link (PFC) are
// passed on to the clients, whose engines obey. Other frames go to the kernel of the host, if there
// is a tap (kernel_tap.hpp).
//
// No port waits for another: a client that does not read loses frames (nic_drop_full), and only its
// own. A full wire holds back the clients that send to it, for kWireFullMax at most. A quiet port
// is armed and left out of the turns until it wakes the loop.
//
// Pure apart from its ports and the tap: time is an argument. One thread. No allocation, system
// call (but a wake-up of a sleeping client, in flush(), and one for each frame to or from the
// kernel) or lock for a frame.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "base/ipv4.hpp"
#include "base/prng.hpp"
#include "base/qpn.hpp"
#include "dataplane/client/protocol.hpp"
#include "dataplane/cm/agent.hpp"
#include "dataplane/daemon/frame_class.hpp"
#include "dataplane/daemon/kernel_tap.hpp"
#include "dataplane/daemon/switch_port.hpp"
#include "dataplane/mgmt/neighbour_resolver.hpp"
#include "dataplane/mgmt/neighbours.hpp"
#include "dataplane/mgmt/nic_host.hpp"
#include "dataplane/mgmt/path_prober.hpp"
#include "dataplane/mgmt/qp1.hpp"
#include "wire/mad.hpp"
#include "wire/neighbour.hpp"

namespace mprdma::dataplane::mprdmad {

// The receiver of connection management datagrams, which also waits for neighbours. Called by the
// switch; may not call back into it.
class Management {
 public:
  virtual ~Management() = default;
  virtual void on_mad(std::span<const unsigned char> bytes, const wire::IpAddress& from,
                      Time now) = 0;
  // nullptr: no neighbour answers.
  virtual void on_resolved(const wire::IpAddress& to, const wire::MacAddress* mac, Time now) = 0;
};

struct SwitchConfig {
  Ipv4 ipv4{};
  uint32_t prefix_bits = 32;
  Ipv4 gateway{};  // unspecified: none
  wire::MacAddress mac{};
  // The kernel has the address, too, on the tap: it answers ping, and gets what else comes for it.
  bool shared_address = false;
  // The wire's peer pauses the clients' data, of each priority; or all, as this one.
  bool pfc = false;
  std::optional<uint8_t> pfc_priority = std::nullopt;
  uint64_t seed = 0;
};

class Switch {
 public:
  // A port without a frame for this time is armed.
  static constexpr Duration kSpin = Duration::us(20);
  static constexpr Duration kWireFullMax = Duration::ms(10);
  // ARP questions that a client may ask.
  static constexpr Duration kArpPeriod = Duration::ms(10);
  static constexpr uint32_t kArpPerPeriod = 64;
  // Limit of datagrams that wait for a neighbour.
  static constexpr size_t kWaitingMads = 256;

  // `wire` may be null: frames then move between clients only.
  Switch(const SwitchConfig& config, std::unique_ptr<Port> wire, Management* management, Time now);
  ~Switch();
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  // ---- Clients, by the number of their block. Requires: no client has this block.
  void add_client(uint32_t block, std::unique_ptr<Port> port, Time now);
  // Delivers the frames that the client has sent so far, a ring's worth at most, as far as the wire
  // has room.
  void deliver_sent(uint32_t block, Time now);
  // Frames sent before are delivered first: the last one may be an acknowledgement that a peer
  // waits for.
  void remove_client(uint32_t block, Time now);
  [[nodiscard]] Port* client_port(uint32_t block);

  // Requires a wire. Call serve_kernel() whenever the tap is readable.
  void use_tap(std::unique_ptr<KernelTap> tap);
  [[nodiscard]] const KernelTap* tap() const { return tap_.get(); }
  // Forwards up to kBurst frames from the tap. True: there were some.
  bool serve_kernel(Time now);

  // Changes address, prefix, gateway and whether the kernel shares the address; the MAC stays.
  void configure(const SwitchConfig& config, Time now);

  // ---- A turn: every port that is awake is read once. True: frames moved.
  bool turn(Time now);
  // Sends the frames that were put into ports outside a turn.
  void flush();
  // Arms ports that have been quiet. True: all are asleep, and nothing waits.
  bool arm_idle_ports(Time now);
  // The port's descriptor became readable.
  void wake_client(uint32_t block, Time now);
  void wake_wire(Time now);
  void service_clients(Time now);
  void service_wire(Time now);
  [[nodiscard]] Time next_deadline() const {
    return std::min(neighbours_.table().next_deadline(), prober_.next_deadline());
  }

  // ---- For the CM agent
  // The answer comes through Management::on_resolved(), maybe within the call.
  void resolve(const wire::IpAddress& to, Time now);
  // Datagrams to the device's own address come back at once. An unreachable one is dropped and
  // counted.
  void send_mad(const CmAgent::OutgoingMad& mad, Time now);

  // ---- Path probes
  // 0: the result will come from prober(). An errno value: there will be no result.
  int probe(uint32_t client, const ProbeQuestion& question, Time now);
  [[nodiscard]] PathProber& prober() { return prober_; }

  // ---- Facts
  [[nodiscard]] Port* wire() const { return wire_ != nullptr ? wire_->port.get() : nullptr; }
  [[nodiscard]] bool link_up() const { return wire_ == nullptr || wire_->port->link_up(); }
  [[nodiscard]] const StationCounters* client_counters(uint32_t block) const;
  [[nodiscard]] StationCounters wire_counters() const;
  [[nodiscard]] const StationCounters& departed() const { return departed_; }
  // Of all ports there are and were.
  [[nodiscard]] StationCounters total() const;

 private:
  // The switch as the host of the NIC's part, towards the wire. Requires a wire. `frame`: a copy of
  // the datagram that is being processed, ours alone.
  class WireHost final : public NicHost {
   public:
    WireHost(Switch* sw, Time now, std::span<const unsigned char> frame = {})
        : switch_(*sw), now_(now), frame_(frame) {}
    bool send(std::span<const unsigned char> frame) override;
    [[nodiscard]] bool with_icrc() const override { return switch_.wire_can_corrupt_; }
    void count(NicCount what) override;
    void on_neighbour(const wire::IpAddress& ip, const wire::MacAddress* mac) override;
    void on_cm_mad(std::span<const unsigned char, wire::kMadBytes> mad,
                   const wire::FrameAddress& from, bool from_loop) override;
    void on_pair_mad(const wire::PairMad& mad) override;

   private:
    Switch& switch_;
    Time now_;
    std::span<const unsigned char> frame_;
  };

  // switch.cpp
  void release(Station& station, const RxFrame* frames, unsigned count);
  void flush_port(Station& station);
  bool put(Station& to, const HeaderCopy& copy, uint32_t header_bytes, const RxFrame& frame);
  bool put_whole(Station& to, const unsigned char* bytes, uint32_t length);
  TxFrame* next_frame(Station& to);
  void sent(Station& to, const TxFrame& frame);
  void put_to_clients(Station& from, const HeaderCopy& copy, uint32_t header_bytes,
                      const RxFrame& frame);
  void drop(Station& station, uint64_t StationCounters::*cause) { ++(station.counters.*cause); }
  bool arm_if_idle(Station& station, Time now);
  bool still_sleeps(Station& station, Time now);
  [[nodiscard]] bool is_own(const wire::IpAddress& ip) const { return neighbours_.is_own(ip); }
  // True for an address that can be resolved on the wire.
  static bool is_of_network(const wire::IpAddress& ip) {
    return wire::is_mapped_ipv4(ip) || wire::is_link_local(ip);
  }
  static void note_ring(Station& station);
  [[nodiscard]] Station* station_of(Qpn qpn) const;
  [[nodiscard]] bool is_ours(const HeaderCopy& copy, const FrameClass& found,
                             bool destination) const;

  // switch_client.cpp
  bool receive_client(uint32_t block, Time now);
  unsigned burst_of(Station& client, Time now);
  void from_client(uint32_t block, const RxFrame& frame, Time now);
  bool may_send(uint32_t block, const FrameClass& found, const wire::Packet& packet,
                const HeaderCopy& copy, uint64_t StationCounters::** cause) const;
  void pair_from_client(uint32_t block, const FrameClass& found, const RxFrame& frame);
  void set_next_hop(unsigned char* headers, const FrameClass& found);
  void route(uint32_t block, const HeaderCopy& copy, const FrameClass& found,
             const wire::Packet& packet, const RxFrame& frame);

  // switch_wire.cpp
  bool receive_wire(Time now);
  void from_wire(const RxFrame& frame, Time now);
  void roce_from_wire(const HeaderCopy& copy, const FrameClass& found, const RxFrame& frame,
                      Time now);
  void answer_ping(const HeaderCopy& copy, const FrameClass& found, const RxFrame& frame);
  void pause_from_wire(const HeaderCopy& copy);
  void tell_pauses();

  // switch_management.cpp
  void management_from_wire(const RxFrame& frame, Time now);
  void send_mad_to(const CmAgent::OutgoingMad& mad, const wire::MacAddress& mac, Time now);
  void send_probe(PathProber::Open& open, const wire::MacAddress& mac, Time now);

  // switch_neighbours.cpp
  void neighbour_from_wire(const HeaderCopy& copy, const FrameClass& found, const RxFrame& frame,
                           Time now);
  void tell_clients(const wire::IpAddress& ip, const wire::MacAddress& mac);
  void send_answer(Station& client, const wire::IpAddress& to, const wire::IpAddress& ip,
                   const wire::MacAddress& mac);
  void answer_question(const NeighbourResolver::Question& question, const wire::MacAddress* mac,
                       Time now);
  void announce(Time now);
  bool ask_neighbours(Time now);
  bool may_ask(Station& client, Time now);
  void ask_for_client(uint32_t block, const wire::IpAddress& ip, Time now);
  void arp_from_client(uint32_t block, const HeaderCopy& copy, Time now);
  void neighbour_from_client(uint32_t block, const RxFrame& frame, Time now);

  // switch_kernel.cpp
  void copy_to_kernel(const RxFrame& frame);
  void leave_to_kernel(const HeaderCopy& copy, const FrameClass& found, const RxFrame& frame);
  void from_kernel(std::span<const unsigned char> frame);

  SwitchConfig config_;
  Management* management_;
  Prng prng_;
  std::unique_ptr<Station> wire_;
  bool wire_can_corrupt_ = false;
  std::unique_ptr<KernelTap> tap_;
  std::vector<unsigned char> tap_buffer_;
  bool wire_was_up_ = false;
  Time wire_full_since_ = Time::never();
  bool owes_pauses_ = false;  // to some client
  std::array<std::unique_ptr<Station>, client::kBlocks> clients_;
  std::vector<uint32_t> awake_;  // blocks of the clients that are read in every turn
  Neighbours neighbours_;
  NeighbourResolver resolver_;
  std::vector<CmAgent::OutgoingMad> waiting_mads_;
  PathProber prober_;
  Qp1 qp1_{&prober_};
  StationCounters departed_;  // of clients that left
};

}  // namespace mprdma::dataplane::mprdmad
