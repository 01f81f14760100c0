// Two agents and their clients on a network that loses, duplicates, delays and reorders, with a
// virtual clock. A connection is made on both sides or ended on both, destroyed ids are silent, and
// in the end no agent remembers anything.
//
// A failure prints its seed; MPRDMA_CM_SEED runs that one alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "base/ipv4.hpp"
#include "base/prng.hpp"
#include "tests/unit/dataplane/cm/cm_host.hpp"

namespace mprdma::dataplane::test {
namespace {

constexpr uint64_t kSeeds = 3000;
constexpr uint16_t kPort = 7471;

// The life of one id, as its client sees it.
enum class Fate : uint8_t { kOpen, kConnected, kEnded };

struct Endpoint {
  uint32_t attempt = 0;
  bool active = false;
  Fate fate = Fate::kOpen;
};

class World {
 public:
  explicit World(uint64_t seed)
      : random_(Prng(seed).split("world")),
        loss_(random_.below(26)),
        duplication_(random_.below(20)),
        delay_ms_(random_.chance(1, 2) ? 5 : 6000),
        slow_clients_(random_.chance(1, 3)),
        dark_(random_.chance(1, 5)) {
    sides_[0].host = std::make_unique<CmHost>(Ipv4(0x0a000001), seed * 2);
    sides_[1].host = std::make_unique<CmHost>(Ipv4(0x0a000002), seed * 2 + 1);
    for (Side& side : sides_) side.host->server(kPort);
    const uint64_t attempts = random_.range(1, 6);
    for (uint32_t i = 1; i <= attempts; ++i) {
      at(Duration::ms(static_cast<int64_t>(random_.below(3000))), [this, i] { start(i); });
    }
  }

  std::string run() {
    advance(Duration::s(900));
    // A side that gave up while the network was dark could not tell its peer.
    std::string wrong = dark_ ? "" : check_pairs();
    for (Side& side : sides_) {
      side.host->agent->forget_client(kClient, now_);
      for (const auto& [id, endpoint] : side.endpoints) side.destroyed.insert(id);
    }
    advance(Duration::s(200));
    for (const Side& side : sides_) {
      if (side.host->agent->ids_in_use() != 0) wrong += " ids are left;";
    }
    return wrong_ + wrong;
  }
  [[nodiscard]] uint64_t connected() const { return connected_; }

 private:
  struct Side {
    std::unique_ptr<CmHost> host;
    std::map<uint32_t, Endpoint> endpoints;
    std::set<uint32_t> destroyed;
  };
  using Action = std::function<void()>;

  void at(Duration after, Action action) { agenda_.emplace(now_ + after, std::move(action)); }

  // ---- The network
  void send_all() {
    for (Side& side : sides_) {
      side.host->answer_resolves();
      CmAgent::OutgoingMad mad;
      while (side.host->agent->poll_mad(&mad)) {
        const uint64_t copies = random_.chance(duplication_, 100) ? 2 : 1;
        for (uint64_t i = 0; i < copies; ++i) {
          if (random_.chance(loss_, 100) || is_dark()) continue;
          const auto delay = static_cast<int64_t>(random_.below(delay_ms_ * 1000));
          at(Duration::us(delay), [this, mad, from = side.host->address] {
            Side& to = mad.to == sides_[0].host->address ? sides_[0] : sides_[1];
            to.host->agent->on_mad(mad.bytes, from, now_);
          });
        }
      }
    }
  }

  [[nodiscard]] bool is_dark() const {
    return dark_ && now_ > Time::from_ns(0) + Duration::s(2) &&
           now_ < Time::from_ns(0) + Duration::s(122);
  }

  void advance(Duration span) {
    const Time end = now_ + span;
    while (true) {
      settle();
      Time next = agenda_.empty() ? Time::never() : agenda_.begin()->first;
      for (Side& side : sides_) next = std::min(next, side.host->agent->next_deadline());
      if (next > end) break;
      set_time(std::max(now_, next));
      if (!agenda_.empty() && agenda_.begin()->first <= now_) {
        const Action action = std::move(agenda_.begin()->second);
        agenda_.erase(agenda_.begin());
        action();
      }
      for (Side& side : sides_) side.host->agent->on_deadline(now_);
    }
    set_time(end);
  }
  void set_time(Time now) {
    now_ = now;
    for (Side& side : sides_) side.host->now = now;
  }
  void settle() {
    send_all();
    for (Side& side : sides_) {
      for (const mprdma_abi_cm_event& event : side.host->events()) on_event(side, event);
    }
    send_all();
  }

