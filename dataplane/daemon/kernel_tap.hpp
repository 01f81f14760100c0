// A TAP interface between mprdmad's port and the host's kernel: frames that mprdmad does not handle
// itself go to the kernel, and frames from the kernel go out through the port.
//
// Nothing blocks. Each frame costs a system call, so only exceptional traffic passes here, at most
// kBurst frames each way in a turn of the loop. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.hpp"
#include "wire/ethernet.hpp"

namespace mprdma::dataplane::mprdmad {

// Interface names as the kernel accepts them: up to 15 characters, no slash, colon, percent sign or
// space.
bool valid_tap_name(const std::string& name);

class KernelTap {
 public:
  // An existing interface of that name keeps its settings, so that addresses outlive the daemon,
  // except its Ethernet address and an MTU beyond `mtu`. Otherwise an interface is created that
  // disappears with the daemon.
  static Status open(const std::string& name, const wire::MacAddress& mac, uint32_t mtu,
                     std::unique_ptr<KernelTap>* out);

  // Takes a non-blocking descriptor where each read and write is one frame.
  explicit KernelTap(int fd) : fd_(fd) {}
  ~KernelTap();
  KernelTap(const KernelTap&) = delete;
  KernelTap& operator=(const KernelTap&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  // False: the interface is full or down.
  [[nodiscard]] bool write_frame(std::span<const unsigned char> frame) const;
  // The frame's length; 0: none waits. A frame longer than `room` is truncated.
  [[nodiscard]] uint32_t read_frame(std::span<unsigned char> room) const;

 private:
  int fd_;
};

}  // namespace mprdma::dataplane::mprdmad
