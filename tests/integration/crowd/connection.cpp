#include "tests/integration/crowd/connection.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/integration/crowd/args.hpp"

namespace mprdma::crowd {

namespace {

// Timeout code: 4.096 us * 2^17 = 537 ms. With seven retries it takes 7.5 s to notice a dead peer
// (transport::retry_patience()). A process among 64 may be without a core for seconds, where the
// machine has others to serve, too.
constexpr uint8_t kAckTimeout = 17;

// Length and contents of a message follow from the seed, which both sides know.
uint32_t length_of(uint64_t number, uint32_t most) {
  const uint64_t mixed = (number + 1) * 0x9E3779B97F4A7C15u;
  return 1 + static_cast<uint32_t>(mixed >> 32) % most;
}

uint8_t byte_of(uint32_t from, uint32_t to, uint64_t number, uint32_t offset) {
  return static_cast<uint8_t>(from * 59 + to * 83 + number * 31 + offset * 7 + (offset >> 8));
}

}  // namespace

Connection::Connection(rdma_cm_id* id, ibv_pd* pd, ibv_cq* cq, uint32_t self, uint32_t peer)
    : id_(id), memory_(size_t{kMessageBytes} * (kReceives + 1)), self_(self), peer_(peer) {
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {.max_send_wr = 1,
              .max_recv_wr = kReceives,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = 1;
  if (rdma_create_qp(id_, pd, &attr) != 0) fail("rdma_create_qp: %s", std::strerror(errno));
  uint8_t timeout = kAckTimeout;
  if (rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout)) !=
      0) {
    fail("RDMA_OPTION_ID_ACK_TIMEOUT: %s", std::strerror(errno));
  }
  qpn_ = id_->qp->qp_num;
  constexpr unsigned kAccess = IBV_ACCESS_LOCAL_WRITE;
  mr_ = ibv_reg_mr(pd, memory_.data(), memory_.size(), kAccess);
  if (mr_ == nullptr) fail("ibv_reg_mr: %s", std::strerror(errno));
  for (uint32_t i = 0; i < kReceives; ++i) post_receive(i);
}

Connection::~Connection() {
  rdma_disconnect(id_);  // the connection may have ended before
  rdma_destroy_qp(id_);
  ibv_dereg_mr(mr_);
  if (rdma_destroy_id(id_) != 0) fail("rdma_destroy_id: %s", std::strerror(errno));
}

void Connection::on_established() {
  established_ = true;
  post_send();
}

void Connection::post_receive(uint32_t index) {
  ibv_sge sge{reinterpret_cast<uint64_t>(slot(index)), kMessageBytes, mr_->lkey};
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  wr.wr_id = index;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  if (ibv_post_recv(id_->qp, &wr, &bad) != 0) fail("ibv_post_recv");
  ++outstanding_;
}

void Connection::post_send() {
  const uint32_t length = length_of(sent_, kMessageBytes);
  uint8_t* message = slot(kReceives);
  for (uint32_t i = 0; i < length; ++i) message[i] = byte_of(self_, peer_, sent_, i);
  ibv_sge sge{reinterpret_cast<uint64_t>(message), length, mr_->lkey};
  ibv_send_wr wr{};
  ibv_send_wr* bad = nullptr;
  wr.wr_id = kReceives;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  if (ibv_post_send(id_->qp, &wr, &bad) != 0) fail("ibv_post_send to %u", peer_);
  ++outstanding_;
}

bool Connection::on_completion(const ibv_wc& wc) {
  --outstanding_;
  if (wc.status != IBV_WC_SUCCESS) {
    const bool send = wc.wr_id == kReceives;
    const ibv_wc_status due = send ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR;
    const bool first = !failed_;
    failed_ = true;
    // Unacknowledged sends end first; then the receives are flushed.
    if (wc.status == due && send == first) return !first;
    fail("%s to %u: %s", send ? "send" : "receive", peer_, ibv_wc_status_str(wc.status));
  }
  if (wc.wr_id == kReceives) {
    ++sent_;
    post_send();
    return true;
  }
  const uint8_t* message = slot(static_cast<uint32_t>(wc.wr_id));
  const uint32_t length = length_of(received_, kMessageBytes);
  if (wc.byte_len != length) fail("%u bytes of %u, not %u", wc.byte_len, peer_, length);
  for (uint32_t i = 0; i < length; ++i) {
    if (message[i] == byte_of(peer_, self_, received_, i)) continue;
    fail("message %lu of %u: byte %u is wrong", received_, peer_, i);
  }
  ++received_;
  post_receive(static_cast<uint32_t>(wc.wr_id));
  return true;
}

void Connection::begin_step() {
  sent_before_ = sent_;
  received_before_ = received_;
}

uint64_t Connection::moved() const {
  return std::min(sent_ - sent_before_, received_ - received_before_);
}

bool Connection::ended() const {
  return failed_ && told_ && outstanding_ == 0;
}

}  // namespace mprdma::crowd
