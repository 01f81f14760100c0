// The worker: everything between a port and the transport's queue pairs, one burst at a time.
//
// Whoever holds the engine's lock calls it: an application's thread that polls, or the engine's own
// thread. It reads no clock, takes no lock, makes no system call (but for memory that was
// registered on demand) and allocates nothing in run(); time is an argument. Implemented in
//   worker.cpp           the loop, and only the loop
//   worker_receive.cpp   frame -> decode -> queue pair -> placements
//   worker_transmit.cpp  scheduler -> packet -> frame; acknowledgements; ARP
//   worker_queues.cpp    doorbells, work requests in, completions out
//   worker_datagrams.cpp what is different about UD: addresses of packets, groups, the GRH
//   worker_negotiation.cpp  the mode of a queue pair is agreed with the peer
//   worker_management.cpp  management datagrams; the CM agent
//   worker_probe.cpp       path probes of peers
//   worker_paths.cpp     addresses, neighbours, link state, life of a queue pair
//
// Ownership: a borrowed frame belongs to the port and stands in frames_ until its payload is
// copied; a work request belongs to the provider's ring until the transport took it over (inline
// data: until it completed); an entry of a completion queue belongs to the provider once its
// sequence is stored.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "abi/mprdma_abi.h"
#include "base/prng.hpp"
#include "dataplane/address_handle.hpp"
#include "dataplane/arp.hpp"
#include "dataplane/cm/host.hpp"
#include "dataplane/cq.hpp"
#include "dataplane/engine_counters.hpp"
#include "dataplane/frame_table.hpp"
#include "dataplane/handle_table.hpp"
#include "dataplane/loop_port.hpp"
#include "dataplane/mcast_table.hpp"
#include "dataplane/mr_table.hpp"
#include "dataplane/nic_link.hpp"
#include "dataplane/path_probe.hpp"
#include "dataplane/port.hpp"
#include "dataplane/qp_context.hpp"
#include "dataplane/qp_table.hpp"
#include "dataplane/scheduler.hpp"
#include "dataplane/srq.hpp"
#include "dataplane/timing_wheel.hpp"
#include "dataplane/tx_batch.hpp"
#include "transport/held_pool.hpp"
#include "transport/qp.hpp"
#include "wire/frame.hpp"

namespace mprdma::dataplane {

inline constexpr uint32_t kMaxMrs = 65536;

struct WorkerConfig {
  wire::MacAddress mac{};
  uint32_t ipv4 = 0;
  uint32_t mtu = 4096;
  uint32_t held_frames = 1024;  // most frames that wait for their turn
  uint64_t seed = 0;            // queue pair numbers, keys, virtual paths
  // The mode of an RC queue pair that names none is agreed with its peer; else it is that of
  // params.
  bool agree_modes = false;
  transport::Params params;
};

class Worker {
 public:
  Worker(const WorkerConfig& config, std::unique_ptr<Port> port, Time now);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // ---- Progress
  // One burst: receive, doorbells, timers, send, events. True if there was anything to do.
  bool run(Time now);
  // run() until there is nothing to do, a thousand frames at most: an adapter would have taken an
  // acknowledgement that came before the news (of a disconnection, say) upon which a command ends a
  // queue pair.
  void catch_up(Time now);
  // The port's slow path and the link's state; at least every 10 ms. `clock`: the time of the port,
  // which goes on where that of the transport stands still.
  void service(Time clock, Time now);
  void service(Time now) { service(now, now); }
  // mprdmad, whose device this is, is gone and expected back.
  [[nodiscard]] bool nic_is_away() const { return nic_ != nullptr && nic_->away(); }
  // When run() has to be called though nothing arrives.
  [[nodiscard]] Time next_deadline() const;
  // Something is outstanding: an answer of the peer, room on the wire, a neighbour's address.
  [[nodiscard]] bool busy() const { return busy_qps_ > 0 || !scheduler_.empty(); }
  // Queue pairs have something to send and wait for room on the wire.
  [[nodiscard]] bool wants_wire() const { return !scheduler_.empty(); }
  // Work lies in the rings or the loop that run() would take at once, or more is to be sent than
  // one burst takes.
  [[nodiscard]] bool has_pending() const {
    return doorbells_pending() || loop_.pending() || burst_was_full_;
  }
  // The same of the doorbells alone: may be asked without the lock.
  [[nodiscard]] bool doorbells_pending() const;
  // Completions that answered a send request, for the progress engine's heuristics.
  [[nodiscard]] uint64_t send_completions() const { return send_completions_; }

