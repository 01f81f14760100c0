// Drives the verilated receiver and OffloadReceiver with the same events: after each one the answer
// and the whole context are the same, or the program says where they differ and ends with 1.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <optional>

#include "offload/lockstep/lockstep.hpp"
#include "offload/lockstep/receiver_device.hpp"
#include "offload/lockstep/receiver_traffic.hpp"

namespace mprdma::offload {
namespace {

using transport::OffloadAnswer;
using transport::OffloadContext;
using transport::OffloadReceiver;
using transport::RoceReceiver;

struct Options : LockstepOptions {
  uint32_t connections = 8;
  bool wait = false;  // for each answer before the next request
};

// What the events were, so that a run that shows nothing is noticed.
struct Counts {
  uint64_t placed = 0;
  uint64_t duplicates = 0;
  uint64_t overflows = 0;
  uint64_t too_early = 0;
  uint64_t behind_hole = 0;
  uint64_t completions = 0;
  uint64_t wraps = 0;          // of PSNs
  uint64_t message_wraps = 0;  // of message numbers
  uint64_t windows = 0;        // 64 packets that were passed at once
  uint64_t all_complete = 0;   // the same, and each completed a message
  uint64_t loads = 0;
  uint64_t waits = 0;    // cycles in which a request was not taken
  uint64_t in_turn = 0;  // requests that were taken right behind another one
  uint64_t resets = 0;   // with requests under way
};

class Reference {
 public:
  ReceiverReply take(const ReceiverRequest& request) {
    State& state = states_[request.connection];
    ReceiverReply reply;
    reply.connection = request.connection;
    if (request.load) {
      state.context.received_low = request.context.slots_low;
      state.context.received_high = request.context.slots_high;
      state.roce = {.nxt = Psn(request.context.nxt), .msn = request.context.msn};
    } else {
      const OffloadAnswer answer =
          OffloadReceiver::receive(&state.context, &state.roce, request.packet);
      reply.placed = answer.placed;
      reply.duplicate = answer.duplicate;
      reply.nack = static_cast<uint8_t>(answer.nack);
      reply.behind_hole = answer.behind_hole;
      reply.map = answer.map;
      reply.completions = answer.completions;
    }
    reply.context = {.slots_low = state.context.received_low,
                     .slots_high = state.context.received_high,
                     .msn = state.roce.msn,
                     .nxt = state.roce.nxt.value()};
    return reply;
  }
  [[nodiscard]] const RoceReceiver& roce(uint32_t connection) const {
    return states_[connection].roce;
  }

 private:
  struct State {
    OffloadContext context;
    RoceReceiver roce;
  };
  std::array<State, ReceiverDevice::kConnections> states_;
};

void count(const ReceiverRequest& request, const ReceiverReply& reply, const RoceReceiver& before,
           Counts* counts) {
  if (request.load) {
    ++counts->loads;
    return;
  }
  counts->placed += reply.placed ? 1 : 0;
  counts->duplicates += reply.duplicate ? 1 : 0;
  counts->overflows += reply.nack == 1 ? 1 : 0;
  counts->too_early += reply.nack == 3 ? 1 : 0;
  counts->behind_hole += reply.behind_hole ? 1 : 0;
  counts->completions += reply.completions;
  counts->wraps += reply.context.nxt < before.nxt.value() ? 1 : 0;
  counts->message_wraps += reply.context.msn < before.msn ? 1 : 0;
  const bool window = before.nxt.distance_to(Psn(reply.context.nxt)) == 64;
  counts->windows += window ? 1 : 0;
  counts->all_complete += window && reply.completions == 64 ? 1 : 0;
}

// Cycles from the one in which a request is taken to its answer.
constexpr uint64_t kAnswerAfter = 3;

class Lockstep {
 public:
  explicit Lockstep(const Options& options)
      : options_(options),
        device_(options.device_seed(), options.mutant),
        traffic_(options.seed, options.connections),
        expected_(options.program, kAnswerAfter) {
    if (!options.waveform.empty()) device_.record(options.waveform);
  }

