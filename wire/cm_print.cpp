#include "wire/cm_mad.hpp"
#include "wire/print.hpp"

namespace mprdma::wire {

namespace {

struct Printer {
  TextWriter& writer;

  void ids(std::string_view name, uint32_t local, uint32_t remote) const {
    writer.text(name).text(" local=").hex(local, 8).text(" remote=").hex(remote, 8);
  }
  void operator()(const CmReq& req) const {
    writer.text("CM_REQ local=")
        .hex(req.local_comm_id, 8)
        .text(" service=")
        .hex(req.service_id, 16);
    writer.text(" qpn=").hex(req.qpn.value(), 6).text(" psn=").dec(req.starting_psn);
    writer.text(" type=").dec(static_cast<uint64_t>(req.service)).text(" mtu=").dec(req.path_mtu);
  }
  void operator()(const CmMra& mra) const {
    ids("CM_MRA", mra.local_comm_id, mra.remote_comm_id);
    writer.text(" message=").dec(mra.message).text(" timeout=").dec(mra.service_timeout);
  }
  void operator()(const CmRej& rej) const {
    ids("CM_REJ", rej.local_comm_id, rej.remote_comm_id);
    writer.text(" message=").dec(rej.message).text(" reason=").dec(rej.reason);
  }
  void operator()(const CmRep& rep) const {
    ids("CM_REP", rep.local_comm_id, rep.remote_comm_id);
    writer.text(" qpn=").hex(rep.qpn.value(), 6).text(" psn=").dec(rep.starting_psn);
  }
  void operator()(const CmRtu& rtu) const { ids("CM_RTU", rtu.local_comm_id, rtu.remote_comm_id); }
  void operator()(const CmDreq& dreq) const {
    ids("CM_DREQ", dreq.local_comm_id, dreq.remote_comm_id);
    writer.text(" qpn=").hex(dreq.remote_qpn.value(), 6);
  }
  void operator()(const CmDrep& drep) const {
    ids("CM_DREP", drep.local_comm_id, drep.remote_comm_id);
  }
  void operator()(const CmSidrReq& req) const {
    writer.text("CM_SIDR_REQ id=").hex(req.request_id, 8);
    writer.text(" service=").hex(req.service_id, 16);
  }
  void operator()(const CmSidrRep& rep) const {
    writer.text("CM_SIDR_REP id=").hex(rep.request_id, 8).text(" status=").dec(rep.status);
    writer.text(" qpn=").hex(rep.qpn.value(), 6).text(" qkey=").hex(rep.qkey, 8);
  }
};

}  // namespace

std::string_view to_string(const CmMad& mad, std::span<char> out) {
  TextWriter writer(out);
  std::visit(Printer{writer}, mad.body);
  return writer.text(" tid=").hex(mad.transaction, 16).view();
}

}  // namespace mprdma::wire
