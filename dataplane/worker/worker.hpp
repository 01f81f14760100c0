// The worker: everything between a port and the transport's queue pairs, one burst at a time.
//
// The holder of the engine's lock calls it: an application's thread that polls, or the engine's own
// thread. It reads no clock, takes no lock, makes no system call (except for on-demand memory) and
// allocates nothing in run(); time is an argument. Implemented in
//   worker.cpp           the loop, and only the loop
//   worker_receive.cpp   frame -> decode -> queue pair -> placements
//   worker_pull.cpp      payloads that are read from the sender's memory
//   worker_transmit.cpp  scheduler -> packet -> frame; acknowledgements
//   worker_queues.cpp    doorbells, work requests in, completions out
//   worker_pause.cpp     pauses of the port's peer (PFC)
//   worker_datagrams.cpp what is different about UD: addresses of packets, groups, the GRH
//   worker_rings.cpp     which queue pairs use a direct ring, and what the wire to a peer offers
//   worker_negotiation.cpp  the mode of a queue pair is agreed with the peer
//   qp_life.cpp          addresses, neighbours, link state, life of a queue pair
// Neighbours, queue pair 1 and the CM agent are in nic_part.hpp.
//
// Ownership: a borrowed frame belongs to the port and stands in frames_ until its payload is
// copied; a work request belongs to the provider's ring until the transport took it over (inline
// data: until it completed); an entry of a completion queue belongs to the provider once its
// sequence is stored.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "abi/mprdma_abi.h"
#include "base/handle_table.hpp"
#include "base/ipv4.hpp"
#include "base/prng.hpp"
#include "base/timing_wheel.hpp"
#include "base/zeroed_array.hpp"
#include "dataplane/client/daemon.hpp"
#include "dataplane/port/loop_port.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/port/tx_batch.hpp"
#include "dataplane/worker/address_handle.hpp"
#include "dataplane/worker/cq.hpp"
#include "dataplane/worker/engine_counters.hpp"
#include "dataplane/worker/frame_table.hpp"
#include "dataplane/worker/mcast_table.hpp"
#include "dataplane/worker/mr_table.hpp"
#include "dataplane/worker/nic_part.hpp"
#include "dataplane/worker/pull_buffers.hpp"
#include "dataplane/worker/qp_context.hpp"
#include "dataplane/worker/qp_table.hpp"
#include "dataplane/worker/scheduler.hpp"
#include "dataplane/worker/srq.hpp"
#include "transport/core/held_pool.hpp"
#include "transport/qp.hpp"
#include "wire/frame.hpp"
#include "wire/frame_reader.hpp"
#include "wire/pause_frame.hpp"

