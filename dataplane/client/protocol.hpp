// The protocol between a process and mprdmad: one Unix connection (SOCK_SEQPACKET) for each process
// that uses the device. A message is one datagram of a fixed size for its type, in the host's byte
// order, and starts with a Head. Both ends run on one machine, but may come from two installations:
// another version is refused with a text.
//
//   process                          mprdmad
//   Hello                       ->
//                               <-   Welcome, and a descriptor: the connected control socket of a
//                                    LocalPort (local::Role::kAdopted); or Refused, and the end
//   Query (instead of Hello)    ->
//                               <-   Info
//   PathProbe (any time)        ->
//                               <-   PathAnswer, when it is known: in any order, by serial
//   CmCommand                   ->
//                               <-   CmReply, in the order of the commands
//                               <-   CmEvent, PortState: whenever something happened
//   RingRequest                 ->
//                               <-   RingOffer, and a descriptor: the connected control socket of
//                                    a LocalPort whose other end is another process of the device,
//                                    to both of them, also to the one that did not ask; or
//                                    RingRefused
//
// The end of the connection is the end of the client: its frames are not taken any more, its
// connections are ended (DREQ, REJ), its queue pair numbers rest. A port that goes down, or is
// not attached in time, ends the connection, too. When the daemon dies the process comes back with
// a new Hello that names its block: it gets the same one, and its queue pairs go on.
//
// Trust. The daemon serves its own user and those that its configuration names (SO_PEERCRED); a
// process checks that the daemon is root, its own user or the one in MPRDMA_DAEMON_UID. What comes
// from a client may be anything: a message that is none ends the connection; one that makes no
// sense is answered with EINVAL. A client that does not read is not written to: beyond kOutgoingMax
// messages it is hung up on.
//
// Queue pair numbers. A block is kBlockGenerations generations of QpTable, 2^17 numbers: block b
// holds the numbers with qpn >> 17 == b. The process allocates them as it likes (0, 1 and 0xffffff
// never), may send datagrams from them only, and may name no other in CM's CONNECT and ACCEPT
// (EPERM): the peer takes a connection's number for the process that has it, and ends what it had
// with it. 0 means no queue pair there: librdmacm passes it for an id without one.
//
// What a client sends. RoCEv2 frames from the device's MAC to the MAC that ARP told, from the
// device's IPv4 address or the link-local address of its MAC; requests of ARP and solicitations of
// neighbour discovery. The daemon answers those instead of the wire: with the device's MAC for the
// device's own address, and with the gateway's MAC for an address off the subnet. Other processes
// share the device's address: to reach a queue pair in another block, a client sends to the
// device's own MAC, and the daemon delivers. A datagram to a group goes to the wire and to every
// other client, not back. From queue pair 1 go PairMads only (wire/mad.hpp), whose sender_qpn is
// one of the client's. Everything else is a counted drop. ICRC: the daemon neither fills nor checks
// it in the client's frames; Device::can_corrupt tells whether the client has to. A frame to the
// device's own address needs none, and a client checks none in a frame that comes from this
// address.
//
// Direct rings. Two processes of the device may have a LocalPort between them, which the daemon
// makes (and whose end it does not keep): frames of connected queue pairs then do not pass the
// daemon. It makes one for processes that its configuration allows (daemon/config.hpp). A frame in
// a ring has no ICRC. A process takes from the ring of a block only packets for its own connected
// queue pairs whose peer is in that block; a peer without a ring, and everything else (datagrams,
// queue pair 1, ARP, groups), goes by the daemon. Either end may hang up at any time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "abi/mprdma_abi_cm.h"
#include "base/ipv4.hpp"
#include "base/qpn.hpp"
#include "dataplane/qpn.hpp"
#include "wire/constants.hpp"

