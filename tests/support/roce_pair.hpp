// Two queue pairs that speak RoCEv2 as the standard has it, for tests that read as packet
// dialogues: the test takes what one sends, loses, reorders or keeps what it likes, and gives the
// rest to the other. Nothing happens by itself but in exchange() and run().
//
// A host's memory starts at kBase and is open as a whole under one key, the same at both.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "transport/qp.hpp"

namespace mprdma::transport {

struct RoceParcel {
  wire::Packet header;
  std::vector<uint8_t> payload;
};

struct RoceOptions {
  Params params = Params::roce();
  QpAttributes attributes;  // of both; PSNs and numbers are set by the pair
  Psn psn_a{100};
  Psn psn_b{200};
  QpService service_a = QpService::kRc;
  QpService service_b = QpService::kRc;
  uint32_t send_depth = 64;
  uint32_t recv_depth = 64;
};

class RoceHost {
 public:
  static constexpr uint64_t kBase = 0x10000;
  static constexpr uint32_t kBytes = 256 * 1024;
  static constexpr uint32_t kPd = 7;
  static constexpr uint32_t kEverything = kLocalWrite | kRemoteRead | kRemoteWrite | kRemoteAtomic;

  RoceHost(const RoceOptions& options, bool is_a) : memory(kBytes) {
    regions.set({.iova = kBase,
                 .addr = kBase,
                 .length = kBytes,
                 .pd = kPd,
                 .access = kEverything | kMwBind,
                 .key = key});
    QpConfig config;
    config.qpn = Qpn(is_a ? 17 : 34);
    config.pd = kPd;
    config.send_depth = options.send_depth;
    config.recv_depth = options.recv_depth;
    config.max_send_sge = config.max_recv_sge = 4;
    config.service = is_a ? options.service_a : options.service_b;
    config.params = options.params;
    Device device;
    device.memory = &regions;
    device.held = &held;
    device.counters = &counters;
    device.host = this;
    device.find_xrc_srq = [](void* host, uint32_t, uint32_t srqn) -> const SharedReceives* {
      auto& self = *static_cast<RoceHost*>(host);
      return srqn == 5 ? &self.shared : nullptr;
    };
    shared.host = this;
    shared.pd = kPd;
    shared.take = [](void* host, RecvRequest* out, Sge* sges) {
      auto& self = *static_cast<RoceHost*>(host);
      if (self.shared_receives.empty()) return false;
      *sges = self.shared_receives.front();
      *out = {.wr_id = 5000, .sges = {sges, 1}};
      self.shared_receives.pop_front();
      return true;
    };
    qp = std::make_unique<Qp>(config, device);
    attributes = options.attributes;
    attributes.access = kEverything;
    attributes.dest_qpn = Qpn(is_a ? 34 : 17);
    attributes.sq_psn = is_a ? options.psn_a : options.psn_b;
    attributes.rq_psn = is_a ? options.psn_b : options.psn_a;
    attributes.vp = 50'000;
    qp->set_attributes(attributes);
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      CHECK(set_state(state));
    }
  }

  // ---- What applications do
  // One SGE of own memory; `remote` and the peer's key.
  PostResult post(WorkOpcode opcode, uint64_t local, uint32_t length, uint64_t remote = kBase,
                  uint16_t flags = kSignaled) {
    SendRequest request;
    request.opcode = opcode;
    request.flags = flags;
    request.remote_addr = remote;
    request.rkey = key;
    request.imm_or_rkey = 0xabcd;
    return post(request, local, length);
  }
  PostResult post(SendRequest request, uint64_t local, uint32_t length) {
    const Sge sge{local, length, key};
    request.wr_id = next_wr_id_++;
    request.sges = {&sge, length == 0 ? 0u : 1u};
    return qp->post_send(now, request);
  }
  PostResult atomic(WorkOpcode opcode, uint64_t local, uint64_t remote, uint64_t compare_add,
                    uint64_t swap = 0) {
    SendRequest request;
    request.opcode = opcode;
    request.flags = kSignaled;
    request.remote_addr = remote;
    request.rkey = key;
    request.compare_add = compare_add;
    request.swap = swap;
    return post(request, local, 8);
  }
  void post_recv(uint64_t local, uint32_t length) {
    const Sge sge{local, length, key};
    RxActions actions(placements_, released_);
    const RecvRequest request{.wr_id = next_recv_id_++, .sges = {&sge, length == 0 ? 0u : 1u}};
    CHECK(qp->post_recv(now, request, actions) == PostResult::kOk);
  }
  bool set_state(QpState state) {
    RxActions actions(placements_, released_);
    return qp->set_state(now, state, actions);
  }

