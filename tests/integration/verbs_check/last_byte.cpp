// Multi-packet WRITEs whose receiver looks at memory only: when the last byte of a message is
// there, every byte must be. The receiver tells its progress by WRITEs of its own, seen the same
// way.
#include <sched.h>

#include <atomic>
#include <cstring>

#include "base/prng.hpp"
#include "tests/integration/verbs_check/modes.hpp"
#include "tests/integration/verbs_check/plan.hpp"

namespace mprdma::verbs_check {

namespace {

struct Target {
  QpAddress qp;
  uint64_t address = 0;
  uint32_t rkey = 0;
};

struct Message {
  uint32_t length = 0;
  uint64_t key = 0;
  unsigned char flag = 0;  // last byte of the message; differs from the byte that was there before
};

Message message_of(const Args& args, uint32_t number) {
  Prng prng = Prng(args.seed).split(number);
  Message message;
  // Draws a length; most messages have several packets.
  const uint32_t low = prng.chance(1, 8) ? 1 : args.size_max / 4 + 1;
  message.length = static_cast<uint32_t>(prng.range(low, args.size_max));
  message.key = prng.next_u64();
  message.flag = static_cast<unsigned char>(1 + (number / kSlots) % 255);
  return message;
}

// Spins until the condition holds. No verb is called meanwhile: the engine has to work by itself.
template <typename Condition>
void spin(const Args& args, const char* what, uint32_t number, Condition condition) {
  const double deadline = now_s() + args.stall_s;
  for (uint32_t i = 1; !condition(); ++i) {
    if (i % 1024 != 0) continue;
    sched_yield();
    if (now_s() > deadline) fail("message %u: %s within %u s", number, what, args.stall_s);
  }
}

class LastByte {
 public:
  LastByte(const Args& args, const Device& device, Oob& oob)
      : args_(args),
        cq_(device, 64, false),
        qp_(device, cq_, cq_, options(args), 0xfffff0),
        slots_(device.pd(), kSlots * args.size_max,
               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
        progress_(device.pd(), 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) {
    const Memory& target = args.server ? slots_ : progress_;
    const Target mine{qp_.address(), target.address(), target.rkey()};
    peer_ = oob.exchange(mine);
    qp_.connect(peer_.qp);
    oob.barrier();
  }

  void write_all() {
    for (uint32_t i = 0; i < args_.ops; ++i) {
      spin(args_, "the receiver did not tell its progress", i,
           [&] { return i < peer_progress() + kSlots; });
      const Message message = message_of(args_, i);
      const size_t offset = slot_end(i) - message.length;
      unsigned char* data = slots_.data() + offset;
      fill(message.key, 0, data, message.length - 1);
      data[message.length - 1] = message.flag;
      write(slots_.sge(offset, message.length), peer_.address + offset, i);
    }
    spin(args_, "the receiver did not finish", args_.ops,
         [&] { return peer_progress() == args_.ops; });
  }

  void verify_all() {
    for (uint32_t i = 0; i < args_.ops; ++i) {
      const Message message = message_of(args_, i);
      unsigned char* data = slots_.data() + slot_end(i) - message.length;
      const volatile unsigned char* last = data + message.length - 1;
      spin(args_, "its last byte did not come", i, [&] { return *last == message.flag; });
      std::atomic_thread_fence(std::memory_order_acquire);
      const size_t bad = mismatch(message.key, 0, data, message.length - 1);
      if (bad != message.length - 1) {
        fail("message %u of %u bytes: its last byte is here, its byte %zu is not", i,
             message.length, bad);
      }
      bytes_ += message.length;
      const uint64_t done = i + 1;
      std::memcpy(progress_.data(), &done, sizeof(done));
      write(progress_.sge(0, sizeof(done)), peer_.address, i);
    }
  }

  // Waits until no WRITE of this side is outstanding.
  void drain() {
    while (outstanding_ > 0) process_completion();
  }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  // A source may change only when its WRITE is complete, so there are never more WRITEs under way
  // than slots.
  static constexpr uint32_t kDepth = kSlots;

  static QpOptions options(const Args& args) {
    QpOptions options;
    options.send_wr = 2 * kDepth;
    options.signal_all = true;
    options.timeout = static_cast<uint8_t>(args.timeout);
    options.retry_cnt = static_cast<uint8_t>(args.retry_cnt);
    return options;
  }

  [[nodiscard]] size_t slot_end(uint32_t number) const {
    return (number % kSlots + 1) * size_t{args_.size_max};
  }

  [[nodiscard]] uint64_t peer_progress() const {
    const volatile auto* at = reinterpret_cast<const volatile uint64_t*>(progress_.data());
    return *at;
  }

  void process_completion() {
    const ibv_wc wc = cq_.wait_one(args_.stall_s, "WRITE");
    if (wc.status != IBV_WC_SUCCESS) fail("WRITE %lu: %s", wc.wr_id, ibv_wc_status_str(wc.status));
    --outstanding_;
  }

  void write(ibv_sge sge, uint64_t to, uint64_t wr_id) {
    if (outstanding_ == kDepth) process_completion();
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    if (sge.length == sizeof(uint64_t) && args_.server) wr.send_flags = IBV_SEND_INLINE;
    wr.wr.rdma = {to, peer_.rkey};
    const int error = ibv_post_send(qp_.get(), &wr, &bad);
    if (error != 0) fail("ibv_post_send: %s", std::strerror(error));
    ++outstanding_;
  }

  const Args& args_;
  Cq cq_;
  Qp qp_;
  Memory slots_;
  Memory progress_;
  Target peer_;
  uint32_t outstanding_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace

void run_last_byte(const Args& args, const Device& device, Oob& oob) {
  LastByte check(args, device, oob);
  if (args.server)
    check.verify_all();
  else
    check.write_all();
  check.drain();
  oob.barrier();
  if (args.server) {
    say("ok: %u messages, %lu bytes, whole when their last byte was there", args.ops,
        check.bytes());
  }
}

}  // namespace mprdma::verbs_check
