// The properties that every input has to satisfy, shared by the fuzzer and its smoke test: a
// message to mprdmad ends in a fault or in a value of its type; a frame of a client ends in counted
// drops or goes on under the device's own addresses, and everything is accounted for.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.hpp"
#include "dataplane/client/protocol.hpp"
#include "dataplane/daemon/frame_class.hpp"
#include "wire/neighbour.hpp"

namespace mprdma::test {

inline dataplane::nic::MessageFault check_nic_message(std::span<const unsigned char> bytes) {
  namespace nic = dataplane::nic;
  nic::Head head;
  const nic::MessageFault fault = nic::check_message(bytes, &head);
  CHECK(nic::to_string(fault)[0] != '?');
  if (fault != nic::MessageFault::kNone) return fault;
  CHECK(bytes.size() == nic::message_bytes(head.type) && head.bytes == bytes.size());
  CHECK(head.magic == nic::kMagic && head.version == nic::kVersion);
  if (head.type == nic::MessageType::kHello) {
    const auto hello = nic::load_message<nic::Hello>(bytes);
    CHECK(nic::text_of(hello.program).size() <= hello.program.size());
  }
  return fault;
}

inline dataplane::nic::FrameKind check_frame_class(std::span<const unsigned char> bytes) {
  namespace nic = dataplane::nic;
  nic::HeaderCopy copy;
  copy.take(bytes.data(), static_cast<uint32_t>(bytes.size()));
  const nic::FrameClass found = nic::classify(copy);
  if (found.kind == nic::FrameKind::kRoce || found.kind == nic::FrameKind::kEcho ||
      found.kind == nic::FrameKind::kNeighbour) {
    CHECK(found.transport_offset <= copy.copied);
    CHECK(found.transport_offset + found.transport_bytes <= bytes.size());
  }
  if (found.kind == nic::FrameKind::kNeighbour) {
    wire::NeighbourMessage message;
    const wire::Ipv6 ip = wire::Ipv6::load(bytes.data() + nic::FrameClass::kIpOffset);
    const auto body = bytes.subspan(found.transport_offset, found.transport_bytes);
    if (wire::NeighbourMessage::parse(ip, body, message)) {
      CHECK(message.target[0] != 0xff && ip.hop_limit == wire::kNeighbourHopLimit);
    }
  }
  return found.kind;
}

}  // namespace mprdma::test