  // ---- Life of objects
  // Takes the queue pair into the tables; its number is qp->qp.qpn().
  void attach(QpContext* qp);
  // Takes it out of everything; held frames go back to the port.
  void detach(QpContext* qp, Time now);
  // Address and neighbour of qp->attr; EINVAL: an address that cannot be reached from here.
  int set_path(QpContext& qp, Time now);
  // What an address handle says: `address`, `path`, `loop` and `group` of *out. EINVAL as above.
  int resolve_address(const mprdma_abi_create_ah& to, Time now, AddressHandle* out);
  // Address handles came or went: datagrams that wait for one are looked at again.
  void touch_datagram_qps();
  bool set_state(QpContext& qp, Time now, transport::QpState state);
  // After any change of a queue pair by a command: completions, events, timers, sending.
  void settle(Time now);
  // The same of a command to the CM agent.
  void settle_cm(Time now);
  void touch(QpContext& qp);
  void add_client(const mprdma_abi_client* client) { clients_.push_back(client); }
  void remove_client(const mprdma_abi_client* client);
  void forget_cq(Cq* cq);

  // ---- Getters
  [[nodiscard]] Port& port() { return *port_; }
  [[nodiscard]] QpTable& qps() { return qps_; }
  [[nodiscard]] MrTable& mrs() { return mrs_; }
  [[nodiscard]] HandleTable<Srq>& srqs() { return srqs_; }
  [[nodiscard]] AddressHandleTable& ahs() { return ahs_; }
  [[nodiscard]] McastTable& mcast() { return mcast_; }
  [[nodiscard]] ArpTable& arp() { return arp_; }
  [[nodiscard]] CmHost& cm() { return cm_; }
  [[nodiscard]] Prng& prng() { return prng_; }
  [[nodiscard]] const WorkerConfig& config() const { return config_; }
  [[nodiscard]] const wire::IpAddress& gid(unsigned index) const { return gids_[index]; }
  [[nodiscard]] mprdma_abi_doorbell_page& doorbells() { return *doorbells_; }
  [[nodiscard]] const transport::Device& device() const { return device_; }
  [[nodiscard]] EngineCounters& counters() { return counters_; }
  [[nodiscard]] const WireDrops& wire_drops() const { return wire_drops_; }
  [[nodiscard]] const transport::TransportCounters& transport_counters() const {
    return transport_counters_;
  }
  [[nodiscard]] uint32_t frames_borrowed() const { return frames_.in_use(); }
  [[nodiscard]] bool link_up() const { return link_up_; }

 private:
  static constexpr unsigned kQuantum = 8;            // packets of a queue pair's turn
  static constexpr unsigned kTxPerBurst = 64;        // packets of a burst
  static constexpr unsigned kWqesPerDoorbell = 128;  // work requests taken at once

  // worker_receive.cpp
  unsigned receive(Port& port, TxBatch& answers, Time now);
  bool receive_frame(Port& port, const RxFrame& frame, TxBatch& answers, Time now);
  void receive_arp(const RxFrame& frame, TxBatch& answers);
  void receive_neighbour(const RxFrame& frame, TxBatch& answers);
  bool addressed_to_us(const wire::FrameAddress& address);
  QpContext* accept(const wire::DecodedFrame& decoded, bool from_loop);
  // The default partition; the top bit only says who is a full member (IBTA 10.9.3).
  static bool good_pkey(uint16_t p_key) {
    return (p_key & 0x7fff) == (wire::kDefaultPKey & 0x7fff);
  }
  void perform(QpContext& qp, TxBatch* answers);
  void place(QpContext& qp, const transport::Placement& placement);
  static bool memory_there(void* host, uint64_t addr, uint64_t bytes, bool writes);
  void release(transport::FrameHandle handle);
  void flush_released();

