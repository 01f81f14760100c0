// A TAP interface: where the kernel of the host goes on with what mprdmad does not take itself from
// a port that it owns, and what the kernel sends through that port comes from.
//
// Nothing blocks. A frame is a system call, so only exceptions come here, and at most kBurst frames
// each way in a turn of the loop. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "wire/ethernet.hpp"

namespace mprdma::dataplane::nic {

// Kernel names: up to 15 characters, no slash, colon, percent sign or space.
bool valid_tap_name(const std::string& name);

class KernelTap {
 public:
  // An interface of that name is used as it is, so that addresses outlive the daemon, but for its
  // Ethernet address, and for an MTU beyond `mtu`; else one is made that goes with the daemon.
  // nullptr: *message says what is wrong.
  static KernelTap* open(const std::string& name, const wire::MacAddress& mac, uint32_t mtu,
                         std::string* message);

  // Takes a descriptor of which each read and write is a frame, without waiting.
  explicit KernelTap(int fd) : fd_(fd) {}
  ~KernelTap();
  KernelTap(const KernelTap&) = delete;
  KernelTap& operator=(const KernelTap&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  // False: it is full, or down.
  [[nodiscard]] bool write_frame(std::span<const unsigned char> frame) const;
  // The frame's length; 0: none waits. One longer than `room` is cut.
  [[nodiscard]] uint32_t read_frame(std::span<unsigned char> room) const;

 private:
  int fd_;
};

}  // namespace mprdma::dataplane::nic
