// A peer that is killed under traffic. The survivor's outstanding operations end in RETRY_EXC_ERR
// within the time that timeout and retry_cnt configure, everything after that in WR_FLUSH_ERR; and
// the next process that comes can be talked to, over the same device, engine and wire.
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "base/prng.hpp"
#include "tests/integration/verbs_check/modes.hpp"

namespace mprdma::verbs_check {

namespace {

constexpr uint32_t kWindow = 16;   // WRITEs under way
constexpr uint32_t kReceives = 4;  // never used: they must be flushed
constexpr double kSlackS = 10;     // for a busy machine

struct Target {
  QpAddress qp;
  uint64_t address = 0;
  uint32_t rkey = 0;
};

class Writer {
 public:
  Writer(const Args& args, const Device& device, Oob& oob)
      : args_(args),
        cq_(device, 2 * kWindow + kReceives, false),
        qp_(device, cq_, cq_, options(args), 0x800000),
        memory_(device.pd(), 2 * size_t{args.size_max},
                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) {
    const Target mine{qp_.address(), memory_.address() + args.size_max, memory_.rkey()};
    peer_ = oob.exchange(mine);
    const ibv_sge sge = memory_.sge(0, 64);
    for (uint32_t i = 0; i < kReceives; ++i) qp_.post_recv(kReceiveIds + i, &sge, 1);
    qp_.connect(peer_.qp);
    oob.barrier();
  }

  // Keeps the window full for a moment.
  void write_for(double seconds) {
    for (const double end = now_s() + seconds; now_s() < end;) {
      refill();
      take(/*may_fail=*/false);
    }
  }

  // Continues until an operation fails; returns its status.
  ibv_wc_status write_until_failure(const Oob& oob) {
    double dead_s = 0;
    double progress_s = now_s();
    const double bound_s = kSlackS + 4 * timeout_s() * (args_.retry_cnt + 1);
    for (;;) {
      refill();
      const uint64_t done = next_;
      const ibv_wc_status status = take(/*may_fail=*/true);
      const double now = now_s();
      if (dead_s == 0 && oob.closed()) dead_s = now;
      if (status != IBV_WC_SUCCESS) {
        // A process that is killed stops sending before its sockets are closed.
        if (dead_s == 0 && !oob.closes_within(kSlackS)) {
          fail("%s while the peer lived", ibv_wc_status_str(status));
        }
        waited_s_ = now - progress_s;
        return status;
      }
      if (next_ != done) progress_s = now;
      if (dead_s != 0 && now > dead_s + bound_s) fail("no error within %.2f s", bound_s);
    }
  }

  void expect_flushed() {
    post();
    uint32_t receives = 0;
    while (outstanding_ > 0 || receives < kReceives) {
      const ibv_wc wc = cq_.wait_one(args_.stall_s, "flush");
      if (wc.status != IBV_WC_WR_FLUSH_ERR) {
        fail("%lu is not flushed: %s", wc.wr_id, ibv_wc_status_str(wc.status));
      }
      if (wc.wr_id >= kReceiveIds)
        ++receives;
      else
        check_order(wc.wr_id);
    }
    if (qp_.state() != IBV_QPS_ERR) fail("the QP is in state %d", qp_.state());
  }

  [[nodiscard]] double waited_s() const { return waited_s_; }
  // The shortest time of all retries, even if the last completion was seen late.
  [[nodiscard]] double least_s() const { return timeout_s() * args_.retry_cnt / 2; }

 private:
  static constexpr uint64_t kReceiveIds = 1ULL << 32;

  static QpOptions options(const Args& args) {
    QpOptions options;
    options.send_wr = 2 * kWindow;
    options.recv_wr = kReceives;
    options.signal_all = true;
    options.timeout = static_cast<uint8_t>(args.timeout);
    options.retry_cnt = static_cast<uint8_t>(args.retry_cnt);
    return options;
  }

  // IBTA 11.2.4.2: 4.096 us * 2^timeout; it expires between one and four times of that.
  [[nodiscard]] double timeout_s() const { return 4.096e-6 * std::ldexp(1.0, args_.timeout); }

  void refill() {
    while (outstanding_ < kWindow) post();
  }

  void post() {
    ibv_sge sge = memory_.sge(0, args_.size_max);
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.wr_id = posted_++;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma = {peer_.address, peer_.rkey};
    const int error = ibv_post_send(qp_.get(), &wr, &bad);
    if (error != 0) fail("ibv_post_send: %s", std::strerror(error));
    ++outstanding_;
  }

  void check_order(uint64_t wr_id) {
    if (wr_id != next_) fail("completion of %lu, expected %lu", wr_id, next_);
    ++next_;
    --outstanding_;
  }

  ibv_wc_status take(bool may_fail) {
    ibv_wc wc{};
    if (cq_.poll(&wc, 1) == 0) return IBV_WC_SUCCESS;
    if (wc.status != IBV_WC_SUCCESS && (!may_fail || wc.wr_id >= kReceiveIds)) {
      fail("completion of %lu: %s", wc.wr_id, ibv_wc_status_str(wc.status));
    }
    check_order(wc.wr_id);
    return wc.status;
  }

  const Args& args_;
  Cq cq_;
  Qp qp_;
  Memory memory_;
  Target peer_;
  uint64_t posted_ = 0;
  uint64_t next_ = 0;
  uint32_t outstanding_ = 0;
  double waited_s_ = 0;
};

}  // namespace

void run_kill_peer(const Args& args, const Device& device, Oob& oob) {
  if (!args.server) {
    Writer writer(args, device, oob);
    Prng prng = Prng(args.seed).split("life");
    writer.write_for(static_cast<double>(prng.below(50'000)) * 1e-6);
    kill(getpid(), SIGKILL);
  }
  for (uint32_t round = 0; round < args.ops; ++round) {
    Writer writer(args, device, oob);
    const ibv_wc_status status = writer.write_until_failure(oob);
    if (status != IBV_WC_RETRY_EXC_ERR) {
      fail("round %u: %s, not %s", round, ibv_wc_status_str(status),
           ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR));
    }
    if (writer.waited_s() < writer.least_s()) {
      fail("round %u: given up %.3f s after the last progress, sooner than %.3f s", round,
           writer.waited_s(), writer.least_s());
    }
    writer.expect_flushed();
    say("round %u: RETRY_EXC_ERR %.3f s after the last progress, the rest flushed", round,
        writer.waited_s());
    if (round + 1 < args.ops) oob.accept();
  }
  say("ok: %u peers killed", args.ops);
}

}  // namespace mprdma::verbs_check
