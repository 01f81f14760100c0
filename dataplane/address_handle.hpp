// Where a datagram goes (IBTA 11.2.2.1): what a UD work request names by its handle. The Ethernet
// address of a neighbour is resolved as for a connection; that of a group follows from the group.
//
// An address handle may be destroyed while work requests still name it: its handle then finds
// nobody, and what names it is dropped and counted.
#pragma once

#include <cstdint>

#include "abi/mprdma_abi.h"
#include "dataplane/handle_table.hpp"
#include "dataplane/qp_context.hpp"
#include "wire/frame.hpp"

namespace mprdma::dataplane {

struct AddressHandle {
  const mprdma_abi_client* client = nullptr;
  uint32_t pd = 0;
  wire::FrameAddress address;
  PathState path = PathState::kNone;  // kResolving: what goes there waits, and its queue pair
  bool loop = false;                  // the address is our own
  bool group = false;
};

inline constexpr uint32_t kAddressHandleBits = 15;
using AddressHandleTable = HandleTable<AddressHandle, kAddressHandleBits>;

}  // namespace mprdma::dataplane
