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

inline dataplane::client::MessageFault check_nic_message(std::span<const unsigned char> bytes) {
  namespace client = dataplane::client;
  client::Head head;
  const client::MessageFault fault = client::check_message(bytes, &head);
  CHECK(client::to_string(fault)[0] != '?');
  if (fault != client::MessageFault::kNone) return fault;
  CHECK(bytes.size() == client::message_bytes(head.type) && head.bytes == bytes.size());
  CHECK(head.magic == client::kMagic && head.version == client::kVersion);
  if (head.type == client::MessageType::kHello) {
    const auto hello = client::load_message<client::Hello>(bytes);
    CHECK(client::text_of(hello.program).size() <= hello.program.size());
  }
  return fault;
}

inline dataplane::mprdmad::FrameKind check_frame_class(std::span<const unsigned char> bytes) {
  namespace mprdmad = dataplane::mprdmad;
  mprdmad::HeaderCopy copy;
  copy.take(bytes.data(), static_cast<uint32_t>(bytes.size()));
  const mprdmad::FrameClass found = mprdmad::classify(copy);
  if (found.kind == mprdmad::FrameKind::kRoce || found.kind == mprdmad::FrameKind::kEcho ||
      found.kind == mprdmad::FrameKind::kNeighbour) {
    CHECK(found.transport_offset <= copy.copied);
    CHECK(found.transport_offset + found.transport_bytes <= bytes.size());
  }
  if (found.kind == mprdmad::FrameKind::kNeighbour) {
    wire::NeighbourMessage message;
    const wire::Ipv6 ip = wire::Ipv6::load(bytes.data() + mprdmad::FrameClass::kIpOffset);
    const auto body = bytes.subspan(found.transport_offset, found.transport_bytes);
    if (wire::NeighbourMessage::parse(ip, body, message)) {
      CHECK(message.target[0] != 0xff && ip.hop_limit == wire::kNeighbourHopLimit);
    }
  }
  return found.kind;
}

}  // namespace mprdma::test
