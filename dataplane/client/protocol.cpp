#include "dataplane/client/protocol.hpp"

namespace mprdma::dataplane::client {

size_t message_bytes(MessageType type) {
  switch (type) {
    case MessageType::kHello:
      return sizeof(Hello);
    case MessageType::kWelcome:
      return sizeof(Welcome);
    case MessageType::kRefused:
      return sizeof(Refused);
    case MessageType::kCmCommand:
      return sizeof(CmCommand);
    case MessageType::kCmReply:
      return sizeof(CmReply);
    case MessageType::kCmEvent:
      return sizeof(CmEvent);
    case MessageType::kPortState:
      return sizeof(PortState);
    case MessageType::kQuery:
      return sizeof(Query);
    case MessageType::kInfo:
      return sizeof(Info);
    case MessageType::kPathProbe:
      return sizeof(PathProbe);
    case MessageType::kPathAnswer:
      return sizeof(PathAnswer);
    case MessageType::kRingRequest:
      return sizeof(RingRequest);
    case MessageType::kRingOffer:
      return sizeof(RingOffer);
    case MessageType::kRingRefused:
      return sizeof(RingRefused);
  }
  return 0;
}

MessageFault check_message(std::span<const unsigned char> bytes, Head* head) {
  if (bytes.size() < sizeof(Head)) return MessageFault::kTruncated;
  std::memcpy(static_cast<void*>(head), bytes.data(), sizeof(Head));
  if (head->magic != kMagic) return MessageFault::kBadMagic;
  if (head->version != kVersion) return MessageFault::kOtherVersion;
  const size_t expected = message_bytes(head->type);
  if (expected == 0) return MessageFault::kUnknownType;
  if (bytes.size() != expected || head->bytes != expected) return MessageFault::kBadSize;
  return MessageFault::kNone;
}

const char* to_string(MessageFault fault) {
  switch (fault) {
    case MessageFault::kNone:
      return "none";
    case MessageFault::kTruncated:
      return "shorter than a head";
    case MessageFault::kBadMagic:
      return "no message of mprdmad's";
    case MessageFault::kOtherVersion:
      return "another version";
    case MessageFault::kUnknownType:
      return "unknown type";
    case MessageFault::kBadSize:
      return "wrong size";
  }
  return "?";
}

}  // namespace mprdma::dataplane::client
