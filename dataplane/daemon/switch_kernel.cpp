// Sharing one port with the kernel: frames that are not the device's go to a TAP interface, and the
// kernel's frames from there go out of the port.
#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "dataplane/daemon/switch.hpp"

namespace mprdma::dataplane::mprdmad {

void Switch::use_tap(std::unique_ptr<KernelTap> tap) {
  CHECK(wire_ != nullptr && tap != nullptr);
  tap_ = std::move(tap);
  // One byte more than the wire takes, so that a truncated frame is recognised as too long.
  tap_buffer_.resize(wire_->frame_bytes_max + 1);
}

// Bytes that the peer may still change (port.hpp) are for the kernel to judge.
void Switch::copy_to_kernel(const RxFrame& frame) {
  if (tap_ == nullptr) return;
  if (tap_->write_frame({frame.data, frame.length})) {
    ++wire_->counters.nic_kernel_out;
  } else {
    drop(*wire_, &StationCounters::nic_drop_kernel);
  }
}

// Passes on frames that mprdmad does not handle. IPv4 to an address that is the device's alone
// stays out of the kernel, which would send it back if it forwards packets. The link-local address
// of our MAC is the kernel's as well, by derivation from the same MAC.
void Switch::leave_to_kernel(const HeaderCopy& copy, const FrameClass& found,
                             const RxFrame& frame) {
  const bool ours_alone =
      !config_.shared_address && !found.group && !found.is_ipv6 && is_ours(copy, found, true);
  if (tap_ == nullptr || ours_alone) return drop(*wire_, &StationCounters::nic_drop_not_ours);
  copy_to_kernel(frame);
}

bool Switch::serve_kernel(Time now) {
  if (tap_ == nullptr) return false;
  // Without a link the frame is dropped and counted; a full wire holds the kernel back.
  const unsigned room = wire_->port->link_up() ? wire_->outbox.room() : kBurst;
  unsigned count = 0;
  for (; count < std::min(room, kBurst); ++count) {
    const uint32_t length = tap_->read_frame(tap_buffer_);
    if (length == 0) break;
    from_kernel({tap_buffer_.data(), length});
  }
  wire_->dirty = true;
  if (count > 0) wire_->last_moved = now;
  flush();
  return count > 0;
}

// Any process may send UDP from the kernel's addresses: to the port of RoCEv2, from ours, it would
// be a packet that no queue pair sent.
void Switch::from_kernel(std::span<const unsigned char> frame) {
  ++wire_->counters.nic_kernel_in;
  HeaderCopy copy;
  copy.take(frame.data(), static_cast<uint32_t>(frame.size()));
  if (copy.copied < wire::Ethernet::kBytes) {
    return drop(*wire_, &StationCounters::nic_drop_malformed);
  }
  if (is_roce_from(copy, config_.ipv4, neighbours_.link_local())) {
    return drop(*wire_, &StationCounters::nic_drop_forged);
  }
  put_whole(*wire_, frame.data(), copy.length);
}

}  // namespace mprdma::dataplane::mprdmad