namespace mprdma::dataplane {

inline constexpr uint32_t kMaxMrs = 65536;

struct WorkerConfig {
  wire::MacAddress mac{};
  Ipv4 ipv4{};
  uint32_t mtu = 4096;
  uint32_t held_frames = 1024;  // most frames that wait for their turn
  uint64_t seed = 0;            // queue pair numbers, keys, virtual paths
  // True: an RC queue pair that names no mode agrees one with its peer; false: it uses that of
  // params.
  bool agree_modes = false;
  // Data waits while the port's peer pauses its priority (wire/pause_frame.hpp).
  bool pfc = false;
  std::optional<uint8_t> pfc_priority;  // of all data; none: by its DSCP
  transport::Params params;
  transport::TraceSink* trace = nullptr;    // transport/core/trace.hpp; outlives the worker
  transport::Hardware* hardware = nullptr;  // transport/stream/hardware.hpp; outlives it, too
};

class Worker {
 public:
  Worker(const WorkerConfig& config, std::unique_ptr<Port> port, Time now);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // ---- Progress
  // Runs one burst: receive, doorbells, timers, send, events. True if there was work.
  bool run(Time now);
  // Takes the send requests of one queue pair, by its doorbell, and sends what may leave at once:
  // what a post needs, without the rest of run(). True if there was work.
  bool run_sends(uint32_t doorbell, Time now);
  // How long an acknowledgement may wait for the answer of the application with which it leaves: as
  // long as the caller of run() will call again in time. Zero at first.
  void set_ack_patience(Duration patience) { ack_patience_ = patience; }
  // Acknowledgements are owed, and wait for an answer to leave with.
  [[nodiscard]] bool owes_acks() const { return owing_qps_ != nullptr; }
  // Calls run() until no work is left, a thousand frames at most. Needed before a command ends a
  // queue pair because of an event (a disconnection, say): an adapter would have processed the
  // acknowledgements that came before that event.
  void catch_up(Time now);
  // Runs the port's slow path and follows the link's state; at least every 10 ms. `clock`: the
  // port's time, which goes on while the transport's stands still.
  void service(Time clock, Time now);
  void service(Time now) { service(now, now); }
  // True while mprdmad, which owns the device, is away and expected back.
  [[nodiscard]] bool daemon_is_away() const { return daemon_ != nullptr && daemon_->away(); }
  // When run() has to be called though nothing arrives.
  [[nodiscard]] Time next_deadline() const;
  // True if an answer of the peer, room on the wire, the end of a pause or a neighbour's address is
  // outstanding.
  [[nodiscard]] bool busy() const { return busy_qps_ > 0 || wants_wire() || !paused_qps_.empty(); }
  // True if queue pairs wait for room on the wire, or in a direct ring. Not for the end of a pause,
  // which is an event or a deadline.
  [[nodiscard]] bool wants_wire() const {
    return !scheduler_.empty() || !parked_.empty() || paused_to_look_ > 0;
  }
  // True if run() would find work at once, in the rings or the loopback, or has more to send than
  // one burst takes.
  [[nodiscard]] bool has_pending() const {
    return doorbells_pending() || loop_.pending() || burst_was_full_;
  }
  // True if a doorbell was rung; may be called without the lock.
  [[nodiscard]] bool doorbells_pending() const {
    uint64_t bits = 0;
    for (const uint64_t& summary : doorbells_->summary) {
      bits |= __atomic_load_n(&summary, __ATOMIC_SEQ_CST);
    }
    return bits != 0;
  }
  // Data of some priority waits because the port's peer said so.
  [[nodiscard]] bool is_paused() const { return paused_ != 0; }
  // Packets of WRITEs and SENDs that have come: what an application may have waited for.
  [[nodiscard]] uint64_t data_arrivals() const { return data_arrivals_; }
  // Completions that answered a send request, for the progress engine's heuristics.
  [[nodiscard]] uint64_t send_completions() const { return send_completions_; }

  // ---- Life of objects
  // Takes the queue pair into the tables; its number is qp->qp.qpn().
  void attach(QpContext* qp);
  // Removes the queue pair from all tables; held frames go back to the port.
  void detach(QpContext* qp, Time now);
  // Sets address and neighbour from qp->attr; EINVAL: an address that cannot be reached from here.
  int set_path(QpContext& qp, Time now);
  // Called when address handles were created or destroyed: checks waiting datagrams again.
  void mark_datagram_qps_dirty();
  bool set_state(QpContext& qp, Time now, transport::QpState state);
  // Called after a command or the link changed queue pairs: completions, events, timers, sending.
  void after_command(Time now);
  // Lists the queue pair for reschedule() at the end of the burst or command. mark_changed(): what
  // has changed is what the transport says; mark_dirty(): anything may have.
  void mark_dirty(QpContext& qp) {
    qp.changes = transport::kAllChanged;
    mark_changed(qp);
  }
  void mark_changed(QpContext& qp) {
    if (qp.dirty) return;
    qp.dirty = true;
    qp.next_dirty = dirty_qps_;
    dirty_qps_ = &qp;
  }
  void add_client(const mprdma_abi_client* client) { clients_.push_back(client); }
  void remove_client(const mprdma_abi_client* client);
  void forget_cq(Cq* cq);
  // Called before memory is deregistered: no peer takes payloads there any more.
  void take_back_memory(uint64_t address, uint64_t bytes);

  // ---- Getters
  [[nodiscard]] Port& port() { return *port_; }
  [[nodiscard]] QpTable& qps() { return qps_; }
  [[nodiscard]] MrTable& mrs() { return mrs_; }
  [[nodiscard]] HandleTable<Srq>& srqs() { return srqs_; }
  [[nodiscard]] AddressHandleTable& ahs() { return ahs_; }
  [[nodiscard]] McastTable& mcast() { return mcast_; }
  [[nodiscard]] NicPart& nic_part() { return nic_part_; }
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
  // A timer that waited for a turn so long was missed: longer than an engine leaves it on purpose,
  // but where others want its core (Progress::kSlice).
  static constexpr Duration kMissedTurn = Duration::ms(2);
  static constexpr unsigned kQuantum = 8;            // packets of a queue pair's turn
  static constexpr unsigned kTxPerBurst = 64;        // packets of a burst
  static constexpr unsigned kWqesPerDoorbell = 128;  // work requests taken at once

  // worker.cpp
  void note_missed_turn(Time now);

