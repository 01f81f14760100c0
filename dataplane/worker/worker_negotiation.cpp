// The mode of a pair of queue pairs is agreed with the peer (mode_negotiation.hpp): management
// datagrams to and from queue pair 1, and what their outcome does to a queue pair.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "abi/mprdma_ring.h"
#include "dataplane/qpn.hpp"
#include "dataplane/sys/no_cancellation.hpp"
#include "dataplane/worker/qp_params.hpp"
#include "dataplane/worker/worker.hpp"
#include "wire/print.hpp"

namespace mprdma::dataplane {

using transport::QpState;
using wire::PairMode;

static_assert(MPRDMA_ABI_MODE_MP == static_cast<int>(PairMode::kMp));
static_assert(MPRDMA_ABI_MODE_MP_PAPER == static_cast<int>(PairMode::kMpPaper));
static_assert(MPRDMA_ABI_MODE_MP_SINGLE == static_cast<int>(PairMode::kMpSingle));
static_assert(MPRDMA_ABI_MODE_IRN == static_cast<int>(PairMode::kIrn));
static_assert(MPRDMA_ABI_MODE_ROCE == static_cast<int>(PairMode::kRoce));

namespace {

// Pause before a full wire is tried again.
constexpr Duration kFullWirePause = Duration::ms(1);
// DPDK's net_vhost looks for its peer once a second.
constexpr Duration kLinkPatience = Duration::s(5);

// Some modes' packets look alike.
const char* sender_text(PacketOf of) {
  switch (of) {
    case PacketOf::kRoce:
      return "mode roce";
    case PacketOf::kMp:
      return "a mode mp, mp-single or mp-paper";
    case PacketOf::kIrn:
      return "mode irn";
    case PacketOf::kStreams:
      return "a mode mp, mp-single, mp-paper or irn";
  }
  return "";
}

bool connected(const QpContext& qp) {
  const QpState state = qp.qp.state();
  return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd;
}

}  // namespace

// ---- Life of a queue pair ----------------------------------------------------------------------

// Called on the transition to RTR: the path and the peer's number are known.
void Worker::begin_negotiation(QpContext& qp, Time now) {
  const wire::IpAddress& peer = qp.peer_ip();
  const uint64_t transaction = prng_.next_u64() << 24 | qp.qp.qpn().value();
  // Our address is shared with other processes of the device, so silence from it proves nothing
  // about this peer.
  const bool silent = !is_own(peer) && silent_peers_.contains(peer, now);
  PairNegotiation::Step step = qp.pair.begin(now, transaction, silent);
  qp.pair.offer(now, wire_offer(qp));
  if (qp.loop) {
    const QpContext* other = qps_.find(Qpn(qp.attr.dest_qpn));
    step = qp.pair.decide_here(now, other != nullptr ? other->pair.info() : default_pair().info());
  } else if (qp.pair.recall(now, peer, Qpn(qp.attr.dest_qpn))) {
    step.changed = true;
  }
  update_offer(qp);
  if (step.changed) apply_mode(qp);
}

void Worker::end_negotiation(QpContext& qp) {
  qp.pair.reset();
  if (qp.pair.preferences().negotiates && qp.pair.preferences().pinned == PairMode::kNone) {
    qp.mode = MPRDMA_ABI_MODE_DEFAULT;
  }
  for (QpContext** link = &negotiating_; *link != nullptr; link = &(*link)->next_negotiating) {
    if (*link != &qp) continue;
    *link = qp.next_negotiating;
    break;
  }
  qp.negotiating = false;
}

// The answer to a question about a queue pair that does not exist.
PairNegotiation Worker::default_pair() const {
  return PairNegotiation(pair_preferences(config_.params, config_.agree_modes));
}

// The mode is decided, or a decision is taken back while it has had no effect: then everything that
// did not complete is taken from the provider's ring again.
void Worker::apply_mode(QpContext& qp) {
  if (!connected(qp)) return;
  qp.mode_due = waits_for_ring(qp);
  if (qp.mode_due) return;
  transport::Params params;
  const int error = agreed_params(qp.wanted, config_.params, static_cast<uint32_t>(qp.pair.mode()),
                                  qp.pair.window_slots(), &params);
  CHECK(error == 0);
  // Where there is one path, nothing is gained by many.
  if (params.preset == transport::Preset::kMp && wire_offer(qp).runs) {
    params.path_policy = transport::PathPolicy::kSingle;
  }
  if (!qp.qp.decided()) {
    qp.qp.set_mode(params);
  } else {
    ++counters_.pair_modes_changed;
    qp.qp.change_mode(params, actions_);
    apply_actions(qp, nullptr);
    qp.sq.next = qp.sq.completed;
  }
  qp.mode = mode_of(params);
  qp.outer.set_ecn(answers_marks(qp) ? wire::Ecn::kEct0
                                     : static_cast<wire::Ecn>(qp.attr.traffic_class & 3));
  mprdma_abi_ring_doorbell(doorbells_.get(), slot_of(qp.qp.qpn()));
  mark_dirty(qp);
}

void Worker::do_step(QpContext& qp, const PairNegotiation::Step& step, Time now, TxBatch& batch) {
  if (step.silent) {
    ++counters_.pair_peers_silent;
    if (!is_own(qp.peer_ip())) {
      silent_peers_.add(qp.peer_ip(), now);
      warn_of_silent_peer(qp);
    }
  }
  if (step.ask && !send_question(qp, batch)) qp.pair.postpone(now + kFullWirePause);
  if (step.changed) apply_mode(qp);
}

// When the queue pair has to ask, or to stop waiting. Nothing is asked while the link is down. A
// peer whose Ethernet address nobody knows is refused, once.
Time Worker::pair_deadline(const QpContext& qp) const {
  const Time limit = waits_until(qp);
  if (waits_for_ring(qp)) return limit;  // the question tells what the ring offers
  const bool known =
      qp.path == PathState::kReady || (qp.path == PathState::kFailed && !qp.pair.decided());
  const bool can_ask = known && (link_up_ || !needs_link(qp));
  return can_ask ? std::min(qp.pair.next_deadline(), limit) : limit;
}

// Requests that wait for the mode, or for the peer's Ethernet address, do so for half of what the
// verbs' timeout and retries ask for; then they are sent as well as it goes, and the transport's
// own timers have the rest. Before our own link has come up it is not the peer that is silent: they
// wait for the most that the standard allows (IBTA 9.9.2.1), and for as long as a wire in software
// may take. A queue pair without any waits as long as it takes.
Time Worker::waits_until(const QpContext& qp) const {
  if (qp.waiting_since.is_never() || qp.attr.timeout == 0) return Time::never();
  const Duration floor = config_.params.rto_floor * 2;
  const Duration asked =
      std::max(transport::ack_timeout(qp.attr.timeout), floor) * (int64_t{qp.attr.retry_cnt} + 1);
  if (waits_for_link(qp)) return qp.waiting_since + std::max(asked * 4, kLinkPatience);
  return std::max(qp.waiting_since, link_up_since_) + asked / 2;
}

// Notes whether requests wait for something that they need to be sent; the transport learns how
// long they waited. A process that had no processor meanwhile looks again long after waits_until():
// what is beyond it is not taken from the transport's part.
void Worker::note_waiting(QpContext& qp) {
  const bool sends = qp.qp.state() == QpState::kRts;
  bool waits = false;
  if (sends && qp.path != PathState::kNone && qp.sq.depth != 0) {
    waits = qp.qp.decided()
                ? (qp.path == PathState::kResolving || waits_for_link(qp)) &&
                      qp.qp.sends_outstanding() > 0
                : qp.pair.begun() && mprdma_abi_load_acquire(&qp.sq.dbr->producer) != qp.sq.next;
  }
  if (waits == !qp.waiting_since.is_never()) return;
  if (!waits && sends) {
    const Time end = std::min(now_, waits_until(qp));
    qp.qp.note_waited(end - std::min(end, std::max(qp.waiting_since, link_up_since_)));
  }
  qp.waiting_since = waits ? now_ : Time::never();
}

void Worker::push_negotiating(QpContext& qp) {
  if (qp.negotiating) return;
  qp.negotiating = true;
  qp.next_negotiating = negotiating_;
  negotiating_ = &qp;
}

// Handles the queue pairs that are due. Requires: no batch is open.
bool Worker::negotiate(Time now) {
  if (negotiating_ == nullptr) return false;
  {
    TxBatch& batch = wire_batch_;
    while (negotiating_ != nullptr) {
      QpContext& qp = *negotiating_;
      negotiating_ = qp.next_negotiating;
      qp.negotiating = false;
      const bool over = waits_until(qp) <= now;
      if (over && qp.path == PathState::kResolving) qp.path = PathState::kFailed;
      qp.goes_without_link |= over;
      const bool lost = qp.path == PathState::kFailed || (needs_link(qp) && !link_up_);
      PairNegotiation::Step step;
      if (qp.pair.decided() ? !connected(qp) : lost) {
        step = qp.pair.on_refusal(now);
      } else if (!qp.pair.decided() && over) {
        step = qp.pair.on_impatience(now);
      } else if (!lost) {
        step = qp.pair.on_deadline(now);
      }
      do_step(qp, step, now, batch);
      mark_dirty(qp);
    }
  }
  reschedule_dirty();
  return true;
}

// ---- Datagrams ---------------------------------------------------------------------------------

// False: the wire is full.
bool Worker::send_question(QpContext& qp, TxBatch& batch) {
  wire::PairMad mad;
  mad.transaction = qp.pair.transaction();
  mad.info = qp.pair.info();
  mad.info.sender_qpn = qp.qp.qpn();
  mad.info.receiver_qpn = Qpn(qp.attr.dest_qpn);
  wire::FrameAddress address = qp.outer.address();
  address.ecn = wire::Ecn::kNotEct;
  if (!nic_part_.send_pair_mad(address, any_path(prng_), mad, batch)) return false;
  ++counters_.pair_questions_sent;
  return true;
}

void Worker::answer_question(const wire::PairMad& question, Time now, TxBatch& answers) {
  const wire::FrameAddress& from = decoded_.address;
  QpContext* qp = qps_.find(question.info.receiver_qpn);
  wire::PairInfo info = default_pair().info();
  if (qp != nullptr && !qp->pair.begun()) {
    qp->pair.remember(from.src_ip, question.info);
    info = qp->pair.info();
  } else if (qp != nullptr && qp->peer_ip() == from.src_ip &&
             Qpn(qp->attr.dest_qpn) == question.info.sender_qpn) {
    const PairNegotiation::Step step = qp->pair.on_info(now, question.info, false);
    update_offer(*qp);
    do_step(*qp, step, now, answers);
    mark_dirty(*qp);
    info = qp->pair.info();
  }
  wire::PairMad answer;
  answer.response = true;
  answer.transaction = question.transaction;
  answer.info = info;
  answer.info.sender_qpn = question.info.receiver_qpn;
  answer.info.receiver_qpn = question.info.sender_qpn;
  const wire::FrameAddress back = way_back(from, wire::Ecn::kNotEct);
  if (nic_part_.send_pair_mad(back, decoded_.packet.vp, answer, answers)) {
    ++counters_.pair_answers_sent;
  }
}

void Worker::process_answer(const wire::PairMad& answer, Time now, TxBatch& answers) {
  QpContext* qp = qps_.find(Qpn(static_cast<uint32_t>(answer.transaction & wire::kQpnMask)));
  if (qp == nullptr || !qp->pair.begun() || answer.transaction != qp->pair.transaction() ||
      decoded_.address.src_ip != qp->peer_ip()) {
    ++counters_.drop_bad_mad;
    return;
  }
  const bool accepted = answer.status == 0;
  if (accepted && answer.info.sender_qpn != Qpn(qp->attr.dest_qpn)) {
    ++counters_.drop_bad_mad;  // of another queue pair than the one that was asked
    return;
  }
  const PairNegotiation::Step step =
      accepted ? qp->pair.on_info(now, answer.info, true) : qp->pair.on_refusal(now);
  update_offer(*qp);
  do_step(*qp, step, now, answers);
  mark_dirty(*qp);
}

void Worker::on_pair_mad(void* worker, const wire::PairMad& mad, Time now, TxBatch& answers) {
  static_cast<Worker*>(worker)->receive_pair_mad(mad, now, answers);
}

void Worker::receive_pair_mad(const wire::PairMad& mad, Time now, TxBatch& answers) {
  if (mad.status == 0) silent_peers_.remove(decoded_.address.src_ip);
  if (mad.response) {
    ++counters_.pair_answers_received;
    process_answer(mad, now, answers);
  } else {
    ++counters_.pair_questions_received;
    answer_question(mad, now, answers);
  }
}

// ---- Packets -----------------------------------------------------------------------------------

// Handles a packet of the standard before the transport gets it, in decoded_. If the mode is open,
// only the one is taken with which the peer begins: a decision for any packet would let a stranger,
// or a former life of the queue pair, decide.
void Worker::note_first_packet(QpContext& qp, Time now, TxBatch& answers) {
  const wire::Packet& packet = decoded_.packet;
  const bool first = packet.info().stream == wire::PacketStream::kRequest &&
                     packet.psn == qp.qp.attributes().rq_psn;
  if (first && connected(qp)) do_step(qp, qp.pair.on_first_packet(now), now, answers);
}

// Handles a packet of a reliable connection that tells something about the peer's mode, after the
// transport.
void Worker::note_packet_mode(QpContext& qp, PacketOf of, Time now, TxBatch& answers) {
  if (!connected(qp)) return;
  const PairNegotiation::Step step = qp.pair.on_packet(now, of, qp.qp.heard_peer());
  const bool fixed = qp.pair.info().phase == wire::PairPhase::kFixed;
  if (fixed && !qp.pair.fits(of)) warn_of_wrong_mode(qp, of);
  do_step(qp, step, now, answers);
}

void Worker::warn_of_silent_peer(const QpContext& qp) {
  if (warned_silent_peer_) return;
  warned_silent_peer_ = true;
  const NoCancellation whole;
  std::array<char, wire::kTextBytes> gid;
  const std::string_view peer = wire::to_string(qp.peer_ip(), gid);
  std::fprintf(stderr,
               "mprdma: %.*s does not answer the question for the mode: queue pairs to it are of "
               "mode roce unless an answer comes, and for 10 s none waits for one "
               "(pair_peers_silent). If it runs mprdma, it was away, or datagrams get lost; if "
               "not, [transport] mode = \"roce\" saves the first one's wait\n",
               static_cast<int>(peer.size()), peer.data());
}

void Worker::warn_of_wrong_mode(const QpContext& qp, PacketOf of) {
  if (warned_wrong_mode_) return;
  warned_wrong_mode_ = true;
  const NoCancellation whole;
  std::array<char, wire::kTextBytes> gid;
  const std::string_view peer = wire::to_string(qp.peer_ip(), gid);
  const std::string_view mode = wire::to_string(qp.pair.mode());
  std::fprintf(stderr,
               "mprdma: %.*s sends packets of %s to queue pair 0x%06x of mode %.*s, which "
               "drops them (transport_drop_wrong_mode): give both sides the same mode (mprdma run "
               "--mode, MPRDMA_MODE, [transport] mode, mprdmadv), or leave it to both to agree\n",
               static_cast<int>(peer.size()), peer.data(), sender_text(of), qp.qp.qpn().value(),
               static_cast<int>(mode.size()), mode.data());
}

}  // namespace mprdma::dataplane
