// The switch of mprdmad: frames between the processes of a host, and between them and the wire.
//
// From a client: checked against what it may send (protocol.hpp), on a copy of the headers, and the
// copy is what goes on. To the device's own address: into the port of the client that has the
// destination queue pair. Else: to the wire. A frame is copied once, from ring to ring.
// From the wire: by destination queue pair number. Datagrams of connection management go to the
// host's agent (Management), our own class (wire/mad.hpp) to the client whose queue pair they name,
// path probes (wire/probe_mad.hpp) are answered here, those to a group go to every client. ARP,
// neighbour discovery and ping are answered here. What is not for the device goes to the kernel of
// the host, if there is a tap (kernel_tap.hpp).
//
// Nobody waits for anybody: a client that does not read loses frames (nic_drop_full), and only its
// own. The wire's lack of room holds back the clients that send to it, for kWireFullMax at most.
// A port that is quiet is armed and left out of the turns until it wakes the loop.
//
// Pure apart from its ports and the tap: time is an argument. One thread. No allocation, system
// call (but a wake-up of a sleeping client, in flush(), and one for each frame to or from the
// kernel) or lock for a frame.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/prng.hpp"
#include "dataplane/cm/agent.hpp"
#include "dataplane/nic/frame_class.hpp"
#include "dataplane/nic/kernel_tap.hpp"
#include "dataplane/nic/neighbours.hpp"
#include "dataplane/nic/path_prober.hpp"
#include "dataplane/nic/protocol.hpp"
#include "dataplane/nic/station.hpp"
#include "wire/arp.hpp"
#include "wire/mad.hpp"
#include "wire/neighbour.hpp"

namespace mprdma::dataplane::nic {

// Who takes datagrams of connection management, and waits for neighbours. Called by the switch; may
// not call back into it.
class Management {
 public:
  virtual ~Management() = default;
  virtual void on_mad(std::span<const unsigned char> bytes, const wire::IpAddress& from,
                      Time now) = 0;
  // nullptr: nobody answers.
  virtual void on_resolved(const wire::IpAddress& to, const wire::MacAddress* mac, Time now) = 0;
};

struct SwitchConfig {
  uint32_t ipv4 = 0;  // host order
  uint32_t prefix_bits = 32;
  uint32_t gateway = 0;  // 0: none
  wire::MacAddress mac{};
  // The kernel has the address, too, on the tap: it answers ping, and gets what else comes for it.
  bool shared_address = false;
  uint64_t seed = 0;
};

class NicSwitch {
 public:
  // A port without a frame for so long is armed.
  static constexpr Duration kSpin = Duration::us(20);
  static constexpr Duration kWireFullMax = Duration::ms(10);
  // ARP questions that a client may ask.
  static constexpr Duration kArpPeriod = Duration::ms(10);
  static constexpr uint32_t kArpPerPeriod = 64;
  // The longest message of neighbour discovery: options that we do not know are skipped.
  static constexpr size_t kNeighbourBytesMax = 1024;
  // Datagrams that wait for a neighbour.
  static constexpr size_t kWaitingMads = 256;

  // `wire` may be null: then there are only the clients.
  NicSwitch(const SwitchConfig& config, std::unique_ptr<Port> wire, Management* management,
            Time now);
  ~NicSwitch();
  NicSwitch(const NicSwitch&) = delete;
  NicSwitch& operator=(const NicSwitch&) = delete;

  // ---- Clients, by the number of their block. Requires: nobody has it.
  void add_client(uint32_t block, std::unique_ptr<Port> port, Time now);
  // Delivers what it has sent so far, a ring's worth at most, and as far as the wire takes it.
  void deliver_sent(uint32_t block, Time now);
  // What it has sent before is delivered: its last words may be what somebody waits for.
  void remove_client(uint32_t block, Time now);
  [[nodiscard]] Port* client_port(uint32_t block);