namespace mprdma::dataplane::client {

inline constexpr const char* kSocketName = "mprdmad.sock";  // in the runtime directory
inline constexpr const char* kSystemSocket = "/run/mprdma/mprdmad.sock";

inline constexpr uint32_t kMagic = 0x434e444d;  // "MDNC"
inline constexpr uint16_t kVersion = 3;

inline constexpr uint32_t kBlockGenerations = 8;
inline constexpr uint32_t kBlocks = kGenerations / kBlockGenerations;
inline constexpr uint32_t kNoBlock = UINT32_MAX;
constexpr uint32_t block_of(Qpn qpn) {
  return generation_of(qpn) / kBlockGenerations;
}
// True if the number may be a queue pair of the process that owns the block.
constexpr bool is_in_block(Qpn qpn, uint32_t block) {
  return block_of(qpn) == block && qpn > wire::kGeneralServicesQpn && qpn < wire::kMulticastQpn;
}

// Messages queued for a client that does not read.
inline constexpr size_t kOutgoingMax = 4096;

enum class MessageType : uint16_t {
  kHello = 1,
  kWelcome = 2,
  kRefused = 3,
  kCmCommand = 4,
  kCmReply = 5,
  kCmEvent = 6,
  kPortState = 7,
  kQuery = 8,
  kInfo = 9,
  kPathProbe = 10,
  kPathAnswer = 11,
  kRingRequest = 12,
  kRingOffer = 13,
  kRingRefused = 14,
};

struct Head {
  uint32_t magic = kMagic;
  uint16_t version = kVersion;
  MessageType type{};
  uint32_t serial =
      0;  // chosen by the asking side, repeated in the answer; 0 in CmEvent and PortState
  uint32_t bytes = 0;  // of the whole message
};
static_assert(sizeof(Head) == 16);

struct Hello {
  static constexpr MessageType kType = MessageType::kHello;
  Head head;
  uint64_t instance = 0;  // random, never 0, the same for the life of the process's engine
  uint32_t pid = 0;       // in the process's own PID namespace; the daemon reports the kernel's
  uint32_t first_generation = kNoBlock;  // of the block held before; kNoBlock: a new one
  std::array<char, 32> program{};        // for people
};
static_assert(sizeof(Hello) == 64);

// The device as it is now.
struct Device {
  Ipv4 ipv4{};
  uint32_t prefix_bits = 32;
  std::array<uint8_t, 6> mac{};
  uint8_t link_up = 0;      // of the wire behind the daemon; 1 where there is none
  uint8_t can_corrupt = 0;  // of that wire: frames beyond the device need an ICRC
  uint32_t mtu = 0;         // largest path MTU: 1024, 2048 or 4096
  uint32_t reserved = 0;
  uint64_t link_mbps = 0;  // 0: unknown
};
static_assert(sizeof(Device) == 32);

struct Welcome {
  static constexpr MessageType kType = MessageType::kWelcome;
  Head head;
  uint64_t instance = 0;          // of the daemon: changes when the daemon restarts
  uint32_t first_generation = 0;  // of the block
  uint32_t generations = kBlockGenerations;
  Device device;
  std::array<char, 64> name{};  // of the device
};
static_assert(sizeof(Welcome) == 128);

enum class Refusal : uint32_t {
  kUser = 1,          // neither the daemon's user nor one that it serves
  kOtherVersion = 2,  // of the protocol
  kFull = 3,          // all blocks are in use
  kNoMemory = 4,
  kBadHello = 5,
};

struct Refused {
  static constexpr MessageType kType = MessageType::kRefused;
  Head head;
  Refusal reason{};
  uint32_t reserved = 0;
  std::array<char, 232> text{};  // a sentence: what is wrong, and what to do
};
static_assert(sizeof(Refused) == 256);

struct CmCommand {
  static constexpr MessageType kType = MessageType::kCmCommand;
  Head head;
  mprdma_abi_cm_command command{};
};

struct CmReply {
  static constexpr MessageType kType = MessageType::kCmReply;
  Head head;
  int32_t error = 0;  // 0 or an errno value
  uint32_t reserved = 0;
  mprdma_abi_cm_result result{};
};

struct CmEvent {
  static constexpr MessageType kType = MessageType::kCmEvent;
  Head head;
  mprdma_abi_cm_event event{};
};

struct PortState {  // the link went up or down, or the address has changed
  static constexpr MessageType kType = MessageType::kPortState;
  Head head;
  Device device;
};

// Asks for facts about the daemon without becoming a client; allowed at any time.
struct Query {
  static constexpr MessageType kType = MessageType::kQuery;
  Head head;
};

struct Info {
  static constexpr MessageType kType = MessageType::kInfo;
  Head head;
  uint64_t instance = 0;  // of the daemon
  uint32_t clients = 0;   // processes that have a block
  uint32_t reserved = 0;
  Device device;
  std::array<char, 64> name{};
};
static_assert(sizeof(Info) == 128);

// Asks the daemon to send one path probe (wire/probe_mad.hpp) and report its result. Allowed
// without Hello, and keeps a connection without Hello open. The probe leaves with hop limit
// wire::kDefaultTtl.
struct PathProbe {
  static constexpr MessageType kType = MessageType::kPathProbe;
  Head head;
  Ipv4 peer{};
  uint32_t sequence = 0;
  uint16_t source_port = 0;   // UDP, of the dynamic range
  uint16_t bytes = 0;         // payload: 256..4096
  uint16_t answer_bytes = 0;  // 256..bytes
  uint8_t ecn = 0;            // ECN codepoint of the probe
  uint8_t reserved = 0;
};
static_assert(sizeof(PathProbe) == 32);

// How a probe or its answer arrived.
struct PathSeen {
  uint16_t bytes = 0;
  uint16_t source_port = 0;
  uint8_t hop_limit_sent = 0;
  uint8_t hop_limit = 0;
  uint8_t ecn = 0;
  uint8_t reserved = 0;
};
static_assert(sizeof(PathSeen) == 8);

struct PathAnswer {
  static constexpr MessageType kType = MessageType::kPathAnswer;
  Head head;
  // 0, or: EINVAL, EAGAIN (too many at once: ask again), ENETDOWN (no wire, or no link), EMSGSIZE
  // (longer than the wire takes), EHOSTUNREACH (no neighbour answers), ETIMEDOUT (no answer).
  int32_t error = 0;
  uint32_t sequence = 0;
  uint64_t rtt_ns = 0;                // measured in the daemon's loop
  std::array<uint8_t, 6> next_hop{};  // Ethernet address that the answer came from
  uint16_t reserved = 0;
  PathSeen there;  // the probe, at the peer
  PathSeen back;   // the answer, here
};
static_assert(sizeof(PathAnswer) == 56);

// Asks for a direct ring to the process that owns `block`. One that has been offered to both and
// not been seen here yet is not offered again.
struct RingRequest {
  static constexpr MessageType kType = MessageType::kRingRequest;
  Head head;
  uint32_t block = 0;
  uint32_t last_ring = 0;  // number of the last one offered here to that block; 0: none
};
static_assert(sizeof(RingRequest) == 24);

struct RingOffer {
  static constexpr MessageType kType = MessageType::kRingOffer;
  Head head;
  uint32_t block = 0;  // of the process at the other end
  uint32_t ring = 0;   // number of the ring, never 0
  // 1: the process at the other end runs as the same user, in the same PID namespace.
  uint32_t same_user = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(RingOffer) == 32);

struct RingRefused {
  static constexpr MessageType kType = MessageType::kRingRefused;
  Head head;
  uint32_t block = 0;
  // EPERM: the configuration does not allow it. ENOENT: no process has that block. EAGAIN: too many
  // at once, ask later. EMFILE.
  int32_t error = 0;
};
static_assert(sizeof(RingRefused) == 24);

static_assert(sizeof(CmCommand) == 360 && sizeof(CmReply) == 56 && sizeof(CmEvent) == 360);

inline constexpr size_t kMessageBytesMax = 360;

// Bytes of a message of this type; 0: there is no such type.
size_t message_bytes(MessageType type);

enum class MessageFault : uint8_t {
  kNone,
  kTruncated,
  kBadMagic,
  kOtherVersion,
  kUnknownType,
  kBadSize,
};

// The bytes may hold anything, but nobody else may write them meanwhile. kOtherVersion and
// kUnknownType: `head` is filled.
MessageFault check_message(std::span<const unsigned char> bytes, Head* head);
const char* to_string(MessageFault fault);

template <class T>
T new_message(uint32_t serial) {
  T message;
  message.head.type = T::kType;
  message.head.serial = serial;
  message.head.bytes = sizeof(T);
  return message;
}

// Requires: check_message() has found a message of this type.
template <class T>
T load_message(std::span<const unsigned char> bytes) {
  T message;
  std::memcpy(static_cast<void*>(&message), bytes.data(), sizeof message);
  return message;
}

// Reads a text from the other end, up to the first zero byte or the end of the array.
template <size_t n>
std::string_view text_of(const std::array<char, n>& text) {
  const void* end = std::memchr(text.data(), 0, n);
  return {text.data(),
          end == nullptr ? n : static_cast<size_t>(static_cast<const char*>(end) - text.data())};
}

// Stores a text, truncated to fit and zero-terminated.
template <size_t n>
void set_text(std::array<char, n>* out, std::string_view text) {
  const size_t bytes = text.size() < n ? text.size() : n - 1;
  out->fill(0);
  std::memcpy(out->data(), text.data(), bytes);
}

}  // namespace mprdma::dataplane::client
