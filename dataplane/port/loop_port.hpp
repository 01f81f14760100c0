// The loopback wire, for frames from a queue pair to an address of its own device: a small ring of
// frames in this process, so that loopback traffic passes encoder and decoder as any other does.
// The ring neither loses nor reorders; when it is full there is back-pressure. Called by the
// worker.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/ring.hpp"
#include "dataplane/port/port.hpp"

namespace mprdma::dataplane {

class LoopPort final : public Port {
 public:
  // More frames than receivers may hold (half of the number that the largest port lends), so that
  // messages that wait for a receive never stop the others.
  static constexpr uint32_t kFrames = 2048;

  explicit LoopPort(uint32_t mtu);

  [[nodiscard]] PortInfo info() const override;
  [[nodiscard]] bool link_up() const override { return true; }
  [[nodiscard]] const char* link_text() const override { return "loop"; }

  unsigned tx_reserve(TxFrame* frames, unsigned n) override;
  bool tx_tight() override { return free_.size() < 3 * kBurst; }
  void tx_commit(const TxFrame* frames, unsigned n) override;
  void tx_abandon(const TxFrame* frames, unsigned n) override;
  void flush() override {}

  unsigned rx_burst(RxFrame* frames, unsigned n) override;
  void rx_release(const uint64_t* cookies, unsigned n) override;

  [[nodiscard]] int notify_fd() const override { return -1; }
  bool arm() override { return queue_.empty(); }
  void disarm() override {}
  void service(Time) override {}
  void close_after_fork() override {}

  [[nodiscard]] PortCounters stats() const override { return stats_; }

  [[nodiscard]] bool pending() const { return !queue_.empty(); }

 private:
  unsigned char* payload_of(uint64_t slot) const;

  struct Queued {
    uint32_t slot = 0;
    uint32_t header_bytes = 0;
    uint32_t frame_bytes = 0;
  };
  struct AlignedDelete {
    void operator()(unsigned char* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };

  uint32_t capacity_;
  uint32_t stride_;
  std::unique_ptr<unsigned char[], AlignedDelete> memory_;
  std::vector<uint32_t> free_;
  Ring<Queued> queue_{kFrames};
  PortCounters stats_;
};

}  // namespace mprdma::dataplane