  // Requires a wire. Then serve_kernel() is to be called when the tap is readable.
  void use_tap(std::unique_ptr<KernelTap> tap);
  [[nodiscard]] const KernelTap* tap() const { return tap_.get(); }
  // Up to kBurst frames. True: some came.
  bool serve_kernel(Time now);

  // Address, prefix, gateway and whether the kernel shares it; the MAC stays.
  void configure(const SwitchConfig& config, Time now);

  // ---- A turn: every port that is awake is read once. True: frames moved.
  bool turn(Time now);
  // Sends what was put into ports outside of a turn.
  void flush();
  // Arms ports that have been quiet. True: all are asleep, and nothing waits.
  bool settle(Time now);
  // The port's descriptor became readable.
  void wake_client(uint32_t block, Time now);
  void wake_wire(Time now);
  void service_clients(Time now);
  void service_wire(Time now);
  [[nodiscard]] Time next_deadline() const {
    return std::min(neighbours_.next_deadline(), prober_.next_deadline());
  }

  // ---- For the CM agent
  // Management::on_resolved() is told, maybe within the call.
  void resolve(const wire::IpAddress& to, Time now);
  // Datagrams to our own address come back at once. Dropped and counted if there is no way.
  void send_mad(const CmAgent::OutgoingMad& mad, Time now);

  // ---- Path probes
  // 0: the result will be among prober()'s. An errno value: there will be none.
  int probe(uint32_t client, const PathProbe& question, Time now);
  [[nodiscard]] PathProber& prober() { return prober_; }

  // ---- Facts
  [[nodiscard]] Port* wire() const { return wire_ != nullptr ? wire_->port.get() : nullptr; }
  [[nodiscard]] bool link_up() const { return wire_ == nullptr || wire_->port->link_up(); }
  [[nodiscard]] const NicCounters* client_counters(uint32_t block) const;
  [[nodiscard]] NicCounters wire_counters() const;
  [[nodiscard]] const NicCounters& departed() const { return departed_; }
  // Of all ports there are and were.
  [[nodiscard]] NicCounters total() const;

 private:
  // nic_switch.cpp
  void release(Station& station, const RxFrame* frames, unsigned count);
  void finish(Station& station);
  bool put(Station& to, const HeaderCopy& copy, uint32_t header_bytes, const RxFrame& frame);
  bool put_whole(Station& to, const unsigned char* bytes, uint32_t length);
  TxFrame* next_frame(Station& to);
  void sent(Station& to, const TxFrame& frame);
  void put_to_clients(Station& from, const HeaderCopy& copy, uint32_t header_bytes,
                      const RxFrame& frame);
  void drop(Station& station, uint64_t NicCounters::*cause) { ++(station.counters.*cause); }
  bool settle_station(Station& station, Time now);
  bool still_sleeps(Station& station, Time now);
  [[nodiscard]] bool is_own(const wire::IpAddress& ip) const {
    return ip == link_local_ || ip == wire::map_ipv4(config_.ipv4);
  }
  // One that can be asked for on the wire.
  static bool is_of_network(const wire::IpAddress& ip) {
    return wire::is_mapped_ipv4(ip) || wire::is_link_local(ip);
  }
  static void note_ring(Station& station);
  [[nodiscard]] Station* station_of(uint32_t qpn) const;
  [[nodiscard]] bool is_ours(const HeaderCopy& copy, const FrameClass& found,
                             bool destination) const;

  // nic_switch_client.cpp
  bool receive_client(uint32_t block, Time now);
  unsigned burst_of(Station& client, Time now);
  void from_client(uint32_t block, const RxFrame& frame, Time now);
  bool may_send(uint32_t block, const FrameClass& found, const wire::Packet& packet,
                const HeaderCopy& copy, uint64_t NicCounters::** cause) const;
  void pair_from_client(uint32_t block, const FrameClass& found, const RxFrame& frame);
  void aim(unsigned char* headers, const FrameClass& found);
  void route(uint32_t block, const HeaderCopy& copy, const FrameClass& found,
             const wire::Packet& packet, const RxFrame& frame);