  // worker_transmit.cpp
  bool transmit(Time now);
  void take_turn(QpContext& qp, TxBatch& batch, unsigned* budget, Time now);
  void send_packet(QpContext& qp, const wire::FrameAddress& address, bool loop,
                   const transport::TxPacket& packet, TxFrame& frame);
  void send_ack(QpContext& qp, TxBatch& answers);
  bool send_arp(wire::ArpOperation operation, const wire::MacAddress& to_mac, uint32_t to_ip,
                TxBatch& batch);
  void send_solicitation(const wire::IpAddress& target, TxBatch& batch);
  bool resolve_neighbours(Time now);

  // worker_datagrams.cpp
  static void apply_neighbour(AddressHandle& ah, const ArpTable::Entry& entry);
  void ah_path_changed(const wire::IpAddress& peer, const ArpTable::Entry& entry);
  [[nodiscard]] bool can_send(const QpContext& qp) const;
  bool take_datagram_turn(QpContext& qp, TxBatch& wire_batch, TxBatch& loop_batch, unsigned* budget,
                          Time now);
  bool receive_group(const RxFrame& frame, Port& port, TxBatch& answers, Time now);
  void place_grh(const transport::Placement& placement);

  // worker_negotiation.cpp
  void begin_negotiation(QpContext& qp, Time now);
  void end_negotiation(QpContext& qp);
  [[nodiscard]] PairNegotiation default_pair() const;
  void apply_mode(QpContext& qp);
  void do_step(QpContext& qp, const PairNegotiation::Step& step, Time now, TxBatch& batch);
  [[nodiscard]] Time pair_deadline(const QpContext& qp) const;
  [[nodiscard]] Time waits_until(const QpContext& qp) const;
  void note_waiting(QpContext& qp);
  // mprdmad brings what is for its own clients whatever the wire does.
  [[nodiscard]] bool needs_link(const QpContext& qp) const { return !is_own(qp.address.dst_ip); }
  // Only whose requests are answered: what is unreliable is lost as on any wire.
  [[nodiscard]] bool waits_for_link(const QpContext& qp) const {
    return !link_seen_ && !qp.goes_without_link && needs_link(qp) && qp.pair.facts().negotiates;
  }
  void push_negotiating(QpContext& qp);
  bool negotiate(Time now);
  bool send_pair_mad(const wire::FrameAddress& address, uint16_t vp, const wire::PairMad& mad,
                     TxBatch& batch);
  bool send_question(QpContext& qp, TxBatch& batch);
  void answer_question(const wire::PairMad& question, Time now, TxBatch& answers);
  void take_answer(const wire::PairMad& answer, Time now, TxBatch& answers);
  void receive_pair_mad(std::span<const unsigned char, wire::kMadBytes> bytes, Time now,
                        TxBatch& answers);
  void note_packet_mode(QpContext& qp, bool mp, Time now, TxBatch& answers);
  void warn_of_wrong_mode(const QpContext& qp, bool mp);

  // worker_management.cpp
  CmConfig cm_config();
  bool send_mad(const wire::FrameAddress& address, uint16_t vp,
                std::span<const unsigned char, wire::kMadBytes> mad, bool loop, TxBatch& batch);
  void receive_management(const RxFrame& frame, bool from_loop, TxBatch& answers, Time now);
  void receive_probe(std::span<const unsigned char, wire::kMadBytes> head, Time now,
                     TxBatch& answers);  // worker_probe.cpp
  void receive_cm_mad(std::span<const unsigned char, wire::kMadBytes> bytes, bool from_loop,
                      Time now);
  void learn_from(const wire::FrameAddress& from);
  void resolve_for_cm(const wire::IpAddress& to, Time now);
  bool send_cm_mad(const CmAgent::OutgoingMad& mad, TxBatch& wire_batch, TxBatch& loop_batch,
                   Time now);
  bool serve_cm(Time now);