  // False: they differ.
  bool run() {
    uint64_t begun = 0;
    while (expected_.done() < options_.events) {
      const bool may = begun < options_.events && (!options_.wait || expected_.empty());
      if (!offered_ && may && !traffic_.rests()) offered_ = next();
      if (offered_ && traffic_.resets() && !reset()) return false;
      const ReceiverDevice::Cycle cycle = device_.step(offered_ ? &*offered_ : nullptr);
      if (!expected_.check(cycle.reply)) return false;
      if (offered_ && cycle.taken != may_be_taken(offered_->connection)) {
        fmt::print("{}: event {}: a request is taken where it has to wait, or waits\n",
                   options_.program, done());
        return false;
      }
      if (cycle.taken) ++begun;
      note_taken(cycle.taken);
    }
    for (int i = 0; i < 8; ++i) {
      if (!expected_.check(device_.step(nullptr).reply)) return false;
    }
    return true;
  }

  [[nodiscard]] bool shows_everything() const {
    const Counts& c = counts_;
    return c.placed > 0 && c.duplicates > 0 && c.overflows > 0 && c.too_early > 0 &&
           c.behind_hole > 0 && c.completions > 0 && c.wraps > 0 && c.message_wraps > 0 &&
           c.windows > 0 && c.all_complete > 0 && c.loads > 0 &&
           (options_.wait || (c.waits > 0 && c.resets > 0)) &&
           (options_.wait || options_.connections == 1 || c.in_turn > 0);
  }
  [[nodiscard]] uint64_t done() const { return expected_.done(); }
  void print() const {
    const Counts& c = counts_;
    fmt::print("{}: {} events, no difference; {} cycles ({:.3f} an event)\n", options_.program,
               done(), expected_.cycles(),
               static_cast<double>(expected_.cycles()) / static_cast<double>(done()));
    fmt::print(
        "  placed {}, duplicates {}, window overflows {}, synchronise too early {}, behind a ",
        c.placed, c.duplicates, c.overflows, c.too_early);
    fmt::print("hole {}, completions {}, wraps {} and {}, whole windows {} and {}, loads {},\n",
               c.behind_hole, c.completions, c.wraps, c.message_wraps, c.windows, c.all_complete,
               c.loads);
    fmt::print("  taken in turn {}, cycles waited {}, resets {}\n", c.in_turn, c.waits, c.resets);
  }

 private:
  ReceiverRequest next() {
    return traffic_.next([this](uint32_t c) { return reference_.roce(c).nxt; });
  }
  // Initiation interval: 1, and 3 for packets of one connection.
  [[nodiscard]] bool may_be_taken(uint32_t connection) const {
    return connection != before_[0] && connection != before_[1];
  }
  void note_taken(bool taken) {
    if (offered_ && !taken) ++counts_.waits;
    before_[1] = before_[0];
    before_[0].reset();
    if (!taken) return;
    if (before_[1]) ++counts_.in_turn;
    const ReceiverRequest& request = *offered_;
    const RoceReceiver before = reference_.roce(request.connection);
    const ReceiverReply reply = reference_.take(request);
    count(request, reply, before, &counts_);
    expected_.expect(request, reply);
    before_[0] = request.connection;
    offered_.reset();
  }
  // A cycle in reset, in which nothing is taken.
  bool reset() {
    if (device_.reset(*offered_)) {
      fmt::print("{}: event {}: a request is taken in reset\n", options_.program, done());
      return false;
    }
    const auto lost = expected_.reset();
    counts_.resets += lost.empty() ? 0 : 1;
    for (const auto& one : lost) traffic_.forget(one.request.connection);
    before_ = {};
    // Its connection may be one of these.
    traffic_.forget(offered_->connection);
    offered_ = next();
    return true;
  }

  Options options_;
  ReceiverDevice device_;
  ReceiverTraffic traffic_;
  Reference reference_;
  Expectations<ReceiverRequest, ReceiverReply> expected_;
  std::optional<ReceiverRequest> offered_;
  std::array<std::optional<uint32_t>, 2> before_;  // connections, taken one and two cycles ago
  Counts counts_;
};

}  // namespace
}  // namespace mprdma::offload

int main(int argc, char** argv) {
  mprdma::offload::Options options;
  options.program = std::filesystem::path(argv[0]).filename();
  CLI::App app("Compares the RTL receiver with the software's, event by event");
  options.add_to(app);
  app.add_option("--connections", options.connections, "that are used")
      ->check(CLI::Range(1u, mprdma::offload::ReceiverDevice::kConnections));
  app.add_flag("--wait", options.wait, "for each answer before the next request");
  CLI11_PARSE(app, argc, argv);
  mprdma::offload::Lockstep lockstep(options);
  const std::string own =
      fmt::format(" --connections {}{}", options.connections, options.wait ? " --wait" : "");
  return run_to_the_end(lockstep, options, own);
}
