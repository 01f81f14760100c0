// Compares docs/wire-format.md with the code: opcode tables, drop reasons and worked examples. A
// failure prints the text that the page should hold.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/support/wire.hpp"

namespace mprdma::wire {
namespace {

std::string page() {
  std::ifstream file(MPRDMA_SOURCE_ROOT "/docs/wire-format.md");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string hex2(unsigned value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return {kDigits[value >> 4 & 0xf], kDigits[value & 0xf]};
}

std::string headers_of(const OpcodeInfo& info) {
  std::string text;
  const auto add = [&text](bool has, std::string_view name) {
    if (has) text.append(text.empty() ? "" : ", ").append(name);
  };
  add(info.has_mp_data, "mp data");
  add(info.has_mp_ack, "mp ack");
  add(info.has_mp_ack_map, "map");
  add(info.has_xrceth, "XRCETH");
  add(info.has_deth, "DETH");
  add(info.has_reth, "RETH");
  add(info.has_atomic_eth, "AtomicETH");
  add(info.has_aeth, "AETH");
  add(info.has_atomic_ack_eth, "AtomicAckETH");
  add(info.has_immdt, "ImmDt");
  add(info.has_ieth, "IETH");
  add(info.operation == Operation::kCnp, "16 reserved");
  return text.empty() ? "-" : text;
}

TEST(WireFormatPage, ListsEveryOpcode) {
  const std::string text = page();
  std::string missing;
  for (const Opcode opcode : test::valid_opcodes()) {
    const OpcodeInfo& info = opcode_info(opcode);
    const std::string row = "| 0x" + hex2(static_cast<unsigned>(opcode)) + " | " +
                            std::string(opcode_name(opcode)) + " | " + headers_of(info) + " | " +
                            (info.has_payload ? "yes" : "-") + " | " +
                            std::to_string(info.header_bytes) + " |\n";
    if (text.find(row) == std::string::npos) missing += row;
  }
  EXPECT_EQ(missing, "");
}

TEST(WireFormatPage, ListsEveryDropReason) {
  const std::string text = page();
  for (const std::string_view name : kDropReasonNames) {
    if (name == "none") continue;
    EXPECT_NE(text.find("`" + std::string(name) + "`"), std::string::npos) << name;
  }
}

// Prints eight bytes a line under a label, as the page shows them.
class Dump {
 public:
  explicit Dump(const std::vector<unsigned char>& frame) : frame_(frame) {}

  Dump& next(std::string_view label, size_t count) {
    for (size_t i = 0; i < count; ++i, ++at_) {
      if (i % 8 == 0) {
        std::string line(i == 0 ? label : "");
        line.resize(10, ' ');
        text_ += line + "0x" + hex2(static_cast<unsigned>(at_)) + " ";
      }
      text_ += " " + hex2(frame_[at_]) + (i % 8 == 7 || i + 1 == count ? "\n" : "");
    }
    return *this;
  }

  std::string text() const { return at_ == frame_.size() ? text_ : "the frame is longer"; }

 private:
  const std::vector<unsigned char>& frame_;
  std::string text_;
  size_t at_ = 0;
};

void expect_on_page(const std::string& example) {
  EXPECT_NE(page().find("```\n" + example + "```\n"), std::string::npos) << example;
}

TEST(WireFormatPage, WorkedExampleWrite) {
  Packet packet;
  packet.opcode = Opcode::kMpWriteOnly;
  packet.vp = 50'000;
  packet.psn = Psn(0x0000ff);
  packet.dest_qpn = Qpn(0x000102);
  packet.payload_len = 5;
  packet.mp_data = {.flags = kMpDataReTx, .timestamp = 0x12345678};
  packet.reth = {.va = 0x00007f0000001000, .rkey = Key(0x00000a01), .dma_len = 5};
  constexpr std::array<unsigned char, 5> kHello = {'h', 'e', 'l', 'l', 'o'};
  const auto frame = test::make_frame(test::ipv4_address(), packet, true, kHello);
  std::array<char, kTextBytes> line;
  Dump dump(frame);
  dump.next("Ethernet", 14).next("IPv4", 20).next("UDP", 8).next("BTH", 12);
  dump.next("mp data", 16).next("RETH", 16).next("payload", 5).next("pad", 3).next("ICRC", 4);
  expect_on_page(std::string(to_string(packet, line)) + "\n\n" + dump.text());
}

TEST(WireFormatPage, WorkedExampleAcknowledgement) {
  Packet packet;
  packet.opcode = Opcode::kMpAck;
  packet.vp = 50'000;
  packet.psn = Psn(0x0000fd);
  packet.dest_qpn = Qpn(0x000201);
  packet.mp_ack = {.flags = kMpAckReTx | kMpAckOrderedPlacement | kMpAckSackValid,
                   .echoed_timestamp = 0x12345678,
                   .sack = Psn(0x0000ff),
                   .msn = 7};
  FrameAddress back = test::ipv4_address();
  std::swap(back.src_mac, back.dst_mac);
  std::swap(back.src_ip, back.dst_ip);
  const auto frame = test::make_frame(back, packet);
  std::array<char, kTextBytes> line;
  Dump dump(frame);
  dump.next("Ethernet", 14).next("IPv4", 20).next("UDP", 8).next("BTH", 12);
  dump.next("mp ack", 16).next("ICRC", 4);
  expect_on_page(std::string(to_string(packet, line)) + "\n\n" + dump.text());
}

TEST(WireFormatPage, WorkedExampleMap) {
  Packet packet;
  packet.opcode = Opcode::kMpAckMap;
  packet.vp = 50'001;
  packet.psn = Psn(0x0000fd);
  packet.dest_qpn = Qpn(0x000201);
  packet.mp_ack = {
      .flags = kMpAckSackValid, .echoed_timestamp = 0x12345678, .sack = Psn(0x000101), .msn = 7};
  packet.mp_ack_map = {.received = 0xafff'ffff'ffff'ffff};  // all but 0xff and 0xfd
  FrameAddress back = test::ipv4_address();
  std::swap(back.src_mac, back.dst_mac);
  std::swap(back.src_ip, back.dst_ip);
  const auto frame = test::make_frame(back, packet);
  std::array<char, kTextBytes> line;
  Dump dump(frame);
  dump.next("Ethernet", 14).next("IPv4", 20).next("UDP", 8).next("BTH", 12);
  dump.next("mp ack", 16).next("map", 8).next("ICRC", 4);
  expect_on_page(std::string(to_string(packet, line)) + "\n\n" + dump.text());
}

}  // namespace
}  // namespace mprdma::wire