  // worker_receive.cpp
  // Where frames come from: one of the worker's ports, and which.
  struct Source {
    Port* port;
    const DirectRing* ring = nullptr;
  };
  unsigned receive(const Source& from, TxBatch& answers, Time now);
  bool receive_frame(const Source& from, const RxFrame& frame, TxBatch& answers, Time now);
  bool receive_bare(const Source& from, const RxFrame& frame, TxBatch& answers, Time now);
  bool receive_packet(const Source& from, QpContext* qp, const RxFrame& frame, TxBatch& answers,
                      Time now);
  void finish_plain(QpContext& qp);
  QpContext* accept_bare(Qpn dest, const Source& from);
  bool addressed_to_us(const wire::FrameAddress& address);
  QpContext* accept(const wire::DecodedFrame& decoded, const Source& from);
  void note_data(QpContext& qp, Time now) {
    ++data_arrivals_;
    qp.answers.on_data(now);
  }
  void apply_actions(QpContext& qp, TxBatch* answers);
  void place(QpContext& qp, const transport::Placement& placement);
  void place_other(QpContext& qp, const transport::Placement& placement);
  static bool memory_there(void* host, uint64_t addr, uint64_t bytes, bool writes);
  void release_held(transport::FrameHandle handle);
  void release(Port* port, uint64_t cookie);
  void flush_released();

  // worker_pull.cpp
  struct PullRun;
  unsigned receive_lent(const Source& from, std::span<const RxFrame> frames, TxBatch& answers,
                        Time now);
  bool plan_pull(QpContext& qp, const RxFrame& frame, PullRun& run);
  void pull_run(QpContext& qp, Port& port, std::span<const RxFrame> frames, PullRun& run, Time now);
  bool receive_pulled(const Source& from, QpContext& qp, const RxFrame& frame, TxBatch& answers,
                      Time now);

  // worker_pause.cpp
  bool receive_pause(const RxFrame& frame, Time now);
  void obey_pause(const wire::PauseFrame& pause, Time now);
  void end_pauses(uint8_t priorities, Time now);
  void end_pauses_due(Time now);
  void park_for_pause(QpContext& qp);
  void unpause_some();
  void look_at_paused(QpContext& qp);
  // The priority of packets with these headers is paused.
  [[nodiscard]] bool pause_stops(const wire::FrameTemplate& outer) const;
  [[nodiscard]] bool waits_for_pause(const QpContext& qp) const;

  // worker_transmit.cpp
  // How a queue pair's turn ended.
  enum class Turn : uint8_t {
    kDone,     // it has nothing to send now
    kMore,     // its share is used up
    kRefused,  // the wire is full, or paused
  };
  bool transmit(Time now);
  bool transmit_turn(QpContext& qp, unsigned* budget, Time now);
  void note_changes(QpContext& qp);
  bool send_at_once(QpContext& qp, TxBatch& batch, Time now);
  static Turn refuse(QpContext& qp);
  Turn transmit_connected(QpContext& qp, TxBatch& batch, unsigned* budget, Time now);
  static void write_bare(const wire::BarePacket& header, TxFrame& frame);
  void fill_plain_frame(QpContext& qp, TxFrame& frame);
  void fill_lent_frame(QpContext& qp, Port& port, TxFrame& frame);
  void take_back(QpContext& qp);
  Turn drop_pathless(QpContext& qp, unsigned* budget, Time now);
  void write_headers(const QpContext& qp, const wire::FrameTemplate& outer,
                     const wire::Packet& header, bool bare, TxFrame& frame);
  static void copy_payload(const QpContext& qp, const transport::TxPacket& packet,
                           unsigned char* to);
  // `bare`: the batch takes bare packets, and the peer knows the sender without an IP header.
  void send_packet(QpContext& qp, const wire::FrameTemplate& outer, bool bare,
                   const transport::TxPacket& packet, TxFrame& frame);
  void send_ack(QpContext& qp, const wire::Packet& ack, TxBatch& batch);
  void send_owed_acks(QpContext& qp);
  bool try_owed_acks(QpContext& qp);
  void send_owed_acks();
  bool ack_may_wait(QpContext& qp);
  bool commit_batches();
  void send_filled();
  TxFrame* frame_for(uint32_t payload_bytes, TxFrame& next, TxBatch& batch);

