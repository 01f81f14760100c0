#include "dataplane/port/frame_size.hpp"

#include <cerrno>
#include <string>

#include "wire/ethernet.hpp"

namespace mprdma::dataplane {

namespace {

// The largest path MTU, up to this one, with frames of at most so many bytes; 0: none.
uint32_t largest_mtu(uint32_t mtu, uint32_t frame_bytes) {
  while (mtu >= 1024 && frame_bytes_of(mtu) > frame_bytes) mtu /= 2;
  return mtu >= 1024 ? mtu : 0;
}

}  // namespace

Status check_frames(std::string_view port, uint32_t frame_bytes_max, uint32_t mtu,
                    std::string_view key) {
  if (frame_bytes_max >= frame_bytes_of(mtu)) return {};
  const uint32_t now = largest_mtu(mtu, frame_bytes_max);
  // Largest path MTU that a larger interface MTU could give.
  const bool is_xdp = port.starts_with("ethdev:net_af_xdp");
  const uint32_t possible = is_xdp ? largest_mtu(mtu, kXdpFrameBytes) : mtu;
  std::string text = std::string(key) + ": " + std::to_string(mtu) + " needs frames of " +
                     std::to_string(frame_bytes_of(mtu)) + " bytes, the port carries " +
                     std::to_string(frame_bytes_max) + "; ";
  text += now != 0 ? "set it to " + std::to_string(now) : "no path MTU is that small";
  if (possible > now) {
    const size_t interface_mtu = frame_bytes_of(possible) - wire::Ethernet::kBytes;
    text += std::string(now != 0 ? ", or" : ": set") + " the interface's MTU to " +
            std::to_string(interface_mtu) + " or more";
    if (possible < mtu) text += " and it to " + std::to_string(possible);
  }
  if (possible < mtu) text += ", the most that AF_XDP carries";
  return {EINVAL, text};
}

}  // namespace mprdma::dataplane
