// EthdevPort: a DPDK ethdev that this process owns, behind the port seam.
//
// A transmit frame is an mbuf from our pool, with its payload on a 64-byte boundary and room before
// it for all headers and for the driver's own. Committed mbufs wait in a short queue for the next
// burst; mbufs that the driver does not take stay there, and a full queue is back-pressure. A
// received frame is an mbuf whose address is the cookie; it belongs to our pool, so it outlives the
// peer.
//
// A virtio-user device with server=1 is created by DPDK only after its peer connects; a thread of
// ours waits for that, and until then the link is down.
//
// While the link is down the device is not polled at all: a vhost-user device that gets a new peer
// has its queues rebuilt by a thread of DPDK, which must not run while the queues are polled.
//
// Built into libmprdma-eal.so, the only library that links DPDK.
#pragma once

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/status.hpp"
#include "dataplane/port/dpdk/ethdev_device.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/port/port_result.hpp"

namespace mprdma::dataplane {

class EthdevPort final : public Port {
 public:
  // Starts EAL if need be, creates and starts the device. Blocks for up to some seconds.
  static PortResult open(const EthdevSpec& spec);

  explicit EthdevPort(EthdevSpec spec);
  ~EthdevPort() override;

  [[nodiscard]] PortInfo info() const override { return info_; }
  [[nodiscard]] bool link_up() const override { return up_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool expects_peer() const override {
    return spec_.waits_for_peer() && !link_up() &&
           stage_.load(std::memory_order_acquire) != Stage::kFailed;
  }
  [[nodiscard]] const char* link_text() const override;

  unsigned tx_reserve(TxFrame* frames, unsigned n) override;
  bool tx_tight() override;
  void tx_commit(const TxFrame* frames, unsigned n) override;
  void tx_abandon(const TxFrame* frames, unsigned n) override;
  void flush() override;
  unsigned rx_burst(RxFrame* frames, unsigned n) override;
  void rx_release(const uint64_t* cookies, unsigned n) override;
  [[nodiscard]] int notify_fd() const override { return epoll_fd_; }
  bool arm() override;
  void disarm() override;
  void service(Time now) override;
  void close_after_fork() override;
  [[nodiscard]] PortCounters stats() const override;

 private:
  static constexpr unsigned kPendingMax = 4 * kBurst;
  // Data waits when more mbufs are queued than this: the rest, except one reservation of data, is
  // for acknowledgements.
  static constexpr unsigned kPendingOfData = kBurst;

  enum class Stage : uint8_t { kCreating, kReady, kFailed };

  // Steps of open().
  Status start();
  void create_in_background();
  void end_background();
  Status create();
  Status make_pool();
  Status configure();
  // `error`: an errno value, or its negative as DPDK gives it; 0 becomes EIO.
  [[nodiscard]] Status failed(const char* step, int error) const;
  void draw_mac();
  void fill_info();
  [[nodiscard]] uint32_t frame_bytes_max() const;

  void send_pending();
  void drop_pending();
  void read_link();
  void note_speed(uint32_t mbps);
  void follow_interrupt();
  void read_drops(Time now);
  void push_tag(rte_mbuf* mbuf) const;
  bool to_frame(rte_mbuf* mbuf, RxFrame* frame);
  bool pop_tag(rte_mbuf* mbuf) const;

  EthdevSpec spec_;
  PortInfo info_;
  rte_mempool* pool_ = nullptr;
  uint16_t port_id_ = RTE_MAX_ETHPORTS;
  bool started_ = false;
  int lock_fd_ = -1;
  std::atomic<bool> up_ = false;
  // kReady and kFailed are the creating thread's final states; it owns the device until then.
  std::atomic<Stage> stage_ = Stage::kCreating;
  std::thread creator_;
  Status creation_;  // an error with kFailed

  std::array<rte_mbuf*, kPendingMax> pending_{};
  unsigned pending_count_ = 0;
  unsigned reserved_ = 0;  // each has its room in pending_
  // Frames that arm() found; they come out of the next rx_burst().
  std::array<rte_mbuf*, kBurst> early_{};
  unsigned early_count_ = 0;

  int epoll_fd_ = -1;      // -1: the device cannot interrupt, it has to be polled
  int interrupt_fd_ = -1;  // the driver's, inside epoll_fd_
  bool armed_ = false;

  Time next_drops_;
  uint64_t drops_seen_ = 0;
  PortCounters counters_;  // written through count(), read by any thread
};

}  // namespace mprdma::dataplane
