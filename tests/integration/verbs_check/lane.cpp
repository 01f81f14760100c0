#include "tests/integration/verbs_check/lane.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mprdma::verbs_check {

namespace {

constexpr uint32_t kSendWr = 2 * kSlots;
constexpr double kPauseS = 0.002;
constexpr uint32_t kBatchMax = 4;

int ordering(const Args& args) {
  return args.relaxed ? IBV_ACCESS_RELAXED_ORDERING : 0;
}

QpOptions qp_options(const Args& args) {
  QpOptions options;
  options.send_wr = kSendWr;
  options.recv_wr = Lane::kReceives;
  options.timeout = static_cast<uint8_t>(args.timeout);
  options.retry_cnt = static_cast<uint8_t>(args.retry_cnt);
  return options;
}

// Draws a PSN, often near the wrap.
uint32_t first_psn(const Args& args, uint32_t number) {
  Prng prng = Prng(args.seed).split("psn").split((number << 1) | (args.server ? 1 : 0));
  const auto any = static_cast<uint32_t>(prng.below(1U << 24));
  return prng.chance(1, 2) ? 0xffffff - any % 64 : any;
}

ibv_wr_opcode opcode_of(Kind kind) {
  switch (kind) {
    case Kind::kSend:
      return IBV_WR_SEND;
    case Kind::kSendImm:
      return IBV_WR_SEND_WITH_IMM;
    case Kind::kWrite:
      return IBV_WR_RDMA_WRITE;
    case Kind::kWriteImm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Kind::kRead:
      return IBV_WR_RDMA_READ;
  }
  fail("no such kind");
}

ibv_wc_opcode completion_of(Kind kind) {
  if (kind == Kind::kRead) return IBV_WC_RDMA_READ;
  return kind == Kind::kWrite || kind == Kind::kWriteImm ? IBV_WC_RDMA_WRITE : IBV_WC_SEND;
}

}  // namespace

Lane::Lane(const Args& args, const Device& device, const Cq& send_cq, const Cq& recv_cq,
           uint32_t number)
    : number_(number),
      slot_bytes_(slot_bytes(args.size_max)),
      qp_(device, send_cq, recv_cq, qp_options(args), first_psn(args, number)),
      out_(make_plan(args, number, args.server, qp_.inline_bytes())),
      in_(make_plan(args, number, !args.server, qp_.inline_bytes())),
      prng_(Prng(args.seed).split("lane").split((number << 1) | (args.server ? 1 : 0))),
      local_(device.pd(), kSlots * slot_bytes_, IBV_ACCESS_LOCAL_WRITE | ordering(args), kGuard),
      sink_(device.pd(), kSlots * slot_bytes_,
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                ordering(args),
            kGuard),
      read_area_(device.pd(), slot_bytes_, IBV_ACCESS_REMOTE_READ),
      receive_(device.pd(), kReceives * slot_bytes_, IBV_ACCESS_LOCAL_WRITE, kGuard) {
  // The peer's READs expect the pattern that its plan names.
  for (const Op& op : in_.ops) {
    if (op.kind == Kind::kRead && !op.read_back) {
      fill(op.key, 0, read_area_.data(), read_area_.size());
      break;
    }
  }
}

LaneAddress Lane::address() const {
  return {qp_.address(), sink_.address(), read_area_.address(), sink_.rkey(), read_area_.rkey()};
}

void Lane::connect(const LaneAddress& peer) {
  peer_ = peer;
  post_receives();
  qp_.connect(peer.qp);
}

// ---- Sending

bool Lane::may_post() const {
  return posted_ < out_.ops.size() && posted_ < completed_ + kSlots && posted_ < credit_ + kSlots;
}

void Lane::prepare_local(const Op& op, uint32_t number) {
  unsigned char* base = slot(local_, number);
  uint64_t first = 0;
  if (op.kind == Kind::kRead) return;  // full of guards
  for (uint32_t i = 0; i < op.local.count; ++i) {
    fill(op.key, first, base + op.local.pieces[i].offset, op.local.pieces[i].length);
    first += op.local.pieces[i].length;
  }
}

