// Drives the verilated receiver and OffloadReceiver with the same events: after each one the answer
// and the whole context are the same, or the program says where they differ and ends with 1.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "offload/lockstep/receiver_device.hpp"
#include "offload/lockstep/receiver_traffic.hpp"

namespace mprdma::offload {
namespace {

using transport::OffloadAnswer;
using transport::OffloadContext;
using transport::OffloadReceiver;
using transport::RoceReceiver;

struct Options {
  uint64_t events = 1'000'000;
  uint64_t seed = 1;
  uint32_t connections = 8;
  bool wait = false;
  uint32_t mutant = 0;
  std::string waveform;  // a file, or empty
  std::string program;
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

std::string text(const ReceiverReply& r) {
  return fmt::format(
      "connection {}: placed {} duplicate {} nack {} behind_hole {} map {:016x} completions {}, "
      "rcv_nxt {} msn {} slots {:016x}{:016x}",
      r.connection, r.placed, r.duplicate, r.nack, r.behind_hole, r.map, r.completions,
      r.context.nxt, r.context.msn, r.context.slots_high, r.context.slots_low);
}

std::string text(const ReceiverRequest& r) {
  if (r.load) return fmt::format("connection {}: load", r.connection);
  return fmt::format("connection {}: PSN {} slot {} synchronise {} packets_before {}", r.connection,
                     r.packet.psn.value(), static_cast<int>(r.packet.slot), r.packet.synchronise,
                     r.packet.packets_before);
}

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
        device_(static_cast<int>(options.seed % 1'000'000) + 1, options.mutant),
        traffic_(options.seed, options.connections) {
    if (!options.waveform.empty()) device_.record(options.waveform);
  }

  // False: they differ.
  bool run() {
    uint64_t begun = 0;
    while (done_ < options_.events) {
      const bool may = begun < options_.events && (!options_.wait || expected_.empty());
      if (!offered_ && may && !traffic_.rests()) {
        offered_ = traffic_.next([&](uint32_t c) { return reference_.roce(c).nxt; });
      }
      if (offered_ && traffic_.resets() && !reset()) return false;
      const ReceiverDevice::Cycle cycle = device_.step(offered_ ? &*offered_ : nullptr);
      if (cycle.reply ? !compare(*cycle.reply) : is_late()) return false;
      if (offered_ && cycle.taken != may_be_taken(offered_->connection)) {
        fmt::print("{}: event {}: a request is taken where it has to wait, or waits\n",
                   options_.program, done_);
        return false;
      }
      if (cycle.taken) ++begun;
      note_taken(cycle.taken);
    }
    for (int i = 0; i < 8; ++i) {
      const ReceiverDevice::Cycle cycle = device_.step(nullptr);
      if (cycle.reply && !compare(*cycle.reply)) return false;
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
  [[nodiscard]] uint64_t done() const { return done_; }
  void print() const {
    const Counts& c = counts_;
    fmt::print("{}: {} events, no difference; {} cycles ({:.3f} an event)\n", options_.program,
               done_, device_.cycles(),
               static_cast<double>(device_.cycles()) / static_cast<double>(done_));
    fmt::print(
        "  placed {}, duplicates {}, window overflows {}, synchronise too early {}, behind a ",
        c.placed, c.duplicates, c.overflows, c.too_early);
    fmt::print("hole {}, completions {}, wraps {} and {}, whole windows {} and {}, loads {},\n",
               c.behind_hole, c.completions, c.wraps, c.message_wraps, c.windows, c.all_complete,
               c.loads);
    fmt::print("  taken in turn {}, cycles waited {}, resets {}\n", c.in_turn, c.waits, c.resets);
  }

 private:
  struct Expected {
    ReceiverRequest request;
    ReceiverReply reply;
    uint64_t at;  // the cycle in which the request was taken
  };

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
    expected_.push_back({request, reference_.take(request), device_.cycles()});
    count(request, expected_.back().reply, before, &counts_);
    before_[0] = request.connection;
    offered_.reset();
  }
  // A cycle in reset: the device forgets what is under way, and takes nothing.
  bool reset() {
    if (device_.reset(*offered_)) {
      fmt::print("{}: event {}: a request is taken in reset\n", options_.program, done_);
      return false;
    }
    counts_.resets += expected_.empty() ? 0 : 1;
    for (const Expected& lost : expected_) traffic_.forget(lost.request.connection);
    done_ += expected_.size();
    expected_.clear();
    before_ = {};
    // Its connection may be one of these.
    traffic_.forget(offered_->connection);
    offered_ = traffic_.next([&](uint32_t c) { return reference_.roce(c).nxt; });
    return true;
  }
  // An answer comes three cycles after its request was taken.
  [[nodiscard]] bool is_late() const {
    const bool late = !expected_.empty() && device_.cycles() - expected_.front().at >= kAnswerAfter;
    if (late) fmt::print("{}: event {}: no answer in time\n", options_.program, done_);
    return late;
  }

  bool compare(const ReceiverReply& reply) {
    if (expected_.empty()) {
      fmt::print("{}: event {}: an answer that nothing asks for\n  {}\n", options_.program, done_,
                 text(reply));
      return false;
    }
    const Expected wanted = expected_.front();
    if (device_.cycles() - wanted.at != kAnswerAfter) {
      fmt::print("{}: event {}: an answer after {} cycles\n", options_.program, done_,
                 device_.cycles() - wanted.at);
      return false;
    }
    expected_.pop_front();
    if (reply != wanted.reply) {
      fmt::print("{}: event {} differs\n  request  {}\n  software {}\n  hardware {}\n",
                 options_.program, done_, text(wanted.request), text(wanted.reply), text(reply));
      return false;
    }
    ++done_;
    return true;
  }

  Options options_;
  ReceiverDevice device_;
  ReceiverTraffic traffic_;
  Reference reference_;
  std::deque<Expected> expected_;
  std::optional<ReceiverRequest> offered_;
  std::array<std::optional<uint32_t>, 2> before_;  // connections, taken one and two cycles ago
  Counts counts_;
  uint64_t done_ = 0;
};

int run(const Options& options) {
  Lockstep lockstep(options);
  if (!lockstep.run()) {
    // So many more that what disturbs the pipeline is the same.
    fmt::print("replay: {} --seed {} --connections {} --events {}{}{}", options.program,
               options.seed, options.connections, lockstep.done() + 16,
               options.wait ? " --wait" : "",
               options.mutant != 0 ? fmt::format(" --mutant {}", options.mutant) : "");
    fmt::print(" --waveform receiver.vcd\n");
    return 1;
  }
  lockstep.print();
  if (lockstep.shows_everything()) return 0;
  fmt::print("{}: the events do not show everything\n", options.program);
  return 1;
}

}  // namespace
}  // namespace mprdma::offload

int main(int argc, char** argv) {
  mprdma::offload::Options options;
  options.program = std::filesystem::path(argv[0]).filename();
  CLI::App app("Compares the RTL receiver with the software's, event by event");
  app.add_option("--events", options.events, "requests");
  app.add_option("--seed", options.seed, "of the traffic, and of what registers hold at first");
  app.add_option("--connections", options.connections, "that are used")
      ->check(CLI::Range(1u, mprdma::offload::ReceiverDevice::kConnections));
  app.add_flag("--wait", options.wait, "for each answer before the next request");
  app.add_option("--mutant", options.mutant, "of the RTL, where they are built in");
  app.add_option("--waveform", options.waveform, "all signals to this file, as VCD");
  CLI11_PARSE(app, argc, argv);
  return mprdma::offload::run(options);
}
