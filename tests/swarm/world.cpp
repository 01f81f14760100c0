#include "tests/swarm/world.hpp"

#include <algorithm>

#include "wire/rnr_timer.hpp"

namespace mprdma::swarm {

namespace {

constexpr const char* kSabotageNames[] = {
    "none",        "flip-byte",       "skip-placement",   "place-twice",
    "keep-frame",  "lose-completion", "swap-completions", "deaf-timer",
    "forget-owed", "long-run"};
static_assert(std::size(kSabotageNames) == static_cast<size_t>(Sabotage::kCount));

}  // namespace

const char* sabotage_name(Sabotage sabotage) {
  return kSabotageNames[static_cast<size_t>(sabotage)];
}

World::World(const Scenario& scenario, const Options& options)
    : scenario_(scenario),
      options_(options),
      root_(scenario.seed),
      hostile_prng_(root_.split("hostile")),
      script_prng_(root_.split("script")),
      sabotage_prng_(root_.split("sabotage")),
      now_(scenario.start),
      last_activity_(scenario.start) {
  apps_.resize(scenario.queue_pairs);
  takers_.resize(scenario.queue_pairs);
  flows_.resize(scenario.queue_pairs);
  paths_.resize(scenario.queue_pairs);
  incarnation_.resize(scenario.queue_pairs);
  Prng numbers = root_.split("numbers");
  for (uint32_t n = 0; n < 2; ++n) {
    nodes_[n] = std::make_unique<Node>(n, scenario_, root_.split("memory").split(n), options.trace);
    if (!options.plain) nodes_[n]->device.trace = &silent_trace_;
    links_[n] = std::make_unique<Link>(scenario_.links[n], root_.split("link").split(n));
    const auto first = static_cast<uint32_t>(numbers.range(2, wire::kQpnMask - 64));
    for (uint32_t q = 0; q < scenario.queue_pairs; ++q) {
      nodes_[n]->qpns.emplace_back(first + q * 3);
      make_queue_pair(n, q);
    }
  }
}

World::~World() = default;

void World::run() {
  slack_ = slack();
  start_nodes();
  start_script();
  while (!(finished() && quiet() && under_way_ == 0)) {
    if (events_.empty()) fail("no event is left while work is outstanding: {}", what_is_left());
    const Event event = events_.pop();
    now_ = std::max(now_, event.at);
    if (++handled_ > kEventsMax) fail("{} events and no end: {}", handled_, what_is_left());
    if (now_ > limit() && !(finished() && quiet())) {
      const Time since = std::max(last_activity_, scenario_.clean_at);
      fail("not finished {} ms after the last disturbance: {}",
           (now_ - since).count_ns() / 1'000'000, what_is_left());
    }
    handle(event);
  }
  check_end();
}

void World::start_nodes() {
  for (uint32_t q = 0; q < scenario_.queue_pairs; ++q) {
    make_flows(q);
    connect(q);
  }
  for (size_t i = 0; i < scenario_.changes.size(); ++i) {
    events_.push(now_ + scenario_.changes[i].after, EventKind::kChange, 0, i);
  }
  if (scenario_.kind == Kind::kClean) {
    clean_ = true;
    return;
  }
  events_.push(scenario_.clean_at, EventKind::kCleanUp);
  if (scenario_.nap_percent > 0) {
    events_.push(now_ + scenario_.nap_max, EventKind::kNap, 0);
    events_.push(now_ + scenario_.nap_max * 2, EventKind::kNap, 1);
  }
  if (scenario_.hostile_gap > Duration::zero())
    events_.push(now_ + Duration::us(1), EventKind::kHostile);
}

void World::handle(const Event& event) {
  Node& node = *nodes_[event.node];
  const auto arg = static_cast<uint32_t>(event.arg);
  const bool needs_worker = event.kind == EventKind::kTimer || event.kind == EventKind::kPortRoom ||
                            event.kind == EventKind::kSendApp || event.kind == EventKind::kRecvApp;
  if (node.asleep && needs_worker) {
    if (event.kind == EventKind::kTimer) return;  // waking looks at the deadlines
    events_.push(node.wake_at, event.kind, event.node, event.arg);
    return;
  }
  switch (event.kind) {
    case EventKind::kArrival: {
      --under_way_;
      InFlight packet = std::move(slots_[event.arg]);
      free_slots_.push_back(event.arg);
      arrive(node, packet);
      break;
    }
    case EventKind::kTimer:
      on_timer(node);
      break;
    case EventKind::kPortRoom:
      node.port_event = false;
      pump(node);
      for (uint32_t q = 0; q < node.qps.size(); ++q) drain(node, q);
      arm(node);
      break;
    case EventKind::kSendApp:
      run_send_app(node, arg);
      break;
    case EventKind::kRecvApp:
      run_recv_app(node, arg);
      break;
    case EventKind::kNap:
      nap(node);
      break;
    case EventKind::kWake:
      wake(node);
      break;
    case EventKind::kCleanUp:
      clean_up();
      break;
    case EventKind::kHostile:
      if (clean_) break;
      forge();
      events_.push(now_ + scenario_.hostile_gap, EventKind::kHostile);
      break;
    case EventKind::kOwedAcks:
      on_owed_acks(node);
      break;
    case EventKind::kChange:
      change_attributes(scenario_.changes[event.arg]);
      break;
    case EventKind::kScript:
      event.arg < kScriptConnect ? script_step(event.arg)
                                 : connect_late(node, arg - kScriptConnect);
      break;
  }
}

void World::nap(Node& node) {
  if (clean_) return;
  Prng& prng = root_;
  const auto max = static_cast<uint64_t>(scenario_.nap_max.count_ns());
  const auto length = static_cast<int64_t>(prng.range(1, max));
  node.asleep = true;
  node.wake_at = now_ + Duration::ns(length);
  trace("n{} is not polled for {} ns", node.number, length);
  events_.push(node.wake_at, EventKind::kWake, node.number);
  const int64_t awake = length * (100 - scenario_.nap_percent) / scenario_.nap_percent;
  events_.push(node.wake_at + Duration::ns(awake + 1), EventKind::kNap, node.number);
}

void World::clean_up() {
  if (clean_) return;
  clean_ = true;
  trace("the network is perfect from here on");
  for (auto& link : links_) link->clean_up();
  for (auto& node : nodes_) {
    for (uint32_t q = 0; q < node->qps.size(); ++q) wake_recv_app(*node, q, Duration::zero());
  }
}

bool World::finished() const {
  if (scenario_.kind != Kind::kClean && !clean_) return false;
  if (fatal() && !script_done_) return false;
  if (scenario_.kind == Kind::kGarbage) return true;
  for (uint32_t q = 0; q < scenario_.queue_pairs; ++q) {
    for (uint32_t n = 0; n < 2; ++n) {
      if (flows_[q][n]->outstanding() > 0) return false;
      if (apps_[q][n].ops_left > 0 && !apps_[q][n].stopped) return false;
    }
  }
  return true;
}

bool World::quiet() const {
  // A side of a broken connection may wait for a peer that is gone.
  if (fatal() && scenario_.kind != Kind::kReset) return true;
  for (const auto& node : nodes_) {
    if (node->asleep) return false;
    for (const auto& qp : node->qps) {
      if (qp->owes_ack() || qp->busy() || qp->wants_to_send() || !qp->next_deadline().is_never())
        return false;
    }
  }
  return true;
}

// The time at which everything must be over, counted from the later of a perfect network and the
// applications' last action.
Time World::limit() const {
  return std::max(last_activity_, scenario_.clean_at) + slack_;
}

Duration World::slack() const {
  Duration slack = Duration::ms(100);
  Duration blind = Duration::zero();
  Duration spaced = Duration::zero();
  for (const auto& sides : scenario_.sides) {
    for (const SideKnobs& knobs : sides) {
      const transport::Params& p = knobs.params;
      slack = std::max(slack, std::max(p.rto_ceiling, p.rto_floor) * 8 + knobs.pace * 64);
      slack = std::max(slack, p.initial_rtt * 64 + p.probe_floor * 8);
      // Without losses by time a sender hears of a copy that is lost, too, by silence only. While a
      // requester's questions bring an acknowledgement of one packet each, there is no silence: the
      // holes of a window are filled one at a time.
      if (!p.loss_by_time || p.recovery != transport::Recovery::kMp) {
        blind = std::max(blind, p.rto_floor * (4 * p.window_slots));
      }
      // A base round trip that is named too short keeps the window at its least.
      const bool named = p.base_rtt > Duration::zero();
      if (p.window_spacing && named && p.window_control == cc::WindowControl::kSwift) {
        constexpr int64_t kPackets = 128;  // of a message
        const Duration trip = scenario_.links[0].delay + scenario_.links[1].delay + Duration::ms(1);
        spaced = std::max(spaced, std::max(p.rto_floor, trip * 4) / 2 * kPackets);
      }
    }
  }
  slack += blind + spaced;
  // Who heard nothing while the network was bad asks again after as long a silence.
  slack += (scenario_.clean_at - scenario_.start) * 2;
  for (const EngineKnobs& engine : scenario_.engines) slack += engine.ack_patience * 64;
  if (scenario_.engine) slack += time_of_segments(scenario_) * 8;
  slack += wire::rnr_timer(scenario_.min_rnr_timer) * 8;
  slack += scenario_.links[0].delay * 64 + scenario_.links[1].delay * 64 + scenario_.connect_skew;
  // The time between two questions to a responder that fell silent.
  const Duration retry = Duration::ns(4096) * (int64_t{1} << scenario_.timeout);
  slack += retry * (fatal() ? 64 : 16);
  return slack;
}

void World::check_end() {
  if (fatal()) check_script_end();
  for (uint32_t n = 0; n < 2; ++n) {
    Node& node = *nodes_[n];
    if (!fatal()) check_all_is_returned(node);
    if (!fatal() || scenario_.kind == Kind::kReset) node.check_memory();
    check_counters(node);
    for (uint32_t q = 0; q < scenario_.queue_pairs; ++q) {
      set_state(n, q, transport::QpState::kReset);
      expect(!node.qps[q]->busy() && node.qps[q]->next_deadline().is_never(),
             "n{} qp{}: is busy after its reset", n, q);
    }
    check_all_is_returned(node);
  }
}

void World::check_all_is_returned(const Node& node) const {
  expect(node.frames.lent() == 0, "n{}: {} frames are still held at the end", node.number,
         node.frames.lent());
  expect(node.held.in_use() == 0, "n{}: the pool says {} frames are held at the end", node.number,
         node.held.in_use());
}

// On a perfect network the paper's sender sends what is outstanding once more when it finds nothing
// new, and all of it after a NACK of a full receive window.
void World::check_copies_of_paper(const Node& node) const {
  const bool dropped = nodes_[1 - node.number]->counters.drop_window_overflow > 0;
  uint64_t early = 0;
  for (uint32_t q = 0; q < node.qps.size(); ++q) {
    if (side(node, q).params.recovery != transport::Recovery::kPaper) continue;
    const transport::Qp& qp = *node.qps[q];
    for (const transport::StreamStats& stats : {qp.request_stats(), qp.response_stats()}) {
      early += stats.retransmitted_early;
      expect(stats.retransmitted_trigger == 0 && (dropped || stats.retransmitted_nack == 0),
             "n{} qp{}: {} copies by trigger and {} by NACK on a perfect network", node.number, q,
             stats.retransmitted_trigger, stats.retransmitted_nack);
    }
  }
  expect(early <= node.data_sent - node.data_sent_again,
         "n{}: {} packets sent again for want of new ones, of {}", node.number, early,
         node.data_sent - node.data_sent_again);
}

// What a full receive window drops of a copy, the paper's sender does not send before a timeout.
void World::check_timeouts(const Node& node) const {
  const bool dropped = nodes_[1 - node.number]->counters.drop_window_overflow > 0;
  uint64_t excused = 0;
  for (uint32_t q = 0; q < node.qps.size() && dropped; ++q) {
    if (side(node, q).params.recovery != transport::Recovery::kPaper) continue;
    const transport::Qp& qp = *node.qps[q];
    excused += qp.request_stats().rto_expired + qp.response_stats().rto_expired;
  }
  expect(node.counters.rto_expired <= excused, "n{}: {} timeouts on a perfect network", node.number,
         node.counters.rto_expired - excused);
}

void World::check_counters(const Node& node) const {
  const transport::TransportCounters& counters = node.counters;
  if (scenario_.kind == Kind::kGarbage) return;
  expect(counters.packets_sent == node.data_sent, "n{}: packets_sent says {} instead of {}",
         node.number, counters.packets_sent, node.data_sent);
  expect(is_roce() || counters.packets_retransmitted == node.data_sent_again,
         "n{}: packets_retransmitted says {} instead of {}", node.number,
         counters.packets_retransmitted, node.data_sent_again);
  if (scenario_.kind != Kind::kClean) return;
  // Packets that met an unready receiver are sent again.
  if (is_roce() && counters.rnr_received > 0) return;
  check_copies_of_paper(node);
  check_timeouts(node);
  expect(!is_roce() || counters.packets_retransmitted == 0,
         "n{}: {} retransmissions on a perfect network", node.number,
         counters.packets_retransmitted);
  // Behind a refused synchronise operation the receive window stands still.
  expect(counters.drop_window_overflow == 0 || counters.drop_sync_too_early > 0,
         "n{}: a receive window is full on a perfect network", node.number);
  expect(counters.tail_probes == 0, "n{}: {} tail probes on a perfect network", node.number,
         counters.tail_probes);
}

std::string World::what_is_left() const {
  std::string text = fmt::format("{} packets under way", under_way_);
  for (uint32_t q = 0; q < scenario_.queue_pairs; ++q) {
    for (uint32_t n = 0; n < 2; ++n) {
      const transport::Qp& qp = *nodes_[n]->qps[q];
      const Flow& flow = *flows_[q][n];
      text += fmt::format(
          "; n{} qp{} state {} outstanding {} unposted {} busy {} deadline {}", n, q,
          static_cast<int>(qp.state()), flow.outstanding(), apps_[q][n].ops_left, qp.busy(),
          qp.next_deadline().is_never() ? "never"
                                        : fmt::format("{}", qp.next_deadline().ns() - now_.ns()));
    }
  }
  return text;
}

transport::TransportCounters World::counters() const {
  transport::TransportCounters sum = nodes_[0]->counters;
  sum += nodes_[1]->counters;
  return sum;
}

std::string World::summary() const {
  std::string text = fmt::format("{} events, {} us of virtual time", handled_,
                                 (now_ - scenario_.start).count_ns() / 1000);
  for (uint32_t n = 0; n < 2; ++n) {
    const LinkStats& s = links_[n]->stats();
    text += fmt::format("; link {}: {} sent {} lost {} overflowed {} marked {} duplicated", n,
                        s.sent, s.lost, s.overflowed, s.marked, s.duplicated);
  }
  return text;
}

}  // namespace mprdma::swarm
