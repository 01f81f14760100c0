// Writes packets of every opcode as this code encodes them, for tshark to read back:
//   write_capture FILE.pcap SEED
// To standard output go, in a line per frame and separated by tabs, `field=value` pairs: what
// tshark shall say under its own field names (infiniband.*) and under those of
// tools/wireshark/mprdma.lua.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/support/wire.hpp"
#include "tests/wireshark/capture_file.hpp"
#include "tests/wireshark/write_cm.hpp"
#include "wire/mad.hpp"

namespace mprdma {
namespace {

constexpr uint32_t kPayloadMax = 200;
constexpr int kNackCodes = static_cast<int>(wire::NackCode::kCount);
constexpr int kPairMads = 12;  // the last one is an answer with an error
constexpr int kPacketsPerOpcode = kNackCodes;

void expect_mp_ack(const wire::Packet& packet, Expected& out) {
  const wire::MpAckExt& ack = packet.mp_ack;
  const auto flag = [&ack](uint8_t bit) { return uint64_t{(ack.flags & bit) != 0}; };
  out.add("mprdma.ack.version", wire::kMpVersion);
  out.add("mprdma.ack.aack", packet.psn.value());
  out.add("mprdma.ack.duplicate", flag(wire::kMpAckDuplicate));
  out.add("mprdma.ack.held", flag(wire::kMpAckHeld));
  out.add("mprdma.ack.sack_valid", flag(wire::kMpAckSackValid));
  out.add("mprdma.ack.ordered", flag(wire::kMpAckOrderedPlacement));
  out.add("mprdma.ack.retx", flag(wire::kMpAckReTx));
  out.add("mprdma.ack.ece", flag(wire::kMpAckEce));
  out.add("mprdma.ack.stream", flag(wire::kMpAckResponseStream));
  out.add("mprdma.ack.nack_code", static_cast<uint64_t>(ack.nack));
  out.add("mprdma.ack.detail", ack.detail);
  out.add("mprdma.ack.echoed_timestamp", ack.echoed_timestamp);
  out.add("mprdma.ack.sack", ack.sack.value());
  out.add("mprdma.ack.run", ack.run);
  out.add("mprdma.ack.msn", ack.msn);
  out.add("mprdma.ack.delay", ack.delay_us);
  if (packet.info().has_mp_ack_map) out.add("mprdma.ack.map", packet.mp_ack_map.received);
}

void expect_mp_data(const wire::Packet& packet, Expected& out) {
  const wire::MpDataExt& data = packet.mp_data;
  const auto flag = [&data](uint8_t bit) { return uint64_t{(data.flags & bit) != 0}; };
  out.add("mprdma.data.version", wire::kMpVersion);
  out.add("mprdma.data.retx", flag(wire::kMpDataReTx));
  out.add("mprdma.data.sync", flag(wire::kMpDataSync));
  out.add("mprdma.data.maps", flag(wire::kMpDataTakesMaps));
  out.add("mprdma.data.probe", flag(wire::kMpDataTailProbe));
  out.add("mprdma.data.timestamp", data.timestamp);
  out.add("mprdma.data.message_number", data.message_number);
  const bool read = packet.info().operation == wire::Operation::kReadRequest;
  out.add(read ? "mprdma.data.segment" : "mprdma.data.offset", data.offset);
}

// The standard's extension headers, under the names that Wireshark and our dissector give them.
void expect_extensions(const wire::Packet& packet, bool is_mp, Expected& out) {
  const wire::OpcodeInfo& info = packet.info();
  const auto name = [is_mp](const char* ours, const char* wiresharks) {
    return is_mp ? ours : wiresharks;
  };
  if (info.has_reth || info.has_atomic_eth) {
    out.add(name("mprdma.reth.va", "infiniband.reth.va"), packet.reth.va);
    out.add(name("mprdma.reth.rkey", "infiniband.reth.r_key"), packet.reth.rkey.value());
  }
  if (info.has_reth) {
    out.add(name("mprdma.reth.dma_len", "infiniband.reth.dmalen"), packet.reth.dma_len);
  }
  if (info.has_atomic_eth) {
    out.add(name("mprdma.atomic.swap_add", "infiniband.atomiceth.swapdt"), packet.atomic_swap_add);
    out.add(name("mprdma.atomic.compare", "infiniband.atomiceth.cmpdt"), packet.atomic_compare);
  }
  if (info.has_aeth) {
    out.add(name("mprdma.aeth.syndrome", "infiniband.aeth.syndrome"), packet.aeth.syndrome);
    out.add(name("mprdma.aeth.msn", "infiniband.aeth.msn"), packet.aeth.msn);
  }
  if (info.has_atomic_ack_eth) {
    out.add(name("mprdma.atomic.original", "infiniband.atomicacketh.origremdt"),
            packet.atomic_original);
  }
  if (info.has_deth) {
    out.add("infiniband.deth.q_key", packet.deth.q_key);
    out.add("infiniband.deth.srcqp", packet.deth.src_qpn.value());
  }
}

void expect_packet(const wire::Packet& packet, Expected& out) {
  const wire::OpcodeInfo& info = packet.info();
  const bool is_mp = info.transport == wire::TransportService::kMp;
  out.add("infiniband.bth.opcode", static_cast<uint64_t>(packet.opcode));
  out.add("infiniband.bth.se", packet.solicited_event);
  out.add("infiniband.bth.m", packet.mig_req);
  out.add("infiniband.bth.padcnt", wire::pad_bytes(packet.payload_len));
  out.add("infiniband.bth.p_key", packet.p_key);
  out.add("infiniband.bth.destqp", packet.dest_qpn.value());
  out.add("infiniband.bth.a", packet.ack_req);
  out.add("infiniband.bth.psn", packet.psn.value());
  if (is_mp) out.add("mprdma.opcode", static_cast<uint64_t>(packet.opcode));
  if (info.has_mp_data) expect_mp_data(packet, out);
  if (info.has_mp_ack) expect_mp_ack(packet, out);
  // Wireshark 4.0 shows no more of XRC than the BTH.
  if (info.transport != wire::TransportService::kXrc) expect_extensions(packet, is_mp, out);
  if (is_mp && info.has_payload) out.add("mprdma.payload_len", packet.payload_len);
  out.end();
}

wire::PairInfo random_pair_info(Prng& prng) {
  wire::PairInfo info;
  const auto modes = static_cast<uint64_t>(wire::PairMode::kCount);
  info.mode = static_cast<wire::PairMode>(prng.below(modes));
  info.pinned = static_cast<wire::PairMode>(prng.below(modes));
  info.phase =
      static_cast<wire::PairPhase>(info.mode == wire::PairMode::kNone ? 0 : prng.range(1, 2));
  info.ordered = prng.chance(1, 2);
  info.abilities = static_cast<uint32_t>(prng.next_u64());
  info.window_slots = static_cast<uint16_t>(8 << prng.below(5));
  info.segment = static_cast<uint32_t>(prng.below(1 << 16)) * 256;
  info.takes_runs = prng.chance(1, 2);
  info.sender_qpn = Qpn(static_cast<uint32_t>(prng.below(1 << 24)));
  info.receiver_qpn = Qpn(static_cast<uint32_t>(prng.below(1 << 24)));
  return info;
}

void expect_pair_mad(const wire::PairMad& mad, Expected& out) {
  out.add("infiniband.mad.mgmtclass", wire::kPairClass);
  out.add("infiniband.mad.transactionid", mad.transaction);
  out.add("mprdma.pair.response", mad.response);
  out.add("mprdma.pair.status", mad.status);
  out.add("mprdma.pair.transaction", mad.transaction);
  if (mad.status == 0) {
    out.add("mprdma.pair.version", mad.info.wire_version);
    out.add("mprdma.pair.phase", static_cast<uint64_t>(mad.info.phase));
    out.add("mprdma.pair.ordered", mad.info.ordered);
    out.add("mprdma.pair.pinned", static_cast<uint64_t>(mad.info.pinned));
    out.add("mprdma.pair.mode", static_cast<uint64_t>(mad.info.mode));
    out.add("mprdma.pair.abilities", mad.info.abilities);
    out.add("mprdma.pair.window_slots", mad.info.window_slots);
    out.add("mprdma.pair.segment", mad.info.segment);
    out.add("mprdma.pair.takes_runs", mad.info.takes_runs);
    out.add("mprdma.pair.sender_qpn", mad.info.sender_qpn.value());
    out.add("mprdma.pair.receiver_qpn", mad.info.receiver_qpn.value());
  }
  out.end();
}

// Writes the datagrams by which two peers agree on a mode.
void write_pair_mads(std::FILE* file, uint32_t& number, Prng& prng, Expected& expected) {
  for (int i = 0; i < kPairMads; ++i) {
    wire::PairMad mad;
    mad.response = i % 2 == 1;
    if (i == kPairMads - 1) mad.status = wire::kMadStatusUnsupportedAttribute;
    mad.transaction = prng.next_u64();
    mad.info = random_pair_info(prng);
    std::array<unsigned char, wire::kMadBytes> bytes;
    wire::encode_pair_mad(mad, bytes);
    wire::Packet packet;
    packet.opcode = wire::Opcode::kUdSendOnly;
    packet.dest_qpn = wire::kGeneralServicesQpn;
    packet.deth = {.q_key = wire::kGeneralServicesQKey, .src_qpn = wire::kGeneralServicesQpn};
    packet.payload_len = wire::kMadBytes;
    write_pcap_frame(file, ++number, test::make_frame(test::ipv4_address(), packet, true, bytes));
    expect_pair_mad(mad, expected);
  }
}

int run(const char* path, uint64_t seed) {
  std::FILE* file = std::fopen(path, "wb");
  if (file == nullptr) {
    std::perror(path);
    return 1;
  }
  write_pcap_header(file);
  Prng prng(seed);
  Expected expected;
  uint32_t number = 0;
  for (const wire::Opcode opcode : test::valid_opcodes()) {
    for (int i = 0; i < kPacketsPerOpcode; ++i) {
      wire::Packet packet = test::random_packet(opcode, prng, kPayloadMax);
      // A source port below these may belong to another protocol.
      packet.vp = static_cast<uint16_t>(prng.range(wire::kVirtualPathMin, wire::kVirtualPathMax));
      // A management datagram's payload has a format of its own.
      if (packet.dest_qpn == wire::kGeneralServicesQpn) packet.dest_qpn = Qpn(2);
      // Every NACK code occurs at least once.
      if (packet.info().has_mp_ack)
        packet.mp_ack.nack = static_cast<wire::NackCode>(i % kNackCodes);
      const auto address = prng.chance(1, 2) ? test::ipv4_address() : test::ipv6_address();
      write_pcap_frame(file, ++number, test::make_frame(address, packet));
      expect_packet(packet, expected);
    }
  }
  write_pair_mads(file, number, prng, expected);
  write_cm_mads(file, number, prng, expected);
  return std::fclose(file) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace mprdma

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FILE.pcap SEED\n", argv[0]);
    return 2;
  }
  return mprdma::run(argv[1], std::strtoull(argv[2], nullptr, 10));
}
