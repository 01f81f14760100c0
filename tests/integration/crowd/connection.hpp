// One connection of a process of the crowd: messages of known contents go both ways all the time,
// one of each side under way at once, and every byte of what comes is compared.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mprdma::crowd {

class Connection {
 public:
  // Makes the queue pair of the id, and posts receives. `self`, `peer`: numbers of the processes.
  Connection(rdma_cm_id* id, ibv_pd* pd, ibv_cq* cq, uint32_t self, uint32_t peer);
  // The connection may still be established: it is then disconnected first.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] rdma_cm_id* id() const { return id_; }
  [[nodiscard]] uint32_t qpn() const { return qpn_; }
  [[nodiscard]] uint32_t peer() const { return peer_; }
  [[nodiscard]] bool established() const { return established_; }

  void on_established();
  void on_disconnected() { told_ = true; }
  // False: it is the first one that failed, wherefore something is to be known of the peer.
  bool on_completion(const ibv_wc& wc);

  // From now on moved() counts anew.
  void begin_step();
  // Messages of each direction that were acknowledged or compared, whichever are fewer.
  [[nodiscard]] uint64_t moved() const;
  // The peer was killed, and this side has been told so in every way: by an event, by the status of
  // the send that nobody acknowledged, and by the flush of everything else.
  [[nodiscard]] bool ended() const;

 private:
  static constexpr uint32_t kReceives = 4;
  static constexpr uint32_t kMessageBytes = 4096;

  void post_receive(uint32_t slot);
  void post_send();
  [[nodiscard]] uint8_t* slot(uint32_t index) { return memory_.data() + index * kMessageBytes; }

  rdma_cm_id* id_;
  ibv_mr* mr_ = nullptr;
  std::vector<uint8_t> memory_;
  uint32_t qpn_ = 0;
  uint32_t self_;
  uint32_t peer_;
  uint32_t outstanding_ = 0;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  uint64_t sent_before_ = 0;
  uint64_t received_before_ = 0;
  bool established_ = false;
  bool told_ = false;
  bool failed_ = false;
};

}  // namespace mprdma::crowd
