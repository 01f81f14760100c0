// What a reader of memory may see. The client WRITEs a block of data, all of it one number, and
// then the same number into a flag; the server polls the flag, looks at the block at once and
// counts the rounds in which a byte of it is older than the flag. Memory that was registered as the
// standard has it: never. With --relaxed it may happen over a wire that reorders; with
// --synchronise on the WRITE of the flag it must not.
//
// The server says by a WRITE that it has looked, so a block changes only then.
#include <sched.h>

#include <atomic>
#include <cstring>

#include "providers/mprdma/mprdmadv.h"
#include "tests/integration/verbs_check/modes.hpp"

namespace mprdma::verbs_check {

namespace {

constexpr size_t kFlagRoom = 64;

struct Target {
  QpAddress qp;
  uint64_t address = 0;
  uint32_t rkey = 0;
};

// Waits until the word at `at` is `value`. No verb is called meanwhile.
void await_word(const Args& args, const unsigned char* at, uint64_t value, const char* what) {
  const auto* word = reinterpret_cast<const volatile uint64_t*>(at);
  const double deadline = now_s() + args.stall_s;
  for (uint32_t i = 1; *word != value; ++i) {
    if (i % 256 != 0) continue;
    sched_yield();
    if (now_s() > deadline) fail("round %lu: %s within %u s", value, what, args.stall_s);
  }
  std::atomic_thread_fence(std::memory_order_acquire);
}

class Ordering {
 public:
  Ordering(const Args& args, const Device& device, Oob& oob)
      : args_(args),
        block_bytes_(args.size_max / sizeof(uint64_t) * sizeof(uint64_t)),
        cq_(device, 64, false),
        qp_(device, cq_, cq_, options(args), 0x100),
        source_(device.pd(), block_bytes_ + kFlagRoom, IBV_ACCESS_LOCAL_WRITE),
        target_(device.pd(), block_bytes_ + kFlagRoom, access(args)) {
    peer_ = oob.exchange(Target{qp_.address(), target_.address(), target_.rkey()});
    qp_.connect(peer_.qp);
    oob.barrier();
  }

  void write_all() {
    for (uint64_t round = 1; round <= args_.ops; ++round) {
      fill(round);
      const unsigned sync = args_.synchronise ? unsigned{MPRDMADV_SEND_SYNCHRONISE} : 0u;
      post(source_.sge(0, block_bytes_), 0, 0);
      post(source_.sge(block_bytes_, sizeof(round)), block_bytes_, sync);
      for (int i = 0; i < 2; ++i) process_completion();
      await_word(args_, target_.data(), round, "the server did not look");
    }
  }

  // Returns how many rounds showed a stale byte.
  uint32_t look_all() {
    uint32_t stale = 0;
    for (uint64_t round = 1; round <= args_.ops; ++round) {
      await_word(args_, target_.data() + block_bytes_, round, "its flag did not come");
      if (!whole(round)) {
        ++stale;
        // Waits for the block, which comes even if it was late.
        const double deadline = now_s() + args_.stall_s;
        while (!whole(round)) {
          sched_yield();
          if (now_s() > deadline) fail("round %lu: its data never came", round);
        }
      }
      std::memcpy(source_.data(), &round, sizeof(round));
      post(source_.sge(0, sizeof(round)), 0, 0);
      process_completion();
    }
    return stale;
  }

 private:
  static QpOptions options(const Args& args) {
    QpOptions options;
    options.signal_all = true;
    options.timeout = static_cast<uint8_t>(args.timeout);
    options.retry_cnt = static_cast<uint8_t>(args.retry_cnt);
    return options;
  }
  static int access(const Args& args) {
    return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
           (args.relaxed ? IBV_ACCESS_RELAXED_ORDERING : 0);
  }

  void fill(uint64_t round) {
    for (size_t at = 0; at <= block_bytes_; at += sizeof(round)) {
      std::memcpy(source_.data() + at, &round, sizeof(round));
    }
  }
  // Compares the last words first, because they arrive last.
  [[nodiscard]] bool whole(uint64_t round) const {
    const auto* words = reinterpret_cast<const volatile uint64_t*>(target_.data());
    for (size_t i = block_bytes_ / sizeof(round); i > 0; --i) {
      if (words[i - 1] != round) return false;
    }
    return true;
  }

  void post(ibv_sge sge, uint64_t offset, unsigned flags) {
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = flags;
    wr.wr.rdma = {peer_.address + offset, peer_.rkey};
    const int error = ibv_post_send(qp_.get(), &wr, &bad);
    if (error != 0) fail("ibv_post_send: %s", std::strerror(error));
  }
  void process_completion() {
    const ibv_wc wc = cq_.wait_one(args_.stall_s, "WRITE");
    if (wc.status != IBV_WC_SUCCESS) fail("WRITE: %s", ibv_wc_status_str(wc.status));
  }

  const Args& args_;
  size_t block_bytes_;
  Cq cq_;
  Qp qp_;
  Memory source_;
  Memory target_;
  Target peer_;
};

}  // namespace

void run_ordering(const Args& args, const Device& device, Oob& oob) {
  Ordering check(args, device, oob);
  if (!args.server) {
    check.write_all();
    oob.barrier();
    return;
  }
  const uint32_t stale = check.look_all();
  oob.barrier();
  say("stale %u of %u", stale, args.ops);
  const bool promised = !args.relaxed || args.synchronise;
  if (promised && stale > 0) fail("a flag was seen before its data");
  if (args.expect_stale && stale == 0) fail("no flag was seen before its data");
}

}  // namespace mprdma::verbs_check
