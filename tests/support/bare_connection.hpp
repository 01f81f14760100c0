// One connection of a queue pair without the queue pair around it, for tests of the unreliable
// services: memory that starts at kBase and is open under one key, and packets handed from one to
// another by the test.
#pragma once

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/zeroed_array.hpp"
#include "transport/work/qp_core.hpp"

namespace mprdma::transport {

template <class Connection>
class BareConnection {
 public:
  static constexpr uint64_t kBase = 0x10000;
  static constexpr uint32_t kBytes = 64 * 1024;

  struct Parcel {
    wire::Packet header;
    std::vector<uint8_t> payload;
  };

  // A receive queue that somebody else owns, with the receives that a test puts into it.
  struct Shared {
    explicit Shared(uint32_t pd) {
      queue.host = this;
      queue.pd = pd;
      queue.take = [](void* host, RecvRequest* out, Sge* sges) {
        auto& self = *static_cast<Shared*>(host);
        if (self.receives.empty()) return false;
        sges[0] = self.receives.front().second;
        *out = {.wr_id = self.receives.front().first, .sges = {sges, 1}};
        self.receives.erase(self.receives.begin());
        return true;
      };
      queue.room = [](void* host, uint32_t* bytes) {
        const auto& self = *static_cast<Shared*>(host);
        if (!self.receives.empty()) *bytes = self.receives.front().second.length;
        return !self.receives.empty();
      };
    }
    std::vector<std::pair<uint64_t, Sge>> receives;
    SharedReceives queue;
  };

  explicit BareConnection(QpService service, Qpn qpn, const SharedReceives* shared = nullptr)
      : memory(kBytes),
        core(config_of(service, qpn, shared),
             {.memory = &regions, .held = &held, .counters = &counters}),
        connection(core),
        placements_(kMaxPlacements),
        released_(kMaxReleased) {
    key = MemoryTable::make_key(1, 0x55);
    regions.set({.iova = kBase,
                 .addr = kBase,
                 .length = kBytes,
                 .pd = 0,
                 .access = kLocalWrite | kRemoteWrite,
                 .key = key});
    core.attributes.path_mtu = 1024;
    core.attributes.access = kRemoteWrite;
  }

  // To RTS, towards queue pair `peer`.
  void connect(Qpn peer, Psn own, Psn theirs) {
    core.attributes.dest_qpn = peer;
    core.attributes.sq_psn = own;
    core.attributes.rq_psn = theirs;
    core.state = QpState::kRtr;
    connection.enter_rtr();
    core.state = QpState::kRts;
    connection.enter_rts();
  }

  void post_recv(uint64_t wr_id, uint64_t addr, uint32_t length) {
    const Sge sge{addr, length, key};
    CHECK(core.receives.post({.wr_id = wr_id, .sges = {&sge, 1}}));
  }

  // Everything that it wants to send now.
  std::vector<Parcel> send() {
    std::vector<Parcel> parcels;
    TxPacket packet;
    while (connection.wants_to_send() && connection.poll_packet(Time(), packet)) {
      Parcel parcel{packet.header, {}};
      for (uint32_t i = 0; i < packet.num_segments; ++i) {
        const uint8_t* from = &memory[packet.segments[i].addr - kBase];
        parcel.payload.insert(parcel.payload.end(), from, from + packet.segments[i].length);
      }
      parcels.push_back(std::move(parcel));
      last_ah = packet.ah;
    }
    return parcels;
  }

  // The GRH is 40 bytes of 0x47.
  void receive(const Parcel& parcel) {
    RxActions actions(placements_, released_);
    CHECK(connection.on_packet(now, parcel.header, 1, actions) == RxVerdict::kDone);
    if (actions.has_ack) urgent.push_back(actions.ack);
    for (const Placement& placement : actions.placements) {
      uint8_t* to = &memory[placement.addr - kBase];
      if (placement.kind == PlacementKind::kGrh) {
        std::memset(to, 0x47, placement.length);
      } else {
        std::memcpy(to, &parcel.payload[placement.payload_offset], placement.length);
      }
    }
  }

  std::optional<Completion> sent() {
    Completion completion;
    return connection.poll_completion(completion) ? std::optional(completion) : std::nullopt;
  }
  std::optional<Completion> received() {
    Completion completion;
    return core.receives.poll(false, completion) ? std::optional(completion) : std::nullopt;
  }

  std::vector<uint8_t> memory;
  MemoryTable regions{8};
  HeldPool held{1};
  TransportCounters counters;
  QpCore core;
  Connection connection;
  Key key{};
  uint32_t last_ah = 0;
  Time now;                          // of what arrives
  std::vector<wire::Packet> urgent;  // what answered an arrival at once

 private:
  static QpConfig config_of(QpService service, Qpn qpn, const SharedReceives* shared) {
    QpConfig config;
    config.qpn = qpn;
    config.send_depth = 8;
    config.recv_depth = shared != nullptr ? 0 : 8;
    config.max_send_sge = config.max_recv_sge = 2;
    config.service = service;
    config.shared = shared;
    return config;
  }

  ZeroedArray<Placement> placements_;
  ZeroedArray<FrameHandle> released_;
};

}  // namespace mprdma::transport
