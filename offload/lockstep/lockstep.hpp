// What the programs of lock-step share: options, the answers that are due, and how a run ends.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace mprdma::offload {

struct LockstepOptions {
  uint64_t events = 1'000'000;
  uint64_t seed = 1;
  uint32_t mutant = 0;
  std::string waveform;  // a file, or empty
  std::string program;

  void add_to(CLI::App& app) {
    app.add_option("--events", events, "requests");
    app.add_option("--seed", seed, "of the requests, and of what registers hold at first");
    app.add_option("--mutant", mutant, "of the RTL, where they are built in");
    app.add_option("--waveform", waveform, "all signals to this file, as VCD");
  }
  // Of the device: Verilator takes 31 bits, and 0 is its own choice.
  [[nodiscard]] int device_seed() const { return static_cast<int>(seed % 1'000'000) + 1; }
};

// The answers of the reference, in order. Each is due a fixed number of cycles after its request
// was taken, and nothing else may come. Request and Reply have text(); Reply has ==.
template <class Request, class Reply>
class Expectations {
 public:
  struct Expected {
    Request request;
    Reply reply;
    uint64_t at;  // the cycle in which the request was taken
  };

  Expectations(std::string program, uint64_t latency)
      : program_(std::move(program)), latency_(latency) {}

  void expect(const Request& request, const Reply& reply) {
    waiting_.push_back({request, reply, cycle_});
  }
  // A cycle begins, and `answer` is what the device gives in it. False: it is not what is due.
  bool check(const std::optional<Reply>& answer) {
    ++cycle_;
    const bool due = !waiting_.empty() && cycle_ - waiting_.front().at == latency_;
    if (due != answer.has_value()) {
      fmt::print("{}: event {}: {}\n", program_, done_,
                 due ? "no answer in time" : "an answer that nothing asks for");
      return false;
    }
    if (!due) return true;
    const Expected& wanted = waiting_.front();
    if (*answer != wanted.reply) {
      fmt::print("{}: event {} differs\n  request  {}\n  software {}\n  hardware {}\n", program_,
                 done_, wanted.request.text(), wanted.reply.text(), answer->text());
      return false;
    }
    waiting_.pop_front();
    ++done_;
    return true;
  }
  // A cycle in reset: the device forgets what is under way, which is returned.
  std::deque<Expected> reset() {
    ++cycle_;
    done_ += waiting_.size();
    return std::exchange(waiting_, {});
  }

  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  // Requests that were answered or forgotten.
  [[nodiscard]] uint64_t done() const { return done_; }
  [[nodiscard]] uint64_t cycles() const { return cycle_; }

 private:
  std::string program_;
  uint64_t latency_;
  std::deque<Expected> waiting_;
  uint64_t cycle_ = 0;
  uint64_t done_ = 0;
};

// Runs, and says how to repeat what differs, with `own` options of the program. The status of the
// process: 0 only if the requests showed everything, too.
template <class Lockstep>
int run_to_the_end(Lockstep& lockstep, const LockstepOptions& options, const std::string& own) {
  if (!lockstep.run()) {
    // So many more that what disturbs the pipeline is the same.
    fmt::print("replay: {} --seed {} --events {}{}{} --waveform {}.vcd\n", options.program,
               options.seed, lockstep.done() + 16, own,
               options.mutant != 0 ? fmt::format(" --mutant {}", options.mutant) : "",
               options.program);
    return 1;
  }
  lockstep.print();
  if (lockstep.shows_everything()) return 0;
  fmt::print("{}: the requests do not show everything\n", options.program);
  return 1;
}

}  // namespace mprdma::offload
