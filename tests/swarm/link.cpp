#include "tests/swarm/link.hpp"

#include <algorithm>

namespace mprdma::swarm {

namespace {

constexpr uint32_t kMillion = 1'000'000;

Duration draw(Prng& prng, Duration max) {
  return Duration::ns(static_cast<int64_t>(prng.range(0, static_cast<uint64_t>(max.count_ns()))));
}

}  // namespace

void Link::send(Time now, uint32_t bytes, bool is_ack, uint16_t vp,
                std::vector<Arrival>& arrivals) {
  const LaneKnobs& lane = lane_of(vp);
  arrivals.clear();
  ++stats_.sent;
  const Duration on_port = serialisation(bytes, knobs_.bits_per_us);
  port_free_ = std::max(port_free_, now) + on_port;
  // The time at which the port has room again: all but port_packets of this size have left.
  room_at_ = std::max(now, port_free_ - on_port * knobs_.port_packets);

  const Duration on_queue = serialisation(bytes, knobs_.bottleneck_bits_per_us);
  const Time reached = port_free_;
  const Time queue_start = std::max(queue_free_, reached);
  const int64_t waiting_ns = (queue_start - reached).count_ns();
  const auto backlog = static_cast<uint64_t>(waiting_ns) * knobs_.bottleneck_bits_per_us / 8000;
  if (knobs_.queue_bytes != 0 && backlog + bytes > knobs_.queue_bytes) {
    ++stats_.overflowed;
    return;
  }
  queue_free_ = queue_start + on_queue;
  const bool ce = !is_ack && knobs_.mark_bytes != 0 && backlog > knobs_.mark_bytes;
  if (ce) ++stats_.marked;

  if (lose(is_ack, lane)) {
    ++stats_.lost;
    return;
  }
  arrivals.push_back({queue_free_ + delay(lane), ce});
  if (prng_.chance(knobs_.duplicate_ppm, kMillion)) {
    ++stats_.duplicated;
    arrivals.push_back({arrivals[0].at + draw(prng_, knobs_.duplicate_delay_max), ce});
  }
}

bool Link::lose(bool is_ack, const LaneKnobs& lane) {
  if (cut_) return true;
  if (burst_left_ > 0) {
    --burst_left_;
    return true;
  }
  if (prng_.chance(lane.loss_ppm, kMillion)) return true;
  if (!prng_.chance(is_ack ? knobs_.loss_ack_ppm : knobs_.loss_data_ppm, kMillion)) return false;
  if (knobs_.burst_loss > 0) burst_left_ = static_cast<uint32_t>(prng_.below(knobs_.burst_loss));
  return true;
}

Duration Link::delay(const LaneKnobs& lane) {
  Duration total = knobs_.delay + lane.delay + draw(prng_, knobs_.jitter_max);
  if (prng_.chance(knobs_.reorder_ppm, kMillion)) {
    ++stats_.delayed;
    total += draw(prng_, knobs_.reorder_delay_max);
  }
  return total;
}

void Link::clean_up() {
  knobs_.loss_data_ppm = knobs_.loss_ack_ppm = 0;
  knobs_.burst_loss = burst_left_ = 0;
  knobs_.duplicate_ppm = knobs_.reorder_ppm = 0;
  knobs_.jitter_max = Duration::zero();
  knobs_.queue_bytes = knobs_.mark_bytes = 0;
  knobs_.lanes = {};
}

}  // namespace mprdma::swarm