  // worker_rings.cpp
  [[nodiscard]] static bool may_use_ring(const QpContext& qp);
  void want_ring(QpContext& qp, Time now);
  void park(QpContext& qp);
  void unpark(QpContext& qp);
  void unpark_some();
  void leave_ring(QpContext& qp);
  void choose_ring(QpContext& qp);
  void follow_rings(bool ask, Time now);
  void drain(QpContext& qp, Time until);
  void resume_sends(QpContext& qp);
  void drain_for_ring(QpContext& qp);
  [[nodiscard]] Time rest_of(const QpContext& qp, const DirectRing* ring) const;
  // Waits for its ring to come up.
  [[nodiscard]] static bool waits_for_ring(const QpContext& qp) {
    return !qp.ring_until.is_never();
  }
  [[nodiscard]] TxBatch& batch_of(const QpContext& qp) {
    if (qp.ring != nullptr) return qp.ring->batch;
    return qp.loop ? loop_batch_ : wire_batch_;
  }
  // Packets of queue pairs that stay in memory have no ICRC: to ourselves, by a ring, and to
  // another process of the device, as mprdmad puts nothing on the wire that is for its own address.
  [[nodiscard]] bool with_icrc(const QpContext& qp, const wire::FrameTemplate& outer) const {
    return port_info_.can_corrupt && !qp.loop && qp.ring == nullptr &&
           !(daemon_ != nullptr && is_own(outer.address().dst_ip));
  }
  // The frame's source is this device. Then it comes from one of the processes of mprdmad, which
  // drops frames from the wire that claim to.
  [[nodiscard]] bool is_from_within(std::span<const unsigned char> frame) const;

  // What the wire to the peer offers (PairNegotiation), and what follows from both sides' offers.
  [[nodiscard]] PairNegotiation::WireOffer wire_offer(const QpContext& qp) const;
  void update_offer(QpContext& qp);
  void apply_offers(QpContext& qp);

  // worker_datagrams.cpp
  void ah_path_changed(const wire::IpAddress& peer, const NeighbourTable::Entry& entry);
  [[nodiscard]] bool can_send(const QpContext& qp) const {
    return qp.qp.service() == transport::QpService::kUd ? can_send_datagram(qp)
                                                        : can_send_connected(qp);
  }
  [[nodiscard]] bool can_send_connected(const QpContext& qp) const {
    return (qp.path == PathState::kReady || qp.path == PathState::kFailed) && !waits_for_link(qp) &&
           !waits_for_ring(qp);
  }
  [[nodiscard]] bool can_send_datagram(const QpContext& qp) const;
  Turn transmit_datagrams(QpContext& qp, unsigned* budget, Time now);
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
  // mprdmad delivers frames between its clients whatever the state of the wire.
  [[nodiscard]] bool needs_link(const QpContext& qp) const { return !is_own(qp.peer_ip()); }
  // Only for reliable services: datagrams are lost as on any wire.
  [[nodiscard]] bool waits_for_link(const QpContext& qp) const {
    return !link_seen_ && !qp.goes_without_link && needs_link(qp) &&
           qp.pair.preferences().negotiates;
  }
  void push_negotiating(QpContext& qp);
  bool negotiate(Time now);
  bool send_question(QpContext& qp, TxBatch& batch);
  void answer_question(const wire::PairMad& question, Time now, TxBatch& answers);
  void process_answer(const wire::PairMad& answer, Time now, TxBatch& answers);
  static void on_pair_mad(void* worker, const wire::PairMad& mad, Time now, TxBatch& answers);
  void receive_pair_mad(const wire::PairMad& mad, Time now, TxBatch& answers);
  void note_first_packet(QpContext& qp, Time now, TxBatch& answers);
  void note_packet_mode(QpContext& qp, PacketOf of, Time now, TxBatch& answers);
  void warn_of_wrong_mode(const QpContext& qp, PacketOf of);
  void warn_of_silent_peer(const QpContext& qp);

  // worker_queues.cpp
  bool process_doorbells(Time now);
  void process_posted(QpContext& qp, Time now);
  bool process_receives(QpContext& qp, Time now);
  bool process_sends(QpContext& qp, Time now);
  void process_plain_sends(QpContext& qp, Time now);
  transport::PostResult post_wqe(QpContext& qp, const mprdma_abi_send_wqe& wqe, void* slot,
                                 Time now);
  void refuse_wqe(QpContext& qp, const mprdma_abi_send_wqe& wqe, Time now);
  bool drain_completions(QpContext& qp);
  Cq* cq_of(QpContext& qp, const transport::Completion& completion);
  void write_completion(QpContext& qp, const transport::Completion& completion);
  void write_plain_completion(QpContext& qp, const transport::PlainCompletion& completion);
  void write_plain_receive(QpContext& qp, const transport::PlainReceive& receive);
  void push_success(QpContext& qp, Cq& cq, uint64_t wr_id, uint32_t byte_len, uint8_t opcode,
                    bool solicited);
  void note_completions(Cq& cq);
  void drain_events(QpContext& qp);
  void fire_events();

