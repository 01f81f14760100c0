// Two queue pairs that are connected, for tests that read as packet dialogues: the test takes what
// one endpoint sends, loses, reorders or keeps what it likes, gives the rest to the other, and lets
// time pass. Nothing happens by itself but in run().
//
// An endpoint's memory starts at kBase and is open as a whole under one key; a test may add
// regions. Frames that the transport holds are kept until it gives them back.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/zeroed_array.hpp"
#include "transport/qp.hpp"

namespace mprdma::transport {

// A packet on the wire.
struct Parcel {
  wire::Packet header;
  std::vector<uint8_t> payload;
};

class Endpoint {
 public:
  static constexpr uint64_t kBase = 0x10000;
  static constexpr uint32_t kMemoryBytes = 256 * 1024;
  static constexpr uint32_t kEverything =
      kLocalWrite | kRemoteRead | kRemoteWrite | kRemoteAtomic | kMwBind;

  Endpoint(QpConfig config, uint32_t held_budget, bool share_receives, TraceSink* trace = nullptr);

  // ---- What applications do
  // One SGE of own memory; `remote` and the peer's key for WRITE and READ.
  PostResult post(WorkOpcode opcode, uint64_t local, uint32_t length, uint64_t remote = kBase,
                  uint16_t flags = kSignaled);
  // Anything else; the wr_id is the next one.
  PostResult post(const SendRequest& request);
  // The answer, if it lets a waiting message in.
  std::optional<Parcel> post_recv(uint64_t local, uint32_t length);
  // Into the shared receive queue that PairOptions::share_receives gave it.
  void post_shared(uint64_t local, uint32_t length) {
    shared_.push_back({next_recv_id_++, {local, length, key}});
  }
  bool set_state(QpState state);

  // ---- What a host does
  // Everything that it wants to send now.
  std::vector<Parcel> send();
  // The acknowledgement, if there is one.
  std::optional<Parcel> receive(const Parcel& parcel);
  void on_deadline();
  // Completions so far; taking them empties the list.
  std::vector<Completion> take_completions();

  uint8_t* at(uint64_t addr) { return memory.data() + (addr - kBase); }
  uint64_t value(uint64_t addr);
  void set_value(uint64_t addr, uint64_t value);
  void fill(uint64_t addr, uint32_t length, uint8_t seed);
  [[nodiscard]] bool same(uint64_t addr, const Endpoint& other, uint64_t there,
                          uint32_t length) const;

  Time now = Time::from_ns(1'000'000);
  std::vector<uint8_t> memory;
  MemoryTable regions{8};
  Key key{};
  HeldPool held;
  TransportCounters counters;
  QpAttributes attributes;
  std::map<FrameHandle, std::vector<uint8_t>> frames;
  std::vector<uint64_t> placed_at;  // addresses, in the order of placement
  std::unique_ptr<Qp> qp;

 private:
  std::optional<Parcel> do_actions(RxActions& actions);
  void place(const Placement& placement);

  struct SharedEntry {
    uint64_t wr_id;
    Sge sge;
  };
  static bool pop_shared_receive(void* host, RecvRequest* out, Sge* sges);

  SharedReceives shared_queue_{.host = this, .pd = 0, .take = pop_shared_receive};
  std::deque<SharedEntry> shared_;
  FrameHandle last_frame_ = 0;
  uint64_t next_wr_id_ = 1;
  uint64_t next_recv_id_ = 1000;
  std::vector<Completion> completions_;
  ZeroedArray<Placement> placement_storage_;
  ZeroedArray<FrameHandle> released_storage_;
};

struct PairOptions {
  Params params;
  QpAttributes attributes;  // of both; PSNs, QP numbers and access are set by the pair
  Psn psn_a{100};
  Psn psn_b{200};
  uint32_t held_budget = 256;
  uint32_t send_depth = 64;
  uint32_t recv_depth = 16;
  bool connect = true;
  bool share_receives = false;
  bool undecided = false;      // the mode is set by the test
  TraceSink* trace = nullptr;  // takes the events of endpoint a
  QpService service = QpService::kRc;
};

class EndpointPair {
 public:
  explicit EndpointPair(const PairOptions& options = {});

  // Time passes for both; deadlines that come due on the way are served.
  void advance(Duration by);
  // Runs a perfect wire with this delay until nothing is in flight and no deadline is left.
  void run(Duration delay = Duration::us(5));
  // Carries packets both ways, without delay, until neither endpoint has anything to send now.
  void exchange();

  Endpoint a;
  Endpoint b;

 private:
  void set_time(Time now) { a.now = b.now = now; }
  [[nodiscard]] Time next_deadline() const;
};

}  // namespace mprdma::transport
