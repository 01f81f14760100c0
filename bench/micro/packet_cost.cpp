// Instructions of the dataplane for each message: two workers on the two ends of a LocalPort, in
// one thread that calls them in turn. bench/packet_cost runs this under callgrind and divides.
//
//   packet_cost [--mode MODE] [--messages N] [--qps N] CASE
//
//   write-64     WRITEs of 64 bytes, posted one by one; the receiver runs once for 16
//   write-64-list  the same, posted in lists of 16
//   send-64        SENDs of 64 bytes, posted singly, into receives that are posted singly
//   write-4k     WRITEs of 4096 bytes, one packet each, posted one by one
//   write-64k    WRITEs of 64 KiB
//   read-64k     READs of 64 KiB
//   ping-pong    8 bytes there, 8 bytes back, the acknowledgement beside the answer, as between two
//                applications that poll; a message is one of them
//
// Messages go to the queue pairs in turn (--qps; one, unless it is given). Where there are several,
// each carries two messages before anything is counted.
//
// Prints the number of messages and data packets. Under callgrind, only what the functions named
// sender_* and receiver_* call is collected (bench/packet_cost gives the options).
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <string>

#include "bench/micro/worker_end.hpp"

namespace mprdma::bench {

// The borders of what is counted: callgrind knows them by name. In Linux's C ABI, so that no build
// mangles or inlines them.
extern "C" {
[[gnu::noinline]] void sender_post(WorkerEnd* end, uint8_t opcode, uint32_t bytes) {
  end->post(opcode, bytes);
}
[[gnu::noinline]] void sender_send(WorkerEnd* end) {
  end->run_sends();
}
[[gnu::noinline]] void sender_run(WorkerEnd* end) {
  end->run();
}
[[gnu::noinline]] uint32_t sender_poll(WorkerEnd* end) {
  return end->poll();
}
[[gnu::noinline]] void receiver_run(WorkerEnd* end) {
  end->run();
}
}

namespace {

constexpr uint32_t kBatch = 16;
constexpr uint32_t kMtu = 4096;

struct Case {
  uint8_t opcode;
  uint32_t bytes;
  bool list;
};

const std::map<std::string, Case> kCases = {
    {"write-64", {MPRDMA_ABI_WRITE, 64, false}},
    {"write-64-list", {MPRDMA_ABI_WRITE, 64, true}},
    {"send-64", {MPRDMA_ABI_SEND, 64, false}},
    {"write-4k", {MPRDMA_ABI_WRITE, 4096, false}},
    {"write-64k", {MPRDMA_ABI_WRITE, 65536, false}},
    {"read-64k", {MPRDMA_ABI_READ, 65536, false}},
};

struct Pair {
  uint32_t qps;
  WorkerEnd a;
  WorkerEnd b;

