#include "tests/wireshark/write_cm.hpp"

#include <array>
#include <vector>

#include "base/ipv4.hpp"
#include "tests/support/wire.hpp"
#include "wire/cm_mad.hpp"

namespace mprdma {

namespace {

uint32_t draw(Prng& prng, unsigned bits) {
  return static_cast<uint32_t>(prng.below(uint64_t{1} << bits));
}
uint8_t draw8(Prng& prng, unsigned bits) {
  return static_cast<uint8_t>(draw(prng, bits));
}

// Makes a REQ as rdma_cm does: its header leads the private data.
wire::CmReq random_req(Prng& prng, wire::CmIpHeader* header) {
  wire::CmReq req;
  req.local_comm_id = draw(prng, 32);
  req.service_id = wire::cm_service_id(0x0106, static_cast<uint16_t>(draw(prng, 16)));
  req.ca_guid = prng.next_u64();
  req.qpn = Qpn(draw(prng, 24));
  req.starting_psn = draw(prng, 24);
  req.service = prng.chance(1, 2) ? wire::CmService::kRc : wire::CmService::kUc;
  req.responder_resources = draw8(prng, 8);
  req.initiator_depth = draw8(prng, 8);
  req.remote_cm_response_timeout = draw8(prng, 5);
  req.local_cm_response_timeout = draw8(prng, 5);
  req.max_cm_retries = draw8(prng, 4);
  req.flow_control = prng.chance(1, 2);
  req.retry_count = draw8(prng, 3);
  req.rnr_retry_count = draw8(prng, 3);
  req.srq = prng.chance(1, 2);
  req.path_mtu = draw8(prng, 4);
  req.local_gid = wire::map_ipv4(Ipv4(draw(prng, 32)));
  req.remote_gid = wire::map_ipv4(Ipv4(draw(prng, 32)));
  req.flow_label = draw(prng, 20);
  req.traffic_class = draw8(prng, 8);
  req.hop_limit = draw8(prng, 8);
  req.ack_timeout = draw8(prng, 5);
  *header = {.source_port = static_cast<uint16_t>(draw(prng, 16)),
             .source = req.local_gid,
             .destination = req.remote_gid};
  req.private_data.bytes = wire::CmReq::kPrivateBytes;
  wire::encode_cm_ip_header(*header, std::span<unsigned char, wire::CmIpHeader::kBytes>(
                                         req.private_data.data.data(), wire::CmIpHeader::kBytes));
  return req;
}

void expect_req(const wire::CmReq& req, const wire::CmIpHeader& header, Expected& out) {
  out.add("infiniband.cm.req", req.local_comm_id);
  out.add("infiniband.cm.req.serviceid.protocol", req.service_id >> 16 & 0xff);
  out.add("infiniband.cm.req.serviceid.dport", req.service_id & 0xffff);
  out.add("infiniband.cm.req.localcaguid", req.ca_guid);
  out.add("infiniband.cm.req.localqpn", req.qpn.value());
  out.add("infiniband.cm.req.responderres", req.responder_resources);
  out.add("infiniband.cm.req.initdepth", req.initiator_depth);
  out.add("infiniband.cm.req.remoteresptout", req.remote_cm_response_timeout);
  out.add("infiniband.cm.req.transpsvctype", static_cast<uint64_t>(req.service));
  out.add("infiniband.cm.req.e2eflowctrl", req.flow_control);
  out.add("infiniband.cm.req.startpsn", req.starting_psn);
  out.add("infiniband.cm.req.localresptout", req.local_cm_response_timeout);
  out.add("infiniband.cm.req.retrcount", req.retry_count);
  out.add("infiniband.cm.req.pkey", req.p_key);
  out.add("infiniband.cm.req.pppmtu", req.path_mtu);
  out.add("infiniband.cm.req.rdcexist", 0);
  out.add("infiniband.cm.req.rnrretrcount", req.rnr_retry_count);
  out.add("infiniband.cm.req.maxcmretr", req.max_cm_retries);
  out.add("infiniband.cm.req.srq", req.srq);
  out.add("infiniband.cm.req.prim_locallid", 0xffff);
  out.add("infiniband.cm.req.prim_remotelid", 0xffff);
  // Wireshark 4.0 reads fewer than four bytes of the word with flow label and packet rate, and
  // shows something else.
  out.add("infiniband.cm.req.prim_tfcclass", req.traffic_class);
  out.add("infiniband.cm.req.prim_hoplim", req.hop_limit);
  out.add("infiniband.cm.req.prim_sl", 0);
  out.add("infiniband.cm.req.prim_subnetlocal", 0);
  out.add("infiniband.cm.req.prim_localacktout", req.ack_timeout);
  out.add("infiniband.cm.req.ip_cm.majv", 0);
  out.add("infiniband.cm.req.ip_cm.minv", 0);
  out.add("infiniband.cm.req.ip_cm.ipv", header.ip_version);
  out.add("infiniband.cm.req.ip_cm.sport", header.source_port);
}

wire::CmRep random_rep(Prng& prng) {
  wire::CmRep rep;
  rep.local_comm_id = draw(prng, 32);
  rep.remote_comm_id = draw(prng, 32);
  rep.ca_guid = prng.next_u64();
  rep.qpn = Qpn(draw(prng, 24));
  rep.ee_context = Qpn(draw(prng, 24));
  rep.starting_psn = draw(prng, 24);
  rep.responder_resources = draw8(prng, 8);
  rep.initiator_depth = draw8(prng, 8);
  rep.target_ack_delay = draw8(prng, 5);
  rep.failover_accepted = draw8(prng, 2);
  rep.flow_control = prng.chance(1, 2);
  rep.rnr_retry_count = draw8(prng, 3);
  rep.srq = prng.chance(1, 2);
  rep.private_data.bytes = 1;
  return rep;
}

void expect_rep(const wire::CmRep& rep, Expected& out) {
  out.add("infiniband.cm.rep", rep.local_comm_id);
  out.add("infiniband.cm.rep.remotecommid", rep.remote_comm_id);
  out.add("infiniband.cm.rep.localqpn", rep.qpn.value());
  out.add("infiniband.cm.rep.localeecn", rep.ee_context.value());
  out.add("infiniband.cm.rep.startpsn", rep.starting_psn);
  out.add("infiniband.cm.rep.respres", rep.responder_resources);
  out.add("infiniband.cm.rep.initdepth", rep.initiator_depth);
  out.add("infiniband.cm.rep.tgtackdelay", rep.target_ack_delay);
  out.add("infiniband.cm.rep.failoveracc", rep.failover_accepted);
  out.add("infiniband.cm.rep.e2eflowctrl", rep.flow_control);
  out.add("infiniband.cm.rep.rnrretrcount", rep.rnr_retry_count);
  out.add("infiniband.cm.rep.srq", rep.srq);
  out.add("infiniband.cm.rep.localcaguid", rep.ca_guid);
}

// Prints the header, which Wireshark shows of every message, then the fields that it shows of this
// one: nothing more of an MRA and of SIDR.
class Writer {
 public:
  Writer(std::FILE* file, uint32_t& number, Prng& prng, Expected& expected)
      : file_(file), number_(number), prng_(prng), expected_(expected) {}