  // ---- What a host does
  // Returns everything that the queue pair wants to send now.
  std::vector<RoceParcel> send() {
    std::vector<RoceParcel> parcels;
    TxPacket out;
    while (qp->wants_to_send()) {
      if (qp->poll_packet(now, out)) parcels.push_back(parcel_of(out));
    }
    return parcels;
  }
  // Returns the packet that the queue pair sends now; it must be exactly one.
  RoceParcel send_one() {
    std::vector<RoceParcel> parcels = send();
    CHECK(parcels.size() == 1);
    return std::move(parcels[0]);
  }
  void receive(const RoceParcel& parcel) {
    RxActions actions(placements_, released_);
    CHECK(qp->on_packet(now, parcel.header, 1, actions) == RxVerdict::kDone);
    CHECK(actions.released.empty());
    if (actions.has_ack) urgent.push_back({actions.ack, {}});
    for (const Placement& placement : actions.placements) place(placement, parcel);
  }
  void receive(const std::vector<RoceParcel>& parcels) {
    for (const RoceParcel& parcel : parcels) receive(parcel);
  }
  void on_deadline() {
    RxActions actions(placements_, released_);
    qp->on_deadline(now, actions);
  }
  std::vector<Completion> completions() {
    std::vector<Completion> all;
    Completion c;
    while (qp->poll_completion(c)) all.push_back(c);
    return all;
  }

  uint8_t* at(uint64_t addr) { return memory.data() + (addr - kBase); }
  uint64_t& word(uint64_t addr) { return *reinterpret_cast<uint64_t*>(at(addr)); }
  void fill(uint64_t addr, uint32_t length, uint8_t seed) {
    for (uint32_t i = 0; i < length; ++i) {
      at(addr)[i] = static_cast<uint8_t>(seed + i * 7 + i / 256);
    }
  }
  bool same(uint64_t addr, RoceHost& other, uint64_t there, uint32_t length) {
    return std::memcmp(at(addr), other.at(there), length) == 0;
  }

  Time now = Time::from_ns(1'000'000);
  std::vector<uint8_t> memory;
  Key key = MemoryTable::make_key(1, 0x55);
  MemoryTable regions{8};
  HeldPool held{1};
  TransportCounters counters;
  QpAttributes attributes;
  SharedReceives shared;
  std::deque<Sge> shared_receives;
  std::vector<RoceParcel> urgent;  // what answered an arrival at once
  std::unique_ptr<Qp> qp;

 private:
  RoceParcel parcel_of(const TxPacket& out) {
    RoceParcel parcel{out.header, {}};
    for (uint32_t i = 0; i < out.num_segments; ++i) {
      const uint8_t* from = at(out.segments[i].addr);
      parcel.payload.insert(parcel.payload.end(), from, from + out.segments[i].length);
    }
    CHECK(parcel.payload.size() == out.header.payload_len);
    return parcel;
  }
  void place(const Placement& p, const RoceParcel& parcel) {
    switch (p.kind) {
      case PlacementKind::kCompareSwap:
        *p.original = word(p.addr);
        if (word(p.addr) == p.compare) word(p.addr) = p.swap_add;
        break;
      case PlacementKind::kFetchAdd:
        *p.original = word(p.addr);
        word(p.addr) += p.swap_add;
        break;
      case PlacementKind::kValue:
        std::memcpy(at(p.addr), reinterpret_cast<const uint8_t*>(&p.compare) + p.payload_offset,
                    p.length);
        break;
      default:
        CHECK(p.payload_offset + p.length <= parcel.payload.size());
        std::memcpy(at(p.addr), parcel.payload.data() + p.payload_offset, p.length);
        break;
    }
  }

  uint64_t next_wr_id_ = 1;
  uint64_t next_recv_id_ = 1000;
  std::vector<Placement> placements_ = std::vector<Placement>(64);
  std::vector<FrameHandle> released_ = std::vector<FrameHandle>(4);
};

class RocePair {
 public:
  explicit RocePair(const RoceOptions& options = {}) : a(options, true), b(options, false) {}

  // Carries packets both ways, without delay, until neither end has anything to send now.
  void exchange() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (RoceHost* from : {&a, &b}) {
        RoceHost& to = from == &a ? b : a;
        for (const RoceParcel& parcel : from->send()) {
          progress = true;
          to.receive(parcel);
        }
      }
    }
  }
  // Advances time to the next deadline of either end and serves it. False: there is none.
  bool wait() {
    const Time next = std::min(a.qp->next_deadline(), b.qp->next_deadline());
    if (next.is_never()) return false;
    a.now = b.now = std::max(a.now, next);
    for (RoceHost* host : {&a, &b}) {
      if (host->qp->next_deadline() <= host->now) host->on_deadline();
    }
    return true;
  }

  RoceHost a;
  RoceHost b;
};

}  // namespace mprdma::transport
