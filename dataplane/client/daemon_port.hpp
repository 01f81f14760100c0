// The port of a process whose device is shared: frames go by shared memory (LocalPort) to and from
// mprdmad, which has the wire. The direct rings to other processes of the device (direct_rings.hpp)
// sleep, wake and count with it; the worker sends and receives there itself. If the daemon goes
// away, the port looks for it; until the daemon is back the link is down, and daemon()->away() says
// that waiting is worthwhile.
#pragma once

#include <memory>
#include <string>

#include "dataplane/client/daemon_link.hpp"
#include "dataplane/port/local_port.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/port/port_result.hpp"

namespace mprdma::dataplane::client {

class DaemonPort final : public Port {
 public:
  // `path` names the daemon's socket. Waits until the daemon has given a port; some seconds at
  // most.
  static PortResult open(const std::string& path);

  DaemonPort(std::unique_ptr<DaemonLink> link, std::unique_ptr<LocalPort> local);
  ~DaemonPort() override;

  [[nodiscard]] PortInfo info() const override;
  [[nodiscard]] bool link_up() const override { return local_->link_up() && link_->wire_up(); }
  [[nodiscard]] const char* link_text() const override;

  unsigned tx_reserve(TxFrame* frames, unsigned n) override {
    return local_->tx_reserve(frames, n);
  }
  bool tx_tight() override { return local_->tx_tight(); }
  void tx_commit(const TxFrame* frames, unsigned n) override { local_->tx_commit(frames, n); }
  void tx_abandon(const TxFrame* frames, unsigned n) override { local_->tx_abandon(frames, n); }
  void flush() override {
    local_->flush();
    link_->direct().flush();
  }
  unsigned rx_burst(RxFrame* frames, unsigned n) override { return local_->rx_burst(frames, n); }
  Looks await_rx(uint32_t looks, const std::atomic<uint32_t>& enough) override;
  void rx_release(const uint64_t* cookies, unsigned n) override { local_->rx_release(cookies, n); }
  [[nodiscard]] int notify_fd() const override { return epoll_fd_; }
  bool arm() override;
  void disarm() override;
  [[nodiscard]] int waker_core() const override { return link_->direct().waker_core(); }
  int take_costly_waker() override { return link_->direct().take_costly_waker(); }
  void service(Time now) override;
  void close_after_fork() override;
  [[nodiscard]] Daemon* daemon() override { return link_.get(); }
  [[nodiscard]] PortCounters stats() const override;

 private:
  std::unique_ptr<DaemonLink> link_;
  std::unique_ptr<LocalPort> local_;
  int epoll_fd_;  // the descriptors of theirs
};

}  // namespace mprdma::dataplane::client
