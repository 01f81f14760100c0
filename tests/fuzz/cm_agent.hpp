// The property that every client and every peer of a CM agent has to satisfy, shared by the fuzzer
// and its smoke test. The input is a programme of commands, of clients that may name anybody's ids,
// of datagrams, deadlines and ends of clients. Whatever it is, the agent keeps to its limits, tells
// each client of its own ids only, and forgets everything when all clients are gone.
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "base/check.hpp"
#include "base/ipv4.hpp"
#include "dataplane/cm/agent.hpp"
#include "wire/cm_mad.hpp"

namespace mprdma::test {

class CmProgramme {
 public:
  struct Seen {
    uint64_t accepted = 0;  // commands
    uint64_t refused = 0;
    uint64_t mads = 0;  // of the agent
    uint64_t events = 0;
  };

  explicit CmProgramme(std::span<const unsigned char> bytes) : bytes_(bytes), agent_(config()) {}

  Seen run() {
    while (at_ < bytes_.size()) {
      step(byte());
      drain();
      CHECK(agent_.ids_in_use() <= kIdsMax);
    }
    for (uint32_t client = 1; client <= kClients; ++client) agent_.forget_client(client, now_);
    for (int i = 0; i < 100 && agent_.ids_in_use() > 0; ++i) {
      drain();
      now_ += Duration::s(10);
      agent_.on_deadline(now_);
    }
    CHECK(agent_.ids_in_use() == 0);
    return seen_;
  }

 private:
  static constexpr uint32_t kClients = 3;
  static constexpr uint32_t kIdsMax = 48;
  static constexpr Ipv4 kAddress{0x0a000001};

  static dataplane::CmConfig config() {
    dataplane::CmConfig config;
    config.address = wire::map_ipv4(kAddress);
    config.ipv4 = kAddress;
    config.ids_max = kIdsMax;
    config.port_min = 1000;
    config.port_max = 1020;
    config.response_timeout = 10;
    config.retries = 2;
    config.time_wait = Duration::ms(10);
    config.seed = 1;
    return config;
  }

  unsigned char byte() { return at_ < bytes_.size() ? bytes_[at_++] : 0; }
  template <class T>
  void fill(T* out) {
    const size_t count = std::min(sizeof *out, bytes_.size() - at_);
    std::memcpy(static_cast<void*>(out), bytes_.data() + at_, count);
    at_ += count;
  }

  void step(unsigned char what) {
    const uint32_t client = 1 + what % kClients;
    switch (what / 8 % 8) {
      case 0:
        if (byte() < 16) agent_.forget_client(client, now_);
        return;
      case 1:
        now_ += Duration::ms(byte());
        return agent_.on_deadline(now_);
      case 2:
        return peer_mad();
      case 3:
        return create(client);
      default:
        return command(client);
    }
  }

  void create(uint32_t client) {
    mprdma_abi_cm_command in{};
    in.op = MPRDMA_ABI_CM_CREATE;
    in.port_space = byte() % 2 == 0 ? MPRDMA_ABI_CM_PS_TCP : MPRDMA_ABI_CM_PS_UDP;
    execute(client, in);
  }

  // Some fields are what they would be, so that the others are looked at.
  void command(uint32_t client) {
    mprdma_abi_cm_command in{};
    const unsigned char kind = byte();
    in.op = kind % 16;
    const unsigned char which = byte();
    if (!ids_.empty() && which < 224) {
      auto id = ids_.begin();
      std::advance(id, which % ids_.size());
      in.id = id->first;
      if (which < 200) client = id->second;
    }
    if (kind < 64) {  // anything
      fill(&in.cookie);
      fill(&in.params);
      in.backlog = byte();
      in.timeout_ms = byte();
      in.reason = byte();
      in.option = byte() % 8;
      in.value = byte();
      fill(&in.local);
      fill(&in.remote);
    } else {
      in.params.qpn = 2 + byte();
      in.params.qp_type = 2 + byte() % 3;
      in.params.path_mtu = 3;
      in.params.private_bytes = byte() % 80;
      in.reason = 28;
      in.backlog = 4;
      in.timeout_ms = 100;
      const wire::IpAddress to = near(byte());
      std::copy(to.begin(), to.end(), in.remote.ip);
      in.remote.port = static_cast<uint16_t>(1000 + byte() % 4);
      in.local.port = static_cast<uint16_t>(1000 + byte() % 4);
    }
    execute(client, in);
  }

  void execute(uint32_t client, const mprdma_abi_cm_command& in) {
    mprdma_abi_cm_result result{};
    const int error = agent_.execute(client, in, &result, now_);
    CHECK(error >= 0 && error < 200);
    ++(error == 0 ? seen_.accepted : seen_.refused);
    const auto owner = ids_.find(in.id);
    if (in.op == MPRDMA_ABI_CM_CREATE) {
      if (error == 0) CHECK(ids_.emplace(result.id, client).second);
      return;
    }
    if (error == 0) CHECK(owner == ids_.end() || owner->second == client);
    if (error == 0 && in.op == MPRDMA_ABI_CM_DESTROY) ids_.erase(in.id);
  }

  // The device's own address, or one of the next two.
  static wire::IpAddress near(unsigned char which) {
    return wire::map_ipv4(Ipv4(kAddress.value() + which % 3));
  }

  // From another host: one of the agent's own messages with changes, or anything.
  void peer_mad() {
    std::array<unsigned char, wire::kMadBytes> mad{};
    if (!sent_.empty()) mad = sent_[byte() % sent_.size()];
    for (int changes = byte() % 8; changes > 0; --changes) {
      const size_t at = byte();
      mad[at] = byte();
    }
    agent_.on_mad(mad, near(byte()), now_);
  }

  void drain() {
    wire::IpAddress to;
    while (agent_.poll_resolve(&to)) {
      const wire::MacAddress mac{2, 0, 0, 0, 0, 1};
      agent_.on_resolved(to, to[15] % 3 == 0 ? nullptr : &mac, now_);
    }
    dataplane::CmAgent::OutgoingMad mad;
    for (int i = 0; i < 1000 && agent_.poll_mad(&mad); ++i) {
      ++seen_.mads;
      wire::CmMad decoded;
      CHECK(wire::decode_cm_mad(mad.bytes, decoded) == wire::MadDrop::kNone);
      if (sent_.size() < 64) sent_.push_back(mad.bytes);
      if (mad.to == wire::map_ipv4(kAddress)) agent_.on_mad(mad.bytes, mad.to, now_);
    }
    dataplane::CmAgent::ClientEvent event;
    while (agent_.poll_event(&event)) {
      ++seen_.events;
      CHECK(event.client >= 1 && event.client <= kClients);
      if (event.event.type == MPRDMA_ABI_CM_EVENT_REQUEST) {
        ids_.emplace(event.event.id, event.client);
      }
      const auto owner = ids_.find(event.event.id);
      CHECK(owner == ids_.end() || owner->second == event.client);
    }
  }

  std::span<const unsigned char> bytes_;
  size_t at_ = 0;
  dataplane::CmAgent agent_;
  Time now_ = Time{} + Duration::s(1);
  std::map<uint32_t, uint32_t> ids_;  // whose
  std::vector<std::array<unsigned char, wire::kMadBytes>> sent_;
  Seen seen_;
};

inline CmProgramme::Seen check_cm_programme(std::span<const unsigned char> bytes) {
  return CmProgramme(bytes).run();
}

}  // namespace mprdma::test
