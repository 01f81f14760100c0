// Drives the verilated receiver and OffloadReceiver with the same events: after each one the answer
// and the whole context are the same, or the program says where they differ and ends with 1.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <deque>
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
};

// What the events were, so that a run that shows nothing is noticed.
struct Counts {
  uint64_t placed = 0;
  uint64_t duplicates = 0;
  uint64_t overflows = 0;
  uint64_t too_early = 0;
  uint64_t behind_hole = 0;
  uint64_t completions = 0;
  uint64_t wraps = 0;
  uint64_t loads = 0;
  uint64_t waits = 0;  // cycles in which a request was not taken
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
  [[nodiscard]] Psn nxt(uint32_t connection) const { return states_[connection].roce.nxt; }

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

void count(const ReceiverRequest& request, const ReceiverReply& reply, Psn before, Counts* counts) {
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
  counts->wraps += reply.context.nxt < before.value() ? 1 : 0;
}

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
    ReceiverRequest request;
    bool offered = false;
    while (done_ < options_.events) {
      const bool may = begun < options_.events && (!options_.wait || expected_.empty());
      if (!offered && may) {
        request = traffic_.next([&](uint32_t c) { return reference_.nxt(c); });
        offered = true;
      }
      const ReceiverDevice::Cycle cycle = device_.step(offered ? &request : nullptr);
      if (cycle.reply && !compare(*cycle.reply)) return false;
      if (offered && !cycle.taken) ++counts_.waits;
      if (offered && cycle.taken) {
        const Psn before = reference_.nxt(request.connection);
        expected_.push_back({request, reference_.take(request)});
        count(request, expected_.back().reply, before, &counts_);
        offered = false;
        ++begun;
        idle_ = 0;
      } else if (++idle_ > 16) {
        fmt::print("receiver_lockstep: event {}: nothing comes\n", done_);
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool shows_everything() const {
    const Counts& c = counts_;
    return c.placed > 0 && c.duplicates > 0 && c.overflows > 0 && c.too_early > 0 &&
           c.behind_hole > 0 && c.completions > 0 && c.wraps > 0 && c.loads > 0 &&
           (options_.wait || c.waits > 0);
  }
  void print() const {
    const Counts& c = counts_;
    fmt::print(
        "receiver_lockstep: {} events, no difference; {} cycles ({:.3f} an event)\n"
        "  placed {}, duplicates {}, window overflows {}, synchronise too early {}, behind a hole "
        "{}, completions {}, wraps {}, loads {}, cycles waited {}\n",
        done_, device_.cycles(), static_cast<double>(device_.cycles()) / static_cast<double>(done_),
        c.placed, c.duplicates, c.overflows, c.too_early, c.behind_hole, c.completions, c.wraps,
        c.loads, c.waits);
  }

 private:
  struct Expected {
    ReceiverRequest request;
    ReceiverReply reply;
  };

  bool compare(const ReceiverReply& reply) {
    if (expected_.empty()) {
      fmt::print("receiver_lockstep: event {}: an answer that nothing asks for\n  {}\n", done_,
                 text(reply));
      return false;
    }
    const Expected wanted = expected_.front();
    expected_.pop_front();
    if (reply != wanted.reply) {
      fmt::print(
          "receiver_lockstep: event {} differs\n  request  {}\n  software {}\n  hardware {}\n",
          done_, text(wanted.request), text(wanted.reply), text(reply));
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
  Counts counts_;
  uint64_t done_ = 0;
  uint32_t idle_ = 0;  // cycles in which nothing was taken
};

int run(const Options& options) {
  Lockstep lockstep(options);
  if (!lockstep.run()) {
    fmt::print("replay: receiver_lockstep --seed {} --connections {} --events {}{}{}", options.seed,
               options.connections, options.events, options.wait ? " --wait" : "",
               options.mutant != 0 ? fmt::format(" --mutant {}", options.mutant) : "");
    fmt::print(" --waveform receiver.vcd\n");
    return 1;
  }
  lockstep.print();
  if (lockstep.shows_everything()) return 0;
  fmt::print("receiver_lockstep: the events do not show everything\n");
  return 1;
}

}  // namespace
}  // namespace mprdma::offload

int main(int argc, char** argv) {
  mprdma::offload::Options options;
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