  // qp_life.cpp
  static const transport::SharedReceives* find_xrc_srq(void* host, uint32_t xrcd, uint32_t srqn);
  void reschedule(QpContext& qp);
  void reschedule_others(QpContext& qp);
  void note_busy(QpContext& qp);
  void set_timer(QpContext& qp);
  void fail(QpContext& qp);
  void fail_if_cq_lost(QpContext& qp);
  void reschedule_dirty();
  static void on_neighbour(void* worker, const wire::IpAddress& ip);
  void path_changed(const wire::IpAddress& peer);
  void set_link(bool up, Time now);
  void ask_failed_paths(Time now);
  void follow_block(Time now);
  [[nodiscard]] bool is_own(const wire::IpAddress& ip) const {
    return wire::same_ip(ip, gids_[0]) || wire::same_ip(ip, gids_[1]);
  }

  WorkerConfig config_;
  transport::Params configured_params_;  // those of config_, before they followed the port's link
  std::unique_ptr<Port> port_;
  Daemon* daemon_;  // from the port; non-null: other processes share the device
  PortInfo port_info_;
  LoopPort loop_;
  // Frames on their way to the ports; those of the rings are in DirectRing.
  TxBatch wire_batch_;
  TxBatch loop_batch_;
  std::array<wire::IpAddress, 2> gids_{};
  Prng prng_;
  std::unique_ptr<mprdma_abi_doorbell_page> doorbells_;
  QpTable qps_;
  MrTable mrs_;
  HandleTable<Srq> srqs_;
  AddressHandleTable ahs_;
  McastTable mcast_;
  SilentPeers silent_peers_;
  QpContext* negotiating_ = nullptr;  // queue pairs that are due to ask their peer
  bool warned_wrong_mode_ = false;
  bool warned_silent_peer_ = false;
  NicPart nic_part_;
  transport::HeldPool held_;
  FrameTable frames_;
  PullBuffers pull_buffers_;
  TimingWheel wheel_;     // of queue pairs
  TimingWheel cq_wheel_;  // of completion queues whose event waits; and pause_timer_
  Scheduler<QpContext> scheduler_;
  Scheduler<QpContext> parked_;      // those that met a full ring
  Scheduler<QpContext> paused_qps_;  // those that met a pause
  uint32_t paused_to_look_ = 0;      // of them, the first: a pause has ended since they met it
  transport::TransportCounters transport_counters_;
  transport::Device device_;
  EngineCounters counters_;
  WireDrops wire_drops_;
  std::vector<const mprdma_abi_client*> clients_;

  // State of one call of the transport.
  ZeroedArray<transport::Placement> placements_;
  ZeroedArray<transport::FrameHandle> released_;
  transport::RxActions actions_;
  wire::FrameReader reader_;
  wire::DecodedFrame decoded_;  // of reader_
  const unsigned char* rx_frame_ =
      nullptr;  // source of decoded_; nullptr: no frame is being processed
  transport::TxPacket tx_packet_;
  transport::PlainPacket tx_plain_;

  Time listening_since_;  // the last turn that came late

  // Bit p: data of priority p waits, until then at most.
  uint8_t paused_ = 0;
  std::array<Time, wire::PauseFrame::kPriorities> paused_until_{};
  TimerNode pause_timer_;  // without an owner; of the first of them
  Time paused_since_;      // of paused_ as a whole

  // State of one burst.
  Time now_;
  QpContext* dirty_qps_ = nullptr;
  QpContext* owing_qps_ = nullptr;  // queue pairs that owe an acknowledgement
  Duration ack_patience_ = Duration::zero();
  Cq* dirty_cqs_ = nullptr;
  Port* release_port_ = nullptr;
  unsigned release_count_ = 0;
  std::array<uint64_t, kBurst> release_cookies_{};

  uint64_t ring_changes_seen_ = 0;
  uint32_t busy_qps_ = 0;
  uint64_t data_arrivals_ = 0;
  uint64_t send_completions_ = 0;
  bool link_up_ = false;
  bool link_seen_ = false;  // the link has been up before
  Time link_up_since_;      // last time that the link came up
  bool warned_memory_absent_ = false;
  bool burst_was_full_ = false;  // the last one ended by its budget, not by the wire
};

}  // namespace mprdma::dataplane
