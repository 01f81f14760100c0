#include "tests/explore/explorer.hpp"

#include <algorithm>
#include <deque>

#include "tests/explore/state_hash.hpp"
#include "tests/explore/world.hpp"
#include "tests/swarm/failure.hpp"

namespace mprdma::explore {

namespace {

std::vector<Event> g_path;

bool same(const Event& a, const Event& b) {
  return a.kind == b.kind && a.side == b.side && a.index == b.index;
}

// The transport must not take memory that no snapshot has.
void apply(World& world, const Event& event, bool verbose) {
  g_path.push_back(event);
  scrub_stack();
  const uint64_t before = heap_allocations();
  world.apply(event);
  swarm::expect(verbose || heap_allocations() == before, "the transport allocates memory");
}

class Explorer {
 public:
  Explorer(const Setup& setup, uint64_t states_max) : world_(setup), states_max_(states_max) {}

  Search run() {
    g_path.clear();
    try {
      enter();
      while (depth_ > 0) step();
    } catch (const swarm::Failure& failure) {
      search_.finding = failure.what;
      search_.path = g_path;
    }
    search_.states = visited_.size();
    search_.counters = world_.counters();
    return search_;
  }

 private:
  // A state on the way to the current one.
  struct Level {
    Snapshot state;
    std::vector<Event> events;
    size_t next = 0;
  };

  // The world is in a state that may be new.
  void enter() {
    if (!visited_.insert(world_.hash())) return;
    swarm::expect(depth_ < kDepthMax, "a run without end");
    search_.depth = std::max(search_.depth, depth_);
    if (visited_.size() > states_max_) {
      search_.cut = true;
      return go_on_fairly();
    }
    if (levels_.size() == depth_) levels_.emplace_back();
    Level& level = levels_[depth_];
    world_.list_events(level.events);
    if (level.events.empty()) {
      ++search_.ends;
      return world_.check_end();
    }
    world_.save(level.state);
    level.next = 0;
    ++depth_;
  }

  void step() {
    Level& level = levels_[depth_ - 1];
    if (level.next == level.events.size()) {
      --depth_;
      return;
    }
    world_.restore(level.state);
    g_path.resize(depth_ - 1);
    ++search_.events;
    apply(world_, level.events[level.next++], false);
    enter();
  }

  void go_on_fairly() {
    std::vector<Event> events;
    world_.list_events(events);
    while (!events.empty()) {
      swarm::expect(g_path.size() < kDepthMax, "a run without end");
      apply(world_, world_.fair_event(), false);
      world_.list_events(events);
    }
    world_.check_end();
  }

  World world_;
  uint64_t states_max_;
  VisitedSet visited_;
  std::deque<Level> levels_;  // the first depth_ of them count
  uint32_t depth_ = 0;
  Search search_;
};

}  // namespace

Search explore(const Setup& setup, uint64_t states_max) {
  return Explorer(setup, states_max).run();
}

std::string replay(const Setup& setup, const std::vector<Event>& events,
                   std::vector<Event>* taken) {
  g_path.clear();
  std::string finding;
  World world(setup);
  try {
    std::vector<Event> possible;
    for (const Event& event : events) {
      world.list_events(possible);
      const bool known = std::any_of(possible.begin(), possible.end(),
                                     [&](const Event& other) { return same(event, other); });
      if (known) apply(world, event, setup.verbose);
    }
    world.list_events(possible);
    if (taken != nullptr) *taken = g_path;
    while (!possible.empty()) {
      swarm::expect(g_path.size() < 2 * kDepthMax, "a run without end");
      apply(world, world.fair_event(), setup.verbose);
      world.list_events(possible);
    }
    world.check_end();
  } catch (const swarm::Failure& failure) {
    finding = failure.what;
    if (taken != nullptr && taken->empty()) *taken = g_path;
  }
  return finding;
}

std::vector<Event> shrink(const Setup& setup, std::vector<Event> events) {
  for (size_t i = events.size(); i > 0; --i) {
    std::vector<Event> fewer = events;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i - 1));
    std::vector<Event> taken;
    if (!replay(setup, fewer, &taken).empty()) {
      events = std::move(taken);
      i = std::min(i, events.size() + 1);
    }
  }
  return events;
}

const std::vector<Event>& path_under_way() {
  return g_path;
}

}  // namespace mprdma::explore