void Lane::build(uint32_t number, ibv_send_wr* wr, ibv_sge* sges) {
  const Op& op = out_.ops[number];
  *wr = {};
  wr->wr_id = number;
  wr->opcode = opcode_of(op.kind);
  if (op.signaled) wr->send_flags |= IBV_SEND_SIGNALED;
  if (op.fence) wr->send_flags |= IBV_SEND_FENCE;
  if (op.use_inline) wr->send_flags |= IBV_SEND_INLINE;
  if (op.solicited) wr->send_flags |= IBV_SEND_SOLICITED;
  wr->imm_data = htonl(op.imm);
  wr->sg_list = sges;
  wr->num_sge = static_cast<int>(op.local.count);
  const size_t base = (number % kSlots) * slot_bytes_;
  for (uint32_t i = 0; i < op.local.count; ++i) {
    sges[i] = local_.sge(base + op.local.pieces[i].offset, op.local.pieces[i].length);
  }
  if (op.kind == Kind::kRead && !op.read_back) {
    wr->wr.rdma = {peer_.read_area + op.remote_offset, peer_.read_rkey};
  } else if (op.kind == Kind::kRead || op.is_write()) {
    const uint32_t target = op.kind == Kind::kRead ? number - 1 : number;
    wr->wr.rdma = {peer_.sink + (target % kSlots) * slot_bytes_ + op.remote_offset,
                   peer_.sink_rkey};
  }
}

unsigned Lane::send_some() {
  ibv_send_wr wrs[kBatchMax];
  ibv_sge sges[kBatchMax][kMaxSge];
  const auto batch_max = static_cast<unsigned>(prng_.range(1, kBatchMax));
  unsigned n = 0;
  while (n < batch_max && may_post()) {
    prepare_local(out_.ops[posted_], posted_);
    build(posted_, &wrs[n], sges[n]);
    if (n > 0) wrs[n - 1].next = &wrs[n];
    ++n;
    ++posted_;
  }
  if (n == 0) return 0;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_.get(), wrs, &bad);
  if (error != 0) fail("lane %u: ibv_post_send: %s", number_, std::strerror(error));
  // Overwrites inline data at once: a provider that reads it after the post is found out.
  for (unsigned i = 0; i < n; ++i) {
    const auto number = static_cast<uint32_t>(wrs[i].wr_id);
    const Op& op = out_.ops[number];
    if (op.use_inline) std::memset(slot(local_, number), kGuard, op.local.end());
  }
  return n;
}

void Lane::on_send_completion(const ibv_wc& wc) {
  uint32_t expected = completed_;
  while (expected < posted_ && !out_.ops[expected].signaled) ++expected;
  if (wc.status != IBV_WC_SUCCESS) {
    fail("lane %u: operation %lu: %s", number_, wc.wr_id, ibv_wc_status_str(wc.status));
  }
  if (expected == posted_ || wc.wr_id != expected) {
    fail("lane %u: completion of operation %lu, expected %u of %u", number_, wc.wr_id, expected,
         posted_);
  }
  const Op& op = out_.ops[expected];
  if (wc.opcode != completion_of(op.kind)) {
    fail("lane %u: operation %u (%s) completes as opcode %d", number_, expected, to_string(op.kind),
         wc.opcode);
  }
  if (op.kind == Kind::kRead && wc.byte_len != op.length) {
    fail("lane %u: READ %u: byte_len %u, not %u", number_, expected, wc.byte_len, op.length);
  }
  for (; completed_ <= expected; ++completed_) {
    const Op& done = out_.ops[completed_];
    if (done.kind == Kind::kRead) verify_read(done, completed_);
    std::memset(slot(local_, completed_), kGuard, done.local.end());
  }
}

// ---- Receiving

unsigned Lane::post_receives() {
  if (pausing()) {
    // Refills slowly on purpose: the peer meets a queue without receives (RNR) until the pause is
    // over.
    if (receives_done_ < receives_posted_ || now_s() < pause_until_s_) return 0;
    pause_until_s_ = 0;
  }
  unsigned n = 0;
  while (receives_posted_ < in_.receives.size() && receives_posted_ < receives_done_ + kReceives) {
    const uint32_t buffer = receives_posted_ % kReceives;
    const auto room = static_cast<uint32_t>(slot_bytes_ - (kMaxSge + 1) * kGapMax);
    Layout& layout = receive_layout_[buffer];
    do {
      layout = random_layout(prng_, room);
    } while (layout.count == 0);
    ibv_sge sges[kMaxSge];
    for (uint32_t i = 0; i < layout.count; ++i) {
      sges[i] =
          receive_.sge(buffer * slot_bytes_ + layout.pieces[i].offset, layout.pieces[i].length);
    }
    qp_.post_recv(receives_posted_, sges, static_cast<int>(layout.count));
    ++receives_posted_;
    ++n;
    if (prng_.chance(1, 128)) {
      pause_until_s_ = now_s() + kPauseS;
      ++pauses_;
      break;
    }
  }
  return n;
}