  template <typename Expect>
  void write(wire::CmAttribute attribute, const wire::CmBody& body, Expect&& expect) {
    const wire::CmMad mad{.transaction = prng_.next_u64(),
                          .modifier = static_cast<uint32_t>(prng_.next_u64()),
                          .body = body};
    std::array<unsigned char, wire::kMadBytes> bytes;
    wire::encode_cm_mad(mad, bytes);
    wire::Packet packet;
    packet.opcode = wire::Opcode::kUdSendOnly;
    packet.dest_qpn = wire::kGeneralServicesQpn;
    packet.deth = {.q_key = wire::kGeneralServicesQKey, .src_qpn = wire::kGeneralServicesQpn};
    packet.payload_len = wire::kMadBytes;
    write_pcap_frame(file_, ++number_, test::make_frame(test::ipv4_address(), packet, true, bytes));
    expected_.add("infiniband.mad.baseversion", wire::kMadBaseVersion);
    expected_.add("infiniband.mad.mgmtclass", wire::kCmClass);
    expected_.add("infiniband.mad.classversion", wire::kCmClassVersion);
    expected_.add("infiniband.mad.method", wire::kMadMethodSend);
    expected_.add("infiniband.mad.status", 0);
    expected_.add("infiniband.mad.transactionid", mad.transaction);
    expected_.add("infiniband.mad.attributeid", static_cast<uint64_t>(attribute));
    expected_.add("infiniband.mad.attributemodifier", mad.modifier);
    expect();
    expected_.end();
  }

