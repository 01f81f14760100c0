// QPs that are connected and have nothing to do cost nothing: the server sleeps in
// ibv_get_cq_event(), the client in the kernel; both look at their own CPU time. Then one message
// has to arrive all the same, and wake the server.
#include <poll.h>
#include <sys/resource.h>

#include <cstring>
#include <memory>
#include <vector>

#include "tests/integration/verbs_check/modes.hpp"
#include "tests/integration/verbs_check/plan.hpp"

namespace mprdma::verbs_check {

namespace {

constexpr uint32_t kMessageBytes = 1000;
constexpr uint64_t kKey = 42;

double cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void send_one(const Qp& qp, const Memory& memory) {
  ibv_sge sge = memory.sge(0, kMessageBytes);
  ibv_send_wr wr{};
  ibv_send_wr* bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  const int error = ibv_post_send(qp.get(), &wr, &bad);
  if (error != 0) fail("ibv_post_send: %s", std::strerror(error));
}

}  // namespace

void run_idle(const Args& args, const Device& device, Oob& oob) {
  Cq cq(device, 2 * args.qps, true);
  Memory memory(device.pd(), kMessageBytes, IBV_ACCESS_LOCAL_WRITE);
  std::vector<std::unique_ptr<Qp>> qps;
  for (uint32_t i = 0; i < args.qps; ++i) {
    qps.push_back(std::make_unique<Qp>(device, cq, cq, QpOptions{}, i));
    const ibv_sge sge = memory.sge(0, kMessageBytes);
    if (args.server) qps.back()->post_recv(i, &sge, 1);
    qps.back()->connect(oob.exchange(qps.back()->address()));
  }
  cq.arm();
  oob.barrier();
  say("connected");
  const double cpu_before_s = cpu_s();
  const double start_s = now_s();
  if (args.server)
    cq.get_event();
  else
    ::poll(nullptr, 0, static_cast<int>(args.idle_ms));
  const double percent = 100 * (cpu_s() - cpu_before_s) / (now_s() - start_s);
  if (!args.server) {
    fill(kKey, 0, memory.data(), kMessageBytes);
    send_one(*qps.back(), memory);
  }
  const ibv_wc wc = cq.wait_one(args.stall_s, "the message after the sleep");
  if (wc.status != IBV_WC_SUCCESS) fail("completion: %s", ibv_wc_status_str(wc.status));
  if (args.server && mismatch(kKey, 0, memory.data(), kMessageBytes) != kMessageBytes) {
    fail("the message has wrong contents");
  }
  oob.barrier();
  if (percent > args.cpu_percent_max) {
    fail("idle, and %.2f %% of a core used (at most %.2f %%)", percent, args.cpu_percent_max);
  }
  say("ok: %u QPs idle, %.2f %% of a core", args.qps, percent);
}

}  // namespace mprdma::verbs_check