  // worker_queues.cpp
  bool take_doorbells(Time now);
  void take_work(QpContext& qp, Time now);
  bool take_receives(QpContext& qp, Time now);
  bool take_sends(QpContext& qp, Time now);
  transport::PostResult post_wqe(QpContext& qp, const mprdma_abi_send_wqe& wqe, void* slot,
                                 Time now);
  void refuse_wqe(QpContext& qp, const mprdma_abi_send_wqe& wqe, Time now);
  bool drain_completions(QpContext& qp);
  Cq* cq_of(QpContext& qp, const transport::Completion& completion);
  void write_completion(QpContext& qp, const transport::Completion& completion);
  void drain_events(QpContext& qp);
  void fire_events();

  // worker_paths.cpp
  static const transport::SharedReceives* find_xrc_srq(void* host, uint32_t xrcd, uint32_t srqn);
  void finish(QpContext& qp);
  void fail(QpContext& qp);
  void fail_if_cq_lost(QpContext& qp);
  void finish_touched();
  void path_changed(const wire::IpAddress& peer);
  void apply_neighbour(QpContext& qp, const ArpTable::Entry& entry);
  void set_link(bool up, Time now);
  void ask_failed_paths(Time now);
  void follow_block(Time now);
  [[nodiscard]] bool is_own(const wire::IpAddress& ip) const {
    return ip == gids_[0] || ip == gids_[1];
  }

  WorkerConfig config_;
  std::unique_ptr<Port> port_;
  NicLink* nic_;  // the port's; the device is other processes', too
  PortInfo port_info_;
  LoopPort loop_;
  std::array<wire::IpAddress, 2> gids_{};
  Prng prng_;
  std::unique_ptr<mprdma_abi_doorbell_page> doorbells_;
  QpTable qps_;
  MrTable mrs_;
  HandleTable<Srq> srqs_;
  AddressHandleTable ahs_;
  McastTable mcast_;
  SilentPeers silent_peers_;
  QpContext* negotiating_ = nullptr;  // whose time to ask the peer has come
  Psn mad_psn_;
  RateLimit probe_limit_{kProbeInterval, kProbeBurst};
  bool said_wrong_mode_ = false;
  ArpTable arp_;
  CmHost cm_;
  transport::HeldPool held_;
  FrameTable frames_;
  TimingWheel wheel_;     // of queue pairs
  TimingWheel cq_wheel_;  // of completion queues whose event waits
  Scheduler<QpContext> scheduler_;
  transport::TransportCounters transport_counters_;
  transport::Device device_;
  EngineCounters counters_;
  WireDrops wire_drops_;
  std::vector<const mprdma_abi_client*> clients_;

  // Of one call of the transport.
  std::unique_ptr<transport::Placement[]> placements_;
  std::unique_ptr<transport::FrameHandle[]> released_;
  transport::RxActions actions_;
  wire::DecodedFrame decoded_;
  const unsigned char* rx_frame_ = nullptr;  // what decoded_ was made of; nullptr: none is taken
  transport::TxPacket tx_packet_;

  // Of one burst.
  Time now_;
  QpContext* touched_qps_ = nullptr;
  Cq* touched_cqs_ = nullptr;
  Port* release_port_ = nullptr;
  unsigned release_count_ = 0;
  std::array<uint64_t, kBurst> release_cookies_{};

  uint32_t busy_qps_ = 0;
  uint64_t send_completions_ = 0;
  bool link_up_ = false;
  bool link_seen_ = false;  // it has been up
  Time link_up_since_;      // when it came up last
  bool said_memory_absent_ = false;
  bool burst_was_full_ = false;  // the last one ended by its budget, not by the wire
};

}  // namespace mprdma::dataplane