 private:
  std::FILE* file_;
  uint32_t& number_;
  Prng& prng_;
  Expected& expected_;
};

}  // namespace

void write_cm_mads(std::FILE* file, uint32_t& number, Prng& prng, Expected& expected) {
  using enum wire::CmAttribute;
  Writer writer(file, number, prng, expected);
  const auto nothing = [] {};
  wire::CmIpHeader header;
  const wire::CmReq req = random_req(prng, &header);
  writer.write(kReq, req, [&] { expect_req(req, header, expected); });
  writer.write(kMra, wire::CmMra{.local_comm_id = 1, .remote_comm_id = 2, .message = 1}, nothing);
  const wire::CmRej rej{.local_comm_id = draw(prng, 32),
                        .remote_comm_id = draw(prng, 32),
                        .message = draw8(prng, 2),
                        .reason = static_cast<uint16_t>(wire::CmRejectReason::kTimeout),
                        .info_bytes = 8};
  writer.write(kRej, rej, [&] {
    expected.add("infiniband.cm.rej.localcommid", rej.local_comm_id);
    expected.add("infiniband.cm.rej.remotecommid", rej.remote_comm_id);
    expected.add("infiniband.cm.rej.msgrej", rej.message);
    expected.add("infiniband.cm.rej.rejinfolen", rej.info_bytes);
    expected.add("infiniband.cm.rej.reason", rej.reason);
  });
  const wire::CmRep rep = random_rep(prng);
  writer.write(kRep, rep, [&] { expect_rep(rep, expected); });
  const wire::CmRtu rtu{.local_comm_id = draw(prng, 32), .remote_comm_id = draw(prng, 32)};
  writer.write(kRtu, rtu, [&] {
    expected.add("infiniband.cm.rtu.localcommid", rtu.local_comm_id);
    expected.add("infiniband.cm.rtu.remotecommid", rtu.remote_comm_id);
  });
  const wire::CmDreq dreq{.local_comm_id = draw(prng, 32),
                          .remote_comm_id = draw(prng, 32),
                          .remote_qpn = Qpn(draw(prng, 24))};
  writer.write(kDreq, dreq, [&] {
    expected.add("infiniband.cm.dreq.localcommid", dreq.local_comm_id);
    expected.add("infiniband.cm.dreq.remotecommid", dreq.remote_comm_id);
    expected.add("infiniband.cm.req.remoteqpneecn", dreq.remote_qpn.value());
  });
  const wire::CmDrep drep{.local_comm_id = draw(prng, 32), .remote_comm_id = draw(prng, 32)};
  writer.write(kDrep, drep, [&] {
    expected.add("infiniband.cm.drsp.localcommid", drep.local_comm_id);
    expected.add("infiniband.cm.drsp.remotecommid", drep.remote_comm_id);
  });
  writer.write(kSidrReq, wire::CmSidrReq{.request_id = 3}, nothing);
  writer.write(kSidrRep, wire::CmSidrRep{.request_id = 3, .qpn = Qpn(4), .qkey = 5}, nothing);
}

}  // namespace mprdma
