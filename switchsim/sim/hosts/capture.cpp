// Writes pcapng (draft-ietf-opsawg-pcapng): blocks of a type, their length, a body of 32-bit words,
// and the length again; little endian, as the section header says.
#include "switchsim/sim/hosts/capture.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/ipv4.hpp"
#include "wire/frame.hpp"

namespace mprdma::switchsim {

namespace {

constexpr uint32_t kSectionHeader = 0x0a0d0d0a;
constexpr uint32_t kInterfaceDescription = 1;
constexpr uint32_t kEnhancedPacket = 6;
constexpr uint32_t kByteOrder = 0x1a2b3c4d;
constexpr uint32_t kVersion = 1;  // 1.0
constexpr uint32_t kLinkEthernet = 1;
constexpr uint16_t kOptionName = 2;
constexpr uint16_t kOptionApplication = 4;
constexpr uint16_t kOptionResolution = 9;
constexpr char kNanoseconds = 9;      // 10^-9
constexpr size_t kLengthAt = 4;       // offset in a block
constexpr size_t kPayloadMax = 4096;  // largest path MTU

Ipv4 address_of(NodeId host) {
  return Ipv4(0x0a000000 + host + 1);
}

wire::MacAddress mac_of(NodeId host) {
  const uint32_t address = address_of(host).value();
  return {0x02,
          0x4d,
          0x52,
          static_cast<uint8_t>(address >> 16),
          static_cast<uint8_t>(address >> 8),
          static_cast<uint8_t>(address)};
}

}  // namespace

Status Capture::open(const std::string& path, uint32_t snap_bytes, const Scenario& scenario,
                     std::optional<LinkId> link) {
  snap_bytes_ = snap_bytes;
  link_ = link;
  packets_ = 0;
  frame_.assign(wire::kMaxFrameHeaderBytes + kPayloadMax + wire::kMaxFrameTrailerBytes, 0);
  if (Status status = file_.open(path); !status.ok()) return status;

  begin_block(kSectionHeader);
  for (const uint32_t word : {kByteOrder, kVersion, UINT32_MAX, UINT32_MAX}) put32(word);
  put_option(kOptionApplication, "mprdma sim run");
  put32(0);  // end of options
  end_block();
  std::vector<std::string> interfaces = scenario.host_names;
  if (link) {
    const std::string& name = scenario.topology.links[*link].name;
    interfaces = {name + ".ab", name + ".ba"};
  }
  for (const std::string& name : interfaces) {
    begin_block(kInterfaceDescription);
    put32(kLinkEthernet);
    put32(snap_bytes);
    put_option(kOptionName, name);
    put_option(kOptionResolution, std::string(1, kNanoseconds));
    put32(0);
    end_block();
  }
  return {};
}

void Capture::packet(uint32_t interface, SimTime at, NodeId from, NodeId to,
                     const wire::Packet& packet) {
  CHECK(packet.payload_len <= kPayloadMax);
  wire::FrameAddress address;
  address.src_mac = mac_of(from);
  address.dst_mac = mac_of(to);
  address.src_ip = wire::map_ipv4(address_of(from));
  address.dst_ip = wire::map_ipv4(address_of(to));
  unsigned char* const payload = frame_.data() + wire::kMaxFrameHeaderBytes;
  const size_t header_bytes = wire::encode_frame(address, packet, payload);
  unsigned char* const frame = payload - header_bytes;
  const size_t pad = wire::pad_bytes(packet.payload_len);
  const size_t whole = header_bytes + packet.payload_len + pad + wire::kIcrcBytes;
  const size_t kept = snap_bytes_ == 0 ? whole : std::min<size_t>(whole, snap_bytes_);
  // An ICRC that the snap length cuts off is not computed.
  const bool with_icrc = kept == whole;
  CHECK(wire::finish_frame(frame, header_bytes, packet.payload_len, with_icrc) == whole);

  begin_block(kEnhancedPacket);
  const auto ns = static_cast<uint64_t>(at.to_time().ns());
  for (const uint32_t word : {interface, static_cast<uint32_t>(ns >> 32), static_cast<uint32_t>(ns),
                              static_cast<uint32_t>(kept), static_cast<uint32_t>(whole)}) {
    put32(word);
  }
  block_.insert(block_.end(), frame, frame + kept);
  end_block();
  ++packets_;
  // Clears the buffer: payload of the next packet is zeros, too.
  std::fill_n(payload + packet.payload_len, pad + wire::kIcrcBytes, 0);
}

void Capture::begin_block(uint32_t type) {
  block_.clear();
  put32(type);
  put32(0);  // length, filled in by end_block()
}

void Capture::put32(uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) {
    block_.push_back(static_cast<unsigned char>(value >> shift));
  }
}

void Capture::put_option(uint16_t code, const std::string& value) {
  put32(code | static_cast<uint32_t>(value.size()) << 16);
  block_.insert(block_.end(), value.begin(), value.end());
  block_.resize((block_.size() + 3) / 4 * 4);
}

void Capture::end_block() {
  block_.resize((block_.size() + 3) / 4 * 4);
  const auto length = static_cast<uint32_t>(block_.size() + sizeof(uint32_t));
  put32(length);
  for (size_t i = 0; i < sizeof(length); ++i) {
    block_[kLengthAt + i] = static_cast<unsigned char>(length >> (8 * i));
  }
  file_.write(block_.data(), block_.size());
}

}  // namespace mprdma::switchsim
