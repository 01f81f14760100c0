// Pauses of the port's peer (wire/pause_frame.hpp): data waits until the pause ends.
//
// Acknowledgements and what else answers leave all the same. The engine has no queue in which they
// could wait, as a network card has; dropped ones would cost their sender what PFC is to save; and
// they are a fiftieth of the bytes that they answer, which the headroom of a switch takes.
//
// Data is stopped where it meets a full wire: wire_batch_ gives it no frame, so a packet costs no
// instruction more than without pauses. Direct rings and the loopback are no part of the link.
#include <algorithm>
#include <array>
#include <cstring>

#include "dataplane/worker/worker.hpp"
#include "wire/pause_frame.hpp"

namespace mprdma::dataplane {

// False: the frame is not of MAC Control.
bool Worker::receive_pause(const RxFrame& frame, Time now) {
  // The peer may still write the frame.
  std::array<unsigned char, wire::kMinFrameBytes> bytes;
  const size_t copied = std::min<size_t>(frame.length, bytes.size());
  std::memcpy(bytes.data(), frame.data, copied);
  if (!wire::PauseFrame::is_on(bytes.data(), copied)) return false;
  wire::PauseFrame pause;
  const auto ours = static_cast<uint8_t>(1U << config_.pfc_priority);
  if (wire::PauseFrame::parse({bytes.data(), copied}, pause) != wire::PauseDrop::kNone) {
    ++counters_.drop_bad_pause;
  } else if (!config_.pfc || !pause.concerns(ours)) {
    ++counters_.pfc_ignored;
  } else {
    obey_pause(pause.quanta_of(ours), now);
  }
  return true;
}

void Worker::obey_pause(uint16_t quanta, Time now) {
  ++counters_.pfc_received;
  end_pause(now);
  if (quanta == 0) return;
  paused_since_ = now;
  wire_batch_.hold_data(true);
  const uint64_t rate = uint64_t{config_.params.link_mbps} * 1'000'000;
  cq_wheel_.schedule(pause_timer_, now + wire::pause_time(quanta, rate));
}

void Worker::end_pause(Time now) {
  if (paused_since_.is_never()) return;
  counters_.pfc_paused_us += static_cast<uint64_t>((now - paused_since_).count_ns()) / 1000;
  paused_since_ = Time::never();
  cq_wheel_.cancel(pause_timer_);
  wire_batch_.hold_data(false);
}

}  // namespace mprdma::dataplane
