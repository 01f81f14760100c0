// Requests that must fail, with the standard's statuses on both sides (IBTA 9.9, 11.6.2). A case is
// a QP pair of its own: the client posts what is wrong, both look at their completions, at their
// asynchronous events and at the state of their QP.
#include <cstring>
#include <memory>
#include <string>

#include "tests/integration/verbs_check/modes.hpp"

namespace mprdma::verbs_check {

namespace {

// Half of it takes several packets, also where they carry segments of 16 KiB.
constexpr uint32_t kBytes = 65536;
constexpr uint64_t kReceiveId = 1000;
constexpr uint64_t kSecondId = 2;
constexpr int kNoStatus = -1;  // no completion is expected
constexpr int kNoEvent = -1;

enum class Fault : uint8_t {
  kNone,
  kWrongRkey,
  kOutOfBounds,  // one byte beyond the end
  kBelowStart,   // one byte before the start
  kAnotherPd,    // an rkey of the peer's other protection domain
  kReadOnly,     // the peer's memory may be read, not written
  kNotReadable,  // the peer's memory may be written, not read
  kWrongLkey,
  kSourceTooLong,  // local SGE beyond the end of its memory
  kNotLocalWrite,  // READ into memory without LOCAL_WRITE
  kLongMessage,    // longer than the receive buffer
  kWrongReceiveLkey,
  kNoReceive,
  kQpForbids,  // the peer's QP does not allow this operation at all
};

struct Case {
  const char* name;
  ibv_wr_opcode opcode;
  Fault fault;
  ibv_wc_status client;  // status of the operation
  int server;            // status of the server's receive; kNoStatus: still waiting
  int server_event;      // ibv_event_type
};

constexpr Case kCases[] = {
    {"WRITE, nothing wrong", IBV_WR_RDMA_WRITE, Fault::kNone, IBV_WC_SUCCESS, kNoStatus, kNoEvent},
    {"WRITE, wrong rkey", IBV_WR_RDMA_WRITE, Fault::kWrongRkey, IBV_WC_REM_ACCESS_ERR,
     IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
    {"WRITE with immediate, wrong rkey", IBV_WR_RDMA_WRITE_WITH_IMM, Fault::kWrongRkey,
     IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
    {"READ, wrong rkey", IBV_WR_RDMA_READ, Fault::kWrongRkey, IBV_WC_REM_ACCESS_ERR,
     IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
    {"WRITE beyond the end", IBV_WR_RDMA_WRITE, Fault::kOutOfBounds, IBV_WC_REM_ACCESS_ERR,
     IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
    {"READ beyond the end", IBV_WR_RDMA_READ, Fault::kOutOfBounds, IBV_WC_REM_ACCESS_ERR,
     IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
    {"WRITE below the start", IBV_WR_RDMA_WRITE, Fault::kBelowStart, IBV_WC_REM_ACCESS_ERR,
     IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
    {"WRITE, rkey of another PD", IBV_WR_RDMA_WRITE, Fault::kAnotherPd, IBV_WC_REM_ACCESS_ERR,
     IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
    {"WRITE to memory without REMOTE_WRITE", IBV_WR_RDMA_WRITE, Fault::kReadOnly,
     IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
    {"READ from memory without REMOTE_READ", IBV_WR_RDMA_READ, Fault::kNotReadable,
     IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
    {"WRITE to a QP that forbids it", IBV_WR_RDMA_WRITE, Fault::kQpForbids, IBV_WC_REM_INV_REQ_ERR,
     IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_REQ_ERR},
    {"READ from a QP that forbids it", IBV_WR_RDMA_READ, Fault::kQpForbids, IBV_WC_REM_INV_REQ_ERR,
     IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_REQ_ERR},
    {"SEND, receive too short", IBV_WR_SEND, Fault::kLongMessage, IBV_WC_REM_INV_REQ_ERR,
     IBV_WC_LOC_LEN_ERR, kNoEvent},
    {"SEND, wrong lkey in the receive", IBV_WR_SEND, Fault::kWrongReceiveLkey, IBV_WC_REM_OP_ERR,
     IBV_WC_LOC_PROT_ERR, kNoEvent},
    {"SEND, no receive and no RNR retry", IBV_WR_SEND, Fault::kNoReceive, IBV_WC_RNR_RETRY_EXC_ERR,
     kNoStatus, kNoEvent},
    {"SEND, wrong lkey", IBV_WR_SEND, Fault::kWrongLkey, IBV_WC_LOC_PROT_ERR, kNoStatus, kNoEvent},
    {"WRITE from beyond the source's end", IBV_WR_RDMA_WRITE, Fault::kSourceTooLong,
     IBV_WC_LOC_PROT_ERR, kNoStatus, kNoEvent},
    {"READ into memory without LOCAL_WRITE", IBV_WR_RDMA_READ, Fault::kNotLocalWrite,
     IBV_WC_LOC_PROT_ERR, kNoStatus, kNoEvent},
};

struct Target {
  QpAddress qp;
  uint64_t address = 0;
  uint32_t rkey = 0;
};

class Pair {
 public:
  Pair(const Args& args, Device& device, Oob& oob, const Case& it)
      : args_(args),
        device_(device),
        it_(it),
        other_pd_(ibv_alloc_pd(device.context())),
        cq_(device, 16, false),
        qp_(device, cq_, cq_, options(args, it), 0x1000),
        memory_(std::make_unique<Memory>(
            it.fault == Fault::kAnotherPd && args.server ? other_pd_ : device.pd(), kBytes,
            access(args, it))) {
    if (args.server && it.fault != Fault::kNoReceive) post_receive();
    // The middle of the memory, so that there is room for accesses out of bounds on both sides.
    peer_ = oob.exchange(Target{qp_.address(), memory_->address(), memory_->rkey()});
    qp_.connect(peer_.qp);
    oob.barrier();
  }

  ~Pair() {
    memory_.reset();
    ibv_dealloc_pd(other_pd_);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void client() {
    post(1);
    // The request behind the failing one: it must be flushed, not executed.
    if (it_.client != IBV_WC_SUCCESS) post(kSecondId);
    expect(1, it_.client);
    if (it_.client == IBV_WC_SUCCESS) return;
    expect(kSecondId, IBV_WC_WR_FLUSH_ERR);
    if (qp_.state() != IBV_QPS_ERR) fail("%s: the QP is in state %d", it_.name, qp_.state());
  }

  void server() {
    if (it_.server != kNoStatus) {
      expect(kReceiveId, static_cast<ibv_wc_status>(it_.server));
      if (qp_.state() != IBV_QPS_ERR) fail("%s: the QP is in state %d", it_.name, qp_.state());
    }
    ibv_event_type type{};
    uint32_t qpn = 0;
    // Events about a new connection or an active port are ignored.
    do {
      const int patience_ms = it_.server_event == kNoEvent ? 0 : 5000;
      if (device_.async_event(&type, &qpn, patience_ms)) continue;
      if (it_.server_event == kNoEvent) return;
      fail("%s: no asynchronous event, expected %s", it_.name,
           ibv_event_type_str(static_cast<ibv_event_type>(it_.server_event)));
    } while (type == IBV_EVENT_COMM_EST || type == IBV_EVENT_PORT_ACTIVE);
    if (type != it_.server_event || qpn != qp_.qpn()) {
      fail("%s: event %s of QP %u", it_.name, ibv_event_type_str(type), qpn);
    }
  }

  void expect_nothing_more() {
    ibv_wc wc{};
    if (cq_.poll(&wc, 1) != 0) {
      fail("%s: another completion, %lu: %s", it_.name, wc.wr_id, ibv_wc_status_str(wc.status));
    }
  }

 private:
  static QpOptions options(const Args& args, const Case& it) {
    QpOptions options;
    options.signal_all = true;
    options.timeout = static_cast<uint8_t>(args.timeout);
    if (it.fault == Fault::kNoReceive) options.rnr_retry = 0;
    if (it.fault == Fault::kQpForbids && args.server) options.access = IBV_ACCESS_LOCAL_WRITE;
    return options;
  }

  static int access(const Args& args, const Case& it) {
    constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (!args.server) return it.fault == Fault::kNotLocalWrite ? 0 : kAll;
    if (it.fault == Fault::kReadOnly) return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    if (it.fault == Fault::kNotReadable) return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    return kAll;
  }

  void post_receive() {
    ibv_sge sge = memory_->sge(0, kBytes);
    if (it_.fault == Fault::kLongMessage) sge.length = kBytes / 2 - 1;
    if (it_.fault == Fault::kWrongReceiveLkey) sge.lkey ^= 0xff;
    qp_.post_recv(kReceiveId, &sge, 1);
  }

  void post(uint64_t wr_id) {
    ibv_sge sge = memory_->sge(0, kBytes / 2);
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = it_.opcode;
    wr.wr.rdma = {peer_.address, peer_.rkey};
    switch (it_.fault) {
      case Fault::kWrongRkey:
        wr.wr.rdma.rkey ^= 0xff;
        break;
      case Fault::kOutOfBounds:
        wr.wr.rdma.remote_addr += kBytes - sge.length + 1;
        break;
      case Fault::kBelowStart:
        wr.wr.rdma.remote_addr -= 1;
        break;
      case Fault::kWrongLkey:
        sge.lkey ^= 0xff;
        break;
      case Fault::kSourceTooLong:
        sge.addr += kBytes - sge.length + 1;
        break;
      default:
        break;
    }
    const int error = ibv_post_send(qp_.get(), &wr, &bad);
    if (error != 0) fail("%s: ibv_post_send: %s", it_.name, std::strerror(error));
  }

  void expect(uint64_t wr_id, ibv_wc_status status) {
    const ibv_wc wc = cq_.wait_one(args_.stall_s, it_.name);
    if (wc.wr_id != wr_id || wc.status != status) {
      fail("%s: completion of %lu: %s; expected %lu: %s", it_.name, wc.wr_id,
           ibv_wc_status_str(wc.status), wr_id, ibv_wc_status_str(status));
    }
  }

  const Args& args_;
  Device& device_;
  const Case& it_;
  ibv_pd* other_pd_;
  Cq cq_;
  Qp qp_;
  std::unique_ptr<Memory> memory_;
  Target peer_;
};

}  // namespace

void run_bad(const Args& args, Device& device, Oob& oob) {
  for (const Case& it : kCases) {
    Pair pair(args, device, oob, it);
    if (args.server)
      pair.server();
    else
      pair.client();
    oob.barrier();
    pair.expect_nothing_more();
  }
  say("ok: %zu ways to fail", std::size(kCases));
}

}  // namespace mprdma::verbs_check
