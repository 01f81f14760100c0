// An address handle (IBTA 11.2.2.1), the destination that a UD work request names. A neighbour's
// Ethernet address is resolved as for a connection; a group's follows from the group.
//
// An address handle may be destroyed while work requests still name it: requests with an unknown
// handle are dropped and counted.
#pragma once

#include <cstdint>

#include "abi/mprdma_abi.h"
#include "base/handle_table.hpp"
#include "dataplane/worker/qp_context.hpp"
#include "wire/frame_template.hpp"

namespace mprdma::dataplane {

struct AddressHandle {
  const mprdma_abi_client* client = nullptr;
  uint32_t pd = 0;
  wire::FrameTemplate outer;
  PathState path =
      PathState::kNone;  // kResolving: datagrams to it wait, and so does their queue pair
  bool loop = false;     // the address is our own
  bool group = false;

  [[nodiscard]] const wire::IpAddress& peer_ip() const { return outer.address().dst_ip; }
  void set_dst_mac(const wire::MacAddress& mac) { outer.set_dst_mac(mac); }
};

inline constexpr uint32_t kAddressHandleBits = 15;
using AddressHandleTable = HandleTable<AddressHandle, kAddressHandleBits>;

}  // namespace mprdma::dataplane