void Lane::on_receive_completion(const ibv_wc& wc) {
  if (wc.status != IBV_WC_SUCCESS) {
    fail("lane %u: receive %lu: %s", number_, wc.wr_id, ibv_wc_status_str(wc.status));
  }
  if (wc.wr_id != receives_done_ || receives_done_ == receives_posted_) {
    fail("lane %u: receive %lu completes, expected %u of %u", number_, wc.wr_id, receives_done_,
         receives_posted_);
  }
  const uint32_t number = in_.receives[receives_done_];
  const Op& op = in_.ops[number];
  const bool imm = op.kind != Kind::kSend;
  const ibv_wc_opcode opcode = op.kind == Kind::kWriteImm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  if (wc.opcode != opcode || wc.byte_len != op.length ||
      ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) != imm || (imm && ntohl(wc.imm_data) != op.imm)) {
    fail("lane %u: operation %u (%s, %u bytes, imm %08x) arrives as opcode %d, %u bytes, imm %08x",
         number_, number, to_string(op.kind), op.length, op.imm, wc.opcode, wc.byte_len,
         ntohl(wc.imm_data));
  }
  const uint32_t buffer = receives_done_ % kReceives;
  for (; verified_ < number; ++verified_) {
    if (in_.ops[verified_].is_write()) verify_write(in_.ops[verified_], verified_);
  }
  if (op.kind == Kind::kWriteImm) {
    verify_write(op, number);
    if (guard_broken(receive_.data() + buffer * slot_bytes_, kGapMax) != kGapMax) {
      fail("lane %u: WRITE with immediate %u wrote to the receive buffer", number_, number);
    }
  } else {
    verify_send(op, number, buffer);
  }
  ++verified_;
  ++receives_done_;
}

// ---- Contents

void Lane::check_bytes(const Op& op, uint32_t number, const Layout& layout, unsigned char* base,
                       uint64_t pattern_first, const char* where) {
  uint32_t end = 0;   // end of the part of the slot that was compared
  uint32_t done = 0;  // bytes of the message that were compared
  for (uint32_t i = 0; i < layout.count; ++i) {
    const Layout::Piece& piece = layout.pieces[i];
    const uint32_t used = std::min(piece.length, op.length - done);
    size_t bad = guard_broken(base + end, piece.offset - end);
    if (bad != piece.offset - end) {
      fail("lane %u: %s %u of %u bytes overwrote byte %zu of the %s", number_, to_string(op.kind),
           number, op.length, end + bad, where);
    }
    bad = mismatch(op.key, pattern_first + done, base + piece.offset, used);
    if (bad != used) {
      fail("lane %u: %s %u of %u bytes: byte %zu is wrong in the %s", number_, to_string(op.kind),
           number, op.length, done + bad, where);
    }
    done += used;
    end = piece.offset + used;
  }
  if (guard_broken(base + end, kGapMax) != kGapMax) {
    fail("lane %u: %s %u of %u bytes wrote behind its end in the %s", number_, to_string(op.kind),
         number, op.length, where);
  }
  if (done != op.length) fail("lane %u: no room for operation %u", number_, number);
  std::memset(base, kGuard, end);
}

void Lane::verify_read(const Op& op, uint32_t number) {
  check_bytes(op, number, op.local, slot(local_, number), op.read_back ? 0 : op.remote_offset,
              "local buffer");
}

void Lane::verify_write(const Op& op, uint32_t number) {
  Layout layout;
  layout.count = 1;
  layout.pieces[0] = {op.remote_offset, op.length};
  check_bytes(op, number, layout, slot(sink_, number), 0, "target");
}

void Lane::verify_send(const Op& op, uint32_t number, uint32_t buffer) {
  check_bytes(op, number, receive_layout_[buffer], receive_.data() + buffer * slot_bytes_, 0,
              "receive buffer");
}

void Lane::describe() const {
  const bool more = posted_ < out_.ops.size();
  say("lane %u: posted %u, completed %u, verified by the peer %u of %zu (next: %s, %u bytes); "
      "receives posted %u, done %u, verified %u of %zu; QP state %d",
      number_, posted_, completed_, credit_, out_.ops.size(),
      more ? to_string(out_.ops[posted_].kind) : "none", more ? out_.ops[posted_].length : 0,
      receives_posted_, receives_done_, verified_, in_.ops.size(), qp_.state());
}

}  // namespace mprdma::verbs_check
