// Drives the verilated sender and OffloadSender with the same events: after each one, and after
// each packet that it lets leave, the answer and the whole context are the same, or the program
// says where they differ and ends with 1.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <vector>

#include "offload/lockstep/lockstep.hpp"
#include "offload/lockstep/sender_device.hpp"
#include "offload/lockstep/sender_traffic.hpp"

namespace mprdma::offload {
namespace {

using Kind = SenderRequest::Kind;

struct Options : LockstepOptions {
  uint32_t connections = 32;
};

// Cycles from the one in which a request is taken to its answer.
constexpr uint64_t kAnswerAfter = 15;
// Between two requests of one connection.
constexpr uint64_t kInterval = 16;

// What the events were, so that a run that shows nothing is noticed.
struct Counts {
  std::array<uint64_t, 8> kinds{};    // SenderRequest::Kind
  std::array<uint64_t, 4> packets{};  // none, new, copy, probe
  uint64_t refused = 0;
  uint64_t lost = 0;      // acknowledgements after which more is lost
  uint64_t grown = 0;     // windows
  uint64_t restarts = 0;  // of the transport timer
  uint64_t wraps = 0;     // of snd_una
  uint64_t in_turn = 0;   // requests that were taken right behind another one
  uint64_t waits = 0;     // cycles in which a request was not taken
  uint64_t resets = 0;    // with requests under way
};

class Lockstep {
 public:
  explicit Lockstep(const Options& options)
      : options_(options),
        traffic_(options.seed, options.connections),
        device_(options.device_seed(), options.mutant, traffic_.settings()),
        expected_(options.program, kAnswerAfter),
        free_at_(options.connections),
        before_(options.connections) {
    if (!options.waveform.empty()) device_.record(options.waveform);
  }

  // False: they differ.
  bool run() {
    while (done() < options_.events) {
      const SenderTraffic::Step* offered = traffic_.rests() ? nullptr : &traffic_.next();
      if (offered != nullptr && traffic_.resets() && !reset(*offered)) return false;
      if (offered != nullptr) offered = &traffic_.next();
      const SenderDevice::Cycle cycle =
          device_.step(offered != nullptr ? &offered->request : nullptr);
      if (!expected_.check(cycle.reply)) return false;
      if (offered == nullptr) {
        taken_before_ = false;
        continue;
      }
      if (!note(*offered, cycle.taken)) return false;
    }
    return true;
  }

  [[nodiscard]] uint64_t done() const { return expected_.done(); }
  [[nodiscard]] bool shows_everything() const {
    const Counts& c = counts_;
    for (const uint64_t of : c.kinds) {
      if (of == 0) return false;
    }
    for (const uint64_t of : c.packets) {
      if (of == 0) return false;
    }
    return c.refused > 0 && c.lost > 0 && c.grown > 0 && c.restarts > 0 && c.wraps > 0 &&
           c.waits > 0 && c.resets > 0 && (options_.connections == 1 || c.in_turn > 0);
  }
  void print() const {
    const Counts& c = counts_;
    fmt::print("{}: {} requests, no difference; {} cycles\n", options_.program, done(),
               expected_.cycles());
    fmt::print("  loads {}, acknowledgements {} (refused {}), burst timers {}, timeouts {}, ",
               c.kinds[0], c.kinds[1], c.refused, c.kinds[2], c.kinds[3]);
    fmt::print("posts {}, wakes {}, asks {}, nexts {},\n", c.kinds[4], c.kinds[5], c.kinds[6],
               c.kinds[7]);
    fmt::print("  packets: new {}, copies {}, probes {}; losses {}, grown {}, restarts {}, ",
               c.packets[1], c.packets[2], c.packets[3], c.lost, c.grown, c.restarts);
    fmt::print("wraps {},\n  taken in turn {}, cycles waited {}, resets {}\n", c.wraps, c.in_turn,
               c.waits, c.resets);
  }

 private:
  bool note(const SenderTraffic::Step& step, bool taken) {
    const uint32_t connection = step.request.connection;
    // Initiation interval: 1, and kInterval for requests of one connection.
    if (taken != (expected_.cycles() >= free_at_[connection])) {
      fmt::print("{}: event {}: a request is taken where it has to wait, or waits\n",
                 options_.program, done());
      return false;
    }
    counts_.waits += taken ? 0 : 1;
    if (taken) {
      counts_.in_turn += taken_before_ ? 1 : 0;
      free_at_[connection] = expected_.cycles() + kInterval;
      count(step);
      expected_.expect(step.request, step.reply);
      traffic_.take();
    }
    taken_before_ = taken;
    return true;
  }
  // A cycle in reset, in which nothing is taken.
  bool reset(const SenderTraffic::Step& offered) {
    if (device_.reset(offered.request)) {
      fmt::print("{}: event {}: a request is taken in reset\n", options_.program, done());
      return false;
    }
    const auto lost = expected_.reset();
    counts_.resets += lost.empty() ? 0 : 1;
    for (const auto& one : lost) traffic_.forget(one.request.connection);
    for (uint64_t& at : free_at_) at = 0;
    return true;
  }
  void count(const SenderTraffic::Step& step) {
    SenderState& before = before_[step.request.connection];
    const SenderState& after = step.reply.state;
    const bool ack = step.request.kind == Kind::kAck;
    ++counts_.kinds[static_cast<size_t>(step.request.kind)];
    ++counts_.packets[step.reply.packet];
    counts_.refused += step.reply.refused ? 1 : 0;
    counts_.lost += ack && any(after.context.lost & ~before.context.lost) ? 1 : 0;
    counts_.grown += ack && after.context.window_raw > before.context.window_raw ? 1 : 0;
    counts_.restarts += step.reply.restarts ? 1 : 0;
    counts_.wraps += ack && after.una < before.una ? 1 : 0;
    before = after;
  }

  Options options_;
  SenderTraffic traffic_;
  SenderDevice device_;
  Expectations<SenderRequest, SenderReply> expected_;
  std::vector<uint64_t> free_at_;  // cycles
  std::vector<SenderState> before_;
  bool taken_before_ = false;
  Counts counts_;
};

}  // namespace
}  // namespace mprdma::offload

int main(int argc, char** argv) {
  mprdma::offload::Options options;
  options.program = std::filesystem::path(argv[0]).filename();
  CLI::App app("Compares the RTL sender with the software's, event by event");
  options.add_to(app);
  app.add_option("--connections", options.connections, "that are used")
      ->check(CLI::Range(1u, mprdma::offload::SenderDevice::kConnections));
  CLI11_PARSE(app, argc, argv);
  mprdma::offload::Lockstep lockstep(options);
  return run_to_the_end(lockstep, options, fmt::format(" --connections {}", options.connections));
}