  Pair(const std::string& path, const transport::Params& params, bool agree_modes, uint32_t count)
      : qps(count),
        a(path, 0, params, agree_modes, count, depth()),
        b(path, 1, params, agree_modes, count, depth()) {
    // Link, neighbours, connection.
    for (int i = 0; i < 1000 && !(a.link_up() && b.link_up()); ++i) idle();
    CHECK(a.link_up() && b.link_up());
    a.connect(b);
    b.connect(a);
    for (int i = 0; i < 100; ++i) idle();
  }
  void idle() {
    pass(Duration::us(100));
    a.service();
    b.service();
    a.run();
    b.run();
  }
  // Many queue pairs have no more than one batch each under way.
  [[nodiscard]] uint32_t depth() const { return qps == 1 ? WorkerEnd::kDepth : kBatch; }
  // Both ends turn to the queue pair of message i.
  void choose(uint64_t i) {
    a.choose(static_cast<uint32_t>(i % qps));
    b.choose(static_cast<uint32_t>(i % qps));
  }
  void pass(Duration time) { a.now = b.now = a.now + time; }
};

// Messages that stand in the send queue at once.
uint32_t batch_of(const Case& what) {
  return what.bytes > kMtu ? 1 : kBatch;
}

// Nothing is counted.
void warm_up(Pair& pair, const Case& what) {
  for (uint64_t i = 0; i < 2 * uint64_t{pair.qps}; ++i) {
    pair.choose(i);
    if (what.opcode == MPRDMA_ABI_SEND) pair.b.post_receive(what.bytes);
    pair.a.post(what.opcode, what.bytes);
    pair.a.run_sends();
    for (uint32_t completed = 0; completed == 0;) {
      pair.pass(Duration::us(1));
      pair.b.run();
      pair.a.run();
      completed = pair.a.poll();
      pair.b.poll();
    }
  }
}

void stream(Pair& pair, const Case& what, uint64_t messages) {
  if (pair.qps > 1) warm_up(pair, what);
  uint64_t completed = 0;
  for (uint64_t posted = 0; completed < messages;) {
    for (uint32_t i = 0; i < batch_of(what) && posted < messages; ++i, ++posted) {
      pair.choose(what.list ? posted / batch_of(what) : posted);
      const bool more = what.list && i + 1 < batch_of(what);
      if (what.opcode == MPRDMA_ABI_SEND) pair.b.post_receive(what.bytes);
      sender_post(&pair.a, what.opcode, what.bytes);
      if (!more) sender_send(&pair.a);
    }
    while (completed < posted) {
      pair.pass(Duration::us(1));
      receiver_run(&pair.b);
      sender_run(&pair.a);
      completed += sender_poll(&pair.a);
      pair.b.poll();
    }
  }
}

// Each end is sender and receiver by turns; "sender" stands for both.
void ping_pong(Pair& pair, uint64_t messages) {
  WorkerEnd* from = &pair.a;
  WorkerEnd* to = &pair.b;
  constexpr Duration kPatience = Duration::us(3);
  pair.a.keep_acks(kPatience);
  pair.b.keep_acks(kPatience);
  for (uint64_t i = 0; i < messages; ++i) {
    pair.pass(Duration::us(1));
    sender_post(from, MPRDMA_ABI_WRITE, 8);
    sender_send(from);
    receiver_run(to);
    sender_poll(to);
    std::swap(from, to);
  }
}

int run(int argc, char** argv) {
  CLI::App app("Instructions of the dataplane for each message; see bench/packet_cost");
  std::string name;
  std::string mode = "mp";
  uint64_t messages = 4000;
  uint32_t qps = 1;
  app.add_option("case", name, "What is sent")->required();
  app.add_option("--mode", mode, "mp, mp-single or roce")->capture_default_str();
  app.add_option("--messages", messages, "How many")->capture_default_str();
  app.add_option("--qps", qps, "Queue pairs, which carry the messages in turn")
      ->check(CLI::Range(1u, 10000u))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  transport::Preset preset{};
  const auto found = kCases.find(name);
  if (!transport::parse_word(mode, &preset) || (found == kCases.end() && name != "ping-pong")) {
    std::fprintf(stderr, "packet_cost: no such case or mode\n");
    return 2;
  }
  char directory[] = "/tmp/packet_cost.XXXXXX";
  CHECK(mkdtemp(directory) != nullptr);
  const std::string path = std::string(directory) + "/wire";
  uint64_t packets = messages;
  {
    // The mode mp as two engines agree on it; the others as they are configured.
    Pair pair(path, transport::Params::of(preset), preset == transport::Preset::kMp, qps);
    if (found == kCases.end()) {
      ping_pong(pair, messages);
    } else {
      stream(pair, found->second, messages);
      packets *= (found->second.bytes + kMtu - 1) / kMtu;
    }
  }
  unlink(path.c_str());
  rmdir(directory);
  std::printf("{\"messages\": %llu, \"packets\": %llu}\n",
              static_cast<unsigned long long>(messages), static_cast<unsigned long long>(packets));
  return 0;
}

}  // namespace
}  // namespace mprdma::bench

int main(int argc, char** argv) {
  return mprdma::bench::run(argc, argv);
}