  // ---- The clients
  void start(uint32_t attempt) {
    Side& side = sides_[random_.below(2)];
    // Some attempts go to the own device.
    Side& other = random_.chance(1, 6) ? side : &side == sides_ ? sides_[1] : sides_[0];
    const uint32_t id = side.host->create();
    side.endpoints[id] = {.attempt = attempt, .active = true};
    EXPECT_EQ(side.host->resolve(id, other.host->address, kPort), 0);
  }

  Duration thinking() {
    return Duration::ms(static_cast<int64_t>(random_.below(slow_clients_ ? 20'000 : 20)));
  }

  void on_event(Side& side, const mprdma_abi_cm_event& event) {
    if (side.destroyed.contains(event.id)) {
      wrong_ += " event " + std::to_string(event.type) + " of a destroyed id;";
      return;
    }
    CmHost& host = *side.host;
    const uint32_t id = event.id;
    Endpoint& endpoint = side.endpoints[id];
    switch (event.type) {
      case MPRDMA_ABI_CM_EVENT_ADDRESS_RESOLVED: {
        mprdma_abi_cm_params in = params(++qpn_);
        std::memcpy(in.private_data, &endpoint.attempt, sizeof(endpoint.attempt));
        in.private_bytes = sizeof(endpoint.attempt);
        EXPECT_EQ(host.connect(id, in), 0);
        return;
      }
      case MPRDMA_ABI_CM_EVENT_REQUEST:
        std::memcpy(&endpoint.attempt, event.params.private_data, sizeof(endpoint.attempt));
        return at(thinking(), [this, &side, id] { answer_request(side, id); });
      case MPRDMA_ABI_CM_EVENT_RESPONSE:
        return at(thinking(), [this, &side, id] { answer_response(side, id); });
      case MPRDMA_ABI_CM_EVENT_ESTABLISHED:
        return become_connected(side, id);
      case MPRDMA_ABI_CM_EVENT_DISCONNECTED:
        endpoint.fate = Fate::kEnded;
        if (random_.chance(1, 2)) at(thinking(), [&side, id] { side.host->disconnect(id); });
        return;
      case MPRDMA_ABI_CM_EVENT_UNREACHABLE:
      case MPRDMA_ABI_CM_EVENT_REJECTED:
        endpoint.fate = Fate::kEnded;
        return;
      default:
        return;
    }
  }

  void answer_request(Side& side, uint32_t id) {
    if (random_.chance(1, 12)) {
      if (side.host->reject(id) == 0) side.endpoints[id].fate = Fate::kEnded;
    } else if (random_.chance(1, 20)) {
      destroy(side, id);
    } else {
      side.host->accept(id, params(++qpn_));
    }
  }

  void answer_response(Side& side, uint32_t id) {
    if (random_.chance(1, 16)) return destroy(side, id);
    if (side.host->establish(id) == 0) become_connected(side, id);
  }

  // Half of the connections last; this side ends the others at some time, one way or another.
  void become_connected(Side& side, uint32_t id) {
    ++connected_;
    side.endpoints[id].fate = Fate::kConnected;
    if (random_.chance(1, 2)) return;
    const bool at_once = random_.chance(1, 3);
    at(at_once ? Duration::zero() : thinking(), [this, &side, id] {
      if (random_.chance(1, 3)) return destroy(side, id);
      side.host->disconnect(id);
    });
  }

  void destroy(Side& side, uint32_t id) {
    if (side.host->destroy(id) != 0) return;
    side.endpoints[id].fate = Fate::kEnded;
    side.destroyed.insert(id);
  }

  // ---- What must hold when all is quiet
  std::string check_pairs() {
    std::map<uint32_t, std::pair<int, int>> connected;  // by attempt: active and passive ends
    std::string wrong;
    for (Side& side : sides_) {
      for (const auto& [id, endpoint] : side.endpoints) {
        if (endpoint.fate == Fate::kOpen) wrong += " a connection is neither made nor ended;";
        auto& [active, passive] = connected[endpoint.attempt];
        if (endpoint.fate == Fate::kConnected) ++(endpoint.active ? active : passive);
      }
    }
    for (const auto& [attempt, ends] : connected) {
      if (ends.first != ends.second || ends.first > 1) {
        wrong += " attempt " + std::to_string(attempt) + " is connected on one side;";
      }
    }
    return wrong;
  }

  Prng random_;
  uint64_t loss_;         // percent
  uint64_t duplication_;  // percent
  uint64_t delay_ms_;
  bool slow_clients_;
  bool dark_;  // nothing arrives for two minutes, longer than anybody repeats
  Side sides_[2];
  std::multimap<Time, Action> agenda_;
  Time now_ = Time::from_ns(1);
  uint32_t qpn_ = 100;
  uint64_t connected_ = 0;
  std::string wrong_;
};

TEST(CmRandom, ConnectsOnBothSidesOrOnNoneWhateverTheNetworkDoes) {
  const char* only = std::getenv("MPRDMA_CM_SEED");
  const uint64_t first = only != nullptr ? std::strtoull(only, nullptr, 0) : 1;
  const uint64_t last = only != nullptr ? first : kSeeds;
  uint64_t connected = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    World world(seed);
    const std::string wrong = world.run();
    ASSERT_EQ(wrong, "") << "seed " << seed << ": MPRDMA_CM_SEED=" << seed;
    connected += world.connected();
  }
  if (only == nullptr) {
    EXPECT_GT(connected, kSeeds) << "the test would show nothing";
  }
}

// Timers and tables do not grow with what exists: thousands of connections, each step of one.
TEST(CmRandom, ThousandsOfConnectionsStandAtOnceAndAllEnd) {
  constexpr uint32_t kConnections = 4000;
  CmHost a(Ipv4(0x0a000001), 5);
  CmHost b(Ipv4(0x0a000002), 6);
  b.server(kPort);
  const auto carry = [&] {
    CmAgent::OutgoingMad mad;
    bool moved = true;
    while (moved) {
      moved = false;
      while (a.agent->poll_mad(&mad)) moved = true, b.agent->on_mad(mad.bytes, a.address, b.now);
      while (b.agent->poll_mad(&mad)) moved = true, a.agent->on_mad(mad.bytes, b.address, a.now);
      for (const auto& event : b.events()) {
        if (event.type == MPRDMA_ABI_CM_EVENT_REQUEST) {
          moved = b.accept(event.id, params(event.params.qpn)) == 0;
        }
      }
      for (const auto& event : a.events()) {
        if (event.type == MPRDMA_ABI_CM_EVENT_RESPONSE) moved = a.establish(event.id) == 0;
      }
    }
  };
  for (uint32_t i = 0; i < kConnections; ++i) {
    const uint32_t id = a.create();
    ASSERT_EQ(a.resolve(id, b.address, kPort), 0);
    a.answer_resolves();
    a.events();
    ASSERT_EQ(a.connect(id, params(i + 1)), 0);
    carry();
  }
  EXPECT_EQ(a.agent->counters().cm_established, kConnections);
  EXPECT_EQ(b.agent->counters().cm_established, kConnections);
  EXPECT_EQ(a.agent->next_deadline(), Time::never()) << "who is connected waits for nothing";
  a.agent->forget_client(kClient, a.now);
  carry();
  b.agent->forget_client(kClient, b.now);
  carry();
  for (CmHost* host : {&a, &b}) {
    while (!host->agent->next_deadline().is_never()) {
      host->now = host->agent->next_deadline();
      host->agent->on_deadline(host->now);
    }
    EXPECT_EQ(host->agent->ids_in_use(), 0u);
  }
}

}  // namespace
}  // namespace mprdma::dataplane::test