  // nic_switch_wire.cpp
  bool receive_wire(Time now);
  void from_wire(const RxFrame& frame, Time now);
  void roce_from_wire(const HeaderCopy& copy, const FrameClass& found, const RxFrame& frame,
                      Time now);
  void management_from_wire(const RxFrame& frame, Time now);
  void answer_ping(const HeaderCopy& copy, const FrameClass& found, const RxFrame& frame);
  void send_mad_to(const CmAgent::OutgoingMad& mad, const wire::MacAddress& mac);

  // nic_switch_neighbours.cpp
  void arp_from_wire(const HeaderCopy& copy, const RxFrame& frame, Time now);
  void neighbour_from_wire(const HeaderCopy& copy, const FrameClass& found, const RxFrame& frame,
                           Time now);
  static bool load_neighbour(const wire::Ipv6& ip, const FrameClass& found, const RxFrame& frame,
                             wire::NeighbourMessage* message);
  void announce(const wire::IpAddress& ip, const wire::MacAddress& mac);
  void send_answer(Station& client, const wire::IpAddress& to, const wire::IpAddress& ip,
                   const wire::MacAddress& mac);
  void answer_question(const Neighbours::Question& question, const wire::MacAddress* mac, Time now);
  void send_arp_reply(Station& to, const wire::MacAddress& to_mac, uint32_t to_ip,
                      const wire::MacAddress& mac, uint32_t ip);
  void send_arp_request(uint32_t ip);
  void send_advertisement(Station& to, const wire::MacAddress& to_mac, const wire::IpAddress& to_ip,
                          const wire::MacAddress& mac, const wire::IpAddress& ip);
  void send_request(const wire::IpAddress& ip);
  bool ask_neighbours(Time now);
  bool may_ask(Station& client, Time now);
  void ask_for_client(uint32_t block, const wire::IpAddress& ip, Time now);
  void arp_from_client(uint32_t block, const HeaderCopy& copy, Time now);
  void neighbour_from_client(uint32_t block, const HeaderCopy& copy, const FrameClass& found,
                             const RxFrame& frame, Time now);

  // nic_switch_probe.cpp
  void long_management_from_wire(const RxFrame& frame, Time now);
  void probe_from_wire(const wire::DecodedFrame& decoded,
                       std::span<const unsigned char, wire::kMadBytes> head, Time now);
  void answer_probe(const wire::DecodedFrame& decoded, const wire::ProbeMad& question, Time now);
  void take_probe_answer(const wire::DecodedFrame& decoded, const wire::ProbeMad& answer, Time now);
  bool put_probe(const wire::FrameAddress& address, uint16_t source_port,
                 const wire::ProbeMad& mad);
  void send_probe(PathProber::Open& open, const wire::MacAddress& mac, Time now);

  // nic_switch_kernel.cpp
  void copy_to_kernel(const RxFrame& frame);
  void leave_to_kernel(const HeaderCopy& copy, const FrameClass& found, const RxFrame& frame);
  void from_kernel(std::span<const unsigned char> frame);

  SwitchConfig config_;
  wire::IpAddress link_local_{};
  Management* management_;
  Prng prng_;
  std::unique_ptr<Station> wire_;
  bool wire_can_corrupt_ = false;
  std::unique_ptr<KernelTap> tap_;
  std::vector<unsigned char> tap_buffer_;
  bool wire_was_up_ = false;
  Time wire_full_since_ = Time::never();
  std::array<std::unique_ptr<Station>, kBlocks> clients_;
  std::vector<uint32_t> awake_;  // blocks of the clients that are read in every turn
  Neighbours neighbours_;
  std::vector<CmAgent::OutgoingMad> waiting_mads_;
  Psn mad_psn_{};
  PathProber prober_;
  RateLimit probe_limit_{kProbeInterval, kProbeBurst};
  NicCounters departed_;  // of clients that are gone
};

}  // namespace mprdma::dataplane::nic
