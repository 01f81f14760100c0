// explore: every state that two queue pairs of the shipping transport reach, with a network that
// loses, reorders and duplicates what it likes, within bounds.
//
//   explore --messages write2,send1,read2   the messages, with their packets
//   explore --mode M                        mp, mp-paper, irn, roce, roce-gb0
//   explore --placement P                   ordered, standard, relaxed
//   explore --losses N --overtakes N ..     how often the network may do what (see --help)
//   explore .. --replay EVENTS              one run of the same bounds, with what happens
//
// A finding prints the events that lead to it, as --replay takes them, and the exit status is 1.

#include <signal.h>
#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <string>

#include "tests/explore/explorer.hpp"
#include "tests/explore/scene.hpp"
#include "transport/core/param_words.hpp"

namespace {

using mprdma::explore::Event;
using mprdma::explore::kMessagesMax;
using mprdma::explore::kPacketsMax;
using mprdma::explore::kUnlimited;
using mprdma::explore::Message;
using mprdma::explore::Search;
using mprdma::explore::Setup;
using mprdma::transport::Params;
using mprdma::transport::PathPolicy;
using mprdma::transport::PlacementPolicy;
using mprdma::transport::WorkOpcode;

std::string g_options;

// A failed CHECK or a crash is a finding, too.
void on_fatal_signal(int) {
  const std::string text = "explore: crashed\nreplay: " + g_options + "--replay " +
                           to_string(mprdma::explore::path_under_way()) + "\n";
  (void)!write(STDOUT_FILENO, text.data(), text.size());
  _exit(1);
}

bool parse_message(std::string text, Message& message) {
  const bool from_b = text.starts_with("b:");
  if (from_b) text.erase(0, 2);
  constexpr std::pair<const char*, WorkOpcode> kKinds[] = {
      {"write", WorkOpcode::kWrite}, {"send", WorkOpcode::kSend}, {"read", WorkOpcode::kRead}};
  for (const auto& [name, opcode] : kKinds) {
    const size_t length = std::string(name).size();
    if (text.compare(0, length, name) != 0 || text.size() != length + 1) continue;
    message = {opcode, static_cast<uint32_t>(text[length] - '0'), from_b ? 1u : 0u};
    return message.packets >= 1 && message.packets <= kPacketsMax;
  }
  return false;
}

// What the command line says.
struct Options {
  std::string mode = "mp";
  std::string placement = "standard";
  std::vector<std::string> messages = {"write2", "send1", "read2"};
  uint32_t losses = 1;
  uint32_t duplicate_packets = 1;
  uint32_t duplicate_acks = 1;
  uint32_t overtakes = 1;
  uint32_t delays = 0;
  uint32_t window_slots = 4;
  uint32_t held_budget = 8;
  // Many copies of a packet in flight are many states that do not differ in what they show.
  uint32_t timeout_tries = 1;
  bool one_path = false;
  bool late_posts = false;
  bool late_receives = false;
  bool owe_acks = false;
  uint64_t states_max = UINT64_MAX;
  bool counters = false;
  std::string events;
};

void add_options(CLI::App& app, Options& o) {
  app.add_option("--mode", o.mode, "mp, mp-paper, irn, roce or roce-gb0")
      ->check(CLI::IsMember({"mp", "mp-paper", "irn", "roce", "roce-gb0"}));
  app.add_option("--placement", o.placement, "ordered, standard or relaxed; mode mp")
      ->check(CLI::IsMember({"ordered", "standard", "relaxed"}));
  app.add_option("--messages", o.messages,
                 "write, send or read, each with its packets, 1 to 4; b:write1 is posted by b")
      ->delimiter(',');
  const auto budget = CLI::Range(0u, uint32_t{kUnlimited});
  app.add_option("--losses", o.losses, "packets and acknowledgements lost")->check(budget);
  app.add_option("--duplicate-packets", o.duplicate_packets, "packets duplicated")->check(budget);
  app.add_option("--duplicate-acks", o.duplicate_acks, "acknowledgements duplicated")
      ->check(budget);
  app.add_option("--overtakes", o.overtakes,
                 "deliveries ahead of an older packet; 255: without limit")
      ->check(budget);
  app.add_option("--delays", o.delays, "timers that expire although packets or posts are due")
      ->check(budget);
  app.add_option("--window-slots", o.window_slots, "L, in the modes mp, mp-paper and irn")
      ->check(CLI::IsMember({"4", "8"}));
  app.add_option("--held", o.held_budget, "frames that a side may hold")->check(CLI::Range(0, 8));
  app.add_option("--timeout-tries", o.timeout_tries, "Params::timeout_tries")
      ->check(CLI::Range(1, 4));
  app.add_flag("--one-path", o.one_path, "path policy single, which has fewer states");
  app.add_flag("--late-posts", o.late_posts, "requests are posted at any time");
  app.add_flag("--late-receives", o.late_receives, "receives are posted at any time");
  app.add_flag("--owe-acks", o.owe_acks, "acknowledgements are owed, and sent at any time");
  app.add_option("--states", o.states_max, "states to enter, at most");
  app.add_flag("--counters", o.counters, "print what the transport counted, over all events");
  app.add_option("--replay", o.events, "the events of one run");
}

// The parameters of the mode at a window of L slots.
Params make_params(const Options& o) {
  Params params = o.mode == "roce"       ? Params::roce()
                  : o.mode == "roce-gb0" ? Params::roce_gb0()
                  : o.mode == "mp-paper" ? Params::mp_paper()
                  : o.mode == "irn"      ? Params::irn()
                                         : Params::mp();
  params.placement = o.placement == "ordered"   ? PlacementPolicy::kOrdered
                     : o.placement == "relaxed" ? PlacementPolicy::kRelaxed
                                                : PlacementPolicy::kStandard;
  if (o.mode == "roce" || o.mode == "roce-gb0") return params;
  params.timeout_tries = o.timeout_tries;
  params.window_slots = params.initial_window = o.window_slots;
  params.window_max = 2 * o.window_slots;
  params.reorder_delta = o.window_slots / 2;
  if (params.loss_trigger > 0) params.loss_trigger = o.window_slots - 1;
  if (o.one_path) params.path_policy = PathPolicy::kSingle;
  return params;
}

bool make_setup(const Options& o, Setup& setup) {
  setup.params = make_params(o);
  if (o.messages.empty() || o.messages.size() > kMessagesMax) return false;
  for (const std::string& text : o.messages) {
    if (!parse_message(text, setup.messages.emplace_back())) return false;
  }
  setup.budgets = {.losses = static_cast<uint8_t>(o.losses),
                   .duplicate_packets = static_cast<uint8_t>(o.duplicate_packets),
                   .duplicate_acks = static_cast<uint8_t>(o.duplicate_acks),
                   .overtakes = static_cast<uint8_t>(o.overtakes),
                   .delays = static_cast<uint8_t>(o.delays)};
  setup.held_budget = o.held_budget;
  setup.late_posts = o.late_posts;
  setup.late_receives = o.late_receives;
  setup.owes_acks = o.owe_acks;
  return true;
}

int run_replay(Setup& setup, const std::string& text) {
  std::vector<Event> events;
  if (!parse_events(text, events)) {
    fmt::print(stderr, "explore: --replay {} is no list of events\n", text);
    return 2;
  }
  setup.verbose = true;
  setlinebuf(stdout);
  const std::string finding = replay(setup, events);
  fmt::print("explore: {}\n", finding.empty() ? "no promise is broken" : finding);
  return finding.empty() ? 0 : 1;
}

void print_counters(const mprdma::transport::TransportCounters& counters) {
  counters.for_each([](std::string_view name, uint64_t value) {
    if (value > 0) fmt::print("{:>12} {}\n", value, name);
  });
}

int run_search(const Setup& setup, const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const Search search = explore(setup, options.states_max);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print("explore: {}: {} states{}, {} events, {} ends, depth {}, {:.1f} s\n",
             search.finding.empty() ? "no promise is broken" : search.finding, search.states,
             search.cut ? " and more" : "", search.events, search.ends, search.depth,
             seconds.count());
  if (options.counters) print_counters(search.counters);
  if (search.finding.empty()) return 0;
  const std::vector<Event> events = shrink(setup, search.path);
  fmt::print("replay: {}--replay {}\n", g_options, to_string(events));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("every state that two queue pairs reach with a hostile network, within bounds");
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  for (int i = 0; i < argc && std::string(argv[i]) != "--replay"; ++i) {
    g_options += std::string(argv[i]) + " ";
  }
  Setup setup;
  if (!make_setup(options, setup)) {
    fmt::print(stderr, "explore: --messages: at most {}, like write2,send1,read3\n", kMessagesMax);
    return 2;
  }
  for (const int s : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) signal(s, on_fatal_signal);
  if (app.count("--replay") > 0) return run_replay(setup, options.events);
  return run_search(setup, options);
}
